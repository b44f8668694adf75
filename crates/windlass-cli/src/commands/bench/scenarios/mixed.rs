//! Jobs of all eleven priorities, in turn.

use windlass_core::enqueue::NewJob;
use windlass_core::priority::Priority;

use super::super::drain::drain;
use super::super::figures::Figures;
use super::super::ground::Ground;
use super::super::load;
use crate::exit::Failure;

pub(super) async fn run(ground: &Ground<'_>) -> Result<Figures, Failure> {
    let jobs = ground.args.jobs;
    let priorities: Vec<_> = Priority::all().collect();
    let draft = move |number: u64| {
        let priority = priorities[usize::try_from(number).unwrap_or(0) % priorities.len()];
        NewJob { priority: Some(priority), ..load::draft() }
    };
    load::fill(&ground.client().await?, jobs, draft, ground.progress).await?;
    Ok(drain(ground, jobs, &[]).await?.figures())
}
