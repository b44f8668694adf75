//! What it costs that processes share a rate limit or a breaker: every job passes it, and nothing ever holds one back.

use std::time::Duration;

use windlass::limits::{LimitAt, LimitScope};
use windlass::{BreakerSpec, JobType, LimitOptions, RateLimitSpec};
use windlass_core::limits::RATE_MAX;
use windlass_core::names::{BreakerName, LimitName, TypeName};
use windlass_core::rate_limit::RateLimit;

use super::super::drain::drain;
use super::super::env::Env;
use super::super::failed;
use super::super::figures::Figures;
use super::super::load::{self, Work};
use crate::exit::Failure;

const NAME: &str = "bench";

/// The rate is the highest there is, so that tokens are always there, but each comes from the store.
pub(super) async fn by_rate(env: &Env<'_>) -> Result<Figures, Failure> {
    let limit = RateLimitSpec {
        name: LimitName::parse(NAME).map_err(failed)?,
        limit: RateLimit::new(RATE_MAX, Duration::from_secs(1)),
        scope: LimitScope::Store,
        at: LimitAt::Run,
        types: types()?,
    };
    run(env, LimitOptions { rate_limits: vec![limit], ..LimitOptions::default() }).await
}

/// All calls succeed, so it stays closed.
pub(super) async fn by_breaker(env: &Env<'_>) -> Result<Figures, Failure> {
    let name = BreakerName::parse(NAME).map_err(failed)?;
    let breaker = BreakerSpec { scope: LimitScope::Store, types: types()?, ..BreakerSpec::new(name) };
    run(env, LimitOptions { breakers: vec![breaker], ..LimitOptions::default() }).await
}

async fn run(env: &Env<'_>, limits: LimitOptions) -> Result<Figures, Failure> {
    let jobs = env.args.jobs;
    load::fill(&env.client().await?, jobs, |_| load::draft(), env.progress).await?;
    Ok(drain(&env.with_limits(limits), jobs, &[]).await?.figures())
}

fn types() -> Result<Vec<TypeName>, Failure> {
    Ok(vec![TypeName::parse(Work::NAME).map_err(failed)?])
}
