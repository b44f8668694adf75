//! How long an idle worker takes to notice a job: from the enqueue call to the start of its handler.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior};
use windlass::{Handlers, State};

use crate::Options;
use crate::env::{Env, since};
use crate::figures::Figures;
use crate::workload::Work;

/// Between two jobs.
const ENQUEUE_INTERVAL: Duration = Duration::from_millis(20);
/// Jobs of a full measurement, which takes ten seconds.
const COUNT_MAX: u64 = 500;
/// With fewer, the 99th percentile means nothing.
const COUNT_MIN: u64 = 20;
/// Longer times count as this.
const MICROS_MAX: u64 = 60_000_000;
/// A job that starts later is lost.
const LOST_AFTER: Duration = Duration::from_secs(60);

/// The time that each job took.
pub(crate) struct Pickups(Histogram<u64>);

impl Pickups {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(Histogram::new_with_max(MICROS_MAX, 3)?))
    }

    pub(crate) fn add(&mut self, pickup: Duration) {
        self.0.saturating_record(u64::try_from(pickup.as_micros()).unwrap_or(u64::MAX));
    }

    pub(crate) fn figures(&self) -> Figures {
        Figures::default()
            .with("pickup_p50_ms", self.median_millis())
            .with("pickup_p99_ms", self.millis(0.99))
            .with("pickup_max_ms", self.0.max() as f64 / 1000.0)
    }

    pub(crate) fn median_millis(&self) -> f64 {
        self.millis(0.5)
    }

    fn millis(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1000.0
    }
}

/// How many jobs are measured.
pub(crate) fn count(options: &Options) -> u64 {
    (options.jobs / 200).clamp(COUNT_MIN, COUNT_MAX)
}

/// When jobs are enqueued.
pub(crate) fn ticks() -> Interval {
    let mut ticks = tokio::time::interval(ENQUEUE_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Measures a worker with nothing else to do.
pub(crate) async fn of_an_idle_worker(env: &Env<'_>, count: u64) -> Result<Pickups> {
    let (sender, mut receiver) = mpsc::channel(16);
    let mut worker = env.worker(Handlers::new((env.epoch, sender)).handle(report)).await?;
    let (mut pickups, mut ticks) = (Pickups::new()?, ticks());
    for _ in 0..count {
        ticks.tick().await;
        worker.client().enqueue(Work::enqueued_at(env.nanos())).await?;
        let pickup = tokio::time::timeout(LOST_AFTER, receiver.recv()).await.ok().flatten();
        pickups.add(pickup.with_context(|| format!("expected a job to start within {LOST_AFTER:?}"))?);
    }
    worker.stop().await;
    Ok(pickups)
}

async fn report(job: Work, State((epoch, sender)): State<(Instant, mpsc::Sender<Duration>)>) {
    let _ = sender.send(since(epoch, job.at)).await;
}
