//! The ends of attempts, and the states of their jobs.

use windlass_conformance::history::Event;
use windlass_core::claim::Fence;
use windlass_core::job::{JobId, JobState};
use windlass_core::settle::{Settled, Settlement};

use super::{Moment, Observer, is_running_by};

impl Observer {
    pub(super) fn saw_settles(&mut self, batch: &[Settlement], answers: &[Settled], at: &Moment<'_>) {
        for (settlement, answer) in batch.iter().zip(answers) {
            self.saw_settle(settlement, *answer, at);
        }
        // Checked after the whole batch, which may contain the end of an old claim and the end of a newer
        // one.
        batch.iter().for_each(|settlement| self.check_other_holder(settlement.fence, at));
    }

    fn saw_settle(&mut self, settlement: &Settlement, answer: Settled, at: &Moment<'_>) {
        let (fence, id) = (settlement.fence, settlement.fence.job);
        let process = at.process.expect("only processes settle");
        let Some(claim) = self.claims.get(&(process, fence)).copied() else {
            return self.broke("unexpected", format!("{fence:?} is settled, and was never claimed"));
        };
        let holder = self.jobs.get(&id).and_then(|seen| seen.holder).map(|(claim, _)| claim);
        match answer {
            Settled::Applied if holder == Some(claim) => {
                self.settled.insert(claim);
                let uid = self.uid(id);
                self.note(at, Event::applied(uid, fence.token));
                self.release(id, at);
            }
            Settled::Applied if self.settled.contains(&claim) => {}
            Settled::Applied => {
                let uid = self.uid(id);
                self.note(at, Event::applied(uid, fence.token));
                self.broke("stale accepted", format!("{fence:?} no longer holds the job"));
            }
            Settled::ClaimLost if holder == Some(claim) => {
                self.broke("holder refused", format!("{fence:?} holds the job"));
            }
            Settled::ClaimLost => {
                let uid = self.uid(id);
                self.note(at, Event::lost(uid, fence.token));
            }
        }
    }

    /// Checks that an end, also a repeated one, does not affect another worker that holds the job.
    fn check_other_holder(&mut self, fence: Fence, at: &Moment<'_>) {
        let holder = self.jobs.get(&fence.job).and_then(|seen| seen.holder);
        if holder.is_some_and(|(_, worker)| !is_running_by(at.store, fence.job, worker)) {
            self.broke("stale accepted", format!("{fence:?} ended a later claim"));
        }
    }

    /// Records that the job is no longer held, and checks that its state is legal.
    pub(super) fn release(&mut self, id: JobId, at: &Moment<'_>) {
        let job_state = at.store.job(id).map(|record| record.job_state());
        let Some(seen) = self.jobs.get_mut(&id) else { return };
        seen.holder = None;
        let (twice, cancelled) = (seen.ended, seen.cancelled);
        seen.ended |= job_state.is_none_or(JobState::has_ended);
        if twice {
            self.broke("ended twice", format!("job {id} had ended, and was released as {job_state:?}"));
        }
        if cancelled && job_state != Some(JobState::Cancelled) {
            self.broke("cancel ignored", format!("job {id} had to be cancelled, and is {job_state:?}"));
        }
    }
}
