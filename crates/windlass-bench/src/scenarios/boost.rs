//! The rate of a drain with boosting: half of the jobs have the lowest priority and have been due for half an
//! hour, so that they rise; the others are urgent and new.

use std::time::Duration;

use anyhow::Result;
use windlass::types::clock::Timestamp;
use windlass::types::enqueue::{NewJob, When};
use windlass::types::priority::Priority;

use crate::drain::drain;
use crate::env::Env;
use crate::figures::Figures;
use crate::workload;

const DUE_SINCE: Duration = Duration::from_secs(30 * 60);

pub(crate) async fn run(env: &Env<'_>) -> Result<Figures> {
    let (jobs, client) = (env.options.jobs, env.client().await?);
    let due = env.store.engine.now().await?.minus(DUE_SINCE);
    workload::enqueue_bulk(&client, jobs / 2, move |_| old(due)).await?;
    workload::enqueue_bulk(&client, jobs - jobs / 2, |_| urgent()).await?;
    Ok(drain(env, jobs, &[]).await?.figures())
}

fn old(due: Timestamp) -> NewJob {
    NewJob { when: When::At(due), priority: Priority::all().last(), ..workload::new_job() }
}

fn urgent() -> NewJob {
    NewJob { priority: Some(Priority::MOST_URGENT), ..workload::new_job() }
}
