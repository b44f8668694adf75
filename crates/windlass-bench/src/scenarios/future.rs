//! The rate of a drain beside future jobs: ten times as many, of higher priority and in the same queue, none
//! of them due.

use std::time::Duration;

use anyhow::Result;
use windlass::types::enqueue::{NewJob, When};
use windlass::types::priority::Priority;

use crate::drain::drain;
use crate::env::Env;
use crate::figures::Figures;
use crate::workload;

/// Times the usual number of jobs.
const FUTURE: u64 = 10;
/// Far enough that none is due before the measurement ends.
const DUE_IN: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) async fn run(env: &Env<'_>) -> Result<Figures> {
    let (jobs, client) = (env.options.jobs, env.client().await?);
    workload::enqueue_bulk(&client, jobs * FUTURE, |_| future_job()).await?;
    workload::enqueue_bulk(&client, jobs, |_| workload::new_job()).await?;
    Ok(drain(env, jobs, &[]).await?.figures())
}

fn future_job() -> NewJob {
    NewJob { when: When::In(DUE_IN), priority: Some(Priority::MOST_URGENT), ..workload::new_job() }
}
