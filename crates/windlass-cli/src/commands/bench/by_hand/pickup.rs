//! Pickup by hand: a job is stored and claimed on one connection, the one right behind the other, and has started when the answer to
//! its claim is there.

use std::time::Instant;

use super::super::figures::Figures;
use super::super::pickup::{Pickups, ticks};
use super::super::progress::Progress;
use crate::exit::Failure;

/// What an answer to a claim takes at the best.
pub(super) const LIMIT: &str = "limit_pickup_p50_ms";

/// Someone who stores, claims and settles by hand, one job at a time.
pub(super) trait OneByOne {
    type Claimed;

    async fn put_and_claim(&mut self) -> Result<Self::Claimed, Failure>;

    async fn settle(&mut self, claimed: Self::Claimed) -> Result<(), Failure>;
}

/// As often as a worker is given a job, so that the server has slept as long.
pub(super) async fn measure(
    mut hand: impl OneByOne,
    count: u64,
    progress: &Progress,
) -> Result<Figures, Failure> {
    let (mut pickups, mut ticks) = (Pickups::new()?, ticks());
    for step in 0..count {
        ticks.tick().await;
        let start = Instant::now();
        let claimed = hand.put_and_claim().await?;
        pickups.add(start.elapsed());
        hand.settle(claimed).await?;
        progress.at(step);
    }
    Ok(Figures::default().with(LIMIT, pickups.median_millis()))
}
