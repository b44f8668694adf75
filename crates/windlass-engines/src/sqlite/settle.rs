//! Settling: stores the end of an attempt, if its fence holds.

use rusqlite::params;
use windlass_core::claim::Fence;
use windlass_core::job::Progress;
use windlass_core::limits::{PROGRESS_BYTES_MAX, SETTLE_BATCH_MAX};
use windlass_core::outcome::bounded;
use windlass_core::settle::{AttemptReport, Settled, Settlement, Transition};

use super::apply::{AttemptEnd, EndedAttempt, HeldJob};
use super::sql::sql;
use super::store_error::StoreResult;
use super::work::Work;
use crate::kit::{check_batch_size, to_json};

impl Work<'_> {
    pub(super) fn settle(&mut self, batch: Vec<Settlement>) -> StoreResult<Vec<Settled>> {
        check_batch_size(SETTLE_BATCH_MAX, "settlements", batch.len())?;
        batch.into_iter().map(|settlement| self.settle_one(settlement)).collect()
    }

    pub(super) fn settle_one(&mut self, settlement: Settlement) -> StoreResult<Settled> {
        let fence = settlement.fence;
        let Some(held) = self.held_job(fence.job, fence.token)? else {
            return self.settled_before(fence);
        };
        let keep_result = self.type_of(held.kind)?.spec.keep_result;
        let Settlement { transition, report, .. } = settlement.bounded(keep_result);
        let cancel = held.cancel_requested.as_deref();
        let attempt_end = AttemptEnd {
            ended_ago: transition.ended_ago(&report),
            attempt: self.ended_attempt(&held, &transition, report),
            last_error: transition.error().cloned(),
            settled_by: Some(fence.token),
            is_retry: matches!(transition, Transition::Retry { .. }),
        };
        let applied = transition.apply(self.now, held.due, held.counters, cancel);
        self.apply(&held, applied, &attempt_end)?;
        Ok(Settled::Applied)
    }

    /// Ends a job as succeeded. Its claim says how long it ran. A job that was settled before is lost, even
    /// if this very call settled it: only the transaction that ends the job may commit its other writes.
    pub(super) fn complete(&mut self, fence: Fence) -> StoreResult<Settled> {
        let Some(held) = self.held_job(fence.job, fence.token)? else {
            return Ok(Settled::ClaimLost);
        };
        let report = AttemptReport { ran_for: self.now.since(held.since), ..AttemptReport::default() };
        self.settle_one(Settlement { fence, transition: Transition::Succeed { result: None }, report })
    }

    fn ended_attempt(
        &self,
        held: &HeldJob,
        transition: &Transition,
        report: AttemptReport,
    ) -> Option<EndedAttempt> {
        let (started_at, ended_at) = report.span(self.now);
        Some(EndedAttempt {
            number: held.counters.attempts,
            worker: held.worker,
            started_at,
            ended_at,
            ending: transition.ending(held.cancel_requested.is_some())?,
            error: transition.error().cloned(),
            output: report.output,
        })
    }

    /// Answers a fence that holds no more: the call may be a repeat of a stored settlement.
    fn settled_before(&self, fence: Fence) -> StoreResult<Settled> {
        let mut statement = self.conn.prepare_cached(sql!("was_settled"))?;
        let is_repeat = statement.exists(params![fence.job.0, fence.token.to_bytes()])?;
        Ok(if is_repeat { Settled::Applied } else { Settled::ClaimLost })
    }

    pub(super) fn report(&mut self, batch: Vec<(Fence, Progress)>) -> StoreResult<Vec<Settled>> {
        check_batch_size(SETTLE_BATCH_MAX, "reports of progress", batch.len())?;
        batch.into_iter().map(|(fence, progress)| self.report_one(fence, progress)).collect()
    }

    fn report_one(&mut self, fence: Fence, progress: Progress) -> StoreResult<Settled> {
        let progress = Progress {
            percent: progress.percent.min(100),
            note: progress.note.map(|note| bounded(note, PROGRESS_BYTES_MAX)),
        };
        let mut statement = self.conn.prepare_cached(sql!("report"))?;
        match statement.execute(params![fence.job.0, fence.token.to_bytes(), to_json(&progress)])? {
            0 => Ok(Settled::ClaimLost),
            _ => Ok(Settled::Applied),
        }
    }
}
