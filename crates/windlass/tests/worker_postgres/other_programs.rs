//! The effects of another program's transactions on a running worker.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass::postgres::{Periods, PostgresEngine, PostgresOptions};
use windlass::types::admin::{CancelAnswer, ListRequest};
use windlass::types::engine::Engine;
use windlass::types::job::Phase;
use windlass::{JobId, QueueSpec, WorkerOptions};
use windlass_servers::postgres::Session;

use crate::bench::{Act, Bench};

const HOUR: Duration = Duration::from_secs(60 * 60);
/// How long an idle worker may take from a commit to the start of the handler.
const PICKED_UP_WITHIN: Duration = Duration::from_millis(10);
/// The number of measured commits. The median counts: a busy machine delays some, and a single one may be
/// quick by chance.
const COMMITS: usize = 31;

fn put(schema: &str) -> String {
    format!(r#"BEGIN; SELECT {schema}.enqueue('act', '"Succeed"');"#)
}

/// An engine that does not scan within an hour.
pub(crate) async fn silent_engine(schema: &str) -> Arc<dyn Engine> {
    let periods = Periods { scan_every: HOUR, scans_after_idle: Vec::new(), ..Periods::default() };
    let place = PostgresOptions { schema: schema.to_owned(), periods, ..PostgresOptions::default() };
    Arc::new(PostgresEngine::connect(&crate::url(), place).await.expect("the server is up"))
}

/// The options of a worker with these queues that neither polls, sends heartbeats nor sweeps within an
/// hour.
pub(crate) fn silent_options(queues: Vec<QueueSpec>) -> WorkerOptions {
    let queues = queues.into_iter().map(|queue| QueueSpec { poll_interval: HOUR, ..queue });
    WorkerOptions {
        queues: queues.collect(),
        heartbeat_every: HOUR / 2,
        lease: HOUR,
        sweep_every: HOUR,
        // Maintenance would remove a waiting mark that was not renewed for a minute.
        maintenance: false,
        ..WorkerOptions::default()
    }
}

/// A worker that neither polls nor scans within an hour: what it learns sooner, a notification has
/// reported.
async fn worker_without_polls(schema: &str) -> Bench {
    Bench::on(silent_engine(schema).await, silent_options(QueueSpec::built_in())).await
}

/// Waits until the worker is marked as waiting for jobs.
async fn until_idle(psql: &mut Session, schema: &str) {
    let start = Instant::now();
    let marks = format!("SELECT count(*) FROM {schema}.waiting WHERE queue = 'default';");
    while psql.run(&marks).expect("psql answers") != "1" {
        assert!(start.elapsed() < crate::bench::PATIENCE, "expected the worker to be marked as waiting");
        // may sleep: no notification reports the mark, and the worker needs this thread to store it.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Measures from the commit request of a program until the handler starts: this includes the commit itself.
async fn commit_to_start(psql: &mut Session, schema: &str, bench: &mut Bench) -> Duration {
    let id = JobId(psql.run(&put(schema)).expect("the job is accepted").parse().expect("a number"));
    let start = Instant::now();
    psql.send("COMMIT;").expect("psql reads");
    assert_eq!(bench.started().await, (id, 1));
    let took = start.elapsed();
    bench.until(id, Phase::Succeeded).await;
    took
}

/// Measures a statement of `psql` that keeps a processor busy for about as long as a pickup takes.
fn statement_alone(psql: &mut Session) -> Duration {
    let start = Instant::now();
    psql.run("SELECT count(*) FROM generate_series(1, 20000);").expect("the statement runs");
    start.elapsed()
}

/// The factor by which the average exceeds the best time.
fn delayed_by(took: &[Duration]) -> f64 {
    let best = took.iter().min().expect("there are measurements");
    let all: Duration = took.iter().sum();
    all.as_secs_f64() / (took.len() as f64 * best.as_secs_f64())
}

fn median(mut took: Vec<Duration>) -> Duration {
    took.sort_unstable();
    took[took.len() / 2]
}

/// A machine that is busy with something else delays everything. The limit of 10 ms is therefore multiplied
/// by the factor by which a single statement takes longer on average than at its best. The two are measured
/// alternately.
#[tokio::test]
async fn what_psql_rolls_back_leaves_nothing_and_what_it_commits_is_picked_up_within_10_ms() {
    let schema = crate::fresh_schema();
    let mut bench = worker_without_polls(&schema).await;
    let mut psql = Session::start(&crate::url()).expect("psql starts");
    psql.run(&put(&schema)).expect("the job is accepted");
    psql.run("ROLLBACK;").expect("the transaction is rolled back");
    let (mut picked_up, mut alone) = (Vec::new(), Vec::new());
    for _ in 0..COMMITS {
        until_idle(&mut psql, &schema).await;
        alone.push(statement_alone(&mut psql));
        picked_up.push(commit_to_start(&mut psql, &schema, &mut bench).await);
    }
    let (usual, within) = (median(picked_up), PICKED_UP_WITHIN.mul_f64(delayed_by(&alone)));
    assert!(usual <= within, "picked up within {usual:?}, expected {within:?}; statements alone {alone:?}");
    let request = ListRequest { limit: 500, ..ListRequest::default() };
    let known = bench.engine.list(request).await.expect("the server is up").len();
    assert_eq!(known, COMMITS, "the rolled back job is not stored");
    assert!(bench.reports.try_recv().is_err(), "the rolled back job did not run");
}

#[tokio::test]
async fn a_cancel_from_another_process_reaches_the_handler_long_before_the_next_heartbeat() {
    let schema = crate::fresh_schema();
    let mut bench = worker_without_polls(&schema).await;
    let elsewhere = crate::open(&schema);
    // Three in a row: what makes the first one fast must not make the next ones slow.
    for _ in 0..3 {
        let id = bench.put(Act::WaitForCancel).await;
        bench.started().await;
        assert_eq!(elsewhere.cancel(id, "not needed").await.unwrap(), CancelAnswer::Requested);
        bench.until(id, Phase::Cancelled).await;
    }
}
