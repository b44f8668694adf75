//! What another program does in its own transaction reaches a running worker.

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
/// So many commits are measured. The middle one counts: a busy machine delays some, and one alone may have been lucky.
const COMMITS: usize = 31;

fn put(schema: &str) -> String {
    format!(r#"BEGIN; SELECT {schema}.enqueue('act', '"Succeed"');"#)
}

/// An engine that looks for nothing by itself within an hour.
pub(crate) async fn silent_engine(schema: &str) -> Arc<dyn Engine> {
    let periods = Periods { look_every: HOUR, looks_after_mark: Vec::new(), ..Periods::default() };
    let place = PostgresOptions { schema: schema.to_owned(), periods, ..PostgresOptions::default() };
    Arc::new(PostgresEngine::connect(&crate::url(), place).await.expect("the server is up"))
}

/// A worker with these queues neither polls, beats nor sweeps within an hour.
pub(crate) fn silent_options(queues: Vec<QueueSpec>) -> WorkerOptions {
    let queues = queues.into_iter().map(|queue| QueueSpec { poll_interval: HOUR, ..queue });
    WorkerOptions {
        queues: queues.collect(),
        heartbeat_every: HOUR / 2,
        lease: HOUR,
        sweep_every: HOUR,
        // It would take a mark that nobody has written again for a minute for forgotten.
        maintenance: false,
        ..WorkerOptions::default()
    }
}

/// A worker that looks for nothing by itself within an hour: what it learns sooner, somebody has told it.
async fn worker_that_never_looks(schema: &str) -> Bench {
    Bench::on(silent_engine(schema).await, silent_options(QueueSpec::built_in())).await
}

/// Waits until the worker is known to wait for jobs.
async fn until_idle(psql: &mut Session, schema: &str) {
    let start = Instant::now();
    let marks = format!("SELECT count(*) FROM {schema}.waiting WHERE queue = 'default';");
    while psql.run(&marks).expect("psql answers") != "1" {
        assert!(start.elapsed() < crate::bench::PATIENCE, "expected the worker to say that it waits");
        // may sleep: nobody tells when it has said so, and it needs this thread for it.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// From the moment in which a program asks to commit until the handler starts: the commit itself is in it.
async fn commit_to_start(psql: &mut Session, schema: &str, bench: &mut Bench) -> Duration {
    let id = JobId(psql.run(&put(schema)).expect("it is taken").parse().expect("a number"));
    let asked = Instant::now();
    psql.send("COMMIT;").expect("psql reads");
    assert_eq!(bench.started().await, (id, 1));
    let took = asked.elapsed();
    bench.until(id, Phase::Succeeded).await;
    took
}

/// How long `psql` waits for a statement that keeps a processor busy for about as long as it takes to pick a job up.
fn statement_alone(psql: &mut Session) -> Duration {
    let asked = Instant::now();
    psql.run("SELECT count(*) FROM generate_series(1, 20000);").expect("it counts");
    asked.elapsed()
}

/// How much longer something takes on average than at its best.
fn delayed_by(took: &[Duration]) -> f64 {
    let best = took.iter().min().expect("some were measured");
    let all: Duration = took.iter().sum();
    all.as_secs_f64() / (took.len() as f64 * best.as_secs_f64())
}

fn median(mut took: Vec<Duration>) -> Duration {
    took.sort_unstable();
    took[took.len() / 2]
}

/// A machine that is busy with something else delays everything, so 10 ms are as much longer as a statement alone takes on
/// average longer than at its best. The two are measured in turn.
#[tokio::test]
async fn what_psql_rolls_back_leaves_nothing_and_what_it_commits_is_picked_up_within_10_ms() {
    let schema = crate::fresh_schema();
    let mut bench = worker_that_never_looks(&schema).await;
    let mut psql = Session::start(&crate::url()).expect("psql starts");
    psql.run(&put(&schema)).expect("it is taken");
    psql.run("ROLLBACK;").expect("it is undone");
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
    assert_eq!(known, COMMITS, "what was rolled back is not there");
    assert!(bench.told.try_recv().is_err(), "and did not run");
}

#[tokio::test]
async fn a_cancel_from_another_process_reaches_the_handler_long_before_the_next_heartbeat() {
    let schema = crate::fresh_schema();
    let mut bench = worker_that_never_looks(&schema).await;
    let elsewhere = crate::open(&schema);
    // One after another: what makes the first one fast must not make the next ones slow.
    for _ in 0..3 {
        let id = bench.put(Act::WaitForCancel).await;
        bench.started().await;
        assert_eq!(elsewhere.cancel(id, "not needed").await.unwrap(), CancelAnswer::Requested);
        bench.until(id, Phase::Cancelled).await;
    }
}
