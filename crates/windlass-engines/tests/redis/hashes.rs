//! Jobs are stored in hashes of 100,000 each. A batch may contain jobs of several hashes.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::admin::ListRequest;
use windlass_core::clock::{ManualClock, Timestamp};
use windlass_core::engine::{Admin, Declaration, Engine};
use windlass_core::enqueue::{EnqueueRequest, NewJob, When};
use windlass_core::job::{JobId, JobState};
use windlass_core::job_type::TypeSpec;
use windlass_core::payload::Payload;
use windlass_core::settle::Settled;
use windlass_engines::redis::{RedisEngine, RedisOptions};

use crate::test_store::{TestStore, ask, claim, enqueue, kind, queue, request, success};

const LONG_AFTER: Duration = Duration::from_secs(8 * 24 * 60 * 60);

/// Makes the next job get the id after this one.
fn go_to(place: &TestStore, number: u32) {
    ask::<()>(&place.url, &["SET", &place.key("sequence"), &number.to_string()]);
}

fn hashes(place: &TestStore) -> Vec<String> {
    let mut names: Vec<String> = ask(&place.url, &["KEYS", &place.key("*:0*")]);
    names.sort();
    names.into_iter().map(|name| name.replace(&place.key(""), "")).collect()
}

async fn listed(engine: &RedisEngine, job_state: JobState) -> Vec<JobId> {
    let request = ListRequest { job_state: Some(job_state), limit: 100, ..ListRequest::default() };
    engine.list(request).await.unwrap().into_iter().map(|record| record.job.id).collect()
}

#[tokio::test]
async fn jobs_on_both_sides_of_a_border_are_claimed_settled_listed_and_pruned_together() {
    let place = TestStore::shared();
    let clock = Arc::new(ManualClock::starting_at(Timestamp::parse("2026-01-01T00:00:00Z").unwrap()));
    let engine = place.ready_with(RedisOptions { clock: Some(clock.clone()), ..place.options() }).await;
    go_to(&place, 99_950);
    let ids = enqueue(&engine, 100).await;
    assert_eq!((ids[0].0, ids[99].0), (99_951, 100_050));
    assert_eq!(hashes(&place), ["body:000000000", "body:000000001", "state:000000000", "state:000000001"]);
    let mut claimed = claim(&engine, 100).await;
    assert_eq!(claimed.iter().map(|one| one.job.id).collect::<Vec<_>>(), ids);
    // Handlers end in any order.
    fastrand::shuffle(&mut claimed);
    let settled = engine.settle(claimed.into_iter().map(success).collect()).await.unwrap();
    assert_eq!(settled, [Settled::Applied; 100]);
    let newest_first: Vec<_> = ids.into_iter().rev().collect();
    assert_eq!(listed(&engine, JobState::Succeeded).await, newest_first);
    clock.advance(LONG_AFTER);
    assert!(engine.prune(1_000).await.unwrap().changed >= 100);
    assert_eq!(hashes(&place), [""; 0]);
}

#[tokio::test]
async fn jobs_of_many_hashes_that_fall_due_in_turn_are_claimed_in_that_order_each_with_its_own_body() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    let mut turns = Vec::new();
    for range in 0..12_u32 {
        go_to(&place, range * 100_000 + 500);
        for turn in 0..20_u64 {
            let at = turn * 12 + u64::from(range * 7 % 12);
            let due = Timestamp::EPOCH.plus(Duration::from_secs(at));
            let job = NewJob { when: When::At(due), ..NewJob::new(kind(), Payload::encode(&at).unwrap()) };
            let answers = engine.enqueue(EnqueueRequest { jobs: vec![job], ..request(0) }).await.unwrap();
            turns.push((at, answers[0].job().unwrap()));
        }
    }
    turns.sort();
    let claimed = claim(&engine, 240).await;
    let claimed: Vec<(u64, JobId)> =
        claimed.into_iter().map(|one| (one.job.payload.decode().unwrap(), one.job.id)).collect();
    assert_eq!(claimed, turns);
    assert_eq!(hashes(&place).len(), 24);
}

#[tokio::test]
async fn jobs_of_which_nothing_is_kept_leave_no_hash_behind() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    let types = vec![TypeSpec { retention_days: 0, ..TypeSpec::new(kind(), queue()) }];
    engine.declare(Declaration { queues: vec![], types }).await.unwrap();
    go_to(&place, 299_990);
    enqueue(&engine, 20).await;
    let ends: Vec<_> = claim(&engine, 15).await.into_iter().map(success).collect();
    assert_eq!(engine.settle(ends).await.unwrap(), [Settled::Applied; 15]);
    let done = engine.purge(&queue(), 100).await.unwrap();
    assert_eq!((done.changed, done.more), (5, false));
    assert_eq!(hashes(&place), [""; 0]);
}
