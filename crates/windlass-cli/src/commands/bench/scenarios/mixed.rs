//! Jobs of all eleven priorities, in turn.

use windlass_core::enqueue::NewJob;
use windlass_core::priority::Priority;

use super::super::drain::drain;
use super::super::env::Env;
use super::super::figures::Figures;
use super::super::load;
use crate::exit::Failure;

pub(super) async fn run(env: &Env<'_>) -> Result<Figures, Failure> {
    let jobs = env.args.jobs;
    let priorities: Vec<_> = Priority::all().collect();
    let draft = move |number: u64| {
        let priority = priorities[usize::try_from(number).unwrap_or(0) % priorities.len()];
        NewJob { priority: Some(priority), ..load::draft() }
    };
    load::fill(&env.client().await?, jobs, draft, env.progress).await?;
    Ok(drain(env, jobs, &[]).await?.figures())
}
