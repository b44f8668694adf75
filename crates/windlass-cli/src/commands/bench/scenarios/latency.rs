//! How soon an idle worker starts a job.

use super::super::figures::Figures;
use super::super::ground::Ground;
use super::super::pickup;
use crate::exit::Failure;

/// Jobs at full size: ten seconds' worth.
const COUNT_MAX: u64 = 500;
/// With fewer there is no 99th in a hundred to speak of.
const COUNT_MIN: u64 = 20;

pub(super) async fn run(ground: &Ground<'_>) -> Result<Figures, Failure> {
    ground.client().await?;
    Ok(pickup::of_an_idle_worker(ground, count(ground)).await?.figures())
}

pub(super) fn count(ground: &Ground<'_>) -> u64 {
    (ground.args.jobs / 200).clamp(COUNT_MIN, COUNT_MAX)
}
