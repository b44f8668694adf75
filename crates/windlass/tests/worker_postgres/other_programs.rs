//! What another program does in its own transaction reaches a running worker.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass::core::admin::{CancelAnswer, ListRequest};
use windlass::core::job::Phase;
use windlass::postgres::{Periods, PostgresEngine, PostgresOptions};
use windlass::{JobId, QueueSpec, WorkerOptions};
use windlass_servers::postgres::Session;

use crate::bench::{Act, Bench};

const HOUR: Duration = Duration::from_secs(60 * 60);
/// How long an idle worker may take from a commit to the start of the handler.
const PICKED_UP_WITHIN: Duration = Duration::from_millis(10);
/// So many are tried. The quickest counts, since a busy machine delays some: the promise is about the way.
const COMMITS_MAX: usize = 50;

fn put(schema: &str) -> String {
    format!(r#"BEGIN; SELECT {schema}.enqueue('act', '"Succeed"');"#)
}

/// A worker that looks for nothing by itself within an hour: what it learns sooner, somebody has told it.
async fn worker_that_never_looks(schema: &str) -> Bench {
    let periods = Periods { look_every: HOUR, looks_after_mark: Vec::new(), ..Periods::default() };
    let queues = QueueSpec::built_in();
    let queues = queues.into_iter().map(|queue| QueueSpec { poll_interval: HOUR, ..queue });
    let options = WorkerOptions {
        queues: queues.collect(),
        heartbeat_every: HOUR / 2,
        lease: HOUR,
        sweep_every: HOUR,
        // It would take a mark that nobody has written again for a minute for forgotten.
        upkeep: false,
        ..WorkerOptions::default()
    };
    let place = PostgresOptions { schema: schema.to_owned(), periods, ..PostgresOptions::default() };
    let engine = PostgresEngine::connect(&crate::url(), place).await.expect("the server is up");
    Bench::on(Arc::new(engine), options).await
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

#[tokio::test]
async fn what_psql_rolls_back_leaves_nothing_and_what_it_commits_is_picked_up_within_10_ms() {
    let schema = crate::fresh_schema();
    let mut bench = worker_that_never_looks(&schema).await;
    let mut psql = Session::start(&crate::url()).expect("psql starts");
    psql.run(&put(&schema)).expect("it is taken");
    psql.run("ROLLBACK;").expect("it is undone");
    let mut took = Vec::new();
    while took.len() < 3 || took.iter().all(|took| *took >= PICKED_UP_WITHIN) {
        assert!(took.len() < COMMITS_MAX, "expected one below {PICKED_UP_WITHIN:?}, got {took:?}");
        until_idle(&mut psql, &schema).await;
        took.push(commit_to_start(&mut psql, &schema, &mut bench).await);
    }
    let request = ListRequest { limit: 500, ..ListRequest::default() };
    let known = bench.engine.list(request).await.expect("the server is up").len();
    assert_eq!(known, took.len(), "what was rolled back is not there");
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
