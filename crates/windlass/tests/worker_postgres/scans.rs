//! The engine's own scan finds the effects of other processes, without a notification and without polling.

use std::sync::Arc;
use std::time::Duration;

use windlass::postgres::{Periods, PostgresEngine, PostgresOptions};
use windlass::types::admin::CancelAnswer;
use windlass::types::engine::Declaration;
use windlass::types::job::JobState;
use windlass::types::names::{QueueName, TypeName};
use windlass::{JobId, QueueSpec, TypeSpec, WorkerOptions};
use windlass_servers::postgres::{Options, Server, Session};

use crate::bench::{Act, Bench};

const HOUR: Duration = Duration::from_secs(60 * 60);
const SOON: Duration = Duration::from_millis(50);

fn default_queue() -> QueueName {
    QueueName::parse("default").expect("a valid name")
}

/// A worker that receives no notification and does not poll within an hour: only the engine scans.
async fn worker_that_only_scans(schema: &str) -> Bench {
    worker_at(&crate::url(), schema, Periods::default().answer_within).await
}

async fn worker_at(url: &str, schema: &str, answer_within: Duration) -> Bench {
    let periods = Periods { scan_every: SOON, answer_within, ..Periods::default() };
    let place = PostgresOptions { schema: schema.to_owned(), periods, listen: false, ..Default::default() };
    let engine = PostgresEngine::connect(url, place).await.expect("the server is up");
    let queues = QueueSpec::built_in().into_iter();
    let queues = queues.map(|queue| QueueSpec { poll_interval: HOUR, concurrency: 1, ..queue }).collect();
    let options = WorkerOptions { queues, maintenance: false, sweep_every: SOON, ..WorkerOptions::default() };
    Bench::on(Arc::new(engine), options).await
}

#[tokio::test]
async fn a_request_to_stop_of_which_no_notification_comes_is_brought_by_a_heartbeat() {
    let schema = crate::fresh_schema();
    let periods = Periods { scan_every: HOUR, scans_after_idle: Vec::new(), ..Periods::default() };
    let deaf = PostgresOptions { schema: schema.clone(), periods, listen: false, ..Default::default() };
    let engine = PostgresEngine::connect(&crate::url(), deaf).await.expect("the server is up");
    let options = WorkerOptions { heartbeat_every: SOON, ..WorkerOptions::default() };
    let mut bench = Bench::on(Arc::new(engine), options).await;
    let id = bench.put(Act::WaitForCancel).await;
    assert_eq!(bench.started().await, (id, 1));
    let asked = crate::open(&schema).cancel(id, "changed my mind").await.expect("the server is up");
    assert_eq!(asked, CancelAnswer::Requested);
    let record = bench.until(id, JobState::Cancelled).await;
    assert_eq!(record.job.counters.attempts, 1);
}

fn put(psql: &mut Session, schema: &str, delay: &str) -> JobId {
    let put = format!(r#"SELECT {schema}.enqueue('act', '"Succeed"', delay => '{delay}');"#);
    JobId(psql.run(&put).expect("the job is accepted").parse().expect("a number"))
}

#[tokio::test]
async fn a_job_and_then_a_suspect_that_other_processes_leave_are_found_by_the_look() {
    let schema = crate::fresh_schema();
    let mut bench = worker_that_only_scans(&schema).await;
    let mut psql = Session::start(&crate::url()).expect("psql starts");
    let id = put(&mut psql, &schema, "0 seconds");
    assert_eq!(bench.started().await, (id, 1));
    bench.until(id, JobState::Succeeded).await;
    let id = put(&mut psql, &schema, "1 hour");
    // The row as a rescue leaves it whose process dies before it can send the notification.
    let left = "SET gate = 'suspect', crashes = 1, attempts = 1, scheduled_at = now()";
    psql.run(&format!("UPDATE {schema}.delayed_jobs {left} WHERE id = {};", id.0))
        .expect("the row is changed");
    assert_eq!(bench.started().await, (id, 2));
    bench.until(id, JobState::Succeeded).await;
}

#[tokio::test]
async fn a_queue_that_another_process_resumes_is_found_by_the_look() {
    let schema = crate::fresh_schema();
    let mut bench = worker_that_only_scans(&schema).await;
    let elsewhere = crate::open(&schema);
    elsewhere.pause(&default_queue(), None, None).await.expect("the queue is paused");
    let knows = bench.engine.queues().await.expect("the server is up");
    assert!(knows.iter().any(|queue| queue.pause.is_some()), "the worker's engine knows of the pause");
    let mut psql = Session::start(&crate::url()).expect("psql starts");
    let id = put(&mut psql, &schema, "0 seconds");
    elsewhere.resume(&default_queue()).await.expect("the queue is resumed");
    assert_eq!(bench.started().await, (id, 1));
}

#[tokio::test]
async fn a_queue_that_another_process_gives_a_type_is_looked_at_as_before() {
    let schema = crate::fresh_schema();
    let mut bench = worker_that_only_scans(&schema).await;
    let elsewhere = crate::open(&schema);
    let new = TypeSpec::new(TypeName::parse("theirs").expect("a valid name"), default_queue());
    elsewhere
        .declare(Declaration { queues: Vec::new(), types: vec![new] })
        .await
        .expect("the type is declared");
    // Whichever part of this process reads the type first, all others must learn of it.
    bench.engine.queues().await.expect("the server is up");
    let mut psql = Session::start(&crate::url()).expect("psql starts");
    let id = put(&mut psql, &schema, "0 seconds");
    assert_eq!(bench.started().await, (id, 1));
}

#[tokio::test]
async fn a_look_that_got_no_answer_is_soon_followed_by_another() {
    let server = Server::start(&Options { fsync: false, ..Options::default() }).expect("the server starts");
    // A busy machine answers sooner than that when the server is not frozen.
    let answer_within = Duration::from_secs(4);
    let mut bench = worker_at(&server.url(), "windlass", answer_within).await;
    server.freeze().expect("the server exists");
    // The scan that is under way times out before the second of these calls, as they do.
    for _ in 0..2 {
        bench.engine.workers().await.expect_err("the frozen server does not answer");
    }
    server.thaw().expect("the server exists");
    let mut psql = Session::start(&server.url()).expect("psql starts");
    let id = put(&mut psql, "windlass", "0 seconds");
    assert_eq!(bench.started().await, (id, 1));
}

#[tokio::test]
async fn a_queue_that_another_process_gives_more_slots_has_them_soon() {
    let schema = crate::fresh_schema();
    let mut bench = worker_that_only_scans(&schema).await;
    let elsewhere = crate::open(&schema);
    bench.put(Act::IgnoreEverything).await;
    bench.started().await;
    let next = bench.put(Act::Succeed).await;
    let roomy = QueueSpec { concurrency: 2, ..QueueSpec::new(default_queue()) };
    elsewhere
        .declare(Declaration { queues: vec![roomy], types: Vec::new() })
        .await
        .expect("the queue is declared");
    assert_eq!(bench.started().await, (next, 1));
}
