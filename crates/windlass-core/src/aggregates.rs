//! Aggregates: what happened in each minute to the jobs of each queue and type, kept long after the jobs are gone.
//!
//! Two sources. The *totals* that a store keeps of each type anyway are exact whoever put jobs in or ended them; each round of folding
//! books by how much they have grown since the last one, on the minute of the round. What only a worker sees (attempts begun, how long
//! they had waited and ran) it gathers in memory and appends as a small *delta* from time to time; a round adds those to their minutes.
//!
//! **Nothing is booked twice, and nothing that was appended is lost, whoever folds.** A round begins by reading a *mark*: a version, and the totals that
//! are in the minutes already. What it decides is applied by one statement, script or transaction only if the mark still has that
//! version, and moves it: rows, mark, and the deltas that were folded, which go. So of two leaders who fold at once one is told that it was
//! overtaken, and so is one that repeats a change whose answer was lost.
//!
//! [`histogram`] is how times are kept, [`minute`] what a row is, [`delta`] what workers append, [`mark`] up to where totals are
//! booked, [`fold`] what a round decides, [`report`] what people are shown.

pub mod histogram;
pub mod minute;
pub mod delta;
pub mod mark;
pub mod fold;
pub mod report;

use std::time::Duration;

use async_trait::async_trait;

use crate::admin::{BatchDone, Totals};
use crate::clock::Timestamp;
use crate::engine::Result;
use crate::error::EngineError;
#[cfg(doc)]
use crate::limits::DELTAS_KEPT_MAX;
use crate::limits::{DELTA_AGO_MAX, DELTA_BYTES_MAX, DELTAS_PER_CALL_MAX, MINUTES_PAGE_MAX};
use crate::names::{QueueName, TypeName};

pub use delta::{Delta, Seen};
pub use histogram::Histogram;
pub use minute::{Minute, MinuteKey, MinuteRow, Tally};
pub use report::{By, RangeError, Report};

/// Where aggregates are kept. Each method is one statement, script or transaction, on the store's clock.
#[async_trait]
pub trait Aggregates: Send + Sync + 'static {
    /// Appends what a worker has seen, all or nothing; at most [`DELTAS_PER_CALL_MAX`]. If nobody folds, only the newest
    /// [`DELTAS_KEPT_MAX`] are kept. Not to be repeated if nobody knows whether it happened.
    async fn append_deltas(&self, deltas: &[Delta]) -> Result<()>;

    /// The mark, then the totals of all types and the oldest deltas, at most `limit` and [`DELTAS_PER_CALL_MAX`]: in this order, or at
    /// one moment, so that the totals are never older than the mark.
    async fn unfolded(&self, limit: u32) -> Result<Unfolded>;

    /// The rows of these, as far as they are there.
    async fn minutes_of(&self, keys: &[MinuteKey]) -> Result<MinutesRead>;

    /// Applies what a round decided, as a whole, only if the mark still has the version that was read.
    async fn apply_fold(&self, change: &FoldChange) -> Result<Folded>;

    /// A page of rows, by minute, queue and type.
    async fn minutes(&self, request: &MinutesRequest) -> Result<MinutesRead>;

    /// Deletes minutes that are older than this, at most `limit` rows, oldest first.
    async fn forget_minutes(&self, kept: Duration, limit: u32) -> Result<BatchDone>;
}

/// What a round of folding begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfolded {
    /// Up to where totals are booked; nothing if nobody has folded yet.
    pub mark: Option<StoredMark>,
    /// What happened to the jobs of each type over the life of the store.
    pub totals: Vec<((QueueName, TypeName), Totals)>,
    /// The oldest deltas, oldest first.
    pub deltas: Vec<StoredDelta>,
    /// There are more deltas.
    pub more: bool,
    /// The store's now.
    pub now: Timestamp,
}

/// A mark as a store gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMark {
    /// Goes up with each change; to be named by the next one.
    pub version: u64,
    /// A [`mark::Mark`] as text.
    pub text: String,
}

/// A delta as a store gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDelta {
    /// By which it is taken away once it is folded.
    pub id: u64,
    /// When it was seen, by the store's clock.
    pub at: Timestamp,
    /// What was seen.
    pub text: String,
}

/// What a round of folding changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoldChange {
    /// The version that this was decided from; 0 if there was no mark.
    pub read: u64,
    /// The version from then on.
    pub version: u64,
    /// The mark from then on, as text.
    pub mark: String,
    /// What these rows become. Each once.
    pub rows: Vec<MinuteRow>,
    /// These deltas go, in the order in which they were read.
    pub folded: Vec<u64>,
}

/// What became of a round of folding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Folded {
    /// It was applied.
    Done,
    /// Somebody else has folded since, or this very change was applied before. Nothing was written: read again, decide again.
    Overtaken,
}

/// Which rows to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MinutesRequest {
    /// From the minute of this instant on.
    pub from: Timestamp,
    /// Up to this instant, without it: the minute in which it lies is given if it has begun before it.
    pub until: Timestamp,
    /// Only of this queue.
    pub queue: Option<QueueName>,
    /// Only of this type.
    pub job_type: Option<TypeName>,
    /// Only behind the end of the page before.
    pub after: Option<MinutesEnd>,
    /// At most so many rows, and never more than [`MINUTES_PAGE_MAX`].
    pub limit: u32,
}

impl MinutesRequest {
    /// All rows of a time, from the first page on.
    pub fn between(from: Timestamp, until: Timestamp) -> Self {
        Self { from, until, queue: None, job_type: None, after: None, limit: MINUTES_PAGE_MAX }
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
        self.limit.clamp(1, MINUTES_PAGE_MAX)
    }

    /// Whether a row is asked for, its minute and the page aside.
    pub fn is_of(&self, queue: &str, job_type: &str) -> bool {
        self.queue.as_ref().is_none_or(|name| name.as_str() == queue)
            && self.job_type.as_ref().is_none_or(|name| name.as_str() == job_type)
    }
}

/// Where a page of rows ended. It may be a row that cannot be read, whose names may be no names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MinutesEnd {
    /// The minute of the last row.
    pub minute: Minute,
    /// Its queue.
    pub queue: String,
    /// Its type.
    pub job_type: String,
}

/// Rows of a store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MinutesRead {
    /// Those that were asked for.
    pub rows: Vec<MinuteRow>,
    /// Those of them that cannot be read.
    pub damaged: Vec<MinutesEnd>,
    /// Where this page ended, if there may be more behind it.
    pub end: Option<MinutesEnd>,
}

impl MinutesRead {
    /// Adds a row as a store keeps it.
    pub fn push(&mut self, at: MinutesEnd, tally: Option<Tally>) {
        let names = (QueueName::parse(&at.queue), TypeName::parse(&at.job_type));
        match (names, tally) {
            ((Ok(queue), Ok(job_type)), Some(tally)) => {
                let key = MinuteKey { minute: at.minute, queue, job_type };
                self.rows.push(MinuteRow { key, tally });
            }
            _ => self.damaged.push(at),
        }
    }
}

/// Refuses deltas that no store would take.
pub fn check_deltas(deltas: &[Delta]) -> Result<()> {
    if deltas.len() > DELTAS_PER_CALL_MAX {
        return Err(EngineError::Refused(format!(
            "expected at most {DELTAS_PER_CALL_MAX} deltas in one request, got {}; send them in parts",
            deltas.len()
        )));
    }
    if let Some(delta) = deltas.iter().find(|delta| delta.ago > DELTA_AGO_MAX) {
        return Err(EngineError::Refused(format!(
            "expected a delta of the last {DELTA_AGO_MAX:?}, got one of {:?} ago",
            delta.ago
        )));
    }
    match deltas.iter().map(|delta| delta.text.len()).find(|bytes| *bytes > DELTA_BYTES_MAX) {
        Some(bytes) => Err(EngineError::Refused(format!(
            "expected a delta of at most {DELTA_BYTES_MAX} bytes, got {bytes}"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
