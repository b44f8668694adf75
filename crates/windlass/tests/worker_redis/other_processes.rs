//! The jobs and requests of another process reach a running worker at once.

use std::time::{Duration, Instant};

use windlass::types::admin::CancelAnswer;
use windlass::types::job::Phase;
use windlass::{Client, QueueSpec, WorkerOptions};

use crate::bench::{Act, Bench};

const HOUR: Duration = Duration::from_secs(60 * 60);
/// How long an idle worker may take from an enqueue elsewhere to the start of the handler.
const PICKED_UP_WITHIN: Duration = Duration::from_millis(10);
/// The maximum number of measured enqueues. The quickest counts, since a busy machine delays some: the
/// promise is about the path of the notification.
const ENQUEUES_MAX: usize = 50;

/// A worker that does not poll within an hour: what it learns sooner, a notification has reported.
async fn worker_without_polls(namespace: &str) -> Bench {
    let queues = QueueSpec::built_in().into_iter().map(|queue| QueueSpec { poll_interval: HOUR, ..queue });
    let options = WorkerOptions {
        queues: queues.collect(),
        heartbeat_every: HOUR / 2,
        lease: HOUR,
        sweep_every: HOUR,
        maintenance: false,
        ..WorkerOptions::default()
    };
    Bench::on(crate::open(namespace), options).await
}

#[tokio::test]
async fn what_another_process_puts_in_is_picked_up_within_10_ms() {
    let namespace = crate::fresh_namespace();
    let mut bench = worker_without_polls(&namespace).await;
    let elsewhere = Client::new(crate::open(&namespace));
    let mut took = Vec::new();
    while took.len() < 3 || took.iter().all(|took| *took >= PICKED_UP_WITHIN) {
        assert!(took.len() < ENQUEUES_MAX, "expected a pickup below {PICKED_UP_WITHIN:?}, got {took:?}");
        let start = Instant::now();
        let enqueued = elsewhere.enqueue(Act::Succeed).await.expect("the job is accepted");
        bench.started().await;
        took.push(start.elapsed());
        bench.until(enqueued.id, Phase::Succeeded).await;
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
        bench.until(id, Phase::Cancelled).await;
    }
}
