//! Other sessions block the engine: timeouts, sessions that are ended, too few connections, and callers
//! that abandon a call. The engine continues, and leaves no transaction open.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use windlass_conformance::history::{FaultKind, Rules, check};
use windlass_core::admin::{CancelAnswer, ListRequest};
use windlass_core::engine::{Admin, Engine, RescueRequest, Result};
use windlass_core::enqueue::{EnqueueAnswer, NewJob};
use windlass_core::error::EngineError;
use windlass_core::gate::Gate;
use windlass_core::job::{JobId, StoredState};
use windlass_core::key::KeyClaim;
use windlass_core::lease_watch::Suspicion;
use windlass_core::names::Key;
use windlass_core::outcome::{ErrorKind, JobError};
use windlass_core::settle::{AttemptReport, Settled, Settlement, Transition};
use windlass_core::worker::{Heartbeat, WorkerCard, WorkerId};
use windlass_engines::postgres::{PostgresEngine, PostgresOptions};
use windlass_servers::proxy::Proxy;

use super::workers::Workers;
use super::workers::surely::{at_last, settle_surely};
use super::{
    TestStore, WORKER, bits, card, claim, claim_request, enqueue, eventually, kind, new_job, queue, request,
    server, session,
};

/// Creates a place whose sessions have other settings than usual.
pub(super) fn with_settings(settings: &str) -> TestStore {
    let place = TestStore::on(server().url());
    let settings = settings.replace(' ', "%20").replace('=', "%3D");
    TestStore { url: format!("{}?options={settings}", place.url), ..place }
}

/// Creates a database of its own, so that all its sessions are ours.
pub(super) fn own_database() -> TestStore {
    let name = format!("own_{:016x}", fastrand::u64(..));
    TestStore::on(server().create_database(&name).unwrap())
}

fn retries(claimed: Vec<windlass_core::claim::Claimed>) -> Vec<Settlement> {
    let retry = || Transition::Retry {
        after: Duration::from_secs(3600),
        error: JobError::new(ErrorKind::Failed, "oops"),
    };
    claimed.into_iter().map(|one| one.settled(retry(), AttemptReport::default())).collect()
}

pub(super) fn keyed(key: &str) -> NewJob {
    NewJob { key: Some(KeyClaim::new(Key::parse(key).unwrap())), ..new_job() }
}

/// Settings of sessions that wait for a lock for longer than the test takes to see it, on however busy a
/// machine.
pub(super) const PATIENT: &str = "-c lock_timeout=10min -c statement_timeout=10min";

pub(super) fn until_waiting(place: &TestStore, count: u64, what: &str) {
    let waits =
        format!("pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{}%'", place.schema);
    eventually(what, || (place.count(&waits) == count).then_some(()));
}

pub(super) fn unavailable(error: &EngineError) -> bool {
    matches!(error, EngineError::Unavailable { .. })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_on_one_job_of_a_batch_holds_up_no_other_and_makes_no_deadlock() {
    let place = with_settings(PATIENT);
    let engine = Arc::new(place.ready().await);
    let ids = enqueue(&engine, 2).await;
    let batch = retries(claim(&engine, 2).await);
    let other = session(&place.direct).await;
    let lock =
        |id: JobId| format!("SELECT 1 FROM {}.delayed_jobs WHERE id = {} FOR UPDATE", place.schema, id.0);
    other.batch_execute(&format!("BEGIN; {}", lock(ids[1]))).await.unwrap();
    let settler = Arc::clone(&engine);
    let settling = tokio::spawn(async move { settler.settle(batch).await });
    until_waiting(&place, 1, "the engine waits for the second");
    // The first job is settled already, so neither session waits for the other. Otherwise the server would
    // end this session as one of two in a deadlock.
    other.batch_execute(&lock(ids[0])).await.unwrap();
    other.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(settling.await.unwrap().unwrap(), [Settled::Applied; 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stands_still_inside_a_transaction_is_rescued_after_the_server_has_ended_it() {
    let proxy = Proxy::start(server().address()).unwrap();
    let place = with_settings(&format!("{PATIENT} -c idle_in_transaction_session_timeout=3s"));
    let place = TestStore { url: proxy.url(&place.url), ..place };
    let others = TestStore::at(place.direct.clone(), place.schema.clone()).ready().await;
    let frozen = Arc::new(place.open().await);
    let worker = WorkerId::from_random(bits());
    others.register(WorkerCard { lease: Duration::from_millis(100), ..card(worker) }).await.unwrap();
    let id = enqueue(&others, 1).await[0];
    let held = super::claimed(others.claim(claim_request(worker, 1)).await.unwrap());
    let batch = retries(held);
    // The session has locked the row of its job, and can neither continue nor release it.
    let in_the_way = session(&place.direct).await;
    let lock = format!("BEGIN; SELECT 1 FROM {}.delayed_jobs WHERE id = {} FOR UPDATE", place.schema, id.0);
    in_the_way.batch_execute(&lock).await.unwrap();
    let (settler, copy) = (Arc::clone(&frozen), batch.clone());
    let settling = tokio::spawn(async move { settler.settle(copy).await });
    until_waiting(&place, 1, "the engine waits for its own job");
    proxy.freeze(true);
    in_the_way.batch_execute("ROLLBACK").await.unwrap();
    let rescue = || RescueRequest { silent: vec![Suspicion { worker, beats: 0 }], crashes_max: 3, limit: 10 };
    let start = Instant::now();
    while others.rescue(rescue()).await.unwrap().returned != [id] {
        enqueue(&others, 1).await;
        assert_eq!(claim(&others, 1).await.len(), 1, "other jobs are not delayed");
        assert!(start.elapsed() < super::WAIT_MAX, "the server ends an idle transaction");
    }
    proxy.freeze(false);
    let error = settling.await.unwrap().unwrap_err();
    assert!(error.is_passing(), "a repeat helps: {error:?}");
    assert_eq!(settle_surely(&*frozen, batch).await, [Settled::ClaimLost]);
}

/// The server sends this error in place of an answer if the next statement was sent already. The idle
/// client continues.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_the_server_ended_for_its_silence_is_made_again() {
    let place = TestStore::on(server().url());
    let engine = place.ready().await;
    place.sql(
        "CREATE FUNCTION windlass.silent() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN RAISE 'terminating connection due to idle-in-transaction timeout' USING ERRCODE = '25P03'; END $$;
         CREATE TRIGGER silent BEFORE INSERT ON windlass.delayed_jobs EXECUTE FUNCTION windlass.silent()",
    );
    let asked = request(vec![keyed("mine")]);
    let error = engine.enqueue(asked.clone()).await.unwrap_err();
    assert!(unavailable(&error), "{error:?}");
    place.sql("DROP TRIGGER silent ON windlass.delayed_jobs");
    assert!(engine.enqueue(asked).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn successes_beside_one_whose_row_another_session_holds_are_stored() {
    let place = with_settings("-c lock_timeout=200ms");
    let engine = place.ready().await;
    let ids = enqueue(&engine, 3).await;
    let done = |claimed: windlass_core::claim::Claimed| {
        claimed.settled(Transition::Succeed { result: None }, AttemptReport::default())
    };
    let batch: Vec<_> = claim(&engine, 3).await.into_iter().map(done).collect();
    let other = session(&place.direct).await;
    let lock = format!("SELECT 1 FROM {}.delayed_jobs WHERE id = {} FOR UPDATE", place.schema, ids[1].0);
    other.batch_execute(&format!("BEGIN; {lock}")).await.unwrap();
    let error = engine.settle(batch.clone()).await.unwrap_err();
    assert!(unavailable(&error), "{error:?}");
    assert_eq!(place.count(&format!("{}.delayed_jobs", place.schema)), 1, "only the job that is held");
    other.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(engine.settle(batch).await.unwrap(), [Settled::Applied; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_of_the_history_that_is_made_meanwhile_does_not_fail_a_cancel() {
    let place = with_settings(PATIENT);
    let engine = Arc::new(place.ready().await);
    let id = enqueue(&engine, 1).await[0];
    let other = session(&place.direct).await;
    let make = format!("BEGIN; SELECT {}.create_partitions(now())", place.schema);
    other.batch_execute(&make).await.unwrap();
    let caller = Arc::clone(&engine);
    let cancelling = tokio::spawn(async move { caller.cancel(id, "no").await });
    until_waiting(&place, 1, "the engine waits for the day");
    other.batch_execute("COMMIT").await.unwrap();
    assert_eq!(cancelling.await.unwrap().unwrap(), CancelAnswer::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_whose_last_job_another_session_holds_does_not_say_that_there_is_more_to_release() {
    let place = TestStore::on(server().url());
    let engine = place.ready().await;
    let gate = Gate::named("held");
    let ids = enqueue(&engine, 2).await;
    let park = |claimed: windlass_core::claim::Claimed| {
        claimed.settled(Transition::Park { gate: gate.clone() }, AttemptReport::default())
    };
    let batch: Vec<_> = claim(&engine, 2).await.into_iter().map(park).collect();
    engine.settle(batch).await.unwrap();
    let other = session(&place.direct).await;
    let lock = format!("SELECT 1 FROM {}.delayed_jobs WHERE id = {} FOR UPDATE", place.schema, ids[0].0);
    other.batch_execute(&format!("BEGIN; {lock}")).await.unwrap();
    let first = engine.open_gate(&gate, 10).await.unwrap();
    assert_eq!(first.changed, 1);
    assert!(!engine.open_gate(&gate, 10).await.unwrap().more, "further calls would be busy polling");
    other.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(engine.open_gate(&gate, 10).await.unwrap().changed, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_an_open_transaction_holds_is_waited_for_only_so_long() {
    let place = with_settings("-c lock_timeout=200ms");
    let engine = place.ready().await;
    let other = session(&place.direct).await;
    let reserve =
        format!("BEGIN; INSERT INTO {}.job_keys (job_type, key) VALUES ('work', 'mine')", place.schema);
    other.batch_execute(&reserve).await.unwrap();
    let error = engine.enqueue(request(vec![keyed("mine")])).await.unwrap_err();
    assert!(matches!(&error, EngineError::Busy { why } if why.contains("one of these keys")), "{error:?}");
    assert!(engine.enqueue(request(vec![keyed("another")])).await.is_ok(), "other keys are free");
    other.batch_execute("ROLLBACK").await.unwrap();
    assert!(engine.enqueue(request(vec![keyed("mine")])).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_takes_too_long_is_ended_by_the_server_and_the_next_one_works() {
    let place = with_settings("-c statement_timeout=2s");
    TestStore::at(place.direct.clone(), place.schema.clone()).ready().await;
    let engine = place.open().await;
    let other = session(&place.direct).await;
    let lock = format!("BEGIN; LOCK {}.delayed_jobs", place.schema);
    other.batch_execute(&lock).await.unwrap();
    let error = engine.enqueue(request(vec![new_job()])).await.unwrap_err();
    assert!(unavailable(&error), "nothing was written: {error:?}");
    let error = engine.claim(claim_request(WORKER, 1)).await.unwrap_err();
    assert!(unavailable(&error), "nothing was claimed: {error:?}");
    other.batch_execute("ROLLBACK").await.unwrap();
    let sent = request(vec![new_job()]);
    at_last(|| engine.enqueue(sent.clone())).await;
    let held = at_last(|| engine.claim(claim_request(WORKER, 10))).await;
    assert_eq!(super::claimed(held).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_are_ended_at_random_lose_nothing_and_do_nothing_twice() {
    let place = own_database();
    let engine = Arc::new(place.ready().await);
    let mut workers = Workers::new(Duration::from_secs(20));
    workers.producer(engine.clone(), Duration::from_millis(2));
    workers.producer(engine.clone(), Duration::from_millis(2));
    workers.worker(engine.clone());
    workers.worker(engine.clone());
    workers.rescuer(engine.clone());
    let other = session(&place.direct).await;
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() \
               AND backend_type = 'client backend' AND pid <> pg_backend_pid() AND random() < 0.3";
    let (start, mut ended) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_secs(3) || workers.enqueued() < 100 || ended <= 50 {
        let row = other.query_one(end, &[]).await.unwrap();
        ended += row.get::<_, i64>(0);
        // may sleep: calls must make progress between two terminations.
        tokio::time::sleep(Duration::from_millis(fastrand::u64(10..80))).await;
    }
    workers.shared_ledger.fault(FaultKind::StoreAway, || ());
    let verdict = check(&workers.end(&*engine, || ()).await, &Rules::default());
    assert!(verdict.is_clean(), "{verdict}");
}

/// Makes one of the engine's calls, chosen by a number.
async fn any_call(engine: Arc<PostgresEngine>, rng: u8) -> Result<()> {
    let key = format!("key {}", fastrand::u8(..5));
    match rng {
        0 => engine.enqueue(request(vec![new_job(); 3])).await.map(drop),
        1 => engine.enqueue(request(vec![keyed(&key), new_job()])).await.map(drop),
        2 => engine.claim(claim_request(WORKER, 3)).await.map(drop),
        3 => {
            let jobs = engine.claim(claim_request(WORKER, 3)).await?;
            engine.settle(retries(super::claimed(jobs))).await.map(drop)
        }
        4 => engine
            .extend(Heartbeat { worker: WORKER, lease: Duration::from_secs(30), idle: false })
            .await
            .map(drop),
        5 => {
            let silent = Vec::new();
            engine.rescue(RescueRequest { silent, crashes_max: 3, limit: 10 }).await.map(drop)
        }
        6 => engine.sweep(10).await.map(drop),
        7 => engine.prune(10).await.map(drop),
        8 => engine.list(ListRequest { limit: 10, ..ListRequest::default() }).await.map(drop),
        9 => engine.queues().await.map(drop),
        10 => engine.cancel(JobId(fastrand::i64(1..50)), "no reason").await.map(drop),
        11 => engine.pause(&queue(), None, Some(Duration::from_millis(5))).await.map(drop),
        12 => engine.resume(&queue()).await.map(drop),
        13 => engine.retry(JobId(fastrand::i64(1..50))).await.map(drop),
        14 => engine.register(card(WorkerId::from_random(bits()))).await,
        15 => engine.set_shut(&queue(), false).await.map(drop),
        16 => engine.types().await.map(drop),
        _ => engine.peek(&[queue()], &[super::kind()]).await.map(drop),
    }
}

const CALLS: u8 = 18;

#[tokio::test(flavor = "multi_thread")]
async fn callers_who_give_up_early_leave_no_transaction_open_and_no_connection_taken() {
    let place = own_database();
    let engine = Arc::new(place.open_with(PostgresOptions { connections: 4, ..place.options() }).await);
    super::make_ready(&engine).await;
    let mut callers = JoinSet::new();
    for n in 0..2_000_u32 {
        let patience = Duration::from_micros(fastrand::u64(..3_000));
        let call = any_call(Arc::clone(&engine), fastrand::u8(..CALLS));
        callers.spawn(async move { drop(tokio::time::timeout(patience, call).await) });
        if n % 20 == 0 {
            while callers.join_next().await.is_some() {}
        }
    }
    while callers.join_next().await.is_some() {}
    // The calls that their callers abandoned are done first, which takes its time on a busy machine.
    let queue = queue();
    at_last(|| engine.resume(&queue)).await;
    let open = "pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
    eventually("no transaction is left open", || (place.count(open) == 0).then_some(()));
    let busy = "pg_stat_activity WHERE datname = current_database() AND application_name = 'windlass' AND state = 'active'";
    eventually("no statement runs for ever", || (place.count(busy) == 0).then_some(()));
    for _ in 0..8 {
        enqueue(&engine, 1).await;
    }
    let start = Instant::now();
    while claim(&engine, 8).await.is_empty() {
        assert!(start.elapsed() < super::WAIT_MAX, "expected jobs, since no pause lasts so long");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_connection_is_enough_for_every_call_even_for_many_at_once() {
    let place = TestStore::on(server().url());
    let engine = Arc::new(place.open_with(PostgresOptions { connections: 1, ..place.options() }).await);
    super::make_ready(&engine).await;
    let mut callers = JoinSet::new();
    for _ in 0..5 {
        for call in 0..CALLS {
            let engine = Arc::clone(&engine);
            // A call that waited for a connection that it holds itself would never be answered, not only
            // late.
            callers.spawn(async move { at_last(|| any_call(Arc::clone(&engine), call)).await });
        }
        while let Some(answered) = callers.join_next().await {
            answered.expect("every call is answered");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_too_few_connections_says_so_and_the_engine_goes_on() {
    let place = own_database();
    place.ready().await;
    let role = format!("few_{:08x}", fastrand::u32(..));
    place.sql(&format!(
        "CREATE ROLE {role} LOGIN SUPERUSER; ALTER ROLE {role} NOSUPERUSER CONNECTION LIMIT 3;
         GRANT ALL ON SCHEMA {0} TO {role}; GRANT ALL ON ALL TABLES IN SCHEMA {0} TO {role};
         GRANT ALL ON ALL SEQUENCES IN SCHEMA {0} TO {role}",
        place.schema
    ));
    let poor = TestStore {
        url: place.url.replace("postgres@", &format!("{role}@")),
        ..TestStore::at(place.direct.clone(), place.schema.clone())
    };
    let engine = Arc::new(poor.open_with(PostgresOptions { migrate: false, ..poor.options() }).await);
    let mut callers = JoinSet::new();
    for _ in 0..20 {
        callers.spawn(any_call(Arc::clone(&engine), 0));
    }
    while let Some(answer) = callers.join_next().await {
        if let Err(error) = answer.unwrap() {
            assert!(unavailable(&error), "{error:?}");
        }
    }
    enqueue(&engine, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_waited_for_its_key_was_put_in_after_the_end_of_the_one_before() {
    let minute = Duration::from_secs(60);
    after_the_end_of_the_one_before(Caller::by_engine, Duration::ZERO).await;
    after_the_end_of_the_one_before(Caller::one_by_sql, minute).await;
    after_the_end_of_the_one_before(Caller::many_by_sql, minute).await;
}

/// A caller that enqueues a job with the key `k`. The job would replace the earlier one, so a function
/// waits for the key, too.
struct Caller {
    engine: Arc<PostgresEngine>,
    client: tokio_postgres::Client,
    schema: String,
}

impl Caller {
    async fn by_engine(self) -> JobId {
        put(&self.engine, keyed("k")).await
    }

    async fn one_by_sql(self) -> JobId {
        let call = format!(
            "SELECT {}.enqueue($1, key => 'k', on_conflict => 'replace', delay => '1 minute')",
            self.schema
        );
        let row = self.client.query_one(&call, &[&kind().as_str()]).await.unwrap();
        JobId(row.get(0))
    }

    /// Enqueues a job without a key first, so that the batch does not begin with the lock.
    async fn many_by_sql(self) -> JobId {
        let kind = kind();
        let jobs = format!(
            r#"[{{"job_type": "{kind}"}},
                {{"job_type": "{kind}", "key": "k", "on_conflict": "replace", "delay": "1 minute"}}]"#
        );
        let call = format!("SELECT id FROM {}.enqueue_many('{jobs}') WHERE position = 2", self.schema);
        JobId(self.client.query_one(&call, &[]).await.unwrap().get(0))
    }
}

/// Enqueues a job whose key another connection holds until the earlier job has ended. The job is due
/// `delay` after its enqueue.
async fn after_the_end_of_the_one_before<F>(put_second: impl FnOnce(Caller) -> F, delay: Duration)
where
    F: Future<Output = JobId> + Send + 'static,
{
    let place = with_settings(PATIENT);
    let engine = Arc::new(place.ready().await);
    let first = put(&engine, keyed("k")).await;
    let other = session(&place.direct).await;
    let schema = &place.schema;
    let lock = format!("BEGIN; SELECT 1 FROM {schema}.job_keys WHERE key = 'k' FOR UPDATE");
    other.batch_execute(&lock).await.unwrap();
    let caller =
        Caller { engine: Arc::clone(&engine), client: session(&place.direct).await, schema: schema.clone() };
    let putting = tokio::spawn(put_second(caller));
    until_waiting(&place, 1, "the second job waits for its key");
    let claimed = claim(&engine, 1).await.remove(0);
    let complete = format!("SELECT {schema}.complete({}, '{}'); COMMIT", first.0, claimed.token);
    other.batch_execute(&complete).await.unwrap();
    let second = putting.await.unwrap();
    let (first, second) =
        (engine.job(first).await.unwrap().unwrap(), engine.job(second).await.unwrap().unwrap());
    let StoredState::Succeeded { at, .. } = first.state else { panic!("expected the end of {first:?}") };
    let enqueued_at = second.job.enqueued_at;
    assert!(enqueued_at >= at, "{enqueued_at} is before {at}");
    assert_eq!(second.job.due, enqueued_at.plus(delay));
}
async fn put(engine: &PostgresEngine, job: NewJob) -> JobId {
    let answers = engine.enqueue(request(vec![job])).await.unwrap();
    match answers[..] {
        [EnqueueAnswer::New(id)] => id,
        _ => panic!("expected a new job, got {answers:?}"),
    }
}
