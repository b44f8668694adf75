//! The statements that idle workers send to PostgreSQL about their duties in each mode, counted by the
//! server itself: to know which process does a duty, and to do it. Each mode has a separate database.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use windlass::duties::DutyMode;
use windlass::postgres::tokio_postgres::{self, NoTls};
use windlass::postgres::{PostgresEngine, PostgresOptions};
use windlass::types::limits::{DUTY_HEARTBEAT, HEARTBEAT_EVERY, WORKER_LEASE};
use windlass::{Handlers, Worker, WorkerOptions};

use super::at_length;
use super::client::Life;
use super::process::idle;
use super::test_store::{STATISTICS, TestStore};
use super::traffic::STATEMENTS_A_SECOND;

/// The modes in which the duties of Windlass itself can be done.
const MODES: [DutyMode; 4] =
    [DutyMode::Lease, DutyMode::AdvisoryLock, DutyMode::WorkStealing, DutyMode::EveryWorker];
/// The statements by which a process learns which process does a duty.
const ABOUT_WHO: [&str; 6] =
    ["take_leases", "renew_leases", "release_leases", "lock_duties", "unlock_duties", "note_locks"];
/// The statements that an idle worker sends for itself, whichever process does duties: the scan for work,
/// the heartbeat, the marks of a waiting worker, and the probe of its listener.
const FOR_ITSELF: [&str; 5] = ["scan", "extend", "mark_waiting", "unmark_waiting", LISTENERS_PROBE];
/// The listener's probe. It has no name, and is recognised by its beginning.
const LISTENERS_PROBE: &str = "SELECT current_setting($1), pg_notify($2";
/// The shortest pause between two requests for a lock, as a part of a heartbeat interval.
const LOCKS_PAUSE_MIN: f64 = 0.5;

/// The number of workers, their heartbeats, and how long they are observed.
#[derive(Clone, Copy)]
struct Plan {
    workers: u32,
    life: Life,
    watched: Duration,
}

impl Plan {
    fn of_this_run() -> Self {
        if at_length() {
            let life = Life { every: HEARTBEAT_EVERY, lease: WORKER_LEASE };
            return Self { workers: 50, life, watched: Duration::from_secs(60) };
        }
        let life = Life { every: Duration::from_secs(1), lease: Duration::from_secs(6) };
        Self { workers: 8, life, watched: Duration::from_secs(10) }
    }
}

/// Statements per second, of all workers.
#[derive(Debug, Clone, Copy, Default)]
struct Load {
    about_who: f64,
    to_do: f64,
    for_itself: f64,
}

fn database_of(mode: DutyMode) -> String {
    mode.to_string().replace(' ', "_")
}

#[tokio::test(flavor = "multi_thread")]
async fn on_postgres_each_mode_asks_of_the_server_what_the_pages_say() {
    // Counts only statements that clients send, and not those inside functions.
    let settings = [STATISTICS[0], ("pg_stat_statements.track", "top"), ("max_connections", "600")];
    let place =
        TestStore::postgres_with(settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec());
    let plan = Plan::of_this_run();
    // In the long form the modes run one after the other, so that none slows down another.
    let rounds = MODES.chunks(if at_length() { 1 } else { MODES.len() });
    let mut loads = Vec::new();
    for modes in rounds {
        loads.extend(watch(&place, modes, plan).await);
    }
    println!("{} workers, statements per second in total:", plan.workers);
    println!(
        "| mode | to know which process does them | to do them | for the worker itself |\n|---|---|---|---|"
    );
    for (mode, Load { about_who, to_do, for_itself }) in &loads {
        println!("| {mode} | {about_who:.2} | {to_do:.2} | {for_itself:.2} |");
    }
    let of = |mode: DutyMode| {
        loads.iter().find(|(other, _)| *other == mode).map(|(_, load)| *load).unwrap_or_default()
    };
    judge(of, plan);
}

fn judge(of: impl Fn(DutyMode) -> Load, plan: Plan) {
    for mode in [DutyMode::EveryWorker, DutyMode::WorkStealing] {
        let statements = of(mode).about_who;
        assert!(statements < f64::EPSILON, "{mode}: {statements:.2} statements about leaders");
    }
    let leases = of(DutyMode::Lease).about_who;
    assert!(leases > 0.0 && leases <= STATEMENTS_A_SECOND, "{leases:.2} statements about leases");
    let locks = of(DutyMode::AdvisoryLock).about_who;
    let most = f64::from(plan.workers) / (DUTY_HEARTBEAT.as_secs_f64() * LOCKS_PAUSE_MIN);
    assert!(locks > 0.0 && locks <= most, "{locks:.2} statements about locks, expected at most {most:.2}");
    let (one, each) = (of(DutyMode::Lease).to_do, of(DutyMode::EveryWorker).to_do);
    assert!(
        one > 0.0 && each > 1.5 * one,
        "{one:.2} statements if one worker does the duties, {each:.2} if each does"
    );
}

async fn watch(place: &TestStore, modes: &[DutyMode], plan: Plan) -> Vec<(DutyMode, Load)> {
    let (server, connection) = tokio_postgres::connect(&place.url(), NoTls).await.expect("the server is up");
    tokio::spawn(connection);
    server
        .batch_execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        .await
        .expect("the extension is installed with the server");
    let mut starting = JoinSet::new();
    for mode in modes {
        let create = format!("CREATE DATABASE {}", database_of(*mode));
        server.batch_execute(&create).await.expect("the server is up");
        starting.spawn(start(place.url_of(&database_of(*mode)), *mode, plan));
    }
    let workers: Vec<Worker> = starting.join_all().await.into_iter().flatten().collect();
    server.batch_execute("SELECT pg_stat_statements_reset()").await.expect("the server is up");
    let began = Instant::now();
    // may sleep: this is how long they are observed.
    tokio::time::sleep(plan.watched).await;
    let mut loads = Vec::new();
    for mode in modes {
        let load = count(&server, &database_of(*mode), began).await;
        loads.push((*mode, load));
    }
    let mut ending = JoinSet::new();
    for mut worker in workers {
        ending.spawn(async move { worker.stop().await });
    }
    ending.join_all().await;
    loads
}

/// The statements in a database. In the long form, also prints their names.
async fn count(server: &tokio_postgres::Client, database: &str, began: Instant) -> Load {
    let by_name = "SELECT coalesce(substring(query FROM '^-- ([a-z_]+):'), left(query, 40)), sum(calls)::bigint
        FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid WHERE d.datname = $1 GROUP BY 1 ORDER BY 2 DESC";
    let rows = server.query(by_name, &[&database]).await.expect("the server is up");
    let seconds = began.elapsed().as_secs_f64();
    let mut load = Load::default();
    for row in rows {
        let (name, calls) = (row.get::<_, String>(0), row.get::<_, i64>(1));
        let rate = f64::from(u32::try_from(calls).expect("the number of calls fits")) / seconds;
        let part = match name.as_str() {
            name if ABOUT_WHO.contains(&name) => &mut load.about_who,
            name if FOR_ITSELF.contains(&name) => &mut load.for_itself,
            _ => &mut load.to_do,
        };
        *part += rate;
        if at_length() && rate >= 0.05 {
            println!("{database}: {rate:.2} {name}");
        }
    }
    load
}

/// Starts workers that know of each other, each with a separate engine, as if it were a process.
async fn start(url: String, mode: DutyMode, plan: Plan) -> Vec<Worker> {
    let mut workers = Vec::new();
    for _ in 0..plan.workers {
        let few = PostgresOptions { connections: 2, ..PostgresOptions::default() };
        let engine = PostgresEngine::connect(&url, few).await.expect("the server is up");
        let options = WorkerOptions {
            heartbeat_every: plan.life.every,
            lease: plan.life.lease,
            maintenance_mode: mode,
            ..WorkerOptions::default()
        };
        let worker = Worker::start(Arc::new(engine), Handlers::new(()).handle(idle), options).await;
        workers.push(worker.expect("the worker starts"));
    }
    let engine = Arc::clone(workers[0].client().engine());
    // The answer to the second heartbeat of a worker counts all of them.
    while engine.workers().await.expect("the server is up").iter().any(|worker| worker.beats < 2) {
        // may sleep: no notification reports the number of heartbeats.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    workers
}
