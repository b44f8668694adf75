//! A deep backlog: of ten times as many jobs, the first half of the usual number. What a claim costs must not grow
//! with what waits behind.

use super::super::env::Env;
use super::super::figures::{Figures, per_second};
use super::super::load;
use super::super::tally::Tally;
use crate::exit::Failure;

const DEPTH: u64 = 10;

pub(super) async fn run(env: &Env<'_>) -> Result<Figures, Failure> {
    let (jobs, first) = (env.args.jobs * DEPTH, env.args.jobs / 2);
    load::fill(&env.client().await?, jobs, |_| load::draft(), env.progress).await?;
    env.rest().await?;
    env.progress.part("drain the first", first);
    let tally = Tally::with_marks(&[first]);
    let mut worker = env.counting_worker(&tally).await?;
    let took = tally.reach(first, env.progress).await?;
    worker.stop().await;
    Ok(Figures::default().with("jobs_per_second", per_second(first, took)))
}
