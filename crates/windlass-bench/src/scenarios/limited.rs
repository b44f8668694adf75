//! The rate of a drain under a rate limit or a breaker that processes share: each job is checked, and none is
//! blocked.

use std::time::Duration;

use anyhow::Result;
use windlass::limits::{LimitAt, LimitScope};
use windlass::types::limits::RATE_MAX;
use windlass::types::names::{BreakerName, LimitName, TypeName};
use windlass::types::rate_limit::RateLimit;
use windlass::{BreakerSpec, JobType, LimitOptions, RateLimitSpec};

use crate::drain::drain;
use crate::env::Env;
use crate::figures::Figures;
use crate::workload::{self, Work};

const NAME: &str = "bench";

/// With the highest rate: there are always tokens, but each comes from the store.
pub(crate) async fn by_rate(env: &Env<'_>) -> Result<Figures> {
    let limit = RateLimitSpec {
        name: LimitName::parse(NAME)?,
        limit: RateLimit::new(RATE_MAX, Duration::from_secs(1)),
        scope: LimitScope::Store,
        at: LimitAt::Run,
        types: types()?,
    };
    run(env, LimitOptions { rate_limits: vec![limit], ..LimitOptions::default() }).await
}

/// All calls succeed, so the breaker stays closed.
pub(crate) async fn by_breaker(env: &Env<'_>) -> Result<Figures> {
    let name = BreakerName::parse(NAME)?;
    let breaker = BreakerSpec { scope: LimitScope::Store, types: types()?, ..BreakerSpec::new(name) };
    run(env, LimitOptions { breakers: vec![breaker], ..LimitOptions::default() }).await
}

async fn run(env: &Env<'_>, limits: LimitOptions) -> Result<Figures> {
    let jobs = env.options.jobs;
    workload::enqueue_bulk(&env.client().await?, jobs, |_| workload::new_job()).await?;
    Ok(drain(&env.with_limits(limits), jobs, &[]).await?.figures())
}

fn types() -> Result<Vec<TypeName>> {
    Ok(vec![TypeName::parse(Work::NAME)?])
}
