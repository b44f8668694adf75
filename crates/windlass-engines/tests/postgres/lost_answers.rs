//! Connections that break, and calls that have their effect and whose answer never comes. Nothing is done
//! twice, nothing is lost, and no caller gets an error that says "not done" for a call that was done.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::admin::ListRequest;
use windlass_core::claim::{ClaimRequest, Claimed};
use windlass_core::engine::{Admin, Engine, Result};
use windlass_core::enqueue::{EnqueueAnswer, NewJob, Refusal};
use windlass_core::error::EngineError;
use windlass_core::job::{JobId, JobState};
use windlass_core::key::KeyClaim;
use windlass_core::names::Key;
use windlass_core::outcome::{ErrorKind, JobError};
use windlass_core::settle::{AttemptReport, Settled, Settlement, Transition};
use windlass_core::worker::{Heartbeat, Liveness};
use windlass_engines::postgres::{Periods, PostgresEngine, PostgresOptions};
use windlass_servers::proxy::Proxy;

use super::workers::surely::{at_last, claim_surely, enqueue_surely, settle_surely};
use super::{
    TestStore, WORKER, claim, claim_request, claimed, enqueue, eventually, new_job, proxied, request,
};

const LEASE: Duration = Duration::from_secs(30);

/// Returns options with one connection, on which only the test's own calls run.
fn alone(place: &TestStore, pooled: bool) -> PostgresOptions {
    let periods = Periods { scan_every: Duration::from_secs(3600), ..Periods::default() };
    PostgresOptions { connections: 1, listen: false, pooled, periods, ..place.options() }
}

/// Opens an engine behind a proxy and makes each call once, so that its connections are open and have
/// prepared the statements.
async fn warm(place: &TestStore, pooled: bool) -> Arc<PostgresEngine> {
    let engine = place.open_with(alone(place, pooled)).await;
    super::make_ready(&engine).await;
    enqueue(&engine, 1).await;
    let one = claim(&engine, 1).await.remove(0);
    engine.settle(vec![succeed(one)]).await.unwrap();
    engine.extend(Heartbeat { worker: WORKER, lease: LEASE, idle: false }).await.unwrap();
    Arc::new(engine)
}

/// Makes a call whose answer never comes: its effect is visible in the store, and then the connection is
/// cut.
async fn lose_answer<T, C>(proxy: &Proxy, call: C, happened: impl Fn() -> bool) -> EngineError
where
    T: Debug + Send + 'static,
    C: Future<Output = Result<T>> + Send + 'static,
{
    proxy.swallow_answers(true);
    let call = tokio::spawn(call);
    eventually("the call has its effect", || happened().then_some(()));
    proxy.cut_all();
    proxy.swallow_answers(false);
    call.await.unwrap().expect_err("its answer is lost")
}

/// Returns the ids of all jobs in the store, in any state.
async fn all_jobs(engine: &PostgresEngine) -> Vec<JobId> {
    let request = ListRequest { limit: 200, ..ListRequest::default() };
    engine.list(request).await.unwrap().iter().map(|record| record.job.id).collect()
}

fn succeed(claimed: Claimed) -> Settlement {
    claimed.settled(Transition::Succeed { result: None }, AttemptReport::default())
}

/// Ends an attempt with a failure. The job is due again later than this test lasts.
fn fail(claimed: Claimed) -> Settlement {
    let error = JobError::new(ErrorKind::Failed, "oops");
    claimed.settled(Transition::Retry { after: Duration::from_secs(3600), error }, AttemptReport::default())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_enqueue_whose_answer_is_lost_is_answered_when_it_is_repeated() {
    for pooled in [false, true] {
        let (place, proxy) = proxied();
        let engine = warm(&place, pooled).await;
        let sent = request(vec![new_job()]);
        let (caller, copy) = (engine.clone(), sent.clone());
        let call = async move { caller.enqueue(copy).await };
        let error = lose_answer(&proxy, call, || place.count("windlass.delayed_jobs") == 1).await;
        assert!(error.is_unknown(), "{error:?}");
        let answers = enqueue_surely(&*engine, sent.clone()).await.unwrap();
        assert_eq!(engine.receipt(sent.request).await.unwrap(), Some(answers.clone()));
        assert_eq!(all_jobs(&engine).await[0], answers[0].job().unwrap());
        assert_eq!(place.count("windlass.delayed_jobs"), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_held_up_until_it_was_asked_about_stores_nothing_when_it_arrives() {
    let keyed = || NewJob { key: Some(KeyClaim::new(Key::parse("key").unwrap())), ..new_job() };
    for (pooled, job) in [(false, new_job()), (true, new_job()), (false, keyed())] {
        let (place, proxy) = proxied();
        let engine = warm(&place, pooled).await;
        let other = TestStore::at(place.direct.clone(), place.schema.clone()).open().await;
        let sent = request(vec![job.clone(), job]);
        proxy.hold_questions(true);
        let (caller, copy) = (engine.clone(), sent.clone());
        let call = tokio::spawn(async move { caller.enqueue(copy).await });
        eventually("the request is held back", || (proxy.stuck_connections() > 0).then_some(()));
        assert_eq!(other.ask(sent.request).await.unwrap(), None);
        proxy.hold_questions(false);
        let told = EnqueueAnswer::Refused(Refusal::RequestClosed);
        assert_eq!(call.await.unwrap().unwrap(), [told.clone(), told]);
        assert_eq!(place.count("windlass.delayed_jobs"), 0);
        assert_eq!(place.count("windlass.job_keys"), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_answer_is_lost_is_found_again_by_its_token() {
    for pooled in [false, true] {
        let (place, proxy) = proxied();
        let engine = warm(&place, pooled).await;
        let ids = enqueue(&engine, 5).await;
        let sent = claim_request(WORKER, 3);
        let (caller, copy) = (engine.clone(), sent.clone());
        let call = async move { caller.claim(copy).await };
        let running = "windlass.delayed_jobs WHERE locked_by IS NOT NULL";
        let error = lose_answer(&proxy, call, || place.count(running) == 3).await;
        assert!(error.is_unknown(), "{error:?}");
        let answer = claim_surely(&*engine, ClaimRequest { repeat: true, ..sent }).await.unwrap();
        let held: Vec<_> = claimed(answer).iter().map(|claimed| claimed.job.id).collect();
        assert_eq!(held, ids[..3]);
        assert_eq!(place.count(running), 3, "a repeat claims nothing");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_connection_breaks_anywhere_does_not_say_that_nothing_was_claimed_if_something_was() {
    for pooled in [false, true] {
        let (place, proxy) = proxied();
        let engine = warm(&place, pooled).await;
        enqueue(&engine, 2).await;
        // The claim itself may be answered, and the connection break in a later step.
        place.sql("ALTER TABLE windlass.delayed_jobs ADD CHECK (true)");
        for bytes in (0..1500).step_by(STEP) {
            let sent = claim_request(WORKER, 1);
            proxy.cut_after_answers(bytes);
            let first = engine.claim(sent.clone()).await;
            proxy.cut_after_answers(usize::MAX);
            let held = match first {
                Ok(answer) => claimed(answer).len(),
                Err(error) if error.is_unknown() => {
                    claimed(claim_surely(&*engine, ClaimRequest { repeat: true, ..sent }).await.unwrap())
                        .len()
                }
                Err(_) => 0,
            };
            let token = sent.token;
            let in_store = place.count(&format!("windlass.delayed_jobs WHERE token = '{token}'"));
            assert_eq!(held as u64, in_store, "after {bytes} bytes, pooled: {pooled}");
            place.sql("UPDATE windlass.delayed_jobs SET token = NULL, locked_by = NULL, locked_at = NULL");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settle_whose_answer_is_lost_is_taken_for_done_when_it_is_repeated() {
    for pooled in [false, true] {
        let (place, proxy) = proxied();
        let engine = warm(&place, pooled).await;
        let id = enqueue(&engine, 1).await[0];
        let batch = vec![succeed(claim(&engine, 1).await.remove(0))];
        let (caller, copy) = (engine.clone(), batch.clone());
        let call = async move { caller.settle(copy).await };
        let error = lose_answer(&proxy, call, || place.count("windlass.delayed_jobs") == 0).await;
        assert!(error.is_unknown(), "{error:?}");
        assert_eq!(settle_surely(&*engine, batch.clone()).await, [Settled::Applied]);
        assert_eq!(settle_surely(&*engine, batch).await, [Settled::Applied]);
        assert_eq!(engine.job(id).await.unwrap().unwrap().job_state(), JobState::Succeeded);
        assert_eq!(engine.queues().await.unwrap()[0].totals.succeeded, 2, "this job, and the one before");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_whose_answer_is_lost_counts_and_the_next_one_works() {
    let (place, proxy) = proxied();
    let engine = warm(&place, false).await;
    let caller = engine.clone();
    let call = async move { caller.extend(Heartbeat { worker: WORKER, lease: LEASE, idle: false }).await };
    let error = lose_answer(&proxy, call, || place.count("windlass.workers WHERE beats = 2") == 1).await;
    assert!(error.is_unknown(), "{error:?}");
    let beat = engine.extend(Heartbeat { worker: WORKER, lease: LEASE, idle: false }).await.unwrap();
    assert_eq!(beat, Liveness::Alive { cancel: Vec::new() });
}

/// Answers are cut off after each of these numbers of bytes, so that each step of a call is the last one
/// once.
const CUTS: std::ops::Range<usize> = 0..3000;
const STEP: usize = 97;

#[tokio::test(flavor = "multi_thread")]
async fn an_enqueue_makes_one_job_wherever_its_connection_breaks() {
    for pooled in [false, true] {
        let (place, proxy) = proxied();
        let engine = warm(&place, pooled).await;
        for (nth, bytes) in (0..1000).step_by(STEP / 2).enumerate() {
            let sent = request(vec![new_job()]);
            proxy.cut_after_answers(bytes);
            let first = engine.enqueue(sent.clone()).await;
            proxy.cut_after_answers(usize::MAX);
            if matches!(&first, Err(error) if !error.is_unknown()) {
                assert_eq!(place.count("windlass.delayed_jobs"), nth as u64, "{first:?}, pooled: {pooled}");
            }
            enqueue_surely(&*engine, sent).await.unwrap();
            assert_eq!(place.count("windlass.delayed_jobs"), nth as u64 + 1, "after {bytes} bytes");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_enqueue_with_a_key_makes_one_job_wherever_its_connection_breaks() {
    let (place, proxy) = proxied();
    let engine = warm(&place, false).await;
    for (nth, bytes) in CUTS.step_by(STEP).enumerate() {
        let key = KeyClaim::new(Key::parse(&format!("key {nth}")).unwrap());
        let sent = request(vec![NewJob { key: Some(key), ..new_job() }]);
        proxy.cut_after_answers(bytes);
        let first = engine.enqueue(sent.clone()).await;
        proxy.cut_after_answers(usize::MAX);
        let stored = place.count(&format!("windlass.delayed_jobs WHERE key = 'key {nth}'"));
        match first {
            Ok(_) => assert_eq!(stored, 1),
            Err(error) if !error.is_unknown() => assert_eq!(stored, 0, "{error:?}"),
            Err(_) => {}
        }
        enqueue_surely(&*engine, sent).await.unwrap();
        assert_eq!(place.count(&format!("windlass.delayed_jobs WHERE key = 'key {nth}'")), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_is_settled_once_wherever_its_connection_breaks() {
    let (place, proxy) = proxied();
    let engine = warm(&place, false).await;
    for bytes in CUTS.step_by(STEP) {
        enqueue(&engine, 1).await;
        let one = claim(&engine, 1).await.remove(0);
        let id = one.job.id;
        let batch = vec![fail(one)];
        proxy.cut_after_answers(bytes);
        let _ = engine.settle(batch.clone()).await;
        proxy.cut_after_answers(usize::MAX);
        assert_eq!(settle_surely(&*engine, batch).await, [Settled::Applied]);
        let counters = engine.job(id).await.unwrap().unwrap().job.counters;
        assert_eq!((counters.attempts, counters.failures), (1, 1), "after {bytes} bytes");
        assert_eq!(place.count(&format!("windlass.attempts WHERE job = {}", id.0)), 1);
    }
}

/// Blocks commits that write to a table until they are released.
struct HeldCommits {
    session: tokio_postgres::Client,
    lock: i64,
}

impl HeldCommits {
    async fn of(place: &TestStore, table: &str) -> Self {
        let lock = i64::from(fastrand::u32(1..));
        place.sql(&format!(
            "CREATE FUNCTION windlass.hold() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN PERFORM pg_advisory_xact_lock({lock}); RETURN NULL; END $$;
             CREATE CONSTRAINT TRIGGER hold AFTER INSERT ON windlass.{table} DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION windlass.hold()"
        ));
        let session = super::session(&place.direct).await;
        session.batch_execute(&format!("SELECT pg_advisory_lock({lock})")).await.unwrap();
        Self { session, lock }
    }

    /// Releases the commits once one waits, and drops the answer to it.
    async fn release_unanswered(self, place: &TestStore, proxy: &Proxy, happened: impl Fn() -> bool) {
        let waits = format!("pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = {}", self.lock);
        eventually("a commit waits", || (place.count(&waits) == 1).then_some(()));
        proxy.swallow_answers(true);
        self.session.batch_execute(&format!("SELECT pg_advisory_unlock({})", self.lock)).await.unwrap();
        eventually("the transaction is committed", || happened().then_some(()));
        proxy.cut_all();
        proxy.swallow_answers(false);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_answer_is_lost_is_no_failure() {
    let (place, proxy) = proxied();
    let engine = warm(&place, false).await;
    let key = KeyClaim::new(Key::parse("key").unwrap());
    let sent = request(vec![NewJob { key: Some(key), ..new_job() }]);
    let held = HeldCommits::of(&place, "receipts").await;
    let (caller, copy) = (engine.clone(), sent.clone());
    let call = tokio::spawn(async move { caller.enqueue(copy).await });
    held.release_unanswered(&place, &proxy, || place.count("windlass.delayed_jobs") == 1).await;
    let error = call.await.unwrap().unwrap_err();
    assert!(error.is_unknown(), "{error:?}");
    let answers = enqueue_surely(&*engine, sent).await.unwrap();
    assert_eq!(all_jobs(&engine).await[0], answers[0].job().unwrap());
    assert_eq!(place.count("windlass.delayed_jobs"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_whose_commit_has_no_answer_counts_once() {
    let (place, proxy) = proxied();
    let engine = warm(&place, false).await;
    let id = enqueue(&engine, 1).await[0];
    let batch = vec![fail(claim(&engine, 1).await.remove(0))];
    let held = HeldCommits::of(&place, "attempts").await;
    let (caller, copy) = (engine.clone(), batch.clone());
    let call = tokio::spawn(async move { caller.settle(copy).await });
    held.release_unanswered(&place, &proxy, || place.count("windlass.attempts") == 1).await;
    let error = call.await.unwrap().unwrap_err();
    assert!(error.is_unknown(), "{error:?}");
    assert_eq!(settle_surely(&*engine, batch).await, [Settled::Applied]);
    assert_eq!(engine.job(id).await.unwrap().unwrap().job.counters.failures, 1);
}

/// Opens an engine with the usual timeouts and without a proxy. It creates the schema.
async fn patient(place: &TestStore) -> PostgresEngine {
    TestStore::at(place.direct.clone(), place.schema.clone()).ready().await
}

/// Opens an engine that abandons a silent connection sooner than others, but later than a busy machine
/// takes to answer.
async fn impatient(place: &TestStore) -> Arc<PostgresEngine> {
    let soon = Duration::from_secs(3);
    let periods = Periods { answer_within: soon, heartbeat_within: soon, ..Periods::default() };
    Arc::new(place.open_with(PostgresOptions { periods, ..place.options() }).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_falls_silent_is_given_up_and_its_connections_are_not_used_again() {
    let (place, proxy) = proxied();
    patient(&place).await;
    let engine = impatient(&place).await;
    let beat = || engine.extend(Heartbeat { worker: WORKER, lease: LEASE, idle: false });
    let (first, sent) = (request(vec![new_job()]), request(vec![new_job()]));
    at_last(|| engine.enqueue(first.clone())).await;
    at_last(beat).await;
    proxy.freeze(true);
    // The usual timeouts are longer than this patience.
    let patience = Duration::from_secs(30);
    let enqueued = tokio::time::timeout(patience, engine.enqueue(sent.clone())).await;
    let error = enqueued.expect("the call ends").unwrap_err();
    assert!(error.is_unknown(), "{error:?}");
    let unheard = beat().await;
    assert!(unheard.is_err(), "{unheard:?}");
    // The frozen connection stays frozen for ever; a new connection opens.
    proxy.cut_all();
    proxy.freeze(false);
    assert_eq!(at_last(|| engine.enqueue(sent.clone())).await.len(), 1);
    at_last(beat).await;
    assert_eq!(place.count("windlass.delayed_jobs"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_falls_silent_leaves_no_session_behind() {
    let (place, proxy) = proxied();
    patient(&place).await;
    let engine = impatient(&place).await;
    let keyed = |n: u32| {
        let key = KeyClaim::new(Key::parse(&format!("key {n}")).unwrap());
        request(vec![NewJob { key: Some(key), ..new_job() }])
    };
    for n in 0..3 {
        proxy.swallow_answers(true);
        assert!(engine.enqueue(keyed(n)).await.is_err());
        proxy.swallow_answers(false);
        let again = keyed(n);
        at_last(|| engine.enqueue(again.clone())).await;
    }
    let open = format!(
        "pg_stat_activity WHERE state LIKE 'idle in transaction%' AND query LIKE '%{}%'",
        place.schema
    );
    eventually("no transaction is left open", || (place.count(&open) == 0).then_some(()));
}
