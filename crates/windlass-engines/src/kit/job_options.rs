//! The rarer options of a job, as every engine stores them: one JSON text, which most jobs do not have.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::enqueue::NewJob;
use windlass_core::key::{KeyClaim, KeyScope, OnConflict};
use windlass_core::names::{CorrelationId, FairnessKey, GroupName, Key, OrderingKey, PriorityLabel, Tag};
use windlass_core::provenance::Provenance;
use windlass_core::retry::RetryPolicy;
use windlass_core::stored::Source;

/// The rarer options of a job.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct JobOptions {
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) label: Option<PriorityLabel>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) retry: Option<RetryPolicy>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) timeout_micros: Option<u64>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) scope: KeyScope,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) on_conflict: OnConflict,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) ordering_key: Option<OrderingKey>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) fairness_key: Option<FairnessKey>,
    #[serde(flatten)]
    pub(crate) provenance: Provenance,
    /// What an engine without columns stores here, too.
    #[serde(flatten)]
    pub(crate) columns: Columns,
    /// What it was read from.
    #[serde(skip)]
    pub(crate) source: Source,
}

/// Attributes that SQL engines keep in columns, because they search by them.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Columns {
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) key: Option<Key>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) correlation: Option<CorrelationId>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) group: Option<GroupName>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) tags: Vec<Tag>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl JobOptions {
    /// The options of a new job, without those that have columns.
    pub(crate) fn of(new: &NewJob) -> Self {
        let key = new.key.as_ref();
        Self {
            label: new.label.clone(),
            retry: new.retry.clone(),
            timeout_micros: new.timeout.map(|timeout| u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX)),
            scope: key.map(|claim| claim.scope).unwrap_or_default(),
            on_conflict: key.map(|claim| claim.on_conflict).unwrap_or_default(),
            ordering_key: new.ordering_key.clone(),
            fairness_key: new.fairness_key.clone(),
            provenance: new.provenance.clone(),
            columns: Columns::default(),
            source: Source::default(),
        }
    }

    /// What a job asks of its key.
    pub(crate) fn key_claim(&self, key: Option<Key>) -> Option<KeyClaim> {
        key.map(|key| KeyClaim { key, scope: self.scope, on_conflict: self.on_conflict })
    }

    /// The job's own timeout.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout_micros.map(Duration::from_micros)
    }

    /// For the column; nothing if there is nothing to say.
    pub(crate) fn to_column(&self) -> Option<String> {
        (*self != Self::default() || !self.source.is_none()).then(|| self.source.rewritten(self))
    }

    /// From the column. What cannot be read counts as nothing, and is written back as it is.
    pub(crate) fn from_column(text: Option<&str>) -> Self {
        let read =
            |text| Self { source: Source::verbatim(text), ..serde_json::from_str(text).unwrap_or_default() };
        text.map(read).unwrap_or_default()
    }
}
