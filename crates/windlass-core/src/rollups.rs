//! Rollups: what happened in each minute to the jobs of each queue and type, kept long after the jobs are gone.
//!
//! Two sources. The *totals* that a store keeps of each type anyway are exact whoever put jobs in or ended them; each rollup round
//! books by how much they have grown since the last one, on the minute of the round. What only a worker sees (attempts begun, how long
//! they had waited and ran) it gathers in memory and appends as a small *sample* from time to time; a round adds those to their minutes.
//!
//! **Nothing is booked twice, and nothing that was appended is lost, whichever process rolls up.** A round begins by reading a *watermark*: a version, and the totals that
//! are in the minutes already. What it decides is applied by one statement, script or transaction only if the watermark still has that
//! version, and moves it: rows, mark, and the samples that were rolled up, which go. So of two leaders that roll up at once one is told that it was
//! overtaken, and so is one that repeats a change whose answer was lost.
//!
//! [`histogram`] is how times are kept, [`minute`] what a row is, [`sample`] what workers append, [`watermark`] up to where totals are
//! booked, [`roll_up`] what a round decides, [`report`] what people are shown.

pub mod histogram;
pub mod minute;
pub mod sample;
pub mod watermark;
pub mod roll_up;
pub mod report;

use std::time::Duration;

use async_trait::async_trait;

use crate::admin::{BatchDone, Totals};
use crate::clock::Timestamp;
use crate::engine::Result;
use crate::error::EngineError;
#[cfg(doc)]
use crate::limits::SAMPLES_KEPT_MAX;
use crate::limits::{ROLLUPS_PAGE_MAX, SAMPLE_AGE_MAX, SAMPLE_BYTES_MAX, SAMPLES_PER_CALL_MAX};
use crate::names::{QueueName, TypeName};

pub use histogram::Histogram;
pub use minute::{Minute, Rollup, RollupKey, Tally};
pub use report::{By, RangeError, Report};
pub use sample::{Sample, Seen};

/// Where rollups are kept. Each method is one statement, script or transaction, on the store's clock.
#[async_trait]
pub trait Rollups: Send + Sync + 'static {
    /// Appends what a worker has seen, all or nothing; at most [`SAMPLES_PER_CALL_MAX`]. While no process rolls up, only the newest
    /// [`SAMPLES_KEPT_MAX`] are kept. Not to be repeated if nobody knows whether it happened.
    async fn append_samples(&self, samples: &[Sample]) -> Result<()>;

    /// The watermark, then the totals of all types and the oldest samples, at most `limit` and [`SAMPLES_PER_CALL_MAX`]: in this order, or at
    /// one moment, so that the totals are never older than the watermark.
    async fn rollup_input(&self, limit: u32) -> Result<RollupInput>;

    /// The rows of these, as far as they are there.
    async fn rollups_of(&self, keys: &[RollupKey]) -> Result<RollupsRead>;

    /// Applies what a round decided, as a whole, only if the watermark still has the version that was read.
    async fn apply_rollup(&self, change: &RollupChange) -> Result<RollupOutcome>;

    /// A page of rows, by minute, queue and type.
    async fn rollups(&self, request: &RollupsRequest) -> Result<RollupsRead>;

    /// Deletes minutes that are older than this, at most `limit` rows, oldest first.
    async fn forget_rollups(&self, kept: Duration, limit: u32) -> Result<BatchDone>;
}

/// What a rollup round begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollupInput {
    /// Up to where totals are booked; nothing if nothing was rolled up yet.
    pub watermark: Option<StoredWatermark>,
    /// What happened to the jobs of each type over the life of the store.
    pub totals: Vec<((QueueName, TypeName), Totals)>,
    /// The oldest samples, oldest first.
    pub samples: Vec<StoredSample>,
    /// There are more samples.
    pub more: bool,
    /// The store's now.
    pub now: Timestamp,
}

/// A watermark as a store gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredWatermark {
    /// Goes up with each change; to be named by the next one.
    pub version: u64,
    /// A [`watermark::Watermark`] as text.
    pub text: String,
}

/// A sample as a store gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSample {
    /// By which it is taken away once it is rolled up.
    pub id: u64,
    /// When it was seen, by the store's clock.
    pub at: Timestamp,
    /// What was seen.
    pub text: String,
}

/// What a rollup round changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollupChange {
    /// The version that this was decided from; 0 if there was no watermark.
    pub read: u64,
    /// The version from then on.
    pub version: u64,
    /// The watermark from then on, as text.
    pub watermark: String,
    /// What these rows become. Each once.
    pub rows: Vec<Rollup>,
    /// These samples go, in the order in which they were read.
    pub rolled_up: Vec<u64>,
}

/// What became of a rollup round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RollupOutcome {
    /// It was applied.
    Done,
    /// Another process has rolled up since, or this very change was applied before. Nothing was written: read again, decide again.
    Overtaken,
}

/// Which rows to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollupsRequest {
    /// From the minute of this instant on.
    pub from: Timestamp,
    /// Up to this instant, without it: the minute in which it lies is given if it has begun before it.
    pub until: Timestamp,
    /// Only of this queue.
    pub queue: Option<QueueName>,
    /// Only of this type.
    pub job_type: Option<TypeName>,
    /// Only behind the end of the page before.
    pub after: Option<RollupsEnd>,
    /// At most so many rows, and never more than [`ROLLUPS_PAGE_MAX`].
    pub limit: u32,
}

impl RollupsRequest {
    /// All rows of a time, from the first page on.
    pub fn between(from: Timestamp, until: Timestamp) -> Self {
        Self { from, until, queue: None, job_type: None, after: None, limit: ROLLUPS_PAGE_MAX }
    }

    /// The first minute that is given.
    pub fn first(&self) -> Minute {
        Minute::of(self.from)
    }

    /// The last minute that is given.
    pub fn last(&self) -> Minute {
        Minute::of(Timestamp::from_micros(self.until.as_micros().saturating_sub(1)))
    }

    /// How many rows are given at the most.
    pub fn limit(&self) -> u32 {
        self.limit.clamp(1, ROLLUPS_PAGE_MAX)
    }

    /// Whether a row is asked for, its minute and the page aside.
    pub fn is_of(&self, queue: &str, job_type: &str) -> bool {
        self.queue.as_ref().is_none_or(|name| name.as_str() == queue)
            && self.job_type.as_ref().is_none_or(|name| name.as_str() == job_type)
    }
}

/// Where a page of rows ended. It may be a row that cannot be read, whose names may be no names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RollupsEnd {
    /// The minute of the last row.
    pub minute: Minute,
    /// Its queue.
    pub queue: String,
    /// Its type.
    pub job_type: String,
}

/// Rows of a store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RollupsRead {
    /// Those that were asked for.
    pub rows: Vec<Rollup>,
    /// Those of them that cannot be read.
    pub damaged: Vec<RollupsEnd>,
    /// Where this page ended, if there may be more behind it.
    pub end: Option<RollupsEnd>,
}

impl RollupsRead {
    /// Adds a row as a store keeps it.
    pub fn push(&mut self, at: RollupsEnd, tally: Option<Tally>) {
        let names = (QueueName::parse(&at.queue), TypeName::parse(&at.job_type));
        match (names, tally) {
            ((Ok(queue), Ok(job_type)), Some(tally)) => {
                let key = RollupKey { minute: at.minute, queue, job_type };
                self.rows.push(Rollup { key, tally });
            }
            _ => self.damaged.push(at),
        }
    }
}

/// Refuses samples that no store would take.
pub fn check_samples(samples: &[Sample]) -> Result<()> {
    if samples.len() > SAMPLES_PER_CALL_MAX {
        return Err(EngineError::Refused(format!(
            "expected at most {SAMPLES_PER_CALL_MAX} deltas in one request, got {}; send them in parts",
            samples.len()
        )));
    }
    if let Some(sample) = samples.iter().find(|sample| sample.ago > SAMPLE_AGE_MAX) {
        return Err(EngineError::Refused(format!(
            "expected a sample of the last {SAMPLE_AGE_MAX:?}, got one of {:?} ago",
            sample.ago
        )));
    }
    match samples.iter().map(|sample| sample.text.len()).find(|bytes| *bytes > SAMPLE_BYTES_MAX) {
        Some(bytes) => Err(EngineError::Refused(format!(
            "expected a sample of at most {SAMPLE_BYTES_MAX} bytes, got {bytes}"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
