//! The outcome of a claim, and the order in which its jobs are handed out.

use tokio_postgres::Row;
use windlass_core::boost::ClaimRange;
use windlass_core::clock::Timestamp;

use super::claim::FIRST_JOB_COLUMN;
use super::row::{Reading, read_job};
use super::store_error::StoreResult;
use super::value::Instant;

/// The outcome of a claim.
pub(super) enum ClaimOutcome {
    Jobs {
        /// Each job, with whether it was boosted ahead of its turn.
        readings: Vec<(bool, Reading)>,
        /// The store's now.
        at: Timestamp,
        /// Jobs that the claim met and that are too late to be started.
        late: Vec<i64>,
    },
    WorkerDead,
    Stale,
}

impl ClaimOutcome {
    pub(super) fn nothing(at: Timestamp) -> Self {
        Self::Jobs { readings: Vec::new(), at, late: Vec::new() }
    }

    pub(super) fn has_jobs(&self) -> bool {
        matches!(self, Self::Jobs { readings, .. } if !readings.is_empty())
    }

    /// Joins the outcomes of two queues. The jobs of the first are ours, whatever the second returned.
    pub(super) fn and(self, next: Self) -> Self {
        match (self, next) {
            (first, Self::WorkerDead | Self::Stale) if first.has_jobs() => first,
            (
                Self::Jobs { mut readings, mut late, .. },
                Self::Jobs { readings: more, at, late: more_late },
            ) => {
                readings.extend(more);
                late.extend(more_late);
                Self::Jobs { readings, at, late }
            }
            (Self::Jobs { .. }, other) | (other, _) => other,
        }
    }

    pub(super) fn take_late(&mut self) -> Vec<i64> {
        match self {
            Self::Jobs { late, .. } => std::mem::take(late),
            Self::WorkerDead | Self::Stale => Vec::new(),
        }
    }
}

/// Reads a row of `claimed_before`: now, since when, boosted, an unused column, and the job.
pub(super) fn read_claimed(row: &Row) -> StoreResult<((Timestamp, Timestamp), bool, Reading)> {
    let now = row.try_get::<_, Instant>(0)?.0;
    let since = row.try_get::<_, Option<Instant>>(1)?.map_or(now, |since| since.0);
    let boosted = row.try_get::<_, Option<bool>>(2)?.unwrap_or_default();
    Ok(((since, now), boosted, read_job(row, FIRST_JOB_COLUMN)?))
}

/// The position of a claimed job in the order: the most urgent first.
pub(super) fn position_in(order: &[ClaimRange], boosted: bool, reading: &Reading) -> (usize, Timestamp, i64) {
    let job = &reading.job;
    let holds = |range: &ClaimRange| {
        range.boosted == boosted
            && range.priority == job.priority
            && range.after.is_none_or(|after| job.due > after)
            && (job.due <= range.until || !range.boosted)
    };
    (order.iter().position(holds).unwrap_or(usize::MAX), job.due, job.id.0)
}
