//! What happened in each minute: read by the application, gathered by workers, folded by a [duty](crate::duties).

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

/// The minutes of a store. Cheap to clone.
#[derive(Clone)]
pub struct Rollups {
    engine: Arc<dyn Engine>,
}

/// What is to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportRequest {
    /// From when on.
    pub from: Since,
    /// Up to this instant, without it; without one, up to the present by the store's clock.
    pub until: Option<Timestamp>,
    /// What is added up.
    pub by: By,
    /// Only of this queue.
    pub queue: Option<QueueName>,
    /// Only of this type.
    pub job_type: Option<TypeName>,
}

impl Default for ReportRequest {
    /// The last hour of everything, by minute.
    fn default() -> Self {
        let from = Since::Ago(Duration::from_secs(60 * 60));
        Self { from, until: None, by: By::Minute, queue: None, job_type: None }
    }
}

/// Where a range begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// So long ago, by the store's clock.
    Ago(Duration),
    /// At this instant.
    At(Timestamp),
}

/// What a store tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reported {
    /// What happened.
    pub report: Report,
    /// So many rows could not be read, and are missing in it.
    pub damaged: usize,
    /// The range that it tells of.
    pub from: Timestamp,
    /// Its end.
    pub until: Timestamp,
}

/// Why nothing can be told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The range is wrong.
    #[error(transparent)]
    Range(#[from] RangeError),
    /// The store failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl Rollups {
    /// The minutes of the store behind this engine.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine }
    }

    /// What happened, added up. Rows are read page by page, so that a long range does not hold up the store.
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
