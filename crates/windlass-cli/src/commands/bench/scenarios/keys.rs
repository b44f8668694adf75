//! Every job holds a key of its own, from its enqueue to its end.

use windlass_core::enqueue::NewJob;
use windlass_core::key::KeyClaim;
use windlass_core::names::Key;

use super::super::drain::drain;
use super::super::env::Env;
use super::super::figures::{Figures, per_second};
use super::super::load;
use crate::exit::Failure;

pub(super) async fn run(env: &Env<'_>) -> Result<Figures, Failure> {
    let jobs = env.args.jobs;
    let bulk = load::fill(&env.client().await?, jobs, keyed, env.progress).await?;
    let figures = drain(env, jobs, &[]).await?.figures();
    Ok(figures.with("bulk_per_second", per_second(jobs, bulk)))
}

fn keyed(number: u64) -> NewJob {
    let key = Key::parse(&format!("key-{number}")).expect("a short text");
    NewJob { key: Some(KeyClaim::new(key)), ..load::draft() }
}
