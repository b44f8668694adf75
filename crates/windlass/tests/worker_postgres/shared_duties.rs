//! Duties in the modes that only PostgreSQL has: under an advisory lock of a session, and by work stealing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use windlass::duties::{Duty, DutyContext, DutyMode, DutyName, LeaseTiming};
use windlass::postgres::{PostgresEngine, PostgresOptions, tokio_postgres};
use windlass::types::lease::LockRequest;
use windlass::types::worker::WorkerId;
use windlass::{Handlers, StartError, Worker, WorkerOptions};

use crate::bench::{Act, Bench, PATIENCE};

const SOON: Duration = Duration::from_millis(100);
/// The timing of duties. Locks are requested often; whether a loaded machine keeps them matters to no test
/// here.
const TIMING: LeaseTiming =
    LeaseTiming { heartbeat: Duration::from_millis(200), expiry: Duration::from_secs(3) };

fn with(duty: Duty) -> WorkerOptions {
    WorkerOptions { duties: vec![duty], duty_leases: TIMING, ..WorkerOptions::default() }
}

fn under_lock(of: &'static str, sender: &mpsc::UnboundedSender<&'static str>) -> WorkerOptions {
    let sender = sender.clone();
    let run = move |context: DutyContext| {
        assert_eq!(context.fence(), None, "a lock has no fence");
        let _ = sender.send(of);
        async {}
    };
    let duty = Duty::new("totals", SOON, run).expect("a valid name");
    with(Duty { mode: DutyMode::AdvisoryLock, ..duty })
}

async fn until(ran: &mut mpsc::UnboundedReceiver<&'static str>, of: &str) {
    let wait = async { while ran.recv().await != Some(of) {} };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{of} does the duty"));
}

/// Ends the session that holds the lock of the duty in a schema, as a failover of the server does.
async fn end_session_with_lock(schema: &str) {
    let end = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_locks, (SELECT hashtextextended('{schema}.totals', 0) AS key) AS lock
         WHERE locktype = 'advisory' AND granted AND objsubid = 1
             AND classid::bigint = (key >> 32) & 4294967295 AND objid::bigint = key & 4294967295"
    );
    let ended = session(schema).await.simple_query(&end).await.expect("the server is up");
    assert!(ended.len() > 2, "expected a session with the lock, got {ended:?}");
}

#[tokio::test]
async fn the_holder_of_the_lock_does_the_duty_and_another_does_it_when_that_one_stops() {
    let (sender, mut ran) = mpsc::unbounded_channel();
    let schema = crate::fresh_schema();
    let mut first = Bench::on(crate::open(&schema), under_lock("first", &sender)).await;
    until(&mut ran, "first").await;
    let mut second = Bench::on(crate::open(&schema), under_lock("second", &sender)).await;
    for _ in 0..10 {
        assert_eq!(
            tokio::time::timeout(PATIENCE, ran.recv()).await.expect("the duty is done"),
            Some("first")
        );
    }
    first.worker.stop().await;
    until(&mut ran, "second").await;
    second.worker.stop().await;
}

#[tokio::test]
async fn a_session_that_ends_takes_its_locks_with_it_and_the_duty_goes_on() {
    let (sender, mut ran) = mpsc::unbounded_channel();
    let schema = crate::fresh_schema();
    let _only = Bench::on(crate::open(&schema), under_lock("only", &sender)).await;
    until(&mut ran, "only").await;
    end_session_with_lock(&schema).await;
    while ran.try_recv().is_ok() {}
    until(&mut ran, "only").await;
}

#[tokio::test]
async fn a_lock_is_one_workers_also_within_a_session_and_lapses_if_it_is_not_asked_for_again() {
    let engine = crate::fresh_engine();
    let duty = DutyName::parse("totals").expect("a valid name");
    let ask = |worker: u128, good_for| {
        let (engine, duties) = (Arc::clone(&engine), vec![duty.clone()]);
        let request = LockRequest { worker: WorkerId::from_random(worker), duties, good_for };
        async move { engine.lock_duties(&request).await.expect("the server is up") }
    };
    assert_eq!(ask(1, PATIENCE).await, [true]);
    assert_eq!(ask(1, PATIENCE).await, [true], "the worker has the lock already");
    assert_eq!(ask(2, PATIENCE).await, [false]);
    engine
        .unlock_duties(WorkerId::from_random(2), std::slice::from_ref(&duty))
        .await
        .expect("the server is up");
    assert_eq!(ask(2, PATIENCE).await, [false], "a worker cannot release the lock of another");
    engine
        .unlock_duties(WorkerId::from_random(1), std::slice::from_ref(&duty))
        .await
        .expect("the server is up");
    assert_eq!(ask(2, SOON).await, [true]);
    let lapsed = async {
        // may sleep: no notification reports that a lock has lapsed.
        while ask(3, PATIENCE).await != [true] {
            tokio::time::sleep(SOON).await;
        }
    };
    tokio::time::timeout(PATIENCE, lapsed).await.expect("the lock lapses");
}

#[tokio::test]
async fn a_lock_without_a_direct_address_is_refused_with_the_reason() {
    let (sender, _ran) = mpsc::unbounded_channel();
    let options =
        PostgresOptions { schema: crate::fresh_schema(), pooled: true, ..PostgresOptions::default() };
    let engine = PostgresEngine::connect(&crate::url(), options).await.expect("the server is up");
    let handlers = Handlers::new(()).handle(quiet);
    let started = Worker::start(Arc::new(engine), handlers, under_lock("first", &sender)).await;
    let Err(StartError::Store(error)) = started else { panic!("expected a refusal") };
    assert!(error.to_string().contains("a direct address, for a lock"), "{error}");
}

/// As with listening off, or behind a pooler without `listen_url`: no notification reports a released
/// lease.
#[tokio::test]
async fn without_a_listener_a_lease_that_is_given_back_becomes_anothers() {
    let (sender, mut ran) = mpsc::unbounded_channel();
    let schema = crate::fresh_schema();
    let without_listener = async || {
        let options = PostgresOptions { schema: schema.clone(), listen: false, ..PostgresOptions::default() };
        Arc::new(PostgresEngine::connect(&crate::url(), options).await.expect("the server is up"))
    };
    let leased = |of: &'static str| {
        let sender = sender.clone();
        let run = move |_: DutyContext| {
            let _ = sender.send(of);
            async {}
        };
        let duty = Duty::new("totals", SOON, run).expect("a valid name");
        // A busy machine sends heartbeats in time for this expiry.
        let duty_leases = LeaseTiming { expiry: Duration::from_secs(10), ..TIMING };
        WorkerOptions { heartbeat_every: SOON, duty_leases, ..with(duty) }
    };
    let mut first = Bench::on(without_listener().await, leased("first")).await;
    until(&mut ran, "first").await;
    let mut second = Bench::on(without_listener().await, leased("second")).await;
    let both = async {
        // may sleep: no notification reports that a worker knows of another.
        while second.engine.workers().await.expect("the store is up").iter().any(|worker| worker.beats < 3) {
            tokio::time::sleep(SOON).await;
        }
    };
    tokio::time::timeout(PATIENCE, both).await.expect("both workers are live");
    first.worker.stop().await;
    until(&mut ran, "second").await;
    let leases = second.engine.leases().await.expect("the store is up").leases;
    let totals = leases.iter().find(|lease| lease.duty.as_str() == "totals").expect("the lease is known");
    assert_eq!(totals.takeovers, 0, "the lease was released, and did not expire");
    second.worker.stop().await;
}

async fn quiet(_: Act) {}

/// Opens a session on the schema, in which a run claims its parcels.
async fn session(schema: &str) -> tokio_postgres::Client {
    let connected = tokio_postgres::connect(&crate::url(), tokio_postgres::NoTls).await;
    let (client, connection) = connected.expect("the server is up");
    tokio::spawn(connection);
    client.simple_query(&format!("SET search_path = {schema}")).await.expect("the server is up");
    client
}

const STEAL: &str = "WITH share AS (SELECT id FROM parcels WHERE by IS NULL LIMIT 5 FOR UPDATE SKIP LOCKED)
    UPDATE parcels SET by = $1, times = times + 1 FROM share WHERE parcels.id = share.id";

#[tokio::test]
async fn each_run_steals_a_share_that_no_other_has_taken_until_all_is_done_once() {
    let schema = crate::fresh_schema();
    let engine = crate::open(&schema);
    let parcels = "CREATE TABLE parcels (id int PRIMARY KEY, by text, times int NOT NULL DEFAULT 0);
        INSERT INTO parcels SELECT generate_series(1, 200)";
    let client = session(&schema).await;
    client.batch_execute(parcels).await.expect("the server is up");
    let stealing = |of: &'static str| {
        let schema = schema.clone();
        let run = move |context: DutyContext| {
            let schema = schema.clone();
            async move {
                let taken = session(&schema).await.execute(STEAL, &[&of]).await?;
                context.did(taken);
                Ok::<_, tokio_postgres::Error>(())
            }
        };
        let duty = Duty::new("parcels", SOON, run).expect("a valid name");
        with(Duty { mode: DutyMode::WorkStealing, ..duty })
    };
    let _first = Bench::on(Arc::clone(&engine), stealing("first")).await;
    let _second = Bench::on(engine, stealing("second")).await;
    let done = async {
        loop {
            let rows = client.query("SELECT by, times FROM parcels", &[]).await.expect("the server is up");
            let shares: Vec<(Option<String>, i32)> =
                rows.iter().map(|row| (row.get(0), row.get(1))).collect();
            if shares.iter().all(|(by, _)| by.is_some()) {
                return shares;
            }
            // may sleep: no notification reports that parcels were claimed.
            tokio::time::sleep(SOON).await;
        }
    };
    let shares = tokio::time::timeout(PATIENCE, done).await.expect("all parcels are done");
    assert!(shares.iter().all(|(_, times)| *times == 1), "a parcel was done twice");
    let by: BTreeSet<_> = shares.into_iter().filter_map(|(by, _)| by).collect();
    assert_eq!(by.len(), 2, "both workers took part");
}
