//! How a worker stops, drains and is dropped.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::sync::mpsc::error::TryRecvError;
use windlass::types::admin::AttemptEnding;
use windlass::types::engine::Engine;
use windlass::types::job::JobState;
use windlass::{EnqueueError, Handlers, JobId, JobType, State, Stopped, Worker, WorkerOptions};

use crate::bench::{Act, Bench};

#[tokio::test]
async fn stop_lets_running_handlers_finish() {
    let mut bench = Bench::start().await;
    let id = bench.put(Act::Sleep { millis: 30 }).await;
    bench.started().await;
    assert_eq!(bench.worker.stop().await, Stopped::Clean);
    bench.until(id, JobState::Succeeded).await;
}

#[tokio::test]
async fn what_does_not_finish_within_the_grace_is_given_back_and_costs_an_attempt_only() {
    let options = WorkerOptions { stop_grace: Duration::from_millis(10), ..WorkerOptions::default() };
    let mut bench = Bench::with(options).await;
    let id = bench.put(Act::IgnoreEverything).await;
    bench.started().await;
    assert_eq!(bench.worker.stop().await, Stopped::Clean);
    assert_given_back_after_a_start(&bench, id).await;
}

/// Asserts that the job costs the begun attempt, and nothing else.
async fn assert_given_back_after_a_start(bench: &Bench, id: JobId) {
    let counters = bench.until(id, JobState::Ready).await.job.counters;
    assert_eq!((counters.attempts, counters.failures, counters.crashes), (1, 0, 0));
    let attempts = bench.engine.attempts(id).await.expect("the engine is up");
    let endings: Vec<_> = attempts.iter().map(|attempt| attempt.ending).collect();
    assert_eq!(endings, [AttemptEnding::Released]);
}

#[tokio::test]
async fn a_second_request_stops_at_once() {
    // The first request alone would let the handler run for an hour.
    let stop_grace = Duration::from_secs(60 * 60);
    let mut bench = Bench::with(WorkerOptions { stop_grace, ..WorkerOptions::default() }).await;
    let id = bench.put(Act::IgnoreEverything).await;
    bench.started().await;
    bench.worker.stopper().stop();
    bench.worker.stopper().stop_now();
    assert_eq!(bench.worker.ended(Some(crate::bench::PATIENCE)).await, Stopped::Clean);
    assert_given_back_after_a_start(&bench, id).await;
}

#[tokio::test]
async fn a_stopped_worker_is_no_longer_known_to_the_store() {
    let mut bench = Bench::start().await;
    assert_eq!(bench.engine.workers().await.unwrap().len(), 1);
    bench.worker.stop().await;
    assert!(bench.engine.workers().await.unwrap().is_empty());
}

#[tokio::test]
async fn drain_finishes_what_is_due_takes_nothing_new_and_leaves_the_future() {
    let mut bench = Bench::start().await;
    let due: Vec<_> = {
        let mut due = vec![];
        for _ in 0..50 {
            due.push(bench.put(Act::Sleep { millis: 1 }).await);
        }
        due
    };
    let future = bench.client.enqueue(Act::Succeed).delay(Duration::from_secs(3600)).await.unwrap().id;
    assert_eq!(bench.worker.drain().await, Stopped::Clean);
    for id in due {
        bench.until(id, JobState::Succeeded).await;
    }
    bench.until(future, JobState::Scheduled).await;
    assert!(matches!(bench.client.enqueue(Act::Succeed).await, Err(EnqueueError::Draining)));
}

#[tokio::test]
async fn a_running_handler_may_still_enqueue_while_the_process_drains() {
    let mut bench = Bench::start().await;
    bench.put(Act::FollowUp).await;
    assert_eq!(bench.worker.drain().await, Stopped::Clean);
    let totals = bench.engine.queues().await.unwrap().iter().map(|queue| queue.totals.succeeded).sum::<u64>();
    assert_eq!(totals, 2);
}

#[tokio::test]
async fn another_worker_goes_on_where_one_stopped() {
    let mut first =
        Bench::with(WorkerOptions { stop_grace: Duration::ZERO, ..WorkerOptions::default() }).await;
    let id = first.put(Act::FailTimes(0)).await;
    let stuck = first.put(Act::Sleep { millis: 20 }).await;
    first.worker.stop().await;
    let second = Bench::on(Arc::clone(&first.engine), WorkerOptions::default()).await;
    second.until(id, JobState::Succeeded).await;
    second.until(stuck, JobState::Succeeded).await;
}

#[tokio::test]
async fn a_stop_after_an_abandoned_drain_still_waits_for_the_handlers() {
    let options = WorkerOptions { stop_grace: Duration::from_millis(10), ..WorkerOptions::default() };
    let mut bench = Bench::with(options).await;
    let id = bench.put(Act::IgnoreEverything).await;
    bench.started().await;
    let gave_up = tokio::time::timeout(Duration::from_millis(1), bench.worker.drain()).await;
    assert!(gave_up.is_err(), "the handler does not end by itself");
    assert_eq!(bench.worker.stop().await, Stopped::Clean);
    let record = bench.client.job(id).await.unwrap().unwrap();
    assert_eq!(
        (record.job_state(), record.job.counters.crashes),
        (JobState::Ready, 0),
        "the job was given back"
    );
}

#[tokio::test]
async fn a_dropped_worker_gives_its_jobs_back_and_leaves_the_store_after_its_last_handler() {
    let mut bench = Bench::start().await;
    let id = bench.put(Act::IgnoreEverything).await;
    bench.started().await;
    let Bench { engine, worker, client, mut reports } = bench;
    drop(worker);
    no_workers_left(&engine).await;
    assert_eq!(reports.try_recv(), Err(TryRecvError::Disconnected), "no handler is left that could report");
    let record = client.job(id).await.unwrap().unwrap();
    assert_eq!(
        (record.job_state(), record.job.counters.crashes),
        (JobState::Ready, 0),
        "no handler was cut off"
    );
}

async fn no_workers_left(engine: &Arc<dyn Engine>) {
    let gone = async {
        while !engine.workers().await.expect("the engine answers").is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::bench::PATIENCE, gone).await.expect("the worker leaves the store");
}

/// A job that blocks its thread until the test releases it.
#[derive(Serialize, Deserialize)]
struct Block;

impl JobType for Block {
    const NAME: &'static str = "block";
}

#[derive(Clone)]
struct Gate {
    started: Arc<Notify>,
    go: Arc<Barrier>,
}

async fn block(_: Block, State(gate): State<Gate>) {
    gate.started.notify_one();
    gate.go.wait();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_worker_keeps_the_job_of_a_handler_that_blocks_until_it_ends() {
    let gate = Gate { started: Arc::default(), go: Arc::new(Barrier::new(2)) };
    let engine: Arc<dyn Engine> = crate::fresh_engine();
    let handlers = Handlers::new(gate.clone()).handle(block);
    let worker = Worker::start(Arc::clone(&engine), handlers, WorkerOptions::default()).await.unwrap();
    let client = worker.client().clone();
    let id = client.enqueue(Block).await.unwrap().id;
    gate.started.notified().await;
    drop(worker);
    gate.go.wait();
    no_workers_left(&engine).await;
    let job_state = client.job(id).await.unwrap().unwrap().job_state();
    assert_eq!(job_state, JobState::Succeeded, "no other worker got the job in between");
}
