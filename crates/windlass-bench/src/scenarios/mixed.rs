//! The rate of a drain of jobs of all eleven priorities, enqueued in turn.

use anyhow::Result;
use windlass::types::enqueue::NewJob;
use windlass::types::priority::Priority;

use crate::drain::drain;
use crate::env::Env;
use crate::figures::Figures;
use crate::workload;

pub(crate) async fn run(env: &Env<'_>) -> Result<Figures> {
    let jobs = env.options.jobs;
    let priorities: Vec<_> = Priority::all().collect();
    let job = move |number: u64| {
        let priority = priorities[usize::try_from(number).unwrap_or(0) % priorities.len()];
        NewJob { priority: Some(priority), ..workload::new_job() }
    };
    workload::enqueue_bulk(&env.client().await?, jobs, job).await?;
    Ok(drain(env, jobs, &[]).await?.figures())
}
