//! Jobs without a history leave by a statement of their own, as long as all ending jobs are of that kind.

use windlass_core::claim::{ClaimRequest, Claimed};
use windlass_core::engine::{Admin, Declaration, Engine};
use windlass_core::enqueue::NewJob;
use windlass_core::job::{JobState, StoredState};
use windlass_core::job_type::TypeSpec;
use windlass_core::key::KeyClaim;
use windlass_core::names::{Key, TypeName};
use windlass_core::payload::Payload;
use windlass_core::settle::{AttemptReport, Settled, Settlement, Transition};
use windlass_engines::postgres::PostgresEngine;

use super::workers::words::{claim_request, declaration, kind, queue, request};
use super::{TestStore, WORKER, claimed};

fn forgetful() -> TypeName {
    TypeName::parse("forgetful").unwrap()
}

fn without_history() -> Declaration {
    let kind = TypeSpec { retention_days: 0, ..TypeSpec::new(forgetful(), queue()) };
    Declaration { types: vec![kind], ..declaration() }
}

fn job() -> NewJob {
    NewJob::new(forgetful(), Payload::default())
}

/// Opens an engine that has seen that jobs leave no history.
async fn used_to_traces(place: &TestStore) -> PostgresEngine {
    let engine = place.ready().await;
    engine.declare(without_history()).await.unwrap();
    for _ in 0..2 {
        engine.enqueue(request(vec![job(), job()])).await.unwrap();
        assert_eq!(succeed_all(&engine, 2).await, [Settled::Applied; 2]);
    }
    assert_eq!(place.count("windlass.job_traces"), 2);
    engine
}

async fn claim(engine: &PostgresEngine, limit: u32) -> Vec<Claimed> {
    let request = ClaimRequest { types: vec![kind(), forgetful()], ..claim_request(WORKER, limit) };
    claimed(engine.claim(request).await.unwrap())
}

async fn ends(engine: &PostgresEngine, count: u32) -> Vec<Settlement> {
    let success = Transition::Succeed { result: None };
    let jobs = claim(engine, count).await;
    jobs.into_iter().map(|one| one.settled(success.clone(), AttemptReport::default())).collect()
}

async fn succeed_all(engine: &PostgresEngine, count: u32) -> Vec<Settled> {
    let batch = ends(engine, count).await;
    engine.settle(batch).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_without_a_history_do_not_even_look_at_the_history() {
    let place = TestStore::shared();
    let engine = used_to_traces(&place).await;
    engine.enqueue(request(vec![job(), job()])).await.unwrap();
    place.sql("ALTER TABLE windlass.job_history RENAME TO somewhere_else");
    assert_eq!(succeed_all(&engine, 2).await, [Settled::Applied; 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_of_another_kind_among_those_without_a_history_come_to_nothing_less() {
    let place = TestStore::shared();
    let engine = used_to_traces(&place).await;
    let keyed = NewJob { key: Some(KeyClaim::new(Key::parse("a").unwrap())), ..job() };
    let answers = engine.enqueue(request(vec![job(), keyed.clone(), super::new_job(), job()])).await.unwrap();
    let ids: Vec<_> = answers.iter().map(|answer| answer.job().unwrap()).collect();
    let batch = ends(&engine, 4).await;
    engine.cancel(ids[3], "enough").await.unwrap();
    assert_eq!(engine.settle(batch.clone()).await.unwrap(), [Settled::Applied; 4]);
    assert_eq!(engine.settle(batch).await.unwrap(), [Settled::Applied; 4], "a repeat finds their traces");
    assert_eq!(place.count("windlass.delayed_jobs"), 0);
    assert!(engine.job(ids[0]).await.unwrap().is_none());
    assert!(
        engine.enqueue(request(vec![keyed])).await.unwrap()[0].job().unwrap() > ids[3],
        "the key is free"
    );
    let kept = engine.job(ids[2]).await.unwrap().expect("its type has a history");
    assert_eq!(kept.state.job_state(kept.job.due, kept.read_at), JobState::Succeeded);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_another_process_switched_on_is_kept_from_then_on() {
    let place = TestStore::shared();
    let engine = used_to_traces(&place).await;
    let id = engine.enqueue(request(vec![job()])).await.unwrap()[0].job().unwrap();
    let batch = ends(&engine, 1).await;
    let kind = TypeSpec { retention_days: 1, ..TypeSpec::new(forgetful(), queue()) };
    place.open().await.declare(Declaration { queues: vec![], types: vec![kind] }).await.unwrap();
    assert_eq!(engine.settle(batch).await.unwrap(), [Settled::Applied]);
    let kept = engine.job(id).await.unwrap().expect("the history keeps the job");
    assert!(matches!(kept.state, StoredState::Succeeded { .. }), "{:?}", kept.state);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_attempts_of_a_job_without_a_history_go_with_it() {
    let place = TestStore::shared();
    let engine = used_to_traces(&place).await;
    engine.enqueue(request(vec![job()])).await.unwrap();
    let failed = claim(&engine, 1).await.remove(0);
    let error = windlass_core::outcome::JobError::new(windlass_core::outcome::ErrorKind::Failed, "once");
    let again = Transition::Retry { error, after: std::time::Duration::ZERO };
    engine.settle(vec![failed.settled(again, AttemptReport::default())]).await.unwrap();
    assert_eq!(place.count("windlass.attempts"), 1);
    engine.enqueue(request(vec![job(), job()])).await.unwrap();
    assert_eq!(succeed_all(&engine, 3).await, [Settled::Applied; 3]);
    assert_eq!((place.count("windlass.attempts"), place.count("windlass.delayed_jobs")), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_was_lost_leaves_no_trace_and_ends_nothing() {
    let place = TestStore::shared();
    let engine = used_to_traces(&place).await;
    engine.enqueue(request(vec![job()])).await.unwrap();
    let batch = ends(&engine, 1).await;
    engine.retire(WORKER).await.unwrap();
    let traces = place.count("windlass.job_traces");
    assert_eq!(engine.settle(batch).await.unwrap(), [Settled::ClaimLost]);
    assert_eq!((place.count("windlass.job_traces"), place.count("windlass.delayed_jobs")), (traces, 1));
}
