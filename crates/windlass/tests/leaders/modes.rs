//! What idle workers ask of PostgreSQL about their duties in each mode, counted by the server itself: to know who does a duty, and to do
//! it. Each mode has a database of its own.

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
use super::place::{Place, STATISTICS};
use super::process::idle;
use super::traffic::STATEMENTS_A_SECOND;

/// Who does the duties of Windlass itself.
const MODES: [DutyMode; 4] =
    [DutyMode::Lease, DutyMode::AdvisoryLock, DutyMode::WorkStealing, DutyMode::EveryWorker];
/// By which a process learns who does a duty.
const ABOUT_WHO: [&str; 6] =
    ["take_leases", "renew_leases", "release_leases", "lock_duties", "unlock_duties", "note_locks"];
/// What an idle worker asks for itself, whoever does duties: for work, to say that it lives, to be woken, and to hear itself.
const FOR_ITSELF: [&str; 5] = ["look", "extend", "mark_waiting", "unmark_waiting", LISTENERS_PROBE];
/// It has no name, and is known by how it begins.
const LISTENERS_PROBE: &str = "SELECT current_setting($1), pg_notify($2";
/// Who would like to have a lock asks once in this part of a heartbeat at the most often.
const LOCKS_PAUSE_MIN: f64 = 0.5;

/// How many workers, how lively, and for how long they are watched.
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

/// Statements a second, of all workers.
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
    // Only what is sent, and not what functions do.
    let settings = [STATISTICS[0], ("pg_stat_statements.track", "top"), ("max_connections", "600")];
    let place =
        Place::postgres_with(settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec());
    let plan = Plan::of_this_run();
    // At length one after the other, so that none pays for another.
    let rounds = MODES.chunks(if at_length() { 1 } else { MODES.len() });
    let mut loads = Vec::new();
    for modes in rounds {
        loads.extend(watch(&place, modes, plan).await);
    }
    println!("{} workers, statements a second in all:", plan.workers);
    println!("| mode | to know who does them | to do them | each for itself |\n|---|---|---|---|");
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
        let asked = of(mode).about_who;
        assert!(asked < f64::EPSILON, "{mode}: {asked:.2} about who does a duty");
    }
    let leases = of(DutyMode::Lease).about_who;
    assert!(leases > 0.0 && leases <= STATEMENTS_A_SECOND, "{leases:.2} about leases");
    let locks = of(DutyMode::AdvisoryLock).about_who;
    let most = f64::from(plan.workers) / (DUTY_HEARTBEAT.as_secs_f64() * LOCKS_PAUSE_MIN);
    assert!(locks > 0.0 && locks <= most, "{locks:.2} about locks, with {most:.2} at the most");
    let (one, each) = (of(DutyMode::Lease).to_do, of(DutyMode::EveryWorker).to_do);
    assert!(one > 0.0 && each > 1.5 * one, "{one:.2} if one does them, {each:.2} if each does");
}

async fn watch(place: &Place, modes: &[DutyMode], plan: Plan) -> Vec<(DutyMode, Load)> {
    let (server, connection) = tokio_postgres::connect(&place.url(), NoTls).await.expect("the server is up");
    tokio::spawn(connection);
    server
        .batch_execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        .await
        .expect("it is installed with the server");
    let mut starting = JoinSet::new();
    for mode in modes {
        let create = format!("CREATE DATABASE {}", database_of(*mode));
        server.batch_execute(&create).await.expect("the server is up");
        starting.spawn(start(place.url_of(&database_of(*mode)), *mode, plan));
    }
    let workers: Vec<Worker> = starting.join_all().await.into_iter().flatten().collect();
    server.batch_execute("SELECT pg_stat_statements_reset()").await.expect("the server is up");
    let began = Instant::now();
    // may sleep: this is how long they are watched.
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

/// What was asked in a database, and, at length, which statements that were.
async fn count(server: &tokio_postgres::Client, database: &str, began: Instant) -> Load {
    let by_name = "SELECT coalesce(substring(query FROM '^-- ([a-z_]+):'), left(query, 40)), sum(calls)::bigint
        FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid WHERE d.datname = $1 GROUP BY 1 ORDER BY 2 DESC";
    let rows = server.query(by_name, &[&database]).await.expect("the server is up");
    let seconds = began.elapsed().as_secs_f64();
    let mut load = Load::default();
    for row in rows {
        let (name, calls) = (row.get::<_, String>(0), row.get::<_, i64>(1));
        let rate = f64::from(u32::try_from(calls).expect("not so many")) / seconds;
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

/// Workers that have heard of each other, each with an engine of its own, as if it were a process.
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
        workers.push(worker.expect("it starts"));
    }
    let engine = Arc::clone(workers[0].client().engine());
    // What a worker hears with its second heartbeat is of all of them.
    while engine.workers().await.expect("the server is up").iter().any(|worker| worker.beats < 2) {
        // may sleep: nobody is told how many heartbeats there were.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    workers
}
