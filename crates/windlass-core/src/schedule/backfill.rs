//! Running a schedule for a time that has passed: lists the ticks in it, before jobs are made.

use super::catch_up::before;
use super::{Holidays, Schedule};
use crate::clock::Timestamp;
use crate::limits::{BACKFILL_MAX, SCHEDULE_SEARCH_MAX};

/// Why a range cannot be backfilled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BackfillError {
    /// It ends before it begins, or contains nothing.
    #[error("expected a range that ends after it begins, got {from} to {to}; name the earlier instant first")]
    Order {
        /// Where it begins.
        from: Timestamp,
        /// Where it ends.
        to: Timestamp,
    },
    /// It contains the future, whose ticks run by themselves.
    #[error(
        "expected a range that has passed, got one that ends at {to}, while it is {now}; future ticks run by themselves"
    )]
    Ahead {
        /// Where it ends.
        to: Timestamp,
        /// The current time.
        now: Timestamp,
    },
    /// It is too long to be searched.
    #[error("expected a range of at most fifty years, got {from} to {to}; fill it in parts")]
    TooLong {
        /// Where it begins.
        from: Timestamp,
        /// Where it ends.
        to: Timestamp,
    },
    /// It has too many ticks.
    #[error(
        "expected a range of at most {BACKFILL_MAX} ticks, got more; tick {BACKFILL_MAX} is at {reached}: fill it in parts"
    )]
    TooMany {
        /// The last tick that would still be accepted.
        reached: Timestamp,
    },
}

/// Returns the ticks at or after `from` and before `to`, so that ranges that follow each other share
/// none. The store decides which ticks run already or have run: a tick makes one job.
pub fn backfill(
    schedule: &Schedule,
    holidays: &Holidays,
    from: Timestamp,
    to: Timestamp,
    now: Timestamp,
) -> Result<Vec<Timestamp>, BackfillError> {
    check_range(from, to, now)?;
    let mut ticks = schedule.ticks_between(before(from), before(to), holidays);
    let taken: Vec<_> = ticks.by_ref().take(BACKFILL_MAX).collect();
    match (ticks.next(), taken.last()) {
        (Some(_), Some(reached)) => Err(BackfillError::TooMany { reached: *reached }),
        _ => Ok(taken),
    }
}

fn check_range(from: Timestamp, to: Timestamp, now: Timestamp) -> Result<(), BackfillError> {
    if from >= to {
        return Err(BackfillError::Order { from, to });
    }
    if to > now {
        return Err(BackfillError::Ahead { to, now });
    }
    if to.since(from) > SCHEDULE_SEARCH_MAX {
        return Err(BackfillError::TooLong { from, to });
    }
    Ok(())
}
