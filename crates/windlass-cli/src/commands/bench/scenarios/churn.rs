//! Enqueue and drain at once, for a while. Producers keep a bounded number of jobs under way, so that what is measured is
//! what can be kept up, and pickup is not the length of a queue that grows.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use windlass::{Client, Handlers, Worker};

use super::super::env::{Env, since};
use super::super::figures::{Figures, per_second};
use super::super::fixture::At;
use super::super::load::Work;
use super::super::pickup::Pickups;
use super::super::tally::Tally;
use super::super::{failed, session};
use crate::exit::Failure;

const PRODUCERS: usize = 2;
/// Jobs of one request.
const BATCH: u64 = 100;
/// Jobs under way at the most.
const WINDOW: u64 = 1_000;
/// A producer that has filled the window looks this often whether there is room.
const LOOK_EVERY: Duration = Duration::from_millis(1);

pub(super) async fn run(env: &Env<'_>) -> Result<Figures, Failure> {
    let client = env.client().await?;
    let lasting = Duration::from_secs(env.args.seconds);
    let wal_before = wal(env).await?;
    env.progress.part("enqueue and drain", env.args.seconds * 10_000);
    let (tally, pickups) = (Tally::with_marks(&[]), Arc::new(Mutex::new(Pickups::new()?)));
    let mut worker = timing_worker(env, &tally, &pickups).await?;
    let (ended, put_in) = tally.while_moving(produce(env, &client, &tally, lasting), env.progress).await??;
    tally.while_moving(worker.drain(), env.progress).await?;
    env.check_succeeded(put_in).await?;
    let figures = Figures::default()
        .with("jobs_per_second", per_second(ended, lasting))
        .and(pickups.lock().unwrap_or_else(PoisonError::into_inner).figures());
    Ok(figures.and(sizes(env, wal_before, put_in).await?))
}

async fn timing_worker(
    env: &Env<'_>,
    tally: &Arc<Tally>,
    pickups: &Arc<Mutex<Pickups>>,
) -> Result<Worker, Failure> {
    let (tally, pickups, epoch) = (Arc::clone(tally), Arc::clone(pickups), env.epoch);
    let handlers = Handlers::new(()).handle(move |job: Work| {
        let taken = since(epoch, job.at);
        let (tally, pickups) = (Arc::clone(&tally), Arc::clone(&pickups));
        async move {
            pickups.lock().unwrap_or_else(PoisonError::into_inner).add(taken);
            tally.one();
        }
    });
    env.worker(handlers).await
}

/// Puts jobs in until the time is up. Gives how many had ended by then, and how many were put in.
async fn produce(
    env: &Env<'_>,
    client: &Client,
    tally: &Arc<Tally>,
    lasting: Duration,
) -> Result<(u64, u64), Failure> {
    let (put_in, until) = (Arc::new(AtomicU64::new(0)), Instant::now() + lasting);
    let mut producers = JoinSet::new();
    for _ in 0..PRODUCERS {
        let (client, tally) = (client.clone(), Arc::clone(tally));
        let producer = Producer { client, tally, put_in: Arc::clone(&put_in), epoch: env.epoch };
        producers.spawn(producer.produce(until));
    }
    tokio::time::sleep_until(until.into()).await;
    let ended = tally.ended();
    while let Some(producer) = producers.join_next().await {
        producer.map_err(failed)??;
    }
    Ok((ended, put_in.load(Ordering::SeqCst)))
}

struct Producer {
    client: Client,
    tally: Arc<Tally>,
    put_in: Arc<AtomicU64>,
    epoch: Instant,
}

impl Producer {
    async fn produce(self, until: Instant) -> Result<(), Failure> {
        while Instant::now() < until {
            let under_way = self.put_in.load(Ordering::SeqCst).saturating_sub(self.tally.ended());
            if under_way + BATCH > WINDOW {
                // may sleep: a signal for each job that ends would cost the measurement something.
                tokio::time::sleep(LOOK_EVERY).await;
                continue;
            }
            self.put().await?;
        }
        Ok(())
    }

    async fn put(&self) -> Result<(), Failure> {
        let at = u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.put_in.fetch_add(BATCH, Ordering::SeqCst);
        let answers = self.client.enqueue_many((0..BATCH).map(|_| Work::put_in(at))).await.map_err(failed)?;
        answers.into_iter().collect::<Result<Vec<_>, _>>().map_err(failed)?;
        Ok(())
    }
}

/// How far the server's log of writes has come, if there is a server.
async fn wal(env: &Env<'_>) -> Result<Option<i64>, Failure> {
    match &env.place.at {
        At::Schema(url, _) => Ok(Some(session::wal_position(&session::connect(url).await?).await?)),
        _ => Ok(None),
    }
}

/// What all that left behind on the disk.
async fn sizes(env: &Env<'_>, wal_before: Option<i64>, jobs: u64) -> Result<Figures, Failure> {
    let bytes = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
    match &env.place.at {
        At::Memory | At::Namespace(..) => Ok(Figures::default()),
        At::File(path) => {
            let wal = format!("{}-wal", path.display());
            Ok(Figures::default().with("file_bytes", (bytes(path) + bytes(Path::new(&wal))) as f64))
        }
        At::Schema(url, schema) => {
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
