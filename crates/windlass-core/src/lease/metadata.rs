//! What the holder of a lease keeps with it, for people and for whoever holds it next.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::limits::LEASE_METADATA_BYTES_MAX;

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

    /// What the holder noted of its runs; nothing if something else stands there.
    pub fn notes(&self) -> DutyNotes {
        serde_json::from_str(&self.0).unwrap_or_default()
    }
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

/// What the holder of a lease notes of the runs of its duty.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DutyNotes {
    /// Runs that ended, well or not.
    pub runs: u64,
    /// What they did in all.
    pub items: u64,
    /// Runs that failed.
    pub errors: u64,
    /// When the last one ended, by the store's clock.
    pub last_run: Option<Timestamp>,
    /// How long the last one took.
    pub last_took: Option<Duration>,
    /// How long the longest one took.
    pub longest: Option<Duration>,
}

impl DutyNotes {
    /// As a lease keeps it.
    pub fn to_metadata(&self) -> LeaseMetadata {
        let text = serde_json::to_string(self).expect("numbers are JSON");
        LeaseMetadata(text.into())
    }
}
