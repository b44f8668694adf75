//! A hundred fairness keys put their jobs in one after the other, and take turns.

use windlass_core::enqueue::NewJob;
use windlass_core::names::FairnessKey;

use super::super::drain::drain;
use super::super::env::Env;
use super::super::figures::{Figures, per_second};
use super::super::load;
use crate::exit::Failure;

const FAIRNESS_KEYS: u64 = 100;

pub(super) async fn run(env: &Env<'_>) -> Result<Figures, Failure> {
    let jobs = env.args.jobs;
    let each = jobs.div_ceil(FAIRNESS_KEYS).max(1);
    let draft = move |number: u64| {
        let fairness_key = FairnessKey::parse(&format!("tenant-{}", number / each)).expect("a short text");
        NewJob { fairness_key: Some(fairness_key), ..load::draft() }
    };
    let bulk = load::fill(&env.client().await?, jobs, draft, env.progress).await?;
    let figures = drain(env, jobs, &[]).await?.figures();
    Ok(figures.with("bulk_per_second", per_second(jobs, bulk)))
}
