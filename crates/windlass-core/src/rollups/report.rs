//! Rollups added up for people: by minute, hour or day, and in total.

use std::collections::BTreeMap;

use super::minute::{Minute, Rollup, Tally};
use crate::clock::Timestamp;
use crate::limits::{REPORT_ROWS_MAX, REPORT_SLOTS_MAX};

/// The unit by which rollups are added up.
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
    /// Returns the unit as one word.
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

    /// Returns how many empty lines lie between these two instants.
    pub fn between(self, earlier: Timestamp, later: Timestamp) -> i64 {
        let rollups = self.start_of(Minute::of(later)).number() - self.start_of(Minute::of(earlier)).number();
        (rollups / self.rollups() - 1).max(0)
    }

    fn start_of(self, minute: Minute) -> Minute {
        let number = minute.number();
        Minute::from_number(number - number.rem_euclid(self.rollups()))
    }

    /// Refuses a range that is too long for people to read, or empty.
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

/// Why a range cannot be reported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// It does not begin before it ends.
    #[error("expected a range that begins before it ends, got {from} to {until}")]
    Empty {
        /// Its beginning.
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
        /// The unit by which to add up.
        by: By,
        /// The number of units in the range.
        slots: i64,
    },
    /// It has more rows than one report reads.
    #[error(
        "expected a range with at most {REPORT_ROWS_MAX} minutes in which a job type had something to do, got more; ask for a shorter \
         range, or for one queue or type"
    )]
    TooMuch,
}

/// A report of rollups that are added up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    by: By,
    slots: BTreeMap<Minute, Tally>,
    total: Tally,
}

impl Report {
    /// Creates an empty report.
    pub fn new(by: By) -> Self {
        Self { by, slots: BTreeMap::new(), total: Tally::default() }
    }

    /// Adds a row.
    pub fn add(&mut self, row: &Rollup) {
        self.slots.entry(self.by.start_of(row.key.minute)).or_default().merge(&row.tally);
        self.total.merge(&row.tally);
    }

    /// Returns the units in which something happened, by the instant at which they begin.
    pub fn slots(&self) -> impl Iterator<Item = (Timestamp, &Tally)> {
        self.slots.iter().map(|(minute, tally)| (minute.start(), tally))
    }

    /// Returns the total.
    pub fn total(&self) -> &Tally {
        &self.total
    }
}
