//! The latency: from the enqueue call to the start of the handler, on a worker with nothing else to do.

use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use hdrhistogram::Histogram;
use tokio::time::MissedTickBehavior;

use super::Plan;
use crate::database::Database;
use crate::figures::Figures;
use crate::job::Job;
use crate::peer::{Aim, Peer};
use crate::tally::Tally;

/// The number of measured pickups.
const PICKUPS: u64 = 500;
/// The interval between two jobs. A job is not enqueued before the previous one has run.
const EVERY: Duration = Duration::from_millis(20);
/// The time after which a job counts as missed.
const PICKUP_CAP: Duration = Duration::from_secs(5);
/// The number of first jobs that are not measured: they warm up the worker until it listens.
const WARM_UPS: u64 = 10;

pub(super) async fn latency<P: Peer>(database: &Database, plan: Plan) -> anyhow::Result<Figures> {
    let peer = P::open(database, plan.settings).await?;
    let tally = Arc::new(Tally::new(WARM_UPS + PICKUPS, 1));
    let prepared = peer.prepare(Arc::clone(&tally), Aim::Latency).await?;
    tally.begin();
    let mut worker = prepared.start();
    let (mut histogram, mut missed) = (Histogram::<u64>::new(3)?, 0);
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 0..WARM_UPS + PICKUPS {
        ticks.tick().await;
        let called = tally.elapsed();
        peer.enqueue(Job::sized(number, plan.payload_bytes)).await?;
        worker.until(&tally, |tally| tally.first_run(number).is_some(), PICKUP_CAP).await?;
        match tally.first_run(number) {
            _ if number < WARM_UPS => {}
            Some(ran) => histogram.record(u64::try_from(ran.saturating_sub(called).as_nanos())?)?,
            None => missed += 1,
        }
    }
    worker.stop().await?;
    ensure!(missed < PICKUPS, "expected the worker to pick jobs up, but it missed all {PICKUPS}");
    let at = |quantile| Duration::from_nanos(histogram.value_at_quantile(quantile));
    Ok(Figures::Latency { jobs: PICKUPS, missed, p50: at(0.5), p99: at(0.99), ran_twice: tally.ran_twice() })
}
