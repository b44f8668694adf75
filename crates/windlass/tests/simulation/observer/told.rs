//! The events that processes and the world report.

use std::time::Duration;

use windlass_conformance::history::{Event, FaultKind, Outcome, Uid};
use windlass_core::claim::Claimed;
use windlass_core::enqueue::EnqueueAnswer;
use windlass_core::job::JobId;
use windlass_core::settle::{Settlement, Transition};
use windlass_core::worker::WorkerId;

use super::{Moment, Observer};

impl Observer {
    pub(crate) fn started(&mut self, claimed: &Claimed, worker: WorkerId, at: &Moment<'_>) {
        let uid = self.uid(claimed.job.id);
        self.note(at, Event::start(uid, claimed.token, worker));
    }

    pub(crate) fn ended(&mut self, settlement: &Settlement, at: &Moment<'_>) {
        let outcome = match &settlement.transition {
            Transition::Succeed { .. } => Outcome::Done,
            Transition::Retry { .. } => Outcome::Failed,
            Transition::Snooze { .. } | Transition::Park { .. } => Outcome::Snoozed,
            Transition::Bury { .. } => Outcome::Dead,
            Transition::Cancel { .. } => Outcome::Cancelled,
            Transition::Release { .. } => Outcome::Released,
        };
        let uid = self.uid(settlement.fence.job);
        self.note(at, Event::end(uid, settlement.fence.token, outcome));
    }

    pub(crate) fn fault(
        &mut self,
        kind: FaultKind,
        worker: WorkerId,
        until: Option<Duration>,
        at: &Moment<'_>,
    ) {
        let strikes = matches!(kind, FaultKind::Kill | FaultKind::Freeze);
        if let Some(lease) = self.workers.get_mut(&worker).filter(|_| strikes) {
            lease.struck = true;
        }
        let until = until.map(|until| at.store.true_instant(until));
        self.note(at, Event::Fault { kind, target: Some(worker.to_string()), until });
    }

    pub(crate) fn leaves(&mut self, worker: WorkerId, clean: bool) {
        if let Some(lease) = self.workers.get_mut(&worker) {
            lease.struck = true;
        }
        if clean {
            self.clean_leavers.insert(worker);
        }
    }

    pub(crate) fn invoked(&mut self, uid: &str, at: &Moment<'_>) {
        self.note(at, Event::Invoke { uid: Uid::from(uid), due: None });
    }

    /// Records the answer to a producer about one of its jobs. If another job's key refused it, the job is
    /// not stored.
    pub(crate) fn answered(&mut self, uid: &str, answer: Option<&EnqueueAnswer>, at: &Moment<'_>) {
        let uid = Uid::from(uid);
        let event = match answer {
            Some(EnqueueAnswer::New(job)) => Event::Acknowledged { uid, job: *job },
            Some(_) => Event::Refused { uid },
            None => Event::Unknown { uid },
        };
        self.note(at, event);
    }

    pub(crate) fn not_stored(&mut self, uid: &str, at: &Moment<'_>) {
        self.note(at, Event::Refused { uid: Uid::from(uid) });
    }

    /// Adds the final states of all jobs in the store.
    pub(crate) fn dump(&mut self, at: &Moment<'_>) {
        for record in at.store.jobs() {
            let (job, job_state, counters) = (record.job.id, record.job_state(), record.job.counters);
            let uid = self.uid(job);
            self.note(at, Event::Final { uid, job, job_state, counters });
        }
    }

    /// All known jobs, for operators who act on any of them.
    pub(crate) fn known_jobs(&self) -> Vec<JobId> {
        self.jobs.keys().copied().collect()
    }
}
