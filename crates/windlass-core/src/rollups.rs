//! Rollups: the statistics of each minute about the jobs of each queue and type, kept long after the jobs
//! are gone.
//!
//! They have two sources. A store keeps exact *totals* of each type anyway, whichever process enqueued or
//! ended the jobs; each rollup round adds the growth of the totals since the last round to the minute of
//! the round. A worker alone measures attempts that began, and how long they had waited and ran. It
//! collects these in memory and appends them as a small *sample* from time to time; a round adds samples
//! to their minutes.
//!
//! **Nothing is added twice, and no appended sample is lost, whichever process rolls up.** A round begins
//! by reading a *watermark*: a version, and the totals that are in the rollups already. One statement,
//! script or transaction applies the decision only if the watermark still has that version, and moves it:
//! rows, watermark, and the samples that were rolled up, which are deleted. So if two leaders roll up at
//! once, one gets the answer that it was overtaken, and so does a process that repeats a change whose
//! answer was lost.
//!
//! [`histogram`] stores times, [`minute`] defines a row, and [`sample`] is what workers append.
//! [`watermark`] is the point up to which totals are in the rollups. [`roll_up`] decides what a round
//! adds, and [`report`] is what people are shown.

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

/// Stores rollups. Each method is one statement, script or transaction, on the store's clock.
#[async_trait]
pub trait Rollups: Send + Sync + 'static {
    /// Appends a worker's samples, all or nothing; at most [`SAMPLES_PER_CALL_MAX`]. While no process
    /// rolls up, only the newest [`SAMPLES_KEPT_MAX`] are kept. Must not be repeated if it is unknown
    /// whether the store applied it.
    async fn append_samples(&self, samples: &[Sample]) -> Result<()>;

    /// Reads the watermark, then the totals of all types and the oldest samples, at most `limit` and
    /// [`SAMPLES_PER_CALL_MAX`]: in this order, or at one moment, so that the totals are never older than
    /// the watermark.
    async fn rollup_input(&self, limit: u32) -> Result<RollupInput>;

    /// Reads the rows with these keys, as far as they exist.
    async fn rollups_of(&self, keys: &[RollupKey]) -> Result<RollupsRead>;

    /// Applies the decision of a round, as a whole, only if the watermark still has the version that was
    /// read.
    async fn apply_rollup(&self, change: &RollupChange) -> Result<RollupOutcome>;

    /// Reads a page of rows, by minute, queue and type.
    async fn rollups(&self, request: &RollupsRequest) -> Result<RollupsRead>;

    /// Deletes rollups that are older than this, at most `limit` rows, oldest first.
    async fn forget_rollups(&self, kept: Duration, limit: u32) -> Result<BatchDone>;
}

/// The input of a rollup round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollupInput {
    /// The point up to which totals are in the rollups; `None` before the first round.
    pub watermark: Option<StoredWatermark>,
    /// The totals of each type over the life of the store.
    pub totals: Vec<((QueueName, TypeName), Totals)>,
    /// The oldest samples, oldest first.
    pub samples: Vec<StoredSample>,
    /// There are more samples.
    pub more: bool,
    /// The current time by the store's clock.
    pub now: Timestamp,
}

/// A watermark as a store returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredWatermark {
    /// The version, which rises with each change; the next change names it.
    pub version: u64,
    /// A [`watermark::Watermark`] as text.
    pub text: String,
}

/// A sample as a store returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSample {
    /// The id, by which it is deleted once it is rolled up.
    pub id: u64,
    /// When it was measured, by the store's clock.
    pub at: Timestamp,
    /// The text of the sample.
    pub text: String,
}

/// The change that a rollup round makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollupChange {
    /// The version that this was decided from; 0 if there was no watermark.
    pub read: u64,
    /// The version from then on.
    pub version: u64,
    /// The watermark from then on, as text.
    pub watermark: String,
    /// The new contents of these rows, each row once.
    pub rows: Vec<Rollup>,
    /// The samples to delete, in the order in which they were read.
    pub rolled_up: Vec<u64>,
}

/// The outcome of a rollup round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RollupOutcome {
    /// It was applied.
    Done,
    /// Another process has rolled up since, or this same change was applied before. Nothing was written:
    /// read again, decide again.
    Overtaken,
}

/// Which rows to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollupsRequest {
    /// From the minute of this instant on.
    pub from: Timestamp,
    /// Up to this instant, exclusive: the minute that contains it is included if it began before the
    /// instant.
    pub until: Timestamp,
    /// Only of this queue.
    pub queue: Option<QueueName>,
    /// Only of this type.
    pub job_type: Option<TypeName>,
    /// Only rows after the end of the previous page.
    pub after: Option<RollupsEnd>,
    /// The maximum number of rows, and never more than [`ROLLUPS_PAGE_MAX`].
    pub limit: u32,
}

impl RollupsRequest {
    /// Requests all rows of a time, from the first page on.
    pub fn between(from: Timestamp, until: Timestamp) -> Self {
        Self { from, until, queue: None, job_type: None, after: None, limit: ROLLUPS_PAGE_MAX }
    }

    /// Returns the first minute of the answer.
    pub fn first(&self) -> Minute {
        Minute::of(self.from)
    }

    /// Returns the last minute of the answer.
    pub fn last(&self) -> Minute {
        Minute::of(Timestamp::from_micros(self.until.as_micros().saturating_sub(1)))
    }

    /// Returns the maximum number of rows in the answer.
    pub fn limit(&self) -> u32 {
        self.limit.clamp(1, ROLLUPS_PAGE_MAX)
    }

    /// Whether the request matches a row, apart from its minute and the page.
    pub fn is_of(&self, queue: &str, job_type: &str) -> bool {
        self.queue.as_ref().is_none_or(|name| name.as_str() == queue)
            && self.job_type.as_ref().is_none_or(|name| name.as_str() == job_type)
    }
}

/// The end of a page of rows. It may be a row that cannot be read, whose names may be invalid.
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
    /// The requested rows.
    pub rows: Vec<Rollup>,
    /// The requested rows that cannot be read.
    pub damaged: Vec<RollupsEnd>,
    /// The end of this page, if there may be more rows after it.
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

/// Refuses samples that no store would accept.
pub fn check_samples(samples: &[Sample]) -> Result<()> {
    if samples.len() > SAMPLES_PER_CALL_MAX {
        return Err(EngineError::Refused(format!(
            "expected at most {SAMPLES_PER_CALL_MAX} samples in one request, got {}; send them in parts",
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
