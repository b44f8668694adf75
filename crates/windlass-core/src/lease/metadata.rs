//! What the holder of a lease keeps with it, for people and for whoever holds it next.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::clock::Timestamp;
use crate::limits::{DUTY_AGAIN_PAUSE, DUTY_ERROR_CHARS_MAX, DUTY_KEPT_BYTES_MAX, LEASE_METADATA_BYTES_MAX};
use crate::span;

/// A JSON object of at most [`LEASE_METADATA_BYTES_MAX`] bytes. It outlives the term in which it was written.
#[derive(Clone, PartialEq, Eq)]
pub struct LeaseMetadata(Arc<str>);

/// Why metadata were refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeaseMetadataError {
    /// They are no JSON object.
    #[error("expected the metadata of a lease to be a JSON object, got {why}")]
    NotAnObject {
        /// What came.
        why: String,
    },
    /// They are too big.
    #[error("expected the metadata of a lease to have at most {LEASE_METADATA_BYTES_MAX} bytes, got {bytes}")]
    TooBig {
        /// Their size.
        bytes: usize,
    },
    /// What the duty itself keeps is too big.
    #[error(
        "expected a duty to keep at most {DUTY_KEPT_BYTES_MAX} bytes with its lease, got {bytes}; keep more elsewhere"
    )]
    KeptTooBig {
        /// Its size.
        bytes: usize,
    },
}

impl LeaseMetadata {
    /// Takes JSON text.
    pub fn parse(text: &str) -> Result<Self, LeaseMetadataError> {
        let bytes = text.len();
        if bytes > LEASE_METADATA_BYTES_MAX {
            return Err(LeaseMetadataError::TooBig { bytes });
        }
        let object: Result<serde_json::Map<String, serde_json::Value>, _> = serde_json::from_str(text);
        object.map_err(|error| LeaseMetadataError::NotAnObject { why: error.to_string() })?;
        Ok(Self(text.into()))
    }

    /// Takes text from a store. What was damaged counts as empty: it must not keep other leases from being read, nor go on
    /// to people and to whoever holds the lease next.
    pub fn from_store(text: &str) -> Self {
        Self::parse(text).unwrap_or_default()
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What the holder noted of its runs, and what the duty itself keeps.
    pub fn of(notes: &DutyNotes, kept: &Map<String, Value>) -> Result<Self, LeaseMetadataError> {
        let bytes = serde_json::to_string(kept).map_or(0, |text| text.len());
        if bytes > DUTY_KEPT_BYTES_MAX {
            return Err(LeaseMetadataError::KeptTooBig { bytes });
        }
        let text = serde_json::to_string(&Both { notes: notes.clone(), kept: kept.clone() });
        Self::parse(&text.map_err(|error| LeaseMetadataError::NotAnObject { why: error.to_string() })?)
    }

    /// What the holder noted of its runs; nothing if something else stands there.
    pub fn notes(&self) -> DutyNotes {
        self.both().notes
    }

    /// What the duty itself keeps; nothing if something else stands there.
    pub fn kept(&self) -> Map<String, Value> {
        self.both().kept
    }

    fn both(&self) -> Both {
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
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

/// What the holder of a lease notes of the runs of its duty. An outsider can tell by it whether the holder is stuck, even if that cannot
/// say so itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DutyNotes {
    /// Runs that ended, well or not.
    pub runs: u64,
    /// What they did in all.
    pub items: u64,
    /// Runs that failed.
    pub errors: u64,
    /// Runs in a row that ended with their leaders, or with their terms, and not by themselves.
    pub unfinished: u32,
    /// Since when a run is under way, by the store's clock.
    pub running_since: Option<Timestamp>,
    /// When the last one ended, by the store's clock.
    pub last_run: Option<Timestamp>,
    /// How long the last one took.
    #[serde(with = "span::optional_text")]
    pub last_took: Option<Duration>,
    /// How long the longest one took.
    #[serde(with = "span::optional_text")]
    pub longest: Option<Duration>,
    /// What the last one that failed said.
    pub last_error: Option<String>,
    /// From the start of one run to the start of the next.
    #[serde(with = "span::optional_text")]
    pub every: Option<Duration>,
    /// A run that takes longer than this is stuck.
    #[serde(with = "span::optional_text")]
    pub stuck_after: Option<Duration>,
    /// How often a holder was stuck and gave way.
    pub times_stuck: u64,
    /// When that was noticed last, by the store's clock.
    pub last_stuck: Option<Timestamp>,
}

impl DutyNotes {
    /// A run began.
    pub fn began(&mut self, now: Timestamp) {
        self.running_since = Some(now);
    }

    /// A run ended, and took this long. What it says if it failed is cut, and without characters that need room when they are
    /// written down.
    pub fn ended(&mut self, outcome: Result<u64, &str>, took: Duration, now: Timestamp) {
        (self.running_since, self.last_run, self.unfinished) = (None, Some(now), 0);
        (self.last_took, self.longest) = (Some(took), self.longest.max(Some(took)));
        self.runs = self.runs.saturating_add(1);
        match outcome {
            Ok(items) => self.items = self.items.saturating_add(items),
            Err(error) => self.failed(error),
        }
    }

    /// A run that has not ended has done so much, and has said this of what went wrong.
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

    /// No run has ended for too long, and the holder gives way.
    pub fn got_stuck(&mut self, now: Timestamp) {
        self.times_stuck = self.times_stuck.saturating_add(1);
        self.last_stuck = Some(now);
    }

    /// Whoever takes the lease over does not go on with a run that its last holder did not finish: it does that again. Tells in how
    /// long the next run is due, if that is known. The first run that was left unfinished is done again at once, and each further one
    /// in a row a little later, so that a run that ends its process does not end all of them one after the other.
    pub fn taken_over(&mut self, now: Timestamp) -> Option<Duration> {
        let left = self.every?.saturating_sub(self.began_ago(now)?);
        if self.running_since.take().is_none() {
            return Some(left);
        }
        let pause = DUTY_AGAIN_PAUSE.saturating_mul(self.unfinished);
        self.unfinished = self.unfinished.saturating_add(1);
        Some(left.min(pause))
    }

    /// How long ago the last run began, as far as is known.
    fn began_ago(&self, now: Timestamp) -> Option<Duration> {
        let ended = |at: Timestamp| now.since(at).saturating_add(self.last_took.unwrap_or_default());
        self.running_since.map(|at| now.since(at)).or_else(|| self.last_run.map(ended))
    }

    /// For how long a run has been under way, if that is longer than it may be.
    pub fn stuck_for(&self, now: Timestamp) -> Option<Duration> {
        let lasting = now.since(self.running_since?);
        (lasting > self.stuck_after?).then_some(lasting)
    }
}

fn short(error: &str) -> String {
    error.chars().take(DUTY_ERROR_CHARS_MAX).map(|one| if one.is_control() { ' ' } else { one }).collect()
}
