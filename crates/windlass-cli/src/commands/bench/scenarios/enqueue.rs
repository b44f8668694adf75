//! Putting jobs in: one by one with 16 callers, each waiting for its own answer, and in bulk.

use super::super::figures::{Figures, per_second};
use super::super::ground::Ground;
use super::super::load;
use crate::exit::Failure;

pub(super) async fn run(ground: &Ground<'_>) -> Result<Figures, Failure> {
    let client = ground.client().await?;
    let (singles, jobs) = (ground.args.jobs / 2, ground.args.jobs);
    let single = load::one_by_one(&client, singles, ground.progress).await?;
    let bulk = load::fill(&client, jobs, |_| load::draft(), ground.progress).await?;
    Ok(Figures::default()
        .with("single_per_second", per_second(singles, single))
        .with("bulk_per_second", per_second(jobs, bulk)))
}
