//! The jobs and requests of another process reach a running worker at once.

use std::sync::Arc;
use std::time::Duration;

use windlass::redis::{Periods, RedisEngine, RedisOptions};
use windlass::types::admin::CancelAnswer;
use windlass::types::job::JobState;
use windlass::{Client, QueueSpec, WorkerOptions};

use crate::bench::{Act, Bench, PATIENCE};

const HOUR: Duration = Duration::from_secs(60 * 60);
/// The number of enqueues. What wakes the worker for the first must also wake it for the next ones.
const ENQUEUES: usize = 10;

/// A worker that does not poll within an hour, on an engine that does not scan either: what it learns
/// sooner, a notification has reported.
async fn worker_without_polls(namespace: &str) -> Bench {
    let periods = Periods { scan_every: HOUR, ..Periods::default() };
    let place = RedisOptions { namespace: namespace.to_owned(), periods, ..RedisOptions::default() };
    let engine = RedisEngine::connect(&crate::url(), place).await.expect("the server is up");
    let queues = QueueSpec::built_in().into_iter().map(|queue| QueueSpec { poll_interval: HOUR, ..queue });
    let options = WorkerOptions {
        queues: queues.collect(),
        heartbeat_every: HOUR / 2,
        lease: HOUR,
        sweep_every: HOUR,
        maintenance: false,
        ..WorkerOptions::default()
    };
    let bench = Bench::on(Arc::new(engine), options).await;
    until_listening(namespace).await;
    bench
}

/// Waits until the engine of the worker has subscribed: notifications before that are lost.
async fn until_listening(namespace: &str) {
    let mut connection = redis::Client::open(crate::url())
        .and_then(|client| client.get_connection())
        .expect("the server is up");
    let look = async {
        loop {
            let mut channels = redis::cmd("PUBSUB");
            channels.arg("CHANNELS").arg(format!("{{{namespace}}}:wake:*"));
            if !channels.query::<Vec<String>>(&mut connection).expect("the server is up").is_empty() {
                break;
            }
            // may sleep: no notification reports a subscription.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.expect("the engine listens");
}

#[tokio::test]
async fn what_another_process_puts_in_is_picked_up_without_a_poll() {
    let namespace = crate::fresh_namespace();
    let mut bench = worker_without_polls(&namespace).await;
    let elsewhere = Client::new(crate::open(&namespace));
    for _ in 0..ENQUEUES {
        let enqueued = elsewhere.enqueue(Act::Succeed).await.expect("the job is accepted");
        bench.started().await;
        bench.until(enqueued.id, JobState::Succeeded).await;
    }
}

#[tokio::test]
async fn a_cancel_from_another_process_reaches_the_handler_long_before_the_next_heartbeat() {
    let namespace = crate::fresh_namespace();
    let mut bench = worker_without_polls(&namespace).await;
    let elsewhere = crate::open(&namespace);
    for _ in 0..3 {
        let id = bench.put(Act::WaitForCancel).await;
        bench.started().await;
        assert_eq!(elsewhere.cancel(id, "not needed").await.unwrap(), CancelAnswer::Requested);
        bench.until(id, JobState::Cancelled).await;
    }
}
