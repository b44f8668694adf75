//! What a worker with all five queues costs its server while there is nothing to do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use windlass::postgres::{PostgresEngine, PostgresOptions};
use windlass::{Handlers, JobType, Worker, WorkerOptions};
use windlass_servers::postgres::{Options, Server};

use crate::bench::PATIENCE;

/// A worker is watched for this long: longer than the polls of the three busiest queues, and than a heartbeat.
const WATCHED: Duration = Duration::from_secs(25);

/// By queue: its name, and the name of a type of it.
const QUEUES: [(&str, &str); 5] = [
    ("high", "errand_high"),
    ("default", "errand_default"),
    ("screenshot", "errand_screenshot"),
    ("low", "errand_low"),
    ("bulk", "errand_bulk"),
];

/// What looks for work, one way or another.
const POLLS: [&str; 4] = ["look", "look_ahead", "claim", "claim_suspect"];
/// The heartbeat with what comes along with it, and the word that this worker waits.
const SIGNS_OF_LIFE: [&str; 4] = ["extend", "asked_to_stop", "gates", "mark_waiting"];

/// Maintenance asks no more often than this in a second, all its duties together.
const MAINTENANCE_A_SECOND: usize = 2;

/// A job of one of the queues, which nobody enqueues.
#[derive(Debug, Serialize, Deserialize)]
struct Errand<const QUEUE: usize>;

impl<const QUEUE: usize> JobType for Errand<QUEUE> {
    const NAME: &'static str = QUEUES[QUEUE].1;
    const QUEUE: &'static str = QUEUES[QUEUE].0;
}

async fn run<const QUEUE: usize>(_: Errand<QUEUE>) {}

/// The names of the statements in a part of a server's log. Each of ours begins with its name.
fn statements(log: &str) -> Vec<&str> {
    let told = log.lines().filter_map(|line| line.split_once("LOG:  execute "));
    let texts = told.filter_map(|(_, statement)| statement.split_once(": -- "));
    texts.filter_map(|(_, text)| Some(text.split_once(':')?.0)).collect()
}

/// Whether the pools have left it to the looks to find something, and the first round of maintenance is over.
fn is_at_rest(log: &str) -> bool {
    let asked = statements(log);
    let polls: Vec<_> = asked.iter().filter(|name| POLLS.contains(name)).collect();
    let last = polls.last_chunk::<3>();
    asked.contains(&"prune_workers") && last.is_some_and(|last| last.iter().all(|name| **name == "look"))
}

fn count(asked: &[String], names: &[&str]) -> usize {
    asked.iter().filter(|name| names.contains(&name.as_str())).count()
}

/// A server that writes down each statement, and a worker on it that has nothing to do.
async fn idle_worker() -> (Server, Worker) {
    let settings = vec![("log_statement".to_owned(), "all".to_owned())];
    let server = Server::start(&Options { fsync: false, settings, ..Options::default() }).expect("it starts");
    let engine = PostgresEngine::connect(&server.url(), PostgresOptions::default()).await;
    let engine = Arc::new(engine.expect("the server is up"));
    let handlers = Handlers::new(()).handle(run::<0>).handle(run::<1>).handle(run::<2>).handle(run::<3>);
    let handlers = handlers.handle(run::<4>);
    let worker = Worker::start(engine, handlers, WorkerOptions::default()).await.expect("it starts");
    // What waits in a queue that is paused is not to be had, and costs nothing either.
    let (client, low) = (worker.client(), "low".parse().expect("a plain name"));
    client.engine().pause(&low, None, None).await.expect("the server is up");
    client.enqueue(Errand::<3>).await.expect("it is taken");
    let start = Instant::now();
    while !is_at_rest(&server.log()) {
        assert!(start.elapsed() < PATIENCE, "expected it to look for work, and for nothing else");
        // may sleep: the server tells nobody what it was asked.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    (server, worker)
}

/// What an idle worker asks, and for how many seconds it was watched.
async fn asked_while_idle(server: &Server) -> (Vec<String>, usize) {
    let (before, start) = (server.log().len(), Instant::now());
    // may sleep: this is how long it is watched.
    tokio::time::sleep(WATCHED).await;
    let asked = statements(&server.log()[before..]).into_iter().map(str::to_owned).collect();
    (asked, usize::try_from(start.elapsed().as_secs()).expect("not long"))
}

#[tokio::test]
async fn an_idle_worker_of_five_queues_polls_at_most_once_a_second_and_says_that_it_lives() {
    let (server, _worker) = idle_worker().await;
    let (asked, seconds) = asked_while_idle(&server).await;
    let polls = count(&asked, &POLLS);
    assert!((1..=seconds + 1).contains(&polls), "{seconds} s: {asked:?}");
    let signs = count(&asked, &SIGNS_OF_LIFE);
    assert!((1..=seconds / 2).contains(&signs), "{seconds} s: {asked:?}");
    let beats = count(&asked, &["extend"]);
    assert!(beats <= seconds / 10 + 1, "{beats} to say that it lives in {seconds} s: {asked:?}");
    let leases = count(&asked, &["take_leases", "renew_leases", "release_leases"]);
    assert!((1..=seconds).contains(&leases), "{leases} about leases in {seconds} s: {asked:?}");
    // Maintenance is not polling, and has a price of its own.
    let maintenance = asked.len() - polls - signs;
    assert!(maintenance <= seconds * MAINTENANCE_A_SECOND, "{maintenance} in {seconds} s: {asked:?}");
}
