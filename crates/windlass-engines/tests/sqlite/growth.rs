//! Records that are written for ever must be removed at some time.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::claim::{ClaimRequest, Claimed};
use windlass_core::clock::{ManualClock, Timestamp};
use windlass_core::engine::{Admin, Declaration, Engine, RescueRequest};
use windlass_core::job_type::TypeSpec;
use windlass_core::lease_watch::Suspicion;
use windlass_core::limits::{ATTEMPTS_SHOWN_MAX, CLAIM_TOMBSTONE_TTL, DEAD_WORKER_KEPT, RECEIPT_TTL};
use windlass_core::queue::QueueSpec;
use windlass_core::settle::{AttemptReport, Transition};
use windlass_core::worker::WorkerId;
use windlass_engines::sqlite::{SqliteEngine, SqliteOptions};

use super::{TestStore, WORKER, card, claim, claim_request, enqueue, kind, queue, ready_engine};

fn rows(place: &TestStore, table: &str) -> u32 {
    let sql = format!("SELECT count(*) FROM {table}");
    place.connect().query_row(&sql, [], |row| row.get(0)).unwrap()
}

fn engine_with_clock(place: &TestStore) -> (SqliteEngine, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::starting_at(Timestamp::EPOCH));
    let options = SqliteOptions { clock: clock.clone(), ..SqliteOptions::default() };
    (SqliteEngine::open(place.path(), options).unwrap(), clock)
}

#[tokio::test]
async fn a_job_that_snoozes_again_and_again_keeps_only_its_newest_attempts() {
    let place = TestStore::new();
    let engine = ready_engine(&place).await;
    let id = enqueue(&engine, 1).await[0];
    let turns = ATTEMPTS_SHOWN_MAX * 3;
    for _ in 0..turns {
        let claimed = claim(&engine, 1).await.remove(0);
        let snooze = Transition::Snooze { after: Duration::ZERO };
        engine.settle(vec![claimed.settled(snooze, AttemptReport::default())]).await.unwrap();
    }
    assert!(rows(&place, "attempts") < ATTEMPTS_SHOWN_MAX * 2);
    let shown: Vec<_> = engine.attempts(id).await.unwrap().iter().map(|attempt| attempt.number).collect();
    assert_eq!(shown, Vec::from_iter(turns - ATTEMPTS_SHOWN_MAX + 1..=turns));
}

#[tokio::test]
async fn old_traces_are_a_reason_to_go_on_pruning_though_young_ones_stand_among_them() {
    let place = TestStore::new();
    let (engine, clock) = engine_with_clock(&place);
    let spec = TypeSpec { retention_days: 0, ..TypeSpec::new(kind(), queue()) };
    let declaration = Declaration { queues: vec![QueueSpec::new(queue())], types: vec![spec] };
    engine.declare(declaration).await.unwrap();
    engine.register(card(WORKER)).await.unwrap();
    enqueue(&engine, 10).await;
    let mut claimed = claim(&engine, 10).await;
    let first = claimed.remove(0);
    let end = |job: Claimed| job.settled(Transition::Succeed { result: None }, AttemptReport::default());
    engine.settle(claimed.into_iter().map(end).collect()).await.unwrap();
    clock.advance(RECEIPT_TTL);
    engine.settle(vec![end(first)]).await.unwrap();
    let mut calls = 1;
    while engine.prune(3).await.unwrap().more {
        calls += 1;
        assert!(calls < 20, "a prune must come to its end");
    }
    assert_eq!(rows(&place, "job_traces"), 1, "the recent one");
}

#[tokio::test]
async fn a_key_whose_text_is_damaged_is_pruned_as_any_other() {
    let place = TestStore::new();
    let (engine, _clock) = engine_with_clock(&place);
    let sql = "INSERT INTO job_keys VALUES (1, CAST(x'ff' AS TEXT), 99, '', 0), (1, 'sound', 98, '', 0)";
    place.connect().execute_batch(sql).unwrap();
    engine.prune(10).await.unwrap();
    assert_eq!(rows(&place, "job_keys"), 0);
}

#[tokio::test]
async fn workers_that_died_long_ago_leave_no_row() {
    let place = TestStore::new();
    let (engine, clock) = engine_with_clock(&place);
    let workers = [1, 2, 3].map(WorkerId::from_random);
    for worker in workers {
        engine.register(card(worker)).await.unwrap();
    }
    clock.advance(Duration::from_secs(60));
    let silent = workers[..2].iter().map(|worker| Suspicion { worker: *worker, beats: 0 }).collect();
    engine.rescue(RescueRequest { silent, crashes_max: 3, limit: 10 }).await.unwrap();
    engine.prune(10).await.unwrap();
    assert_eq!(rows(&place, "workers"), 3, "not at once");
    clock.advance(DEAD_WORKER_KEPT);
    engine.prune(10).await.unwrap();
    assert_eq!(rows(&place, "workers"), 1, "one worker is only late");
}

#[tokio::test]
async fn spent_tokens_are_forgotten_when_no_first_sending_can_come_any_more() {
    let place = TestStore::new();
    let (engine, clock) = engine_with_clock(&place);
    engine.register(card(WORKER)).await.unwrap();
    for _ in 0..5 {
        let request = ClaimRequest { repeat: true, ..claim_request(WORKER, 1) };
        engine.claim(request.clone()).await.unwrap();
        engine.claim(request).await.unwrap();
    }
    assert_eq!(rows(&place, "spent_tokens"), 5, "each once");
    clock.advance(CLAIM_TOMBSTONE_TTL - Duration::from_secs(1));
    assert!(!engine.prune(3).await.unwrap().more);
    assert_eq!(rows(&place, "spent_tokens"), 5, "not before its time");
    clock.advance(Duration::from_secs(1));
    assert!(engine.prune(3).await.unwrap().more);
    assert!(!engine.prune(3).await.unwrap().more);
    assert_eq!(rows(&place, "spent_tokens"), 0);
}
