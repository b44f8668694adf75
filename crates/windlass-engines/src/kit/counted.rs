//! What counts distinguish, without a scan of the jobs.

use std::time::Duration;

use windlass_core::clock::Timestamp;

/// The state of a job, as far as counts distinguish it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountedState {
    /// Not stored yet, or ended.
    Outside,
    /// Waiting without a gate.
    Waiting(Timestamp),
    /// Waiting behind a gate.
    Parked,
    /// Running.
    Running,
    /// In the dead-letter queue.
    Dead,
}

impl CountedState {
    /// The state of a waiting job.
    pub(crate) fn waiting(due: Timestamp, has_gate: bool) -> Self {
        if has_gate { Self::Parked } else { Self::Waiting(due) }
    }
}

/// The totals over the life of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Total {
    Enqueued,
    Succeeded,
    Retried,
    Dead,
    /// A dead job was started over.
    StartedOver,
    Cancelled,
}

/// Microseconds of a minute.
pub(crate) const MINUTE: i64 = 60_000_000;

/// Minutes older than this are merged into one. Not sooner, so that a clock that steps back a little still
/// finds its minutes.
pub(crate) const MERGE_AFTER: Duration = Duration::from_secs(60 * 60);

/// Returns the minute of an instant, counted from 1970.
pub(crate) fn minute_of(instant: Timestamp) -> i64 {
    instant.as_micros().div_euclid(MINUTE)
}
