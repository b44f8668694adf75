//! The load of an idle worker with all five queues on its server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use windlass::postgres::{PostgresEngine, PostgresOptions};
use windlass::{Handlers, JobType, Worker, WorkerOptions};
use windlass_servers::postgres::{Options, Server};

use crate::bench::PATIENCE;

/// How long a worker is observed: longer than the poll intervals of the three busiest queues, and than a
/// heartbeat interval.
const WATCHED: Duration = Duration::from_secs(25);

/// For each queue: its name, and the name of a type of it.
const QUEUES: [(&str, &str); 5] = [
    ("high", "errand_high"),
    ("default", "errand_default"),
    ("screenshot", "errand_screenshot"),
    ("low", "errand_low"),
    ("bulk", "errand_bulk"),
];

/// The statements that scan for work.
const POLLS: [&str; 4] = ["scan", "scan_ahead", "claim", "claim_suspect"];
/// The heartbeat with the statements that accompany it, and the mark that this worker waits.
const HEARTBEATS: [&str; 4] = ["extend", "asked_to_stop", "gates", "mark_waiting"];

/// The maximum number of statements of maintenance per second, for all its duties together.
const MAINTENANCE_A_SECOND: usize = 2;

/// A job of one of the queues, which is never enqueued.
#[derive(Debug, Serialize, Deserialize)]
struct Errand<const QUEUE: usize>;

impl<const QUEUE: usize> JobType for Errand<QUEUE> {
    const NAME: &'static str = QUEUES[QUEUE].1;
    const QUEUE: &'static str = QUEUES[QUEUE].0;
}

async fn run<const QUEUE: usize>(_: Errand<QUEUE>) {}

/// The names of the statements in a part of a server's log. Each of our statements begins with its name.
fn statements(log: &str) -> Vec<&str> {
    let executed = log.lines().filter_map(|line| line.split_once("LOG:  execute "));
    let texts = executed.filter_map(|(_, statement)| statement.split_once(": -- "));
    texts.filter_map(|(_, text)| Some(text.split_once(':')?.0)).collect()
}

/// Whether the pools leave polling to the engine's scans, and the first round of maintenance is over.
fn is_at_rest(log: &str) -> bool {
    let asked = statements(log);
    let polls: Vec<_> = asked.iter().filter(|name| POLLS.contains(name)).collect();
    let last = polls.last_chunk::<3>();
    asked.contains(&"prune_workers") && last.is_some_and(|last| last.iter().all(|name| **name == "scan"))
}

fn count(asked: &[String], names: &[&str]) -> usize {
    asked.iter().filter(|name| names.contains(&name.as_str())).count()
}

/// Starts a server that logs each statement, and a worker on it that has nothing to do.
async fn idle_worker() -> (Server, Worker) {
    let settings = vec![("log_statement".to_owned(), "all".to_owned())];
    let server =
        Server::start(&Options { fsync: false, settings, ..Options::default() }).expect("the server starts");
    let engine = PostgresEngine::connect(&server.url(), PostgresOptions::default()).await;
    let engine = Arc::new(engine.expect("the server is up"));
    let handlers = Handlers::new(()).handle(run::<0>).handle(run::<1>).handle(run::<2>).handle(run::<3>);
    let handlers = handlers.handle(run::<4>);
    let worker = Worker::start(engine, handlers, WorkerOptions::default()).await.expect("the worker starts");
    // A job in a paused queue cannot be claimed, and must cost nothing either.
    let (client, low) = (worker.client(), "low".parse().expect("a valid name"));
    client.engine().pause(&low, None, None).await.expect("the server is up");
    client.enqueue(Errand::<3>).await.expect("the job is accepted");
    let start = Instant::now();
    while !is_at_rest(&server.log()) {
        assert!(start.elapsed() < PATIENCE, "expected the worker to come to rest, with scans for work only");
        // may sleep: no notification reports which statements the server has executed.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    (server, worker)
}

/// The statements of an idle worker, and for how many seconds it was observed.
async fn asked_while_idle(server: &Server) -> (Vec<String>, usize) {
    let (before, start) = (server.log().len(), Instant::now());
    // may sleep: this is how long it is observed.
    tokio::time::sleep(WATCHED).await;
    let asked = statements(&server.log()[before..]).into_iter().map(str::to_owned).collect();
    (asked, usize::try_from(start.elapsed().as_secs()).expect("the time is short"))
}

#[tokio::test]
async fn an_idle_worker_of_five_queues_polls_at_most_once_a_second_and_says_that_it_lives() {
    let (server, _worker) = idle_worker().await;
    let (asked, seconds) = asked_while_idle(&server).await;
    let polls = count(&asked, &POLLS);
    assert!((1..=seconds + 1).contains(&polls), "{seconds} s: {asked:?}");
    let signs = count(&asked, &HEARTBEATS);
    assert!((1..=seconds / 2).contains(&signs), "{seconds} s: {asked:?}");
    let beats = count(&asked, &["extend"]);
    assert!(beats <= seconds / 10 + 1, "{beats} heartbeats in {seconds} s: {asked:?}");
    let leases = count(&asked, &["take_leases", "renew_leases", "release_leases"]);
    assert!((1..=seconds).contains(&leases), "{leases} statements about leases in {seconds} s: {asked:?}");
    // Maintenance is not polling, and has its own limit.
    let maintenance = asked.len() - polls - signs;
    assert!(
        maintenance <= seconds * MAINTENANCE_A_SECOND,
        "{maintenance} statements of maintenance in {seconds} s: {asked:?}"
    );
}
