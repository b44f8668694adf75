//! The rates of enqueues: single ones by 16 callers that each wait for their own answer, and bulk ones.

use anyhow::Result;

use crate::env::Env;
use crate::figures::{Figures, per_second};
use crate::workload;

pub(crate) async fn run(env: &Env<'_>) -> Result<Figures> {
    let client = env.client().await?;
    let (singles, jobs) = (env.options.jobs / 2, env.options.jobs);
    let single = workload::enqueue_single(&client, singles).await?;
    let bulk = workload::enqueue_bulk(&client, jobs, |_| workload::new_job()).await?;
    Ok(Figures::default()
        .with("single_per_second", per_second(singles, single))
        .with("bulk_per_second", per_second(jobs, bulk)))
}
