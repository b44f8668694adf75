//! The effects of another program's transactions on a running worker.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass::postgres::{Periods, PostgresEngine, PostgresOptions};
use windlass::types::admin::{CancelAnswer, ListRequest};
use windlass::types::engine::Engine;
use windlass::types::job::JobState;
use windlass::{JobId, QueueSpec, WorkerOptions};
use windlass_servers::postgres::Session;

use crate::bench::{Act, Bench};

const HOUR: Duration = Duration::from_secs(60 * 60);
/// The number of commits. What wakes the worker for the first must also wake it for the next ones.
const COMMITS: usize = 10;

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

/// Neither the worker nor its engine looks for jobs within an hour, so the notification of the commit has
/// brought them.
#[tokio::test]
async fn what_psql_rolls_back_leaves_nothing_and_what_it_commits_is_picked_up_without_a_poll() {
    let schema = crate::fresh_schema();
    let mut bench = worker_without_polls(&schema).await;
    let mut psql = Session::start(&crate::url()).expect("psql starts");
    psql.run(&put(&schema)).expect("the job is accepted");
    psql.run("ROLLBACK;").expect("the transaction is rolled back");
    for _ in 0..COMMITS {
        until_idle(&mut psql, &schema).await;
        let id = psql.run(&put(&schema)).expect("the job is accepted").parse().expect("a number");
        psql.send("COMMIT;").expect("psql reads");
        assert_eq!(bench.started().await, (JobId(id), 1));
        bench.until(JobId(id), JobState::Succeeded).await;
    }
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
        bench.until(id, JobState::Cancelled).await;
    }
}
