//! Minutes added up for people: by minute, hour or day, and in all.

use std::collections::BTreeMap;

use super::minute::{Minute, Rollup, Tally};
use crate::clock::Timestamp;
use crate::limits::{REPORT_ROWS_MAX, REPORT_SLOTS_MAX};

/// What is added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Each minute.
    Minute,
    /// Each hour, in UTC.
    Hour,
    /// Each day, in UTC.
    Day,
}

impl By {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
        }
    }

    fn rollups(self) -> i64 {
        match self {
            Self::Minute => 1,
            Self::Hour => 60,
            Self::Day => 24 * 60,
        }
    }

    /// How many lines without anything lie between these two.
    pub fn between(self, earlier: Timestamp, later: Timestamp) -> i64 {
        let rollups = self.start_of(Minute::of(later)).number() - self.start_of(Minute::of(earlier)).number();
        (rollups / self.rollups() - 1).max(0)
    }

    fn start_of(self, minute: Minute) -> Minute {
        let number = minute.number();
        Minute::from_number(number - number.rem_euclid(self.rollups()))
    }

    /// Refuses a range that nobody could look at, or that is none.
    pub fn check(self, from: Timestamp, until: Timestamp) -> Result<(), RangeError> {
        if from >= until {
            return Err(RangeError::Empty { from, until });
        }
        let (first, last) = (self.start_of(Minute::of(from)), self.start_of(Minute::of(until)));
        let slots = last.number().saturating_sub(first.number()) / self.rollups();
        match usize::try_from(slots).is_ok_and(|slots| slots <= REPORT_SLOTS_MAX) {
            true => Ok(()),
            false => Err(RangeError::TooFine { by: self, slots }),
        }
    }
}

/// Why a range cannot be told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// It ends before it begins.
    #[error("expected a range that begins before it ends, got {from} to {until}")]
    Empty {
        /// Its begin.
        from: Timestamp,
        /// Its end.
        until: Timestamp,
    },
    /// It has too many parts.
    #[error(
        "expected at most {REPORT_SLOTS_MAX} lines, got {slots} by {}; ask for a shorter range, or by hour or day",
        by.as_str()
    )]
    TooFine {
        /// What was to be added up.
        by: By,
        /// How many of them the range has.
        slots: i64,
    },
    /// More happened in it than is read at once.
    #[error(
        "expected a range with at most {REPORT_ROWS_MAX} minutes in which a job type had something to do, got more; ask for a shorter \
         range, or for one queue or type"
    )]
    TooMuch,
}

/// Minutes added up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    by: By,
    slots: BTreeMap<Minute, Tally>,
    total: Tally,
}

impl Report {
    /// Of nothing yet.
    pub fn new(by: By) -> Self {
        Self { by, slots: BTreeMap::new(), total: Tally::default() }
    }

    /// Adds a row.
    pub fn add(&mut self, row: &Rollup) {
        self.slots.entry(self.by.start_of(row.key.minute)).or_default().merge(&row.tally);
        self.total.merge(&row.tally);
    }

    /// Those in which something happened, by the instant at which they begin.
    pub fn slots(&self) -> impl Iterator<Item = (Timestamp, &Tally)> {
        self.slots.iter().map(|(minute, tally)| (minute.start(), tally))
    }

    /// All of it.
    pub fn total(&self) -> &Tally {
        &self.total
    }
}
