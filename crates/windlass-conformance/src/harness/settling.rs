//! The ways in which behaviours end an attempt.

use std::time::Duration;

use windlass_core::claim::Claimed;
use windlass_core::gate::Gate;
use windlass_core::job::JobId;
use windlass_core::outcome::{ErrorKind, JobError};
use windlass_core::settle::{AttemptReport, Settled, Settlement, Transition};

use super::{FLEETING, Harness, UP, assert_applied, job_of, only};

/// An error.
pub fn oops() -> JobError {
    JobError::new(ErrorKind::Failed, "oops")
}

impl Harness {
    /// Settles with one transition and returns the answer.
    pub async fn settle(&self, claimed: &Claimed, transition: Transition) -> Settled {
        self.settle_with(claimed.clone().settled(transition, AttemptReport::default())).await
    }

    /// Sends one settlement and returns the answer.
    pub async fn settle_with(&self, settlement: Settlement) -> Settled {
        only(self.engine.settle(vec![settlement]).await.expect(UP))
    }

    /// Settles with one transition, which must be applied, and returns the job id.
    pub async fn end(&self, claimed: &Claimed, transition: Transition) -> JobId {
        assert_applied(self.settle(claimed, transition).await);
        claimed.job.id
    }

    /// Ends an attempt with success.
    pub async fn succeed(&self, claimed: &Claimed) -> JobId {
        self.end(claimed, Transition::Succeed { result: None }).await
    }

    /// Lets a job of a type without retention succeed: a store may write the next such success by another
    /// statement.
    pub async fn succeed_leaving_nothing(&self) -> JobId {
        self.enqueue(job_of(FLEETING)).await;
        let claimed = self.claim_one().await;
        self.succeed(&claimed).await
    }

    /// Ends an attempt with an error; the job is due again after a delay.
    pub async fn fail(&self, claimed: &Claimed, after: Duration) -> JobId {
        self.end(claimed, Transition::Retry { after, error: oops() }).await
    }

    /// Ends an attempt with an error; the job is dead.
    pub async fn bury(&self, claimed: &Claimed) -> JobId {
        self.end(claimed, Transition::Bury { error: oops() }).await
    }

    /// Parks a job behind a gate.
    pub async fn park(&self, claimed: &Claimed, gate: &str) -> JobId {
        self.end(claimed, Transition::Park { gate: Gate::named(gate) }).await
    }

    /// Releases a job that had started.
    pub async fn release(&self, claimed: &Claimed) -> JobId {
        self.end(claimed, Transition::Release { started: true }).await
    }

    /// Creates a dead letter.
    pub async fn dead_letter(&self) -> JobId {
        let claimed = self.enqueue_and_claim_one().await;
        self.bury(&claimed).await
    }

    /// Creates a parked job.
    pub async fn parked_job(&self, gate: &str) -> JobId {
        let claimed = self.enqueue_and_claim_one().await;
        self.park(&claimed, gate).await
    }
}
