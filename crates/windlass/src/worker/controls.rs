//! The running jobs of a process, so that they can be told to stop and their deadlines kept.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use windlass_core::claim::{Claimed, Fence};
use windlass_core::outcome::{ErrorKind, JobError, Outcome};
use windlass_core::retry::RetryPolicy;
use windlass_core::settle::{AttemptReport, Settlement, settle};

use crate::handler::JobControl;

/// A handler past its time-out by this much has a runtime that does not even run its timer.
const OVERDUE_GRACE: Duration = Duration::from_secs(10);

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
    overdue_at: Option<Instant>,
}

impl Controls {
    /// A handler starts.
    pub(crate) fn start(
        &self,
        claimed: &Arc<Claimed>,
        policy: RetryPolicy,
        timeout: Duration,
    ) -> Arc<JobControl> {
        let job = Arc::new(JobControl::default());
        let started = Instant::now();
        let overdue_at = started.checked_add(timeout.saturating_add(OVERDUE_GRACE));
        let control =
            Control { job: Arc::clone(&job), claimed: Arc::clone(claimed), policy, started, overdue_at };
        self.lock().insert(claimed.fence(), control);
        job
    }

    /// A handler ended.
    pub(crate) fn end(&self, fence: Fence) {
        self.lock().remove(&fence);
    }

    /// Somebody asked a job to stop.
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

    /// Whether anything runs.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Ends for jobs that are past their time-out and grace: their runtime is blocked and cannot settle them.
    /// Each comes out once.
    pub(crate) fn overdue(&self, now: Instant) -> Vec<Settlement> {
        let mut jobs = self.lock();
        let overdue = jobs.values_mut().filter(|control| control.overdue_at.is_some_and(|at| at <= now));
        overdue.map(|control| control.timed_out(now)).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Fence, Control>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Control {
    fn timed_out(&mut self, now: Instant) -> Settlement {
        self.overdue_at = None;
        let ran_for = now - self.started;
        let text = "it ran past its time-out and did not end by itself, so it was settled from outside";
        let outcome = Outcome::Failed(JobError::new(ErrorKind::TimedOut, text));
        let transition = settle(&self.claimed.job, outcome, &self.policy, self.claimed.age + ran_for);
        Claimed::clone(&self.claimed).settled(transition, AttemptReport { ran_for, output: None })
    }
}
