//! Boosting: half of the jobs have the lowest priority and have been due for half an hour, so that they rise; the others
//! are urgent and fresh.

use std::time::Duration;

use windlass_core::clock::Timestamp;
use windlass_core::enqueue::{NewJob, When};
use windlass_core::priority::Priority;

use super::super::drain::drain;
use super::super::env::Env;
use super::super::figures::Figures;
use super::super::load;
use crate::exit::Failure;

const DUE_SINCE: Duration = Duration::from_secs(30 * 60);

pub(super) async fn run(env: &Env<'_>) -> Result<Figures, Failure> {
    let (jobs, client) = (env.args.jobs, env.client().await?);
    let due = env.place.engine.now().await?.minus(DUE_SINCE);
    load::fill(&client, jobs / 2, move |_| old(due), env.progress).await?;
    load::fill(&client, jobs - jobs / 2, |_| urgent(), env.progress).await?;
    Ok(drain(env, jobs, &[]).await?.figures())
}

fn old(due: Timestamp) -> NewJob {
    NewJob { when: When::At(due), priority: Priority::all().last(), ..load::draft() }
}

fn urgent() -> NewJob {
    NewJob { priority: Some(Priority::MOST_URGENT), ..load::draft() }
}
