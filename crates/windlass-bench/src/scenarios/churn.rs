//! The rate, the pickup times and the disk use of enqueue and drain at once, for some time. Producers keep a
//! bounded number of unfinished jobs, so that the rate is sustainable and pickup does not measure the length
//! of a growing queue.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinSet;
use windlass::{Client, Handlers, Worker};

use crate::env::{Env, nanos_since, since};
use crate::figures::{Figures, per_second};
use crate::handled::Handled;
use crate::pickup::Pickups;
use crate::session;
use crate::store::Location;
use crate::workload::{self, Work};

const PRODUCERS: usize = 2;
/// Jobs of a request.
const BATCH: u64 = 100;
/// The limit of unfinished jobs.
const UNFINISHED_MAX: u64 = 1_000;
/// How often a producer that has reached the limit checks it again.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

pub(crate) async fn run(env: &Env<'_>) -> Result<Figures> {
    let client = env.client().await?;
    let duration = Duration::from_secs(env.options.seconds);
    let wal_before = wal_position(env).await?;
    let (handled, pickups) = (Handled::with_milestones(&[]), Arc::new(Mutex::new(Pickups::new()?)));
    let mut worker = timing_worker(env, &handled, &pickups).await?;
    let (in_time, enqueued) = handled.while_handling(produce(env, &client, &handled, duration)).await??;
    handled.while_handling(worker.drain()).await?;
    env.check_succeeded(enqueued).await?;
    let figures = Figures::default()
        .with("jobs_per_second", per_second(in_time, duration))
        .and(pickups.lock().unwrap_or_else(PoisonError::into_inner).figures());
    Ok(figures.and(disk_use(env, wal_before, enqueued).await?))
}

async fn timing_worker(
    env: &Env<'_>,
    handled: &Arc<Handled>,
    pickups: &Arc<Mutex<Pickups>>,
) -> Result<Worker> {
    let (handled, pickups, epoch) = (Arc::clone(handled), Arc::clone(pickups), env.epoch);
    let handlers = Handlers::new(()).handle(move |job: Work| {
        let pickup = since(epoch, job.at);
        let (handled, pickups) = (Arc::clone(&handled), Arc::clone(&pickups));
        async move {
            pickups.lock().unwrap_or_else(PoisonError::into_inner).add(pickup);
            handled.add_one();
        }
    });
    env.worker(handlers).await
}

/// Enqueues jobs for this long. Returns how many had been handled by then, and how many were enqueued.
async fn produce(
    env: &Env<'_>,
    client: &Client,
    handled: &Arc<Handled>,
    duration: Duration,
) -> Result<(u64, u64)> {
    let (enqueued, until) = (Arc::new(AtomicU64::new(0)), Instant::now() + duration);
    let mut producers = JoinSet::new();
    for _ in 0..PRODUCERS {
        let (client, handled) = (client.clone(), Arc::clone(handled));
        let producer = Producer { client, handled, enqueued: Arc::clone(&enqueued), epoch: env.epoch };
        producers.spawn(producer.produce(until));
    }
    tokio::time::sleep_until(until.into()).await;
    let in_time = handled.count();
    workload::join(producers).await?;
    Ok((in_time, enqueued.load(Ordering::SeqCst)))
}

struct Producer {
    client: Client,
    handled: Arc<Handled>,
    enqueued: Arc<AtomicU64>,
    epoch: Instant,
}

impl Producer {
    async fn produce(self, until: Instant) -> Result<()> {
        while Instant::now() < until {
            let unfinished = self.enqueued.load(Ordering::SeqCst).saturating_sub(self.handled.count());
            if unfinished + BATCH > UNFINISHED_MAX {
                // may sleep: a signal for each job that ends would cost the measurement something.
                tokio::time::sleep(CHECK_INTERVAL).await;
                continue;
            }
            self.enqueue().await?;
        }
        Ok(())
    }

    async fn enqueue(&self) -> Result<()> {
        let at = nanos_since(self.epoch);
        self.enqueued.fetch_add(BATCH, Ordering::SeqCst);
        for answer in self.client.enqueue_many((0..BATCH).map(|_| Work::enqueued_at(at))).await? {
            answer?;
        }
        Ok(())
    }
}

/// How far the server's write-ahead log has come, on PostgreSQL.
async fn wal_position(env: &Env<'_>) -> Result<Option<i64>> {
    match &env.store.location {
        Location::Schema { url, .. } => Ok(Some(session::wal_position(&session::connect(url).await?).await?)),
        _ => Ok(None),
    }
}

/// What is on the disk at the end, and on PostgreSQL what was written to the log.
async fn disk_use(env: &Env<'_>, wal_before: Option<i64>, jobs: u64) -> Result<Figures> {
    let bytes = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
    match &env.store.location {
        Location::Memory | Location::Namespace { .. } => Ok(Figures::default()),
        Location::File(path) => {
            let wal = format!("{}-wal", path.display());
            Ok(Figures::default().with("file_bytes", (bytes(path) + bytes(Path::new(&wal))) as f64))
        }
        Location::Schema { url, schema } => {
            let client = session::connect(url).await?;
            let [table, indexes, all] = session::sizes(&client, schema).await?;
            let written = session::wal_position(&client).await? - wal_before.unwrap_or(0);
            Ok(Figures::default()
                .with("wal_bytes_per_job", written as f64 / jobs as f64)
                .with("table_bytes", table as f64)
                .with("index_bytes", indexes as f64)
                .with("schema_bytes", all as f64))
        }
    }
}
