//! What behaviours look at.

use windlass_core::admin::{Counts, QueueStatus, StoredAttempt, StoredJob, Totals};
use windlass_core::job::{Counters, JobId, JobState, Phase};
use windlass_core::limits::MAINTENANCE_BATCH_MAX;

use super::{Harness, MAIN, UP, only, queue};

impl Harness {
    /// A job that must exist.
    pub async fn record(&self, id: JobId) -> StoredJob {
        self.engine.job(id).await.expect(UP).unwrap_or_else(|| panic!("expected job {id} to exist"))
    }

    /// Whether the store still knows a job.
    pub async fn exists(&self, id: JobId) -> bool {
        self.engine.job(id).await.expect(UP).is_some()
    }

    /// Where a job is, in one word.
    pub async fn phase_of(&self, id: JobId) -> Phase {
        self.record(id).await.phase()
    }

    /// Where a job is.
    pub async fn state_of(&self, id: JobId) -> JobState {
        self.record(id).await.state
    }

    /// What happened to a job so far.
    pub async fn counters_of(&self, id: JobId) -> Counters {
        self.record(id).await.job.counters
    }

    /// The attempts of a job.
    pub async fn attempts_of(&self, id: JobId) -> Vec<StoredAttempt> {
        self.engine.attempts(id).await.expect(UP)
    }

    /// The one attempt of a job.
    pub async fn attempt_of(&self, id: JobId) -> StoredAttempt {
        only(self.attempts_of(id).await)
    }

    /// Why a cancelled job was cancelled.
    pub async fn why_cancelled(&self, id: JobId) -> String {
        match self.state_of(id).await {
            JobState::Cancelled { why, .. } => why,
            other => panic!("expected job {id} to be cancelled, got {other:?}"),
        }
    }

    /// One queue and what is in it.
    pub async fn status_of(&self, name: &str) -> QueueStatus {
        let queues = self.engine.queues().await.expect(UP);
        let found = queues.into_iter().find(|status| status.spec.name == queue(name));
        found.unwrap_or_else(|| panic!("expected a queue {name}"))
    }

    /// What is in [`MAIN`].
    pub async fn counts(&self) -> Counts {
        self.status_of(MAIN).await.counts
    }

    /// What happened in [`MAIN`].
    pub async fn totals(&self) -> Totals {
        self.status_of(MAIN).await.totals
    }

    /// Runs a sweep and says how much it changed.
    pub async fn sweep(&self) -> u64 {
        self.engine.sweep(MAINTENANCE_BATCH_MAX).await.expect(UP).changed
    }

    /// Runs a prune and says how much it changed.
    pub async fn prune(&self) -> u64 {
        self.engine.prune(MAINTENANCE_BATCH_MAX).await.expect(UP).changed
    }
}
