//! A deep backlog: of ten times as many jobs, the first half of the usual number. What a claim costs must not grow
//! with what waits behind.

use super::super::figures::{Figures, per_second};
use super::super::ground::Ground;
use super::super::load;
use super::super::tally::Tally;
use crate::exit::Failure;

const DEPTH: u64 = 10;

pub(super) async fn run(ground: &Ground<'_>) -> Result<Figures, Failure> {
    let (jobs, first) = (ground.args.jobs * DEPTH, ground.args.jobs / 2);
    load::fill(&ground.client().await?, jobs, |_| load::draft(), ground.progress).await?;
    ground.rest().await?;
    ground.progress.part("drain the first", first);
    let tally = Tally::with_marks(&[first]);
    let mut worker = ground.counting_worker(&tally).await?;
    let took = tally.reach(first, ground.progress).await?;
    worker.stop().await;
    Ok(Figures::default().with("jobs_per_second", per_second(first, took)))
}
