//! The rate of a drain with a deep backlog: of ten times as many jobs, the first half of the usual number.
//! The cost of a claim must not grow with the number of waiting jobs.

use anyhow::Result;

use crate::env::Env;
use crate::figures::{Figures, per_second};
use crate::handled::Handled;
use crate::workload;

const DEPTH: u64 = 10;

pub(crate) async fn run(env: &Env<'_>) -> Result<Figures> {
    let (jobs, first) = (env.options.jobs * DEPTH, env.options.jobs / 2);
    workload::enqueue_bulk(&env.client().await?, jobs, |_| workload::new_job()).await?;
    env.quiesce().await?;
    let handled = Handled::with_milestones(&[first]);
    let mut worker = env.counting_worker(&handled).await?;
    let took = handled.wait_for(first).await?;
    worker.stop().await;
    Ok(Figures::default().with("jobs_per_second", per_second(first, took)))
}
