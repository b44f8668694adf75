//! Settling: stores the end of an attempt, if its fence holds.

use std::collections::{HashSet, VecDeque};

use windlass_core::claim::Fence;
use windlass_core::clock::Timestamp;
use windlass_core::engine::Result;
use windlass_core::job::Progress;
use windlass_core::limits::{PROGRESS_BYTES_MAX, SETTLE_BATCH_MAX};
use windlass_core::outcome::bounded;
use windlass_core::planted::{Bug, planted};
use windlass_core::settle::{NewState, Settled, Settlement, Transition};

use super::state::{EndedAttempt, JobRow, State};
use crate::kit::check_batch_size;

impl State {
    pub(super) fn settle(&mut self, batch: Vec<Settlement>, now: Timestamp) -> Result<Vec<Settled>> {
        check_batch_size(SETTLE_BATCH_MAX, "settlements", batch.len())?;
        Ok(batch.into_iter().map(|settlement| self.settle_one(settlement, now)).collect())
    }

    fn settle_one(&mut self, settlement: Settlement, now: Timestamp) -> Settled {
        let fence = settlement.fence;
        let Some(row) = self.live.get_mut(&fence.job).filter(|row| holds(row, fence)) else {
            return self.settled_before(fence);
        };
        let keep_result = self.index.type_row(row.type_at).spec.keep_result;
        let Settlement { transition, report, .. } = settlement.bounded(keep_result);
        let cancel = row.claim().and_then(|claim| claim.cancel_requested.clone());
        let cancel = cancel.filter(|_| !planted(Bug::CancelIgnored));
        let error = transition.error().cloned();
        let (started_at, ended_at) = report.span(now);
        let ended_ago = transition.ended_ago(&report);
        if let Some(ending) = transition.ending(cancel.is_some()) {
            row.note_attempt(EndedAttempt {
                started_at: Some(started_at),
                ended_at,
                ending,
                error: error.clone(),
                output: report.output,
            });
        }
        row.last_error = error.or(row.last_error.take());
        row.settled_by = Some(fence.token);
        let type_at = row.type_at;
        let is_retry = matches!(transition, Transition::Retry { .. });
        let applied = transition.apply(now, row.job.due, row.job.counters, cancel.as_deref());
        if is_retry && matches!(applied.state, NewState::Waiting { .. }) {
            self.index.count(type_at, |totals| totals.retried += 1);
        }
        self.apply(fence.job, applied, now.minus(ended_ago), now);
        Settled::Applied
    }

    /// Answers a fence that holds no more: the call may be a repeat of a stored settlement.
    fn settled_before(&self, fence: Fence) -> Settled {
        let is_repeat = match self.row(fence.job) {
            Some(row) => row.settled_by == Some(fence.token),
            None => self.traces.know(fence),
        };
        if is_repeat { Settled::Applied } else { Settled::ClaimLost }
    }

    pub(super) fn report(&mut self, batch: Vec<(Fence, Progress)>) -> Result<Vec<Settled>> {
        check_batch_size(SETTLE_BATCH_MAX, "reports of progress", batch.len())?;
        Ok(batch.into_iter().map(|(fence, progress)| self.report_one(fence, progress)).collect())
    }

    fn report_one(&mut self, fence: Fence, progress: Progress) -> Settled {
        let Some(row) = self.live.get_mut(&fence.job).filter(|row| holds(row, fence)) else {
            return Settled::ClaimLost;
        };
        row.job.progress = Some(Progress {
            percent: progress.percent.min(100),
            note: progress.note.map(|note| bounded(note, PROGRESS_BYTES_MAX)),
        });
        Settled::Applied
    }
}

/// The settling tokens of the newest jobs of which nothing else is kept. A repeat arrives within seconds of
/// the first call, so a bounded number is enough.
#[derive(Debug, Default)]
pub(super) struct Traces {
    known: HashSet<Fence>,
    by_age: VecDeque<Fence>,
}

impl Traces {
    const KEPT_MAX: usize = 100_000;

    pub(super) fn leave(&mut self, fence: Fence) {
        if self.by_age.len() >= Self::KEPT_MAX
            && let Some(oldest) = self.by_age.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.known.insert(fence);
        self.by_age.push_back(fence);
    }

    fn know(&self, fence: Fence) -> bool {
        self.known.contains(&fence)
    }
}

/// Whether the job runs under this very claim.
fn holds(row: &JobRow, fence: Fence) -> bool {
    row.claim().is_some_and(|claim| claim.token == fence.token || planted(Bug::SettleWithoutToken))
}
