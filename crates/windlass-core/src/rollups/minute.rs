//! The statistics of one minute of one job type.

use std::time::Duration;

use super::histogram::Histogram;
use crate::admin::Totals;
use crate::clock::Timestamp;
use crate::names::{QueueName, TypeName};

const MICROS: i64 = 60_000_000;

/// A minute of the store's clock, counted from 1970 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Minute(i64);

impl Minute {
    /// Returns the minute in which an instant lies.
    pub fn of(at: Timestamp) -> Self {
        Self(at.as_micros().div_euclid(MICROS))
    }

    /// Creates a minute from the number that a store keeps.
    pub const fn from_number(number: i64) -> Self {
        Self(number)
    }

    /// Returns the number for a store to keep.
    pub const fn number(self) -> i64 {
        self.0
    }

    /// Returns its first instant.
    pub fn start(self) -> Timestamp {
        Timestamp::from_micros(self.0.saturating_mul(MICROS))
    }
}

/// Returns the minute before which all minutes are older than `kept`.
pub fn forget_before(now: Timestamp, kept: Duration) -> Minute {
    Minute::of(now.minus(kept))
}

/// The key of a row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RollupKey {
    /// The minute.
    pub minute: Minute,
    /// The queue.
    pub queue: QueueName,
    /// The job type.
    pub job_type: TypeName,
}

/// The statistics of a span of time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    /// Jobs stored.
    pub enqueued: u64,
    /// Attempts begun by workers.
    pub started: u64,
    /// Jobs that succeeded.
    pub succeeded: u64,
    /// Attempts that failed, with a retry ahead.
    pub retried: u64,
    /// Times a job died: a job that was restarted may die again.
    pub dead: u64,
    /// Jobs that were cancelled, expired, discarded by their handler or purged.
    pub cancelled: u64,
    /// How long jobs had been due when they were claimed.
    pub waits: Histogram,
    /// How long handlers ran.
    pub runs: Histogram,
}

impl Tally {
    /// Returns the growth between two reads of the totals of a type. A total that decreased was restored
    /// or removed, and counts as zero.
    pub fn between(before: Totals, after: Totals) -> Self {
        Self {
            enqueued: after.enqueued.saturating_sub(before.enqueued),
            succeeded: after.succeeded.saturating_sub(before.succeeded),
            retried: after.retried.saturating_sub(before.retried),
            dead: after.deaths().saturating_sub(before.deaths()),
            cancelled: after.cancelled.saturating_sub(before.cancelled),
            ..Self::default()
        }
    }

    /// Adds the counts of another tally.
    pub fn merge(&mut self, other: &Self) {
        let add = |ours: &mut u64, theirs: u64| *ours = ours.saturating_add(theirs);
        add(&mut self.enqueued, other.enqueued);
        add(&mut self.started, other.started);
        add(&mut self.succeeded, other.succeeded);
        add(&mut self.retried, other.retried);
        add(&mut self.dead, other.dead);
        add(&mut self.cancelled, other.cancelled);
        self.waits.merge(&other.waits);
        self.runs.merge(&other.runs);
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.counts() == [0; 6] && self.waits.is_empty() && self.runs.is_empty()
    }

    /// Returns the counts in a fixed order: enqueued, started, succeeded, retried, dead, cancelled.
    pub fn counts(&self) -> [u64; 6] {
        [self.enqueued, self.started, self.succeeded, self.retried, self.dead, self.cancelled]
    }

    /// Parses what a store has kept. `None` if that cannot be read.
    pub fn from_store(counts: [u64; 6], waits: &str, runs: &str) -> Option<Self> {
        let [enqueued, started, succeeded, retried, dead, cancelled] = counts;
        let (waits, runs) = (Histogram::parse(waits).ok()?, Histogram::parse(runs).ok()?);
        Some(Self { enqueued, started, succeeded, retried, dead, cancelled, waits, runs })
    }
}

/// The statistics of one minute of one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollup {
    /// The minute, queue and type.
    pub key: RollupKey,
    /// The statistics.
    pub tally: Tally,
}
