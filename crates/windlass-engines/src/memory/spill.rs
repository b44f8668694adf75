//! Keeping jobs for another engine that is away.

use windlass_core::clock::Timestamp;
use windlass_core::engine::Result;
use windlass_core::enqueue::{EnqueueRequest, Enqueued};
use windlass_core::gate::Gate;
use windlass_core::job::JobId;

use super::state::{JobRow, Stage, State};

impl State {
    pub(super) fn enqueue_behind(
        &mut self,
        request: EnqueueRequest,
        gate: &Gate,
        now: Timestamp,
    ) -> Result<Vec<Enqueued>> {
        let is_repeat = self.receipts.answers(request.request, now).is_some();
        let answers = self.enqueue(request, now)?;
        for answer in answers.iter().filter(|_| !is_repeat) {
            if let Enqueued::New(id) = answer {
                self.change_waiting(*id, |_, at| *at = Some(gate.clone()));
            }
        }
        Ok(answers)
    }

    pub(super) fn set_aside(&mut self, gate: &Gate, limit: u32) -> u64 {
        let oldest = self.live.iter().filter(|(_, row)| may_leave(row)).map(|(id, _)| *id);
        let oldest: Vec<_> = oldest.take(limit as usize).collect();
        for id in &oldest {
            self.change_waiting(*id, |_, at| *at = Some(gate.clone()));
        }
        oldest.len() as u64
    }

    pub(super) fn end_behind(
        &mut self,
        gate: &Gate,
        reasons: Vec<(JobId, String)>,
        now: Timestamp,
    ) -> Vec<JobId> {
        let is_behind = |row: &JobRow| matches!(&row.stage, Stage::Waiting { gate: Some(at) } if at == gate);
        let mut gone = Vec::new();
        for (id, why) in reasons {
            if !self.row(id).is_some_and(is_behind) || !self.cancel_waiting(id, &why, now) {
                gone.push(id);
            }
        }
        gone
    }
}

/// Whether nobody ever claimed it and nothing but the want of a handler holds it back.
fn may_leave(row: &JobRow) -> bool {
    let Stage::Waiting { gate } = &row.stage else { return false };
    row.job.counters.attempts == 0 && gate.as_ref().is_none_or(Gate::is_for_a_handler)
}
