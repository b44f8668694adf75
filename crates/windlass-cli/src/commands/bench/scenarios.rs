//! The scenarios: one process, one queue, one job type whose handler does no work.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, timeout};
use windlass::{Client, Handlers, JobType, QueueSpec, Worker, WorkerOptions, spec_of};
use windlass_core::engine::{Declaration, Engine};
use windlass_core::limits::{ENQUEUE_BATCH_MAX, MAINTENANCE_BATCH_MAX};
use windlass_core::names::QueueName;

use super::{BenchArgs, Figures, failed};
use crate::exit::Failure;

/// Callers of single enqueues at once.
const CALLERS: u64 = 16;
/// Bulk requests at once.
const BULK_CALLERS: u64 = 2;
/// Jobs of a bulk request.
const BATCH: u64 = ENQUEUE_BATCH_MAX as u64;
/// The size of a payload as JSON.
pub(super) const PAYLOAD_BYTES: usize = 100;
/// Between two jobs of `latency`.
const ENQUEUE_INTERVAL: Duration = Duration::from_millis(20);
/// A job that starts later is lost.
const LOST_AFTER: Duration = Duration::from_secs(60);

/// Measures single enqueues, then bulk enqueues.
pub(super) async fn enqueue(engine: Arc<dyn Engine>, args: &BenchArgs) -> Result<Figures, Failure> {
    let client = client(engine, args).await?;
    let singles = args.jobs / 2;
    let single = enqueue_single(&client, singles).await?;
    let bulk = enqueue_bulk(&client, args.jobs).await?;
    Ok(vec![
        ("single_per_second", per_second(singles, single)),
        ("bulk_per_second", per_second(args.jobs, bulk)),
    ])
}

/// Enqueues all jobs, then measures a worker: until the last handler has ended, and until its end is stored.
pub(super) async fn drain(engine: Arc<dyn Engine>, args: &BenchArgs) -> Result<Figures, Failure> {
    enqueue_bulk(&client(Arc::clone(&engine), args).await?, args.jobs).await?;
    // The first maintenance of a new schema creates partitions. That is no part of a drain.
    engine.prune(MAINTENANCE_BATCH_MAX).await?;
    let last_end = Arc::new(AtomicU64::new(0));
    let (started, last) = (Instant::now(), Arc::clone(&last_end));
    let handlers = Handlers::new(()).handle(move |_: Work| {
        let last = Arc::clone(&last);
        async move {
            last.fetch_max(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
        }
    });
    worker(Arc::clone(&engine), handlers, args).await?.drain().await;
    let stored = started.elapsed();
    check_succeeded(&*engine, args.jobs).await?;
    let handled = Duration::from_nanos(last_end.load(Ordering::Relaxed));
    Ok(vec![
        ("jobs_per_second", per_second(args.jobs, handled)),
        ("stored_per_second", per_second(args.jobs, stored)),
    ])
}

/// Measures the time from the enqueue call to the start of the handler on an idle worker.
pub(super) async fn latency(engine: Arc<dyn Engine>, args: &BenchArgs) -> Result<Figures, Failure> {
    let (sender, mut receiver) = mpsc::channel(16);
    let handlers = Handlers::new(()).handle(move |_: Work| {
        let (started, sender) = (Instant::now(), sender.clone());
        async move { sender.send(started).await.unwrap_or_default() }
    });
    let mut worker = worker(engine, handlers, args).await?;
    let mut ticks = tokio::time::interval(ENQUEUE_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut pickups = Vec::new();
    for _ in 0..(args.jobs / 200).clamp(20, 500) {
        ticks.tick().await;
        let enqueued = Instant::now();
        worker.client().enqueue(Work::new()).await.map_err(failed)?;
        let started = timeout(LOST_AFTER, receiver.recv()).await.ok().flatten();
        let started = started.ok_or_else(|| failed(format!("a job did not start within {LOST_AFTER:?}")))?;
        pickups.push(started.duration_since(enqueued));
    }
    worker.stop().await;
    pickups.sort();
    let millis = |percent| percentile(&pickups, percent).as_secs_f64() * 1000.0;
    Ok(vec![("pickup_p50_ms", millis(50)), ("pickup_p99_ms", millis(99))])
}

/// The smallest value that at least this part of the sorted values does not exceed.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

/// The only job type.
#[derive(Serialize, Deserialize)]
struct Work {
    text: String,
}

impl JobType for Work {
    const NAME: &'static str = "bench.work";
    const QUEUE: &'static str = "bench";
}

impl Work {
    /// Filled up to [`PAYLOAD_BYTES`].
    fn new() -> Self {
        Self { text: "x".repeat(PAYLOAD_BYTES - r#"{"text":""}"#.len()) }
    }
}

fn queue(args: &BenchArgs) -> QueueSpec {
    let name = QueueName::parse(Work::QUEUE).expect("a plain name");
    QueueSpec { concurrency: args.concurrency, ..QueueSpec::new(name) }
}

/// A client. The store knows queue and type afterwards.
async fn client(engine: Arc<dyn Engine>, args: &BenchArgs) -> Result<Client, Failure> {
    let types = vec![spec_of::<Work>().map_err(failed)?];
    engine.declare(Declaration { queues: vec![queue(args)], types }).await?;
    Ok(Client::new(engine))
}

async fn worker(
    engine: Arc<dyn Engine>,
    handlers: Handlers<()>,
    args: &BenchArgs,
) -> Result<Worker, Failure> {
    let options = WorkerOptions { queues: vec![queue(args)], ..WorkerOptions::default() };
    Worker::start(engine, handlers, options).await.map_err(failed)
}

/// Each caller waits for the answer before its next request.
async fn enqueue_single(client: &Client, jobs: u64) -> Result<Duration, Failure> {
    at_once(CALLERS, |caller| {
        let client = client.clone();
        let own = jobs / CALLERS + u64::from(caller < jobs % CALLERS);
        async move {
            for _ in 0..own {
                client.enqueue(Work::new()).await.map_err(failed)?;
            }
            Ok(())
        }
    })
    .await
}

async fn enqueue_bulk(client: &Client, jobs: u64) -> Result<Duration, Failure> {
    let next = Arc::new(AtomicU64::new(0));
    at_once(BULK_CALLERS, |_| {
        let (client, next) = (client.clone(), Arc::clone(&next));
        async move {
            loop {
                let first = next.fetch_add(BATCH, Ordering::Relaxed);
                if first >= jobs {
                    return Ok(());
                }
                let batch = (first..jobs.min(first + BATCH)).map(|_| Work::new());
                for answer in client.enqueue_many(batch).await.map_err(failed)? {
                    answer.map_err(failed)?;
                }
            }
        }
    })
    .await
}

/// Runs callers at once. Returns how long all took.
async fn at_once<F>(callers: u64, call: impl Fn(u64) -> F) -> Result<Duration, Failure>
where
    F: Future<Output = Result<(), Failure>> + Send + 'static,
{
    let started = Instant::now();
    let mut tasks: JoinSet<_> = (0..callers).map(call).collect();
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(failed)??;
    }
    Ok(started.elapsed())
}

/// Compares the store's own count. A rate of work that was not done would be worth nothing.
async fn check_succeeded(engine: &dyn Engine, expected: u64) -> Result<(), Failure> {
    let succeeded: u64 = engine.queues().await?.iter().map(|queue| queue.totals.succeeded).sum();
    if succeeded == expected {
        return Ok(());
    }
    Err(failed(format!("expected {expected} jobs done, got {succeeded}")))
}

fn per_second(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_has_the_size_that_is_reported() {
        assert_eq!(serde_json::to_string(&Work::new()).unwrap().len(), PAYLOAD_BYTES);
    }

    #[test]
    fn a_percentile_is_a_value_that_was_measured() {
        let millis: Vec<_> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(percentile(&millis, 50), Duration::from_millis(100));
        assert_eq!(percentile(&millis, 99), Duration::from_millis(198));
        assert_eq!(percentile(&millis[..1], 99), Duration::from_millis(1));
        assert_eq!(percentile(&[], 50), Duration::ZERO);
    }
}
