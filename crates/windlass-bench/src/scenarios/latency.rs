//! The pickup times of an idle worker.

use anyhow::Result;

use crate::env::Env;
use crate::figures::Figures;
use crate::pickup;

pub(crate) async fn run(env: &Env<'_>) -> Result<Figures> {
    env.client().await?;
    Ok(pickup::of_an_idle_worker(env, pickup::count(env.options)).await?.figures())
}
