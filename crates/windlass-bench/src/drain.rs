//! A worker runs all due jobs.

use std::time::Duration;

use anyhow::Result;

use crate::env::Env;
use crate::figures::{Figures, per_second};
use crate::handled::Handled;

/// How long a drain took, from the start of the worker.
pub(crate) struct Drained {
    jobs: u64,
    /// Until the last handler had ended.
    pub(crate) handled: Duration,
    /// Until the last end was stored and the worker had stopped.
    pub(crate) stored: Duration,
    /// Until each milestone.
    pub(crate) milestones: Vec<Duration>,
}

/// Starts a worker and waits until all jobs are done. Measures when each number of handlers in `milestones`
/// had ended.
pub(crate) async fn drain(env: &Env<'_>, jobs: u64, milestones: &[u64]) -> Result<Drained> {
    env.quiesce().await?;
    let handled = Handled::with_milestones(&[milestones, &[jobs]].concat());
    let mut worker = env.counting_worker(&handled).await?;
    // A worker that drains ignores parked jobs, and a limit parks a job while the store is slow to answer.
    handled.wait_for(jobs).await?;
    handled.while_handling(worker.drain()).await?;
    let stored = handled.elapsed();
    env.check_succeeded(jobs).await?;
    let milestones = milestones.iter().map(|number| handled.reached(*number)).collect::<Result<_>>()?;
    Ok(Drained { jobs, handled: handled.reached(jobs)?, stored, milestones })
}

impl Drained {
    /// `jobs_per_second` until the last handler had ended, `stored_per_second` until its end was stored too.
    pub(crate) fn figures(&self) -> Figures {
        Figures::default()
            .with("jobs_per_second", per_second(self.jobs, self.handled))
            .with("stored_per_second", per_second(self.jobs, self.stored))
    }
}
