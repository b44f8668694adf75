//! Putting jobs in: one by one with 16 callers, each waiting for its own answer, and in bulk.

use super::super::env::Env;
use super::super::figures::{Figures, per_second};
use super::super::load;
use crate::exit::Failure;

pub(super) async fn run(env: &Env<'_>) -> Result<Figures, Failure> {
    let client = env.client().await?;
    let (singles, jobs) = (env.args.jobs / 2, env.args.jobs);
    let single = load::one_by_one(&client, singles, env.progress).await?;
    let bulk = load::fill(&client, jobs, |_| load::draft(), env.progress).await?;
    Ok(Figures::default()
        .with("single_per_second", per_second(singles, single))
        .with("bulk_per_second", per_second(jobs, bulk)))
}
