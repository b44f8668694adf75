//! Jobs that are enqueued and completed in the user's own transaction.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use windlass_core::claim::{ClaimToken, Fence};
use windlass_core::clock::{Clock, ManualClock, Timestamp};
use windlass_core::engine::{Admin, Engine};
use windlass_core::error::EngineError;
use windlass_core::gate::Gate;
use windlass_core::job::JobState;
use windlass_core::outcome::{ErrorKind, JobError};
use windlass_core::settle::{AttemptReport, Settled, Settlement, Transition};
use windlass_engines::sqlite::{SqliteEngine, SqliteOptions, complete_in, enqueue_in};

use super::{TestStore, WORKER, card, claim, declare, enqueue, new_job, ready_engine, status, stored};

fn with_table(place: &TestStore) -> Connection {
    let conn = place.connect();
    conn.execute_batch("CREATE TABLE orders (id INTEGER)").unwrap();
    conn
}

fn orders(conn: &Connection) -> i64 {
    conn.query_row("SELECT count(*) FROM orders", [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn a_job_is_there_as_soon_as_the_transaction_is_committed() {
    let place = TestStore::new();
    let engine = ready_engine(&place).await;
    let mut conn = with_table(&place);
    let tx = conn.transaction().unwrap();
    tx.execute("INSERT INTO orders VALUES (1)", []).unwrap();
    let ids = stored(&enqueue_in(&tx, vec![new_job(), new_job()]).unwrap());
    assert_eq!(status(&engine).await.counts.ready, 0, "not before the commit");
    tx.commit().unwrap();
    assert_eq!(status(&engine).await.counts.ready, 2);
    let claimed: Vec<_> = claim(&engine, 10).await.into_iter().map(|claimed| claimed.job.id).collect();
    assert_eq!(claimed, ids);
    assert!(enqueue(&engine, 1).await[0] > ids[1], "the engine continues after the user's ids");
}

#[tokio::test]
async fn a_rollback_leaves_nothing() {
    let place = TestStore::new();
    let engine = ready_engine(&place).await;
    let mut conn = with_table(&place);
    let tx = conn.transaction().unwrap();
    tx.execute("INSERT INTO orders VALUES (1)", []).unwrap();
    enqueue_in(&tx, vec![new_job()]).unwrap();
    tx.rollback().unwrap();
    assert_eq!(orders(&conn), 0);
    assert_eq!(status(&engine).await.totals.enqueued, 0);
    assert!(claim(&engine, 10).await.is_empty());
}

#[tokio::test]
async fn a_job_ends_together_with_the_users_writes() {
    let place = TestStore::new();
    let engine = ready_engine(&place).await;
    let mut conn = with_table(&place);
    enqueue(&engine, 1).await;
    let fence = claim(&engine, 1).await[0].fence();
    let tx = conn.transaction().unwrap();
    tx.execute("INSERT INTO orders VALUES (1)", []).unwrap();
    assert_eq!(complete_in(&tx, fence).unwrap(), Settled::Applied);
    tx.commit().unwrap();
    let record = engine.job(fence.job).await.unwrap().unwrap();
    assert_eq!((record.job_state(), orders(&conn)), (JobState::Succeeded, 1));
    let status = status(&engine).await;
    assert_eq!((status.counts.running, status.totals.succeeded), (0, 1));
}

#[tokio::test]
async fn a_rollback_leaves_the_job_running() {
    let place = TestStore::new();
    let engine = ready_engine(&place).await;
    let mut conn = with_table(&place);
    enqueue(&engine, 1).await;
    let fence = claim(&engine, 1).await[0].fence();
    let tx = conn.transaction().unwrap();
    complete_in(&tx, fence).unwrap();
    tx.rollback().unwrap();
    assert_eq!(engine.job(fence.job).await.unwrap().unwrap().job_state(), JobState::Running);
}

#[tokio::test]
async fn a_lost_claim_writes_nothing() {
    let place = TestStore::new();
    let engine = ready_engine(&place).await;
    let mut conn = with_table(&place);
    let id = enqueue(&engine, 1).await[0];
    claim(&engine, 1).await;
    let tx = conn.transaction().unwrap();
    let lost = Fence { job: id, token: ClaimToken::from_random(1) };
    assert_eq!(complete_in(&tx, lost).unwrap(), Settled::ClaimLost);
    tx.commit().unwrap();
    assert_eq!(engine.job(id).await.unwrap().unwrap().job_state(), JobState::Running);
    assert_eq!(status(&engine).await.totals.succeeded, 0);
}

#[tokio::test]
async fn only_the_transaction_that_ends_a_job_is_told_so() {
    let place = TestStore::new();
    let engine = ready_engine(&place).await;
    let mut conn = with_table(&place);
    enqueue(&engine, 1).await;
    let claimed = claim(&engine, 1).await.remove(0);
    for told in [Settled::Applied, Settled::ClaimLost] {
        let tx = conn.transaction().unwrap();
        assert_eq!(complete_in(&tx, claimed.fence()).unwrap(), told);
        tx.commit().unwrap();
    }
    let succeeded = settle(&engine, claimed.fence(), Transition::Succeed { result: None }).await;
    assert_eq!(succeeded, Settled::Applied, "what a worker does after its handler");
    assert_eq!(status(&engine).await.totals.succeeded, 1);
}

async fn settle(engine: &SqliteEngine, fence: Fence, transition: Transition) -> Settled {
    engine.settle(vec![Settlement { fence, transition, report: AttemptReport::default() }]).await.unwrap()[0]
}

#[tokio::test]
async fn a_job_that_was_put_back_by_its_own_claim_is_not_completed_by_it() {
    let place = TestStore::new();
    let engine = ready_engine(&place).await;
    let mut conn = with_table(&place);
    let late = JobError::new(ErrorKind::TimedOut, "it took too long");
    for transition in [
        Transition::Retry { after: Duration::from_secs(3_600), error: late.clone() },
        Transition::Park { gate: Gate::named("breaker:shop") },
        Transition::Bury { error: late },
    ] {
        enqueue(&engine, 1).await;
        let fence = claim(&engine, 1).await[0].fence();
        assert_eq!(settle(&engine, fence, transition.clone()).await, Settled::Applied);
        let tx = conn.transaction().unwrap();
        assert_eq!(complete_in(&tx, fence).unwrap(), Settled::ClaimLost, "{transition:?}");
        tx.commit().unwrap();
        assert_ne!(engine.job(fence.job).await.unwrap().unwrap().job_state(), JobState::Succeeded);
    }
}

#[tokio::test]
async fn through_an_engine_the_engines_clock_counts_and_the_attempt_began_with_its_claim() {
    let place = TestStore::new();
    let clock = Arc::new(ManualClock::starting_at(Timestamp::EPOCH));
    let options = SqliteOptions { clock: clock.clone(), ..SqliteOptions::default() };
    let engine = SqliteEngine::open(place.path(), options).unwrap();
    declare(&engine).await;
    engine.register(card(WORKER)).await.unwrap();
    let mut conn = place.connect();
    let tx = conn.transaction().unwrap();
    let id = stored(&engine.enqueue_in(&tx, vec![new_job()]).unwrap())[0];
    tx.commit().unwrap();
    assert_eq!(engine.job(id).await.unwrap().unwrap().job.enqueued_at, Timestamp::EPOCH);
    let fence = claim(&engine, 1).await[0].fence();
    clock.advance(Duration::from_secs(4));
    let tx = conn.transaction().unwrap();
    assert_eq!(engine.complete_in(&tx, fence).unwrap(), Settled::Applied);
    tx.commit().unwrap();
    let attempt = engine.attempts(id).await.unwrap().remove(0);
    assert_eq!((attempt.started_at, attempt.ended_at), (Timestamp::EPOCH, Some(clock.now())));
}

#[test]
fn a_file_that_no_engine_has_opened_is_refused_with_what_to_do() {
    let place = TestStore::new();
    let mut conn = place.connect();
    let tx = conn.transaction().unwrap();
    let error = enqueue_in(&tx, vec![new_job()]).unwrap_err();
    assert!(matches!(&error, EngineError::Unusable { why } if why.contains("SqliteEngine::open")), "{error}");
}
