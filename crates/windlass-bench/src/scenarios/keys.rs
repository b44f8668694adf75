//! The rates of a bulk enqueue and a drain of jobs that each hold a key of their own, from enqueue to end.

use anyhow::Result;
use windlass::types::enqueue::NewJob;
use windlass::types::key::KeyClaim;
use windlass::types::names::Key;

use crate::drain::drain;
use crate::env::Env;
use crate::figures::{Figures, per_second};
use crate::workload;

pub(crate) async fn run(env: &Env<'_>) -> Result<Figures> {
    let jobs = env.options.jobs;
    let bulk = workload::enqueue_bulk(&env.client().await?, jobs, keyed).await?;
    let figures = drain(env, jobs, &[]).await?.figures();
    Ok(figures.with("bulk_per_second", per_second(jobs, bulk)))
}

fn keyed(number: u64) -> NewJob {
    let key = Key::parse(&format!("key-{number}")).expect("a short text");
    NewJob { key: Some(KeyClaim::new(key)), ..workload::new_job() }
}
