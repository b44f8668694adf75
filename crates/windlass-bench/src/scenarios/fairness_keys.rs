//! The rates of a bulk enqueue and a drain with a hundred fairness keys. Each enqueues all its jobs before
//! the next does, and they take turns in the drain.

use anyhow::Result;
use windlass::types::enqueue::NewJob;
use windlass::types::names::FairnessKey;

use crate::drain::drain;
use crate::env::Env;
use crate::figures::{Figures, per_second};
use crate::workload;

const FAIRNESS_KEYS: u64 = 100;

pub(crate) async fn run(env: &Env<'_>) -> Result<Figures> {
    let jobs = env.options.jobs;
    let each = jobs.div_ceil(FAIRNESS_KEYS).max(1);
    let job = move |number: u64| {
        let fairness_key = FairnessKey::parse(&format!("tenant-{}", number / each)).expect("a short text");
        NewJob { fairness_key: Some(fairness_key), ..workload::new_job() }
    };
    let bulk = workload::enqueue_bulk(&env.client().await?, jobs, job).await?;
    let figures = drain(env, jobs, &[]).await?.figures();
    Ok(figures.with("bulk_per_second", per_second(jobs, bulk)))
}
