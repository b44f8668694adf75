//! Gates that are opened by many calls in a row: each continues where the last one ended, and no job is
//! left behind.

use windlass_core::admin::BatchDone;
use windlass_core::claim::Claimed;
use windlass_core::engine::{Admin, Engine};
use windlass_core::gate::Gate;
use windlass_core::job::JobState;
use windlass_core::settle::{AttemptReport, Settlement, Transition};
use windlass_engines::postgres::PostgresEngine;

use super::{TestStore, claim, enqueue};

fn gate() -> Gate {
    Gate::named("test:gate")
}

async fn park(engine: &PostgresEngine, claimed: &[Claimed]) {
    let parked = |job: &Claimed| -> Settlement {
        job.clone().settled(Transition::Park { gate: gate() }, AttemptReport::default())
    };
    engine.settle(claimed.iter().map(parked).collect()).await.unwrap();
}

async fn open(engine: &PostgresEngine, limit: u32) -> (u64, bool) {
    let BatchDone { changed, more } = engine.open_gate(&gate(), limit).await.unwrap();
    (changed, more)
}

async fn job_state(engine: &PostgresEngine, job: &Claimed) -> JobState {
    engine.job(job.job.id).await.unwrap().unwrap().job_state()
}

/// Parks jobs behind the gate, the oldest first, except for the first ten, which run.
async fn with_a_gap_at_the_front(place: &TestStore) -> (PostgresEngine, Vec<Claimed>) {
    let engine = place.ready().await;
    enqueue(&engine, 260).await;
    let jobs = claim(&engine, 260).await;
    park(&engine, &jobs[10..]).await;
    (engine, jobs)
}

#[tokio::test]
async fn many_calls_release_every_job_once_and_the_last_one_says_that_it_is_the_last() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    enqueue(&engine, 250).await;
    park(&engine, &claim(&engine, 250).await).await;
    assert_eq!(open(&engine, 100).await, (100, true));
    assert_eq!(open(&engine, 100).await, (100, true));
    assert_eq!(open(&engine, 100).await, (50, false));
    assert_eq!(open(&engine, 100).await, (0, false));
    assert_eq!(claim(&engine, 300).await.len(), 250);
}

#[tokio::test]
async fn a_call_that_takes_just_what_is_left_says_that_it_is_the_last() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    enqueue(&engine, 200).await;
    park(&engine, &claim(&engine, 200).await).await;
    assert_eq!(open(&engine, 100).await, (100, true));
    assert_eq!(open(&engine, 100).await, (100, false));
}

#[tokio::test]
async fn who_comes_to_the_front_of_a_gate_that_is_being_opened_is_let_through_by_the_last_call() {
    let place = TestStore::shared();
    let (engine, jobs) = with_a_gap_at_the_front(&place).await;
    assert_eq!(open(&engine, 100).await, (100, true));
    park(&engine, &jobs[..10]).await;
    assert_eq!(open(&engine, 100).await, (100, true));
    assert_eq!(open(&engine, 100).await, (60, false));
    assert_eq!(place.count("windlass.delayed_jobs WHERE gate IS NOT NULL"), 0);
}

#[tokio::test]
async fn who_asks_for_a_few_gets_the_very_oldest_also_while_a_gate_is_being_opened() {
    let place = TestStore::shared();
    let (engine, jobs) = with_a_gap_at_the_front(&place).await;
    assert_eq!(open(&engine, 100).await, (100, true));
    park(&engine, &jobs[..10]).await;
    assert_eq!(open(&engine, 1).await, (1, true));
    assert_eq!(job_state(&engine, &jobs[0]).await, JobState::Ready);
}

/// The locked job then lies before the position from which the next call starts.
#[tokio::test]
async fn jobs_that_another_session_had_locked_are_released_by_a_later_call() {
    let place = TestStore::shared();
    let (engine, jobs) = with_a_gap_at_the_front(&place).await;
    let other = super::session(&place.direct).await;
    let lock = format!(
        "BEGIN; SELECT 1 FROM {}.delayed_jobs WHERE id = {} FOR UPDATE",
        place.schema, jobs[20].job.id.0
    );
    other.batch_execute(&lock).await.unwrap();
    assert_eq!(open(&engine, 100).await, (100, true));
    assert_eq!(job_state(&engine, &jobs[20]).await, JobState::Parked);
    other.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(open(&engine, 100).await, (100, true));
    assert_eq!(open(&engine, 100).await, (50, false));
}
