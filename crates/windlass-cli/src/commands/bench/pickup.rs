//! How long an idle worker takes to notice a job: from the call that puts it in to the start of its handler.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior};
use windlass::{Handlers, State};

use super::env::{Env, since};
use super::figures::Figures;
use super::load::Work;
use super::{BenchArgs, failed};
use crate::exit::Failure;

/// One job every so often.
const EVERY: Duration = Duration::from_millis(20);
/// Jobs at full size: ten seconds' worth.
const COUNT_MAX: u64 = 500;
/// With fewer there is no 99th in a hundred to speak of.
const COUNT_MIN: u64 = 20;
/// Times are told apart up to a minute.
const MICROS_MAX: u64 = 60_000_000;
/// A job that is not picked up within this time never will be.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long each took.
pub(super) struct Pickups(Histogram<u64>);

impl Pickups {
    pub(super) fn new() -> Result<Self, Failure> {
        Ok(Self(Histogram::new_with_max(MICROS_MAX, 3).map_err(failed)?))
    }

    pub(super) fn add(&mut self, taken: Duration) {
        self.0.saturating_record(u64::try_from(taken.as_micros()).unwrap_or(u64::MAX));
    }

    pub(super) fn figures(&self) -> Figures {
        Figures::default()
            .with("pickup_p50_ms", self.median_millis())
            .with("pickup_p99_ms", self.millis(0.99))
            .with("pickup_max_ms", self.0.max() as f64 / 1000.0)
    }

    pub(super) fn median_millis(&self) -> f64 {
        self.millis(0.5)
    }

    fn millis(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1000.0
    }
}

/// How many jobs are timed.
pub(super) fn count(args: &BenchArgs) -> u64 {
    (args.jobs / 200).clamp(COUNT_MIN, COUNT_MAX)
}

/// When jobs come.
pub(super) fn ticks() -> Interval {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// A worker with nothing else to do, and one job every 20 ms.
pub(super) async fn of_an_idle_worker(env: &Env<'_>, count: u64) -> Result<Pickups, Failure> {
    env.progress.part("pickup", count);
    let (tell, mut told) = mpsc::channel(16);
    let mut worker = env.worker(Handlers::new((env.epoch, tell)).handle(report)).await?;
    let (mut pickups, mut ticks) = (Pickups::new()?, ticks());
    for step in 0..count {
        ticks.tick().await;
        worker.client().enqueue(Work::put_in(env.nanos())).await.map_err(failed)?;
        let taken = tokio::time::timeout(PATIENCE, told.recv()).await;
        let lost = || failed(format!("expected a job to start within {PATIENCE:?}, got none"));
        pickups.add(taken.ok().flatten().ok_or_else(lost)?);
        env.progress.at(step);
    }
    worker.stop().await;
    Ok(pickups)
}

async fn report(job: Work, State((epoch, tell)): State<(Instant, mpsc::Sender<Duration>)>) {
    let _ = tell.send(since(epoch, job.at)).await;
}
