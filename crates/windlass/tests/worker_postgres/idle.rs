//! What a worker costs its server while there is nothing to do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass::WorkerOptions;
use windlass::postgres::{PostgresEngine, PostgresOptions};
use windlass_servers::postgres::{Options, Server};

use crate::bench::{Bench, PATIENCE};

/// A worker is watched for this long.
const WATCHED: Duration = Duration::from_secs(15);
/// What it asks when it begins to wait, which may be late on a busy machine.
const AT_FIRST: usize = 12;

/// The names of the statements that a part of a server's log tells of. Each of ours begins with its name.
fn statements(log: &str) -> Vec<String> {
    let told = log.lines().filter_map(|line| line.split_once("LOG:  execute "));
    let texts = told.filter_map(|(_, statement)| statement.split_once(": -- "));
    texts.filter_map(|(_, text)| Some(text.split_once(':')?.0.to_owned())).collect()
}

/// A server that writes down each statement, and a worker on it that has nothing to do.
async fn idle_worker() -> (Server, Bench) {
    let settings = vec![("log_statement".to_owned(), "all".to_owned())];
    let server = Server::start(&Options { fsync: false, settings, ..Options::default() }).expect("it starts");
    let engine = PostgresEngine::connect(&server.url(), PostgresOptions::default()).await;
    // Upkeep is done by one process of many.
    let options = WorkerOptions { upkeep: false, ..WorkerOptions::default() };
    let bench = Bench::on(Arc::new(engine.expect("the server is up")), options).await;
    let start = Instant::now();
    while looks(&statements(&server.log())) < 3 {
        assert!(start.elapsed() < PATIENCE, "expected it to look for work");
        // may sleep: the server tells nobody what it was asked.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    (server, bench)
}

fn looks(statements: &[String]) -> usize {
    statements.iter().filter(|name| *name == "look").count()
}

#[tokio::test]
async fn an_idle_worker_looks_for_work_once_a_second_and_asks_for_little_else() {
    let (server, _bench) = idle_worker().await;
    let (before, start) = (server.log().len(), Instant::now());
    // may sleep: this is how long it is watched.
    tokio::time::sleep(WATCHED).await;
    let asked = statements(&server.log()[before..]);
    let seconds = usize::try_from(start.elapsed().as_secs()).expect("not long");
    let looks = looks(&asked);
    assert!((1..=seconds + 1).contains(&looks), "{looks} in {seconds} s: {asked:?}");
    // Every ten seconds comes a heartbeat, and a claim, since a look may miss something.
    assert!(asked.len() - looks <= seconds + AT_FIRST, "{seconds} s: {asked:?}");
}
