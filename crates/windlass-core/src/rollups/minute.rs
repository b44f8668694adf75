//! What is kept of one minute of one job type.

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
    /// The one in which an instant lies.
    pub fn of(at: Timestamp) -> Self {
        Self(at.as_micros().div_euclid(MICROS))
    }

    /// As a store keeps it.
    pub const fn from_number(number: i64) -> Self {
        Self(number)
    }

    /// For a store to keep.
    pub const fn number(self) -> i64 {
        self.0
    }

    /// Its first instant.
    pub fn start(self) -> Timestamp {
        Timestamp::from_micros(self.0.saturating_mul(MICROS))
    }
}

/// The minutes before this one are older than `kept`.
pub fn forget_before(now: Timestamp, kept: Duration) -> Minute {
    Minute::of(now.minus(kept))
}

/// What a row is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RollupKey {
    /// Which minute.
    pub minute: Minute,
    /// Which queue.
    pub queue: QueueName,
    /// Which job type.
    pub job_type: TypeName,
}

/// What happened in some time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    /// Jobs stored.
    pub enqueued: u64,
    /// Attempts begun by workers.
    pub started: u64,
    /// Jobs done.
    pub succeeded: u64,
    /// Attempts that failed, with another try ahead.
    pub retried: u64,
    /// Times a job was given up: one that was started over may die again.
    pub dead: u64,
    /// Jobs stopped, expired, discarded by their handler or purged.
    pub cancelled: u64,
    /// How long jobs had been due when they were claimed.
    pub waits: Histogram,
    /// How long handlers ran.
    pub runs: Histogram,
}

impl Tally {
    /// What happened between two looks at the totals of a type. What went down was restored or removed, and counts as nothing.
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

    /// Takes in what happened besides.
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

    /// Whether nothing happened.
    pub fn is_empty(&self) -> bool {
        self.counts() == [0; 6] && self.waits.is_empty() && self.runs.is_empty()
    }

    /// The counts in one order: enqueued, started, succeeded, retried, dead, cancelled.
    pub fn counts(&self) -> [u64; 6] {
        [self.enqueued, self.started, self.succeeded, self.retried, self.dead, self.cancelled]
    }

    /// From what a store has kept. Nothing if that cannot be read.
    pub fn from_store(counts: [u64; 6], waits: &str, runs: &str) -> Option<Self> {
        let [enqueued, started, succeeded, retried, dead, cancelled] = counts;
        let (waits, runs) = (Histogram::parse(waits).ok()?, Histogram::parse(runs).ok()?);
        Some(Self { enqueued, started, succeeded, retried, dead, cancelled, waits, runs })
    }
}

/// One minute of one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollup {
    /// What it is about.
    pub key: RollupKey,
    /// What happened.
    pub tally: Tally,
}
