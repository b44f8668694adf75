//! Jobs that are enqueued and completed in the user's own transaction, from Rust.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::admin::AttemptEnding;
use windlass_core::claim::{ClaimToken, Fence};
use windlass_core::clock::{Clock, ManualClock, Timestamp};
use windlass_core::engine::{Admin, Declaration, Engine};
use windlass_core::enqueue::{EnqueueAnswer, EnqueueRequest, NewJob, RequestId, When};
use windlass_core::error::EngineError;
use windlass_core::gate::Gate;
use windlass_core::job::{Job, JobId, JobState, StoredState};
use windlass_core::job_type::TypeSpec;
use windlass_core::key::{KeyClaim, KeyScope, OnConflict};
use windlass_core::names::{CorrelationId, GroupName, Key, PriorityLabel, Tag};
use windlass_core::outcome::{ErrorKind, JobError};
use windlass_core::payload::Payload;
use windlass_core::priority::Priority;
use windlass_core::provenance::{Cause, Provenance, TraceContext};
use windlass_core::queue::QueueSpec;
use windlass_core::retry::RetryPolicy;
use windlass_core::settle::{AttemptReport, Settled, Settlement, Transition};
use windlass_engines::postgres::tokio_postgres::Client;
use windlass_engines::postgres::{PostgresEngine, complete_in, enqueue_in};

use super::test_store::{
    TestStore, WORKER, bits, claim, enqueue, keyed, kind, queue, status, stored, succeed, work,
};

/// Opens a connection of the application, with a table of its own.
async fn with_table(place: &TestStore) -> Client {
    let client = place.connect().await;
    client.batch_execute(&place.sql("CREATE TABLE windlass.orders (id bigint)")).await.unwrap();
    client
}

async fn orders(place: &TestStore, client: &Client) -> String {
    place.ask(client, "SELECT count(*) FROM windlass.orders").await
}

async fn claimed_fence(engine: &PostgresEngine) -> Fence {
    enqueue(engine, vec![work()]).await;
    claim(engine, 1).await[0].fence()
}

#[tokio::test]
async fn a_job_is_there_as_soon_as_the_transaction_is_committed() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let mut client = with_table(&place).await;
    let tx = client.transaction().await.unwrap();
    tx.execute(&place.sql("INSERT INTO windlass.orders VALUES (1)"), &[]).await.unwrap();
    let ids = stored(&enqueue_in(&tx, &place.schema, vec![work(), work()]).await.unwrap());
    assert_eq!(status(&engine).await.counts.ready, 0, "not before the commit");
    tx.commit().await.unwrap();
    assert_eq!(status(&engine).await.counts.ready, 2);
    let claimed: Vec<_> = claim(&engine, 10).await.into_iter().map(|claimed| claimed.job.id).collect();
    assert_eq!(claimed, ids);
    assert!(
        stored(&enqueue(&engine, vec![work()]).await)[0] > ids[1],
        "the engine continues after these ids"
    );
}

#[tokio::test]
async fn a_rollback_leaves_nothing() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let mut client = with_table(&place).await;
    let tx = client.transaction().await.unwrap();
    tx.execute(&place.sql("INSERT INTO windlass.orders VALUES (1)"), &[]).await.unwrap();
    let request = RequestId::from_random(bits());
    let jobs = vec![work(), keyed("a"), keyed("b")];
    stored(&engine.enqueue_request_in(&tx, EnqueueRequest { request, jobs }).await.unwrap());
    tx.rollback().await.unwrap();
    assert_eq!(orders(&place, &client).await, "0");
    assert_eq!(place.traces(&client).await, "0 jobs, 0 keys, 0 changes, 0 receipts");
    assert_eq!(engine.receipt(request).await.unwrap(), None);
    assert!(claim(&engine, 10).await.is_empty());
    assert!(
        matches!(enqueue(&engine, vec![keyed("a")]).await[..], [EnqueueAnswer::New(_)]),
        "the key is free"
    );
}

#[tokio::test]
async fn a_transaction_that_is_repeated_under_its_request_id_makes_no_second_job() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let mut client = place.connect().await;
    let request =
        || EnqueueRequest { request: RequestId::from_random(7), jobs: vec![work(), keyed("a"), keyed("a")] };
    let mut answers = Vec::new();
    for _ in 0..2 {
        let tx = client.transaction().await.unwrap();
        answers.push(engine.enqueue_request_in(&tx, request()).await.unwrap());
        tx.commit().await.unwrap();
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(engine.receipt(RequestId::from_random(7)).await.unwrap().as_ref(), answers.first());
    assert_eq!(status(&engine).await.totals.enqueued, 2);
}

#[tokio::test]
async fn a_batch_over_the_limit_is_refused_and_the_transaction_goes_on() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let mut client = place.connect().await;
    let tx = client.transaction().await.unwrap();
    let answer = engine.enqueue_in(&tx, vec![work(); 1_001]).await;
    assert!(matches!(answer, Err(EngineError::Refused(_))), "{answer:?}");
    stored(&engine.enqueue_in(&tx, vec![work(); 1_000]).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(status(&engine).await.counts.ready, 1_000);
}

fn job_with_everything(now: Timestamp, on_conflict: OnConflict) -> NewJob {
    let scope = KeyScope::For(Duration::from_micros(3_600_000_001));
    NewJob {
        queue: Some(queue("main")),
        payload: Payload::parse(
            r#"{"big": 123456789012345678901234567890, "b":1,"a": "grüße \ud83e\udd80 🦀"}"#,
        )
        .unwrap(),
        priority: Some(Priority::new(2).unwrap()),
        label: Some(PriorityLabel::parse("soonish").unwrap()),
        when: When::At(now.plus(Duration::from_micros(300_000_001))),
        expires: Some(When::In(Duration::from_micros(3_000_000_003))),
        key: Some(KeyClaim { key: Key::parse("wallet:мережа/1 'q'").unwrap(), scope, on_conflict }),
        correlation: Some(CorrelationId::parse("event-7").unwrap()),
        provenance: Provenance {
            caused_by: Some(Cause::parse("user:42").unwrap()),
            trace_context: Some(
                TraceContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap(),
            ),
        },
        tags: ["one", "zwei \"2\""].map(|tag| Tag::parse(tag).unwrap()).to_vec(),
        group: Some(GroupName::parse("import 3").unwrap()),
        retry: Some(RetryPolicy::Fixed { every: Duration::from_millis(1_500), attempts: 9 }),
        timeout: Some(Duration::from_micros(90_000_001)),
        ..work()
    }
}

#[tokio::test]
async fn a_job_with_every_option_is_the_same_whichever_way_it_came() {
    let clock = Arc::new(ManualClock::default());
    let new = job_with_everything(clock.now(), OnConflict::Revive);
    let mut jobs: Vec<(Job, String)> = Vec::new();
    for is_inside in [true, false] {
        let place = TestStore::new();
        let engine = place.open_with_clock(clock.clone()).await;
        let spec = TypeSpec::new(kind("work"), queue("main"));
        let queues = vec![QueueSpec::new(queue("main"))];
        engine.declare(Declaration { queues, types: vec![spec] }).await.unwrap();
        let mut client = place.connect().await;
        let tx = client.transaction().await.unwrap();
        let answers = if is_inside {
            engine.enqueue_in(&tx, vec![new.clone()]).await.unwrap()
        } else {
            enqueue(&engine, vec![new.clone()]).await
        };
        tx.commit().await.unwrap();
        let id = stored(&answers)[0];
        let columns =
            "SELECT row_to_json(j)::jsonb - 'options' || jsonb_build_object('options', options::jsonb)
                || jsonb_build_object('until', k.until, 'scope', k.scope::jsonb)
            FROM windlass.delayed_jobs j JOIN windlass.job_keys k ON k.job = j.id";
        jobs.push((engine.job(id).await.unwrap().unwrap().job, place.ask(&client, columns).await));
    }
    let (inside, own) = (&jobs[0], &jobs[1]);
    assert_eq!((&inside.0.payload, &inside.0.key, &inside.0.retry), (&new.payload, &new.key, &new.retry));
    assert_eq!(inside.0.timeout, new.timeout);
    assert_eq!(inside.0, own.0);
    assert_eq!(inside.1, own.1);
}

#[tokio::test]
async fn a_job_ends_together_with_the_users_writes() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let mut client = with_table(&place).await;
    let fence = claimed_fence(&engine).await;
    let tx = client.transaction().await.unwrap();
    tx.execute(&place.sql("INSERT INTO windlass.orders VALUES (1)"), &[]).await.unwrap();
    assert_eq!(complete_in(&tx, &place.schema, fence).await.unwrap(), Settled::Applied);
    tx.commit().await.unwrap();
    let record = engine.job(fence.job).await.unwrap().unwrap();
    assert_eq!((record.job_state(), orders(&place, &client).await.as_str()), (JobState::Succeeded, "1"));
    let status = status(&engine).await;
    assert_eq!((status.counts.running, status.totals.succeeded), (0, 1));
}

#[tokio::test]
async fn a_rollback_leaves_the_job_running() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let mut client = place.connect().await;
    enqueue(&engine, vec![keyed("a")]).await;
    let claimed = claim(&engine, 1).await.remove(0);
    let tx = client.transaction().await.unwrap();
    engine.complete_in(&tx, claimed.fence()).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(engine.job(claimed.job.id).await.unwrap().unwrap().job_state(), JobState::Running);
    assert_eq!(status(&engine).await.counts.running, 1);
    assert_eq!(succeed(&engine, &claimed).await, Settled::Applied);
}

/// Counts the rows of each kind that the end of a job writes.
async fn ends(place: &TestStore, client: &Client) -> String {
    let text = "SELECT (SELECT count(*) FROM windlass.delayed_jobs) || ' live, '
        || (SELECT count(*) FROM windlass.job_history) || ' ended, '
        || (SELECT count(*) FROM windlass.job_traces) || ' traces, '
        || (SELECT count(*) FROM windlass.ended_keys) || ' keys, '
        || (SELECT count(*) FROM windlass.count_deltas) || ' changes'";
    place.ask(client, text).await
}

#[tokio::test]
async fn a_lost_claim_writes_nothing() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let mut client = place.connect().await;
    let fence = claimed_fence(&engine).await;
    let before = ends(&place, &client).await;
    for lost in [
        Fence { token: ClaimToken::from_random(1), ..fence },
        Fence { job: JobId(fence.job.0 + 1_000), ..fence },
    ] {
        let tx = client.transaction().await.unwrap();
        assert_eq!(complete_in(&tx, &place.schema, lost).await.unwrap(), Settled::ClaimLost);
        tx.commit().await.unwrap();
    }
    assert_eq!(ends(&place, &client).await, before);
    assert_eq!(engine.job(fence.job).await.unwrap().unwrap().job_state(), JobState::Running);
}

#[tokio::test]
async fn only_the_transaction_that_ends_a_job_is_told_so() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let mut client = place.connect().await;
    enqueue(&engine, vec![work()]).await;
    let claimed = claim(&engine, 1).await.remove(0);
    for told in [Settled::Applied, Settled::ClaimLost] {
        let tx = client.transaction().await.unwrap();
        assert_eq!(engine.complete_in(&tx, claimed.fence()).await.unwrap(), told);
        tx.commit().await.unwrap();
    }
    assert_eq!(succeed(&engine, &claimed).await, Settled::Applied, "what a worker does after its handler");
    assert_eq!(status(&engine).await.totals.succeeded, 1);
}

/// The case of a job whose timeout has passed while its handler still works: its own claim has requeued it.
#[tokio::test]
async fn a_job_that_was_put_back_by_its_own_claim_is_not_completed_by_it() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let mut client = place.connect().await;
    let late = JobError::new(ErrorKind::TimedOut, "it took too long");
    for transition in [
        Transition::Retry { after: Duration::from_secs(3_600), error: late.clone() },
        Transition::Park { gate: Gate::named("breaker:shop") },
        Transition::Bury { error: late },
    ] {
        let fence = claimed_fence(&engine).await;
        let back = Settlement { fence, transition: transition.clone(), report: AttemptReport::default() };
        assert_eq!(engine.settle(vec![back]).await.unwrap(), [Settled::Applied]);
        let before = ends(&place, &client).await;
        let tx = client.transaction().await.unwrap();
        assert_eq!(engine.complete_in(&tx, fence).await.unwrap(), Settled::ClaimLost, "{transition:?}");
        tx.commit().await.unwrap();
        assert_eq!(ends(&place, &client).await, before);
    }
}

#[tokio::test]
async fn a_job_that_was_asked_to_stop_ends_as_cancelled() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let mut client = place.connect().await;
    let fence = claimed_fence(&engine).await;
    engine.cancel(fence.job, "not needed").await.unwrap();
    let tx = client.transaction().await.unwrap();
    assert_eq!(engine.complete_in(&tx, fence).await.unwrap(), Settled::Applied);
    tx.commit().await.unwrap();
    let state = engine.job(fence.job).await.unwrap().unwrap().state;
    assert!(matches!(&state, StoredState::Cancelled { why, .. } if why == "not needed"), "{state:?}");
    assert_eq!(status(&engine).await.totals.cancelled, 1);
    assert_eq!(engine.attempts(fence.job).await.unwrap()[0].ending, AttemptEnding::Cancelled);
}

#[tokio::test]
async fn a_type_that_keeps_nothing_leaves_only_who_ended_it() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let spec = TypeSpec { retention_days: 0, ..TypeSpec::new(kind("work"), queue("main")) };
    engine.declare(Declaration { queues: vec![], types: vec![spec] }).await.unwrap();
    let mut client = place.connect().await;
    let fence = claimed_fence(&engine).await;
    for told in [Settled::Applied, Settled::ClaimLost] {
        let tx = client.transaction().await.unwrap();
        assert_eq!(engine.complete_in(&tx, fence).await.unwrap(), told);
        tx.commit().await.unwrap();
    }
    assert_eq!(engine.job(fence.job).await.unwrap(), None);
    let left = ends(&place, &client).await;
    assert!(left.starts_with("0 live, 0 ended, 1 traces, 0 keys"), "{left}");
}

#[tokio::test]
async fn through_an_engine_the_engines_clock_counts_and_the_attempt_began_with_its_claim() {
    let place = TestStore::new();
    let clock = Arc::new(ManualClock::starting_at(Timestamp::EPOCH));
    let ready = place.ready().await;
    let engine = place.open_with_clock(clock.clone()).await;
    let mut client = place.connect().await;
    let tx = client.transaction().await.unwrap();
    let id = stored(&engine.enqueue_in(&tx, vec![work()]).await.unwrap())[0];
    tx.commit().await.unwrap();
    assert_eq!(engine.job(id).await.unwrap().unwrap().job.enqueued_at, Timestamp::EPOCH);
    let fence = claim(&engine, 1).await[0].fence();
    clock.advance(Duration::from_secs(4));
    let tx = client.transaction().await.unwrap();
    assert_eq!(engine.complete_in(&tx, fence).await.unwrap(), Settled::Applied);
    tx.commit().await.unwrap();
    let attempt = ready.attempts(id).await.unwrap().remove(0);
    assert_eq!((attempt.started_at, attempt.ended_at), (Timestamp::EPOCH, Some(clock.now())));
    assert_eq!((attempt.worker, attempt.ending), (WORKER, AttemptEnding::Succeeded));
}

#[tokio::test]
async fn a_schema_that_is_no_name_or_not_there_is_refused_with_what_to_do() {
    let place = TestStore::new();
    let mut client = place.connect().await;
    let tx = client.transaction().await.unwrap();
    let wrong = enqueue_in(&tx, "windlass; DROP TABLE orders", vec![work()]).await.unwrap_err();
    assert!(matches!(wrong, EngineError::Refused(_)), "{wrong}");
    let missing = enqueue_in(&tx, &place.schema, vec![work()]).await.unwrap_err();
    assert!(
        matches!(&missing, EngineError::Unusable { why } if why.contains("windlass migrate")),
        "{missing}"
    );
}
