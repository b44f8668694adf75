//! A worker runs everything that is due.

use std::time::Duration;

use super::env::Env;
use super::figures::{Figures, per_second};
use super::tally::Tally;
use crate::exit::Failure;

/// How long it took from the start of the worker on.
pub(super) struct Drained {
    jobs: u64,
    /// Until the last handler had ended.
    pub(super) handled: Duration,
    /// Until the last end was stored, and the worker gone.
    pub(super) stored: Duration,
    /// Until each mark.
    pub(super) marks: Vec<Duration>,
}

/// Starts a worker and waits until all is done. `marks` are numbers of handlers whose moment is wanted.
pub(super) async fn drain(env: &Env<'_>, jobs: u64, marks: &[u64]) -> Result<Drained, Failure> {
    env.rest().await?;
    env.progress.part("drain", jobs);
    let tally = Tally::with_marks(&[marks, &[jobs]].concat());
    let mut worker = env.counting_worker(&tally).await?;
    // A worker that drains leaves alone what is parked, and a limit may park a job when the store is slow to answer.
    tally.reach(jobs, env.progress).await?;
    tally.while_moving(worker.drain(), env.progress).await?;
    let stored = tally.elapsed();
    env.check_succeeded(jobs).await?;
    let marks = marks.iter().map(|mark| tally.passed(*mark)).collect::<Result<_, _>>()?;
    Ok(Drained { jobs, handled: tally.passed(jobs)?, stored, marks })
}

impl Drained {
    /// `jobs_per_second` to the end of the last handler, `stored_per_second` until its end was stored too.
    pub(super) fn figures(&self) -> Figures {
        Figures::default()
            .with("jobs_per_second", per_second(self.jobs, self.handled))
            .with("stored_per_second", per_second(self.jobs, self.stored))
    }
}
