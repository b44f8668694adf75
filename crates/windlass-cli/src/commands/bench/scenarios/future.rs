//! Future jobs in the way: ten times as many, of higher priority and in the same queue, none of them due.

use std::time::Duration;

use windlass_core::enqueue::{NewJob, When};
use windlass_core::priority::Priority;

use super::super::drain::drain;
use super::super::env::Env;
use super::super::figures::Figures;
use super::super::load;
use crate::exit::Failure;

const FUTURE: u64 = 10;
/// Far enough that none falls due while this runs.
const DUE_IN: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) async fn run(env: &Env<'_>) -> Result<Figures, Failure> {
    let (jobs, client) = (env.args.jobs, env.client().await?);
    load::fill(&client, jobs * FUTURE, |_| later(), env.progress).await?;
    load::fill(&client, jobs, |_| load::draft(), env.progress).await?;
    Ok(drain(env, jobs, &[]).await?.figures())
}

fn later() -> NewJob {
    NewJob { when: When::In(DUE_IN), priority: Some(Priority::MOST_URGENT), ..load::draft() }
}
