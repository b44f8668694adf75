//! The running jobs of a process, so that they can be stopped and their deadlines enforced.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use windlass_core::claim::{Claimed, Fence};
use windlass_core::outcome::{AttemptOutcome, ErrorKind, JobError};
use windlass_core::retry::RetryPolicy;
use windlass_core::settle::{AttemptReport, Settlement, settle};

use crate::handler::JobControl;

/// How far past its time-out a handler must be before it is settled from outside: its runtime does not even
/// run its timer.
const OVERDUE_GRACE: Duration = Duration::from_secs(10);

/// The pause before an end from outside that the store did not accept is sent again.
const OVERDUE_AGAIN: Duration = Duration::from_secs(3);

/// The running jobs of a process.
#[derive(Default)]
pub(crate) struct Controls {
    jobs: Mutex<HashMap<Fence, Control>>,
}

struct Control {
    job: Arc<JobControl>,
    claimed: Arc<Claimed>,
    policy: RetryPolicy,
    started: Instant,
    /// When to settle the job from outside; none while such an end is on its way, and after it was stored.
    overdue_at: Option<Instant>,
    /// An end from outside was sent, and may have been stored.
    ended_from_outside: bool,
}

impl Controls {
    /// Registers a handler that starts.
    pub(crate) fn start(
        &self,
        claimed: &Arc<Claimed>,
        policy: RetryPolicy,
        timeout: Duration,
    ) -> Arc<JobControl> {
        let job = Arc::new(JobControl::default());
        let started = Instant::now();
        let overdue_at = started.checked_add(timeout.saturating_add(OVERDUE_GRACE));
        let control = Control {
            job: Arc::clone(&job),
            claimed: Arc::clone(claimed),
            policy,
            started,
            overdue_at,
            ended_from_outside: false,
        };
        self.lock().insert(claimed.fence(), control);
        job
    }

    /// Removes a handler that ended. Returns whether an end from outside was sent before, so that the
    /// handler's own end comes too late.
    pub(crate) fn end(&self, fence: Fence) -> bool {
        self.lock().remove(&fence).is_some_and(|control| control.ended_from_outside)
    }

    /// Passes on a request to stop a job.
    pub(crate) fn cancel(&self, fence: Fence) {
        if let Some(control) = self.lock().get(&fence) {
            control.job.cancel();
        }
    }

    /// Stops a handler at its next await.
    pub(crate) fn abort(&self, fence: Fence) {
        if let Some(control) = self.lock().get(&fence) {
            control.job.abort();
        }
    }

    /// Stops all handlers at their next await.
    pub(crate) fn abort_all(&self) {
        self.lock().values().for_each(|control| control.job.abort());
    }

    /// Whether no handler runs.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// The ends of jobs that are past their time-out and grace: their runtime is blocked and cannot settle
    /// them. Each is returned once, and again after a pause if [`still_overdue`](Self::still_overdue)
    /// requests it.
    pub(crate) fn overdue(&self, now: Instant) -> Vec<Settlement> {
        let mut jobs = self.lock();
        let overdue = jobs.values_mut().filter(|control| control.overdue_at.is_some_and(|at| at <= now));
        overdue.map(|control| control.timed_out(now)).collect()
    }

    /// Notes that the store did not accept these ends.
    pub(crate) fn still_overdue(&self, fences: &[Fence], now: Instant) {
        let mut jobs = self.lock();
        for fence in fences {
            if let Some(control) = jobs.get_mut(fence) {
                control.overdue_at = now.checked_add(OVERDUE_AGAIN);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Fence, Control>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Control {
    fn timed_out(&mut self, now: Instant) -> Settlement {
        self.overdue_at = None;
        self.ended_from_outside = true;
        let ran_for = now.saturating_duration_since(self.started);
        let age = self.claimed.age.saturating_add(ran_for);
        let transition = settle(&self.claimed.job, timed_out_from_outside(), &self.policy, age);
        Claimed::clone(&self.claimed)
            .settled(transition, AttemptReport { ran_for, ..AttemptReport::default() })
    }
}

/// The outcome of a job that is settled from outside.
pub(crate) fn timed_out_from_outside() -> AttemptOutcome {
    let text = "it ran past its time-out and did not end by itself, so it was settled from outside";
    AttemptOutcome::Failed(JobError::new(ErrorKind::TimedOut, text))
}

#[cfg(test)]
mod tests;
