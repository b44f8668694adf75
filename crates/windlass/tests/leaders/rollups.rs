//! A process is killed after it has appended its samples, and before they are rolled up.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use windlass::rollups::{ReportRequest, Since, Tally};
use windlass::types::engine::Engine;
use windlass::types::rollups::roll_up::roll_up;
use windlass::{Client, Handlers, Worker, WorkerOptions};

use super::process::{Idle, idle};
use super::test_store::{TestStore, open};
use super::workers::PATIENCE;

/// The variable that gives a process its server.
const VARIABLE: &str = "WINDLASS_LEADERS_AGGREGATES_URL";
/// The test that begins with [`work_if_asked`].
const TEST_NAME: &str = "rollups::what_a_killed_process_has_appended_is_booked_on_postgres";
const READY: &str = "all jobs are enqueued";
const JOBS: u64 = 40;

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_process_has_appended_is_booked_on_postgres() {
    if work_if_asked().await {
        return;
    }
    kill_one(TestStore::postgres()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_process_has_appended_is_booked_on_redis() {
    kill_one(TestStore::redis()).await;
}

async fn kill_one(place: TestStore) {
    let url = place.url();
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command.args(["--exact", TEST_NAME, "--nocapture"]).env(VARIABLE, &url);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the process starts");
    let lines = BufReader::new(child.stdout.take().expect("the output is a pipe")).lines();
    let mut lines = lines.map_while(Result::ok);
    assert!(lines.any(|line| line.contains(READY)), "expected the process to enqueue jobs, but it ended");
    let engine = open(&url).await;
    until(async || starts_appended(&engine).await >= JOBS).await;
    child.kill().expect("the process exists");
    child.wait().expect("the process was killed");
    assert!(rolled_up(&engine).await.is_empty(), "expected nothing to be rolled up yet");
    let handlers = Handlers::new(()).handle(idle);
    let worker = Worker::start(Arc::clone(&engine), handlers, WorkerOptions::default()).await;
    let _worker = worker.expect("the worker starts");
    until(async || rolled_up(&engine).await.started >= JOBS).await;
    let tally = rolled_up(&engine).await;
    assert_eq!((tally.enqueued, tally.started, tally.succeeded), (JOBS, JOBS, JOBS));
    assert_eq!((tally.waits.count(), tally.runs.count()), (JOBS, JOBS));
}

/// The number of starts in samples that are not rolled up yet.
async fn starts_appended(engine: &Arc<dyn Engine>) -> u64 {
    let rollup_input = engine.rollup_input(100).await.expect("the server is up");
    let rows = roll_up(rollup_input).map(|roll_up| roll_up.onto(Vec::new()).rows).unwrap_or_default();
    rows.iter().map(|row| row.tally.started).sum()
}

async fn rolled_up(engine: &Arc<dyn Engine>) -> Tally {
    let request = ReportRequest { from: Since::Ago(Duration::from_secs(1_800)), ..ReportRequest::default() };
    let report = Client::new(Arc::clone(engine)).rollups().report(&request).await;
    report.expect("the server is up").report.total().clone()
}

async fn until(is_it: impl AsyncFn() -> bool) {
    let asking = async {
        while !is_it().await {
            // may sleep: no notification reports what was appended or rolled up.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.expect("expected it within the limit of all waits");
}

/// Whether this program is such a process, which does no maintenance. If so, its work is done when this
/// returns.
async fn work_if_asked() -> bool {
    let Ok(url) = std::env::var(VARIABLE) else { return false };
    let options = WorkerOptions { maintenance: false, ..WorkerOptions::default() };
    let worker = Worker::start(open(&url).await, Handlers::new(()).handle(idle), options).await;
    let worker = worker.expect("the worker starts");
    for _ in 0..JOBS {
        worker.client().enqueue(Idle).await.expect("the job is accepted");
    }
    println!("{READY}");
    // The process is killed long before its input ends, unless its parent has died.
    let read = || std::io::stdin().read_to_end(&mut Vec::new());
    let _ = tokio::task::spawn_blocking(read).await;
    true
}
