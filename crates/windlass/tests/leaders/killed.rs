//! When a leader is killed, another leads when its lease has expired. When it ends cleanly, another leads at
//! once, however long the lease is. The tests count takeovers and compare instants of the store; only the
//! long form judges how long a takeover lasts, and the tests of leases in core do so with a clock of their
//! own.

use std::time::Duration;

use windlass::types::limits::DUTY_EXPIRY;

use super::at_length;
use super::process::work_if_asked;
use super::test_store::TestStore;
use super::workers::{Workers, summary};

/// A short expiry of leases.
pub(super) const SHORT: Duration = Duration::from_millis(500);
/// How long a takeover may take after the expiry.
const TAKEOVER: Duration = Duration::from_secs(1);
/// How long a takeover may take after a clean stop.
const HANDOVER: Duration = Duration::from_millis(200);
/// An expiry that no test reaches: another process leads sooner only if the lease was released.
pub(super) const NEVER: Duration = Duration::from_secs(60 * 60);

#[tokio::test(flavor = "multi_thread")]
async fn on_postgres_another_leads_in_time_when_the_leader_is_killed_and_at_once_when_it_ends() {
    if work_if_asked().await {
        return;
    }
    one_leads_after_another(TestStore::postgres()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_redis_another_leads_in_time_when_the_leader_is_killed_and_at_once_when_it_ends() {
    one_leads_after_another(TestStore::redis()).await;
}

/// With the default leases, on both servers: what an operator of three processes observes.
#[tokio::test(flavor = "multi_thread")]
async fn with_the_usual_leases_another_leads_when_the_lease_has_expired() {
    let rounds = if at_length() { 3 } else { 1 };
    let postgres = Workers::start(TestStore::postgres(), DUTY_EXPIRY);
    let redis = Workers::start(TestStore::redis(), DUTY_EXPIRY);
    let (mut postgres, mut redis) = tokio::join!(postgres, redis);
    tokio::join!(kill_leaders(&mut postgres, "postgres", rounds), kill_leaders(&mut redis, "redis", rounds));
}

async fn one_leads_after_another(place: TestStore) {
    let (name, rounds) = (place.name(), if at_length() { 100 } else { 3 });
    let mut workers = Workers::start(place, SHORT).await;
    kill_leaders(&mut workers, name, rounds).await;
    assert_in_order(&mut workers).await;
    let mut workers = workers.restart(NEVER).await;
    end_leaders(&mut workers, name, rounds).await;
    assert_in_order(&mut workers).await;
}

async fn kill_leaders(workers: &mut Workers, name: &str, rounds: usize) {
    let mut took = Vec::new();
    for _ in 0..rounds {
        workers.fill_up().await;
        let leader = workers.leader().await;
        // Dropping a process kills it.
        drop(workers.take(leader.pid));
        let left = workers.lease().await;
        let (next, time) = workers.next_after(leader).await;
        took.push(time);
        // A killed process releases nothing, so its lease has expired.
        assert!(next.takeovers > leader.takeovers, "{name}: {next:?} after {leader:?}, which was killed");
        if let Some(left) = left.filter(|left| left.term.fence == leader.fence) {
            let expired = left.heartbeat.plus(left.expiry);
            assert!(next.since >= expired, "{name}: {next:?} before the lease expired at {expired}");
        }
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
        // The lease was released: no test lasts until its expiry.
        assert_eq!(
            next.takeovers, leader.takeovers,
            "{name}: the lease of a leader that ended cleanly expired"
        );
        let process = workers.take(leader.pid);
        tokio::task::spawn_blocking(move || process.wait()).await.expect("the process ends cleanly");
    }
    judge(&format!("{name}: {rounds} leaders ended cleanly"), took, HANDOVER);
}

fn judge(what: &str, took: Vec<Duration>, within: Duration) {
    let longest = took.iter().max().copied().unwrap_or_default();
    println!("{what}: the next leader followed after {}", summary(took));
    let is_in_time = longest <= within || !at_length();
    assert!(is_in_time, "{what}: expected the next leader within {within:?}, got {longest:?}");
}

/// Asserts that fences only rise from line to line, whichever process wrote them.
pub(super) async fn assert_in_order(workers: &mut Workers) {
    let lines = workers.ledger.lines().await;
    assert!(lines.len() > 10, "expected more than 10 lines, got {}", lines.len());
    let back = lines.windows(2).find(|pair| pair[0].fence > pair[1].fence);
    assert_eq!(back, None, "a line has an older fence than the line before it");
}
