//! How soon an idle worker starts a job.

use super::super::env::Env;
use super::super::figures::Figures;
use super::super::pickup;
use crate::exit::Failure;

pub(super) async fn run(env: &Env<'_>) -> Result<Figures, Failure> {
    env.client().await?;
    Ok(pickup::of_an_idle_worker(env, pickup::count(env.args)).await?.figures())
}
