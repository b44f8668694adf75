//! The metadata that the holder of a lease stores with it, for people and for the next holder.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::clock::Timestamp;
use crate::limits::{DUTY_AGAIN_PAUSE, DUTY_ERROR_CHARS_MAX, DUTY_KEPT_BYTES_MAX, LEASE_METADATA_BYTES_MAX};
use crate::span;

/// A JSON object of at most [`LEASE_METADATA_BYTES_MAX`] bytes. It outlives the term in which it was written.
#[derive(Clone, PartialEq, Eq)]
pub struct LeaseMetadata(Arc<str>);

/// Why metadata was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeaseMetadataError {
    /// It is no JSON object.
    #[error("expected the metadata of a lease to be a JSON object, got {why}")]
    NotAnObject {
        /// What came instead.
        why: String,
    },
    /// It is too big.
    #[error("expected the metadata of a lease to have at most {LEASE_METADATA_BYTES_MAX} bytes, got {bytes}")]
    TooBig {
        /// Its size.
        bytes: usize,
    },
    /// The data that the duty itself keeps is too big.
    #[error(
        "expected a duty to keep at most {DUTY_KEPT_BYTES_MAX} bytes with its lease, got {bytes}; keep more elsewhere"
    )]
    KeptTooBig {
        /// Its size.
        bytes: usize,
    },
}

impl LeaseMetadata {
    /// Parses JSON text.
    pub fn parse(text: &str) -> Result<Self, LeaseMetadataError> {
        let bytes = text.len();
        if bytes > LEASE_METADATA_BYTES_MAX {
            return Err(LeaseMetadataError::TooBig { bytes });
        }
        let object: Result<serde_json::Map<String, serde_json::Value>, _> = serde_json::from_str(text);
        object.map_err(|error| LeaseMetadataError::NotAnObject { why: error.to_string() })?;
        Ok(Self(text.into()))
    }

    /// Parses text from a store. Damaged text counts as empty: it must not prevent the reading of other
    /// leases, nor reach people and the next holder of the lease.
    pub fn from_store(text: &str) -> Self {
        Self::parse(text).unwrap_or_default()
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Combines what the holder noted about its runs with what the duty itself keeps.
    pub fn of(notes: &DutyNotes, kept: &Map<String, Value>) -> Result<Self, LeaseMetadataError> {
        let bytes = serde_json::to_string(kept).map_or(0, |text| text.len());
        if bytes > DUTY_KEPT_BYTES_MAX {
            return Err(LeaseMetadataError::KeptTooBig { bytes });
        }
        let text = serde_json::to_string(&Both { notes: notes.clone(), kept: kept.clone() });
        Self::parse(&text.map_err(|error| LeaseMetadataError::NotAnObject { why: error.to_string() })?)
    }

    /// Returns what the holder noted about its runs; empty if the text has another form.
    pub fn notes(&self) -> DutyNotes {
        self.part("notes")
    }

    /// Returns what the duty itself keeps; empty if the text has another form.
    pub fn kept(&self) -> Map<String, Value> {
        self.part("kept")
    }

    /// One part by itself: notes that cannot be read must not cost the duty what it keeps.
    fn part<T: Default + DeserializeOwned>(&self, name: &str) -> T {
        let parts: Map<String, Value> = serde_json::from_str(&self.0).unwrap_or_default();
        parts.get(name).and_then(|part| T::deserialize(part).ok()).unwrap_or_default()
    }
}

#[derive(Serialize)]
struct Both {
    notes: DutyNotes,
    kept: Map<String, Value>,
}

impl Default for LeaseMetadata {
    fn default() -> Self {
        Self("{}".into())
    }
}

impl fmt::Debug for LeaseMetadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// What the holder of a lease notes about the runs of its duty. By these notes another process can see
/// whether the holder is stuck, even if the holder cannot report that itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DutyNotes {
    /// Runs that ended, with or without an error.
    pub runs: u64,
    /// Items that those runs processed in total.
    pub items: u64,
    /// Runs that failed.
    pub errors: u64,
    /// Consecutive runs that ended with their leaders, or with their terms, and not by themselves.
    pub unfinished: u32,
    /// Since when a run is in progress, by the store's clock.
    pub running_since: Option<Timestamp>,
    /// When the last run ended, by the store's clock.
    pub last_run: Option<Timestamp>,
    /// How long the last run took.
    #[serde(with = "span::optional_text")]
    pub last_took: Option<Duration>,
    /// How long the longest run took.
    #[serde(with = "span::optional_text")]
    pub longest: Option<Duration>,
    /// The error text of the last run that failed.
    pub last_error: Option<String>,
    /// From the start of one run to the start of the next.
    #[serde(with = "span::optional_text")]
    pub every: Option<Duration>,
    /// A run that takes longer than this is stuck.
    #[serde(with = "span::optional_text")]
    pub stuck_after: Option<Duration>,
    /// How often a holder was stuck and gave way.
    pub times_stuck: u64,
    /// When a stuck holder was last noticed, by the store's clock.
    pub last_stuck: Option<Timestamp>,
}

impl DutyNotes {
    /// Notes that a run began.
    pub fn began(&mut self, now: Timestamp) {
        self.running_since = Some(now);
    }

    /// Notes that a run ended, and took this long. The error text of a failed run is truncated, and
    /// control characters, which would take more room when stored, are replaced.
    pub fn ended(&mut self, outcome: Result<u64, &str>, took: Duration, now: Timestamp) {
        (self.running_since, self.last_run, self.unfinished) = (None, Some(now), 0);
        (self.last_took, self.longest) = (Some(took), self.longest.max(Some(took)));
        self.runs = self.runs.saturating_add(1);
        match outcome {
            Ok(items) => self.items = self.items.saturating_add(items),
            Err(error) => self.failed(error),
        }
    }

    /// Notes progress of a run that has not ended: the number of items done, and the error if something
    /// failed.
    pub fn goes_on(&mut self, items: u64, error: Option<&str>) {
        self.items = self.items.saturating_add(items);
        if let Some(error) = error {
            self.failed(error);
        }
    }

    fn failed(&mut self, error: &str) {
        self.errors = self.errors.saturating_add(1);
        self.last_error = Some(short(error));
    }

    /// Notes that no run has ended for too long, and that the holder gives way.
    pub fn got_stuck(&mut self, now: Timestamp) {
        self.times_stuck = self.times_stuck.saturating_add(1);
        self.last_stuck = Some(now);
    }

    /// Notes a takeover. The new holder of the lease does not continue a run that the last holder did not
    /// finish: it repeats that run. Returns the time until the next run is due, if that is known. The
    /// first unfinished run is repeated at once, and each further consecutive one a little later, so that
    /// a run that ends its process does not end all processes one after the other.
    pub fn taken_over(&mut self, now: Timestamp) -> Option<Duration> {
        let left = self.every?.saturating_sub(self.began_ago(now)?);
        if self.running_since.take().is_none() {
            return Some(left);
        }
        let pause = DUTY_AGAIN_PAUSE.saturating_mul(self.unfinished);
        self.unfinished = self.unfinished.saturating_add(1);
        Some(left.min(pause))
    }

    /// Returns how long ago the last run began, as far as that is known.
    fn began_ago(&self, now: Timestamp) -> Option<Duration> {
        let ended = |at: Timestamp| now.since(at).saturating_add(self.last_took.unwrap_or_default());
        self.running_since.map(|at| now.since(at)).or_else(|| self.last_run.map(ended))
    }

    /// Returns for how long a run has been in progress, if that is longer than a run may take.
    pub fn stuck_for(&self, now: Timestamp) -> Option<Duration> {
        let lasting = now.since(self.running_since?);
        (lasting > self.stuck_after?).then_some(lasting)
    }
}

fn short(error: &str) -> String {
    error.chars().take(DUTY_ERROR_CHARS_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
