//! Keeping jobs for another engine that is away.

use rusqlite::params;
use windlass_core::enqueue::{EnqueueRequest, Enqueued};
use windlass_core::gate::Gate;
use windlass_core::job::JobId;
use windlass_core::limits::{REASON_BYTES_MAX, UPKEEP_BATCH_MAX};
use windlass_core::outcome::bounded;

use super::enqueue::receipt;
use super::fault::Step;
use super::sql::sql;
use super::work::Work;

impl Work<'_> {
    pub(super) fn enqueue_behind(&mut self, request: EnqueueRequest, gate: &Gate) -> Step<Vec<Enqueued>> {
        let is_repeat = receipt(self.conn, request.request, self.now)?.is_some();
        let answers = self.enqueue(request)?;
        for answer in answers.iter().filter(|_| !is_repeat) {
            if let Enqueued::New(id) = answer {
                self.put_behind(*id, gate)?;
            }
        }
        Ok(answers)
    }

    pub(super) fn set_aside(&mut self, gate: &Gate, limit: u32) -> Step<u64> {
        let oldest = self.ids(sql!("never_claimed"), params![limit.min(UPKEEP_BATCH_MAX)])?;
        for id in &oldest {
            self.put_behind(*id, gate)?;
        }
        Ok(oldest.len() as u64)
    }

    fn put_behind(&mut self, id: JobId, gate: &Gate) -> Step<()> {
        let Some(job) = self.live_job(id)? else { return Ok(()) };
        self.change_waiting(&job, job.due, Some(gate))
    }

    pub(super) fn end_behind(&mut self, gate: &Gate, reasons: Vec<(JobId, String)>) -> Step<Vec<JobId>> {
        let mut gone = Vec::new();
        for (id, why) in reasons {
            match self.live_job(id)? {
                Some(job) if !job.runs && job.gate.as_ref() == Some(gate) => {
                    self.cancel_waiting(&job, &bounded(why, REASON_BYTES_MAX))?;
                }
                _ => gone.push(id),
            }
        }
        Ok(gone)
    }
}
