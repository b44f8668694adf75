//! Reads that behaviours check.

use windlass_core::admin::{Counts, QueueStatus, StoredAttempt, StoredJob, Totals};
use windlass_core::job::{Counters, JobId, JobState, StoredState};
use windlass_core::limits::MAINTENANCE_BATCH_MAX;

use super::{Harness, MAIN, UP, only, queue};

impl Harness {
    /// Returns a job that must exist.
    pub async fn record(&self, id: JobId) -> StoredJob {
        self.engine.job(id).await.expect(UP).unwrap_or_else(|| panic!("expected job {id} to exist"))
    }

    /// Whether the store still has a job.
    pub async fn exists(&self, id: JobId) -> bool {
        self.engine.job(id).await.expect(UP).is_some()
    }

    /// Returns the state of a job in one word.
    pub async fn job_state_of(&self, id: JobId) -> JobState {
        self.record(id).await.job_state()
    }

    /// Returns the state of a job.
    pub async fn state_of(&self, id: JobId) -> StoredState {
        self.record(id).await.state
    }

    /// Returns the counters of a job.
    pub async fn counters_of(&self, id: JobId) -> Counters {
        self.record(id).await.job.counters
    }

    /// Returns the attempts of a job.
    pub async fn attempts_of(&self, id: JobId) -> Vec<StoredAttempt> {
        self.engine.attempts(id).await.expect(UP)
    }

    /// Returns the only attempt of a job.
    pub async fn attempt_of(&self, id: JobId) -> StoredAttempt {
        only(self.attempts_of(id).await)
    }

    /// Returns the reason of a cancelled job.
    pub async fn why_cancelled(&self, id: JobId) -> String {
        match self.state_of(id).await {
            StoredState::Cancelled { why, .. } => why,
            other => panic!("expected job {id} to be cancelled, got {other:?}"),
        }
    }

    /// Returns one queue with its counts.
    pub async fn status_of(&self, name: &str) -> QueueStatus {
        let queues = self.engine.queues().await.expect(UP);
        let found = queues.into_iter().find(|status| status.spec.name == queue(name));
        found.unwrap_or_else(|| panic!("expected a queue {name}, got none"))
    }

    /// Returns the counts of [`MAIN`].
    pub async fn counts(&self) -> Counts {
        self.status_of(MAIN).await.counts
    }

    /// Returns the totals of [`MAIN`].
    pub async fn totals(&self) -> Totals {
        self.status_of(MAIN).await.totals
    }

    /// Runs a sweep and returns how many jobs it changed.
    pub async fn sweep(&self) -> u64 {
        self.engine.sweep(MAINTENANCE_BATCH_MAX).await.expect(UP).changed
    }

    /// Runs a prune and returns how many jobs it changed.
    pub async fn prune(&self) -> u64 {
        self.engine.prune(MAINTENANCE_BATCH_MAX).await.expect(UP).changed
    }
}
