//! The baseline of pickup: a job is enqueued and claimed on one connection, without waiting in between. It
//! has started when the answer to the claim arrives.

use std::time::Instant;

use anyhow::Result;

use crate::figures::Figures;
use crate::pickup::{Pickups, ticks};

pub(super) const BASELINE: &str = "limit_pickup_p50_ms";

/// Enqueues, claims and settles one job at a time.
pub(super) trait OneByOne {
    type Claimed;

    async fn enqueue_and_claim(&mut self) -> Result<Self::Claimed>;

    async fn settle(&mut self, claimed: Self::Claimed) -> Result<()>;
}

/// Enqueues as often as for a worker, so that the server has been idle as long.
pub(super) async fn measure(mut caller: impl OneByOne, count: u64) -> Result<Figures> {
    let (mut pickups, mut ticks) = (Pickups::new()?, ticks());
    for _ in 0..count {
        ticks.tick().await;
        let start = Instant::now();
        let claimed = caller.enqueue_and_claim().await?;
        pickups.add(start.elapsed());
        caller.settle(claimed).await?;
    }
    Ok(Figures::default().with(BASELINE, pickups.median_millis()))
}
