//! Rollups, the statistics of each minute: read by the application, sampled by workers, rolled up by a
//! [duty](crate::duties).

pub(crate) mod recorder;
pub(crate) mod shell;
pub(crate) mod duty;

use std::sync::Arc;
use std::time::Duration;

use windlass_core::clock::Timestamp;
use windlass_core::engine::Engine;
use windlass_core::error::EngineError;
use windlass_core::limits::REPORT_ROWS_MAX;
use windlass_core::names::{QueueName, TypeName};
use windlass_core::rollups::{RangeError, Report, RollupsRequest};

use crate::store;

pub use windlass_core::rollups::{By, Histogram, Tally};

/// The rollups of a store. Cheap to clone.
#[derive(Clone)]
pub struct Rollups {
    engine: Arc<dyn Engine>,
}

/// The request for a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportRequest {
    /// The begin of the range.
    pub from: Since,
    /// The exclusive end of the range; without one, the present by the store's clock.
    pub until: Option<Timestamp>,
    /// The dimension by which rollups are added up.
    pub by: By,
    /// Only rollups of this queue.
    pub queue: Option<QueueName>,
    /// Only rollups of this type.
    pub job_type: Option<TypeName>,
}

impl Default for ReportRequest {
    /// The last hour of everything, by minute.
    fn default() -> Self {
        let from = Since::Ago(Duration::from_secs(60 * 60));
        Self { from, until: None, by: By::Minute, queue: None, job_type: None }
    }
}

/// The begin of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// This long ago, by the store's clock.
    Ago(Duration),
    /// At this instant.
    At(Timestamp),
}

/// A report and its range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reported {
    /// The report.
    pub report: Report,
    /// The number of rows that could not be read, and are missing in the report.
    pub damaged: usize,
    /// The begin of the range.
    pub from: Timestamp,
    /// The end of the range.
    pub until: Timestamp,
}

/// The reason why no report was made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The range is invalid.
    #[error(transparent)]
    Range(#[from] RangeError),
    /// The store failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl Rollups {
    /// The rollups of the store behind this engine.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine }
    }

    /// Adds up the rollups of a range. Rows are read page by page, so that a long range does not hold up
    /// the store.
    pub async fn report(&self, request: &ReportRequest) -> Result<Reported, ReportError> {
        let now = store::call(&self.engine, |engine| async move { engine.now().await }).await?;
        let until = request.until.unwrap_or(now);
        let from = match request.from {
            Since::Ago(ago) => now.minus(ago),
            Since::At(at) => at,
        };
        request.by.check(from, until)?;
        let (queue, job_type) = (request.queue.clone(), request.job_type.clone());
        let mut wanted = RollupsRequest { queue, job_type, ..RollupsRequest::between(from, until) };
        let (mut report, mut damaged, mut rows) = (Report::new(request.by), 0, 0);
        loop {
            let asked = wanted.clone();
            let page =
                store::call(&self.engine, |engine| async move { engine.rollups(&asked).await }).await?;
            page.rows.iter().for_each(|row| report.add(row));
            damaged += page.damaged.len();
            rows += page.rows.len();
            if rows > REPORT_ROWS_MAX {
                return Err(RangeError::TooMuch.into());
            }
            match page.end {
                Some(end) => wanted.after = Some(end),
                None => return Ok(Reported { report, damaged, from, until }),
            }
        }
    }
}
