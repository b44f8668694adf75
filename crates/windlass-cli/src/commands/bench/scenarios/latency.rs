//! How soon an idle worker starts a job.

use super::super::figures::Figures;
use super::super::ground::Ground;
use super::super::pickup;
use crate::exit::Failure;

pub(super) async fn run(ground: &Ground<'_>) -> Result<Figures, Failure> {
    ground.client().await?;
    Ok(pickup::of_an_idle_worker(ground, pickup::count(ground.args)).await?.figures())
}
