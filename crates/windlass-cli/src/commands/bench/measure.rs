//! The figures of Windlass itself, through its public interface: a client, a worker, an empty handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use windlass::{Client, Handlers, JobType, QueueSpec, State, TypeSpec, Worker, WorkerOptions};
use windlass_core::engine::Engine;
use windlass_core::names::QueueName;

use super::figures::Figures;
use super::progress::Progress;
use crate::exit::{Code, Failure};

/// Callers of single enqueues at once.
pub(super) const CALLERS: u64 = 16;
/// Slots of the worker.
pub(super) const CONCURRENCY: u32 = 50;
/// The size of a payload as JSON.
pub(super) const PAYLOAD_BYTES: usize = 100;
/// How many pickups are timed.
const PICKUPS: u64 = 250;
/// One job every so often.
const PICKUP_EVERY: Duration = Duration::from_millis(20);
/// Pickups are told apart up to a minute.
const PICKUP_MICROS_MAX: u64 = 60_000_000;
/// Single enqueues are measured with at most so many jobs.
const SINGLES_MAX: u64 = 50_000;

type Open<'a> = dyn Fn(&str) -> Result<Arc<dyn Engine>, Failure> + 'a;

#[derive(Serialize, Deserialize)]
struct Kept {
    text: String,
}

impl JobType for Kept {
    const NAME: &'static str = "bench.kept";
    const QUEUE: &'static str = "bench";
}

#[derive(Serialize, Deserialize)]
struct Forgotten {
    text: String,
}

impl JobType for Forgotten {
    const NAME: &'static str = "bench.forgotten";
    const QUEUE: &'static str = "bench";
    fn defaults(spec: TypeSpec) -> TypeSpec {
        TypeSpec { retention_days: 0, ..spec }
    }
}

#[derive(Serialize, Deserialize)]
struct Timed {
    put_in_nanos: u64,
}

impl JobType for Timed {
    const NAME: &'static str = "bench.timed";
    const QUEUE: &'static str = "bench";
}

/// Text that makes a payload of the right size: `{"text":"…"}`.
fn filler() -> String {
    "x".repeat(PAYLOAD_BYTES - r#"{"text":""}"#.len())
}

/// Measures everything, each on a fresh engine.
pub(super) async fn measure(open: &Open<'_>, jobs: u64, progress: &Progress) -> Result<Figures, Failure> {
    let singles = jobs.min(SINGLES_MAX);
    let pickup = pickup(open("pickup")?, progress).await?;
    let enqueue_one_per_s = enqueue_one(open("single")?, singles, progress).await?;
    let kept = || Kept { text: filler() };
    let (enqueue_bulk_per_s, drain_per_s) = bulk_and_drain(open("kept")?, kept, jobs, progress).await?;
    let rss_mb = peak_rss_mb();
    let forgotten = || Forgotten { text: filler() };
    let (_, drain_without_history_per_s) =
        bulk_and_drain(open("forgotten")?, forgotten, jobs, progress).await?;
    Ok(Figures {
        enqueue_one_per_s: Some(enqueue_one_per_s),
        enqueue_bulk_per_s: Some(enqueue_bulk_per_s),
        drain_per_s: Some(drain_per_s),
        drain_without_history_per_s: Some(drain_without_history_per_s),
        pickup_p50_ms: Some(pickup.value_at_quantile(0.5) as f64 / 1000.0),
        pickup_p99_ms: Some(pickup.value_at_quantile(0.99) as f64 / 1000.0),
        rss_mb,
    })
}

/// Callers who each wait for their own answer before the next.
async fn enqueue_one(engine: Arc<dyn Engine>, jobs: u64, progress: &Progress) -> Result<f64, Failure> {
    progress.part("enqueue, one by one", jobs);
    let client = prepared_client::<Kept>(engine).await?;
    let (each, done) = (jobs / CALLERS, Arc::new(AtomicU64::new(0)));
    let started = Instant::now();
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (client, done) = (client.clone(), Arc::clone(&done));
            tokio::spawn(async move {
                for _ in 0..each {
                    client.enqueue(Kept { text: filler() }).await?;
                    done.fetch_add(1, Ordering::Relaxed);
                }
                Ok::<_, windlass::EnqueueError>(())
            })
        })
        .collect();
    for caller in callers {
        caller.await.map_err(failed)?.map_err(failed)?;
        progress.at(done.load(Ordering::Relaxed));
    }
    Ok(per_second(each * CALLERS, started.elapsed()))
}

/// Puts all jobs in, then starts a worker and waits until the last one is settled.
async fn bulk_and_drain<T>(
    engine: Arc<dyn Engine>,
    job: impl Fn() -> T,
    jobs: u64,
    progress: &Progress,
) -> Result<(f64, f64), Failure>
where
    T: JobType,
{
    progress.part("enqueue in bulk", jobs);
    let client = prepared_client::<T>(Arc::clone(&engine)).await?;
    let started = Instant::now();
    let mut put_in = 0;
    while put_in < jobs {
        let batch = (jobs - put_in).min(1_000);
        client.enqueue_many((0..batch).map(|_| job())).await.map_err(failed)?;
        put_in += batch;
        progress.at(put_in);
    }
    let bulk = per_second(jobs, started.elapsed());
    progress.part("drain", jobs);
    let handlers = Handlers::new(()).handle(|_: T| async {});
    let started = Instant::now();
    let mut worker = Worker::start(engine, handlers, options()).await.map_err(failed)?;
    worker.drain().await;
    let drain = per_second(jobs, started.elapsed());
    check_all_done(&client, jobs).await?;
    Ok((bulk, drain))
}

/// An idle worker, one job every 20 ms: from the call to the start of the handler, in microseconds.
async fn pickup(engine: Arc<dyn Engine>, progress: &Progress) -> Result<Histogram<u64>, Failure> {
    progress.part("pickup of an idle worker", PICKUPS);
    let epoch = Instant::now();
    let (tell, mut told) = mpsc::channel(16);
    let handlers = Handlers::new((epoch, tell)).handle(
        |job: Timed, State((epoch, tell)): State<(Instant, mpsc::Sender<Duration>)>| async move {
            let taken = epoch.elapsed().saturating_sub(Duration::from_nanos(job.put_in_nanos));
            let _ = tell.send(taken).await;
        },
    );
    let mut worker = Worker::start(engine, handlers, options()).await.map_err(failed)?;
    let mut histogram = Histogram::new_with_max(PICKUP_MICROS_MAX, 3).map_err(failed)?;
    for step in 0..PICKUPS {
        tokio::time::sleep(PICKUP_EVERY).await;
        let put_in_nanos = u64::try_from(epoch.elapsed().as_nanos()).unwrap_or(u64::MAX);
        worker.client().enqueue(Timed { put_in_nanos }).await.map_err(failed)?;
        let taken = told.recv().await.ok_or_else(|| failed("the handler is gone"))?;
        histogram.saturating_record(u64::try_from(taken.as_micros()).unwrap_or(u64::MAX));
        progress.at(step);
    }
    worker.stop().await;
    Ok(histogram)
}

fn options() -> WorkerOptions {
    WorkerOptions { queues: vec![queue()], ..WorkerOptions::default() }
}

fn queue() -> QueueSpec {
    let name = QueueName::parse("bench").expect("a plain name");
    QueueSpec { concurrency: CONCURRENCY, ..QueueSpec::new(name) }
}

async fn prepared_client<T: JobType>(engine: Arc<dyn Engine>) -> Result<Client, Failure> {
    let client = Client::new(engine);
    client.declare(vec![queue()]).await?;
    client.register::<T>().await.map_err(failed)?;
    Ok(client)
}

/// A figure for work that was not done would be worth nothing.
async fn check_all_done(client: &Client, jobs: u64) -> Result<(), Failure> {
    let succeeded: u64 = client.snapshot().await?.iter().map(|queue| queue.totals.succeeded).sum();
    if succeeded == jobs {
        return Ok(());
    }
    Err(failed(format!("expected {jobs} jobs done, got {succeeded}")))
}

fn per_second(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64()
}

/// The most memory this process had so far, where the system tells.
fn peak_rss_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes / 1024.0)
}

fn failed(why: impl std::fmt::Display) -> Failure {
    Failure::new(Code::Failed, format!("the measurement failed: {why}"))
}
