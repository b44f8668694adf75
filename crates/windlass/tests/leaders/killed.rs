//! A leader is killed, and another leads within a second after its lease has expired; it ends in good order, and another
//! leads at once.

use std::time::Duration;

use windlass::types::limits::DUTY_EXPIRY;

use super::at_length;
use super::place::Place;
use super::process::work_if_asked;
use super::workers::{Workers, told};

/// Leases that are over soon.
pub(super) const SHORT: Duration = Duration::from_millis(500);
/// What a takeover may take after the expiry.
const TAKEOVER: Duration = Duration::from_secs(1);
/// What it may take after a clean stop.
const HANDOVER: Duration = Duration::from_millis(200);
/// Among all tests both are judged more kindly: the machine may be busy with others.
const KINDLY: u32 = 3;

#[tokio::test(flavor = "multi_thread")]
async fn on_postgres_another_leads_in_time_when_the_leader_is_killed_and_at_once_when_it_ends() {
    if work_if_asked().await {
        return;
    }
    one_leads_after_another(Place::postgres()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_redis_another_leads_in_time_when_the_leader_is_killed_and_at_once_when_it_ends() {
    one_leads_after_another(Place::redis()).await;
}

/// At the defaults, on both servers: what a person with three processes sees.
#[tokio::test(flavor = "multi_thread")]
async fn with_the_usual_leases_another_leads_within_eleven_seconds() {
    let rounds = if at_length() { 3 } else { 1 };
    let postgres = Workers::start(Place::postgres(), DUTY_EXPIRY);
    let redis = Workers::start(Place::redis(), DUTY_EXPIRY);
    let (mut postgres, mut redis) = tokio::join!(postgres, redis);
    tokio::join!(kill_leaders(&mut postgres, "postgres", rounds), kill_leaders(&mut redis, "redis", rounds));
}

async fn one_leads_after_another(place: Place) {
    let (name, rounds) = (place.name(), if at_length() { 100 } else { 3 });
    let mut workers = Workers::start(place, SHORT).await;
    kill_leaders(&mut workers, name, rounds).await;
    end_leaders(&mut workers, name, rounds).await;
    assert_in_order(&mut workers).await;
}

async fn kill_leaders(workers: &mut Workers, name: &str, rounds: usize) {
    let mut took = Vec::new();
    for _ in 0..rounds {
        workers.fill_up().await;
        let leader = workers.leader().await;
        // Dropped is killed.
        drop(workers.take(leader.pid));
        took.push(workers.time_to_next(leader).await);
    }
    judge(
        &format!("{name}: {rounds} leaders killed, leases of {:?}", workers.expiry),
        took,
        workers.expiry + TAKEOVER,
    );
}

async fn end_leaders(workers: &mut Workers, name: &str, rounds: usize) {
    let mut took = Vec::new();
    for _ in 0..rounds {
        workers.fill_up().await;
        let leader = workers.leader().await;
        workers.process(leader.pid).ask_to_end();
        let (next, time) = workers.next_after(leader).await;
        took.push(time);
        // However busy the machine is: it was given back, and nobody waited until it had expired.
        assert_eq!(next.takeovers, leader.takeovers, "{name}: the lease of one that ended well ran out");
        let process = workers.take(leader.pid);
        tokio::task::spawn_blocking(move || process.wait()).await.expect("it ends well");
    }
    judge(&format!("{name}: {rounds} leaders ended in good order"), took, HANDOVER);
}

fn judge(what: &str, took: Vec<Duration>, within: Duration) {
    let longest = took.iter().max().copied().unwrap_or_default();
    println!("{what}: the next one led after {}", told(took));
    let within = if at_length() { within } else { within * KINDLY };
    assert!(longest <= within, "{what}: expected the next one within {within:?}, got {longest:?}");
}

/// Whoever wrote, fences only rise.
pub(super) async fn assert_in_order(workers: &mut Workers) {
    let lines = workers.ledger.lines().await;
    assert!(lines.len() > 10, "leaders wrote: {} lines", lines.len());
    let back = lines.windows(2).find(|pair| pair[0].fence > pair[1].fence);
    assert_eq!(back, None, "a line under an older fence than the one before it");
}
