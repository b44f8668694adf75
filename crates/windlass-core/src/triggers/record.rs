//! What a store keeps of a trigger.

use crate::clock::Timestamp;
use crate::enqueue::{NewJob, Refusal};
use crate::job::JobId;
use crate::key::KeyClaim;
use crate::names::{CorrelationId, Key, TriggerName};
use crate::schedules::Origin;
use crate::stored::Source;

use super::spec::{CompletionTrigger, own_key};

/// A trigger as a store returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTrigger {
    /// The version, which rises with each change and each firing; the next change names it.
    pub version: u64,
    /// The last job that it enqueued.
    pub last_job: Option<JobId>,
    /// Whether it has a mark that no process has evaluated.
    pub is_marked: bool,
    /// Everything else. A store keeps it as one text.
    pub record: TriggerRecord,
}

/// A trigger as it was declared, and its current state.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TriggerRecord {
    /// The declaration.
    pub spec: CompletionTrigger,
    /// What declared it last.
    pub origin: Origin,
    /// When it was first stored.
    pub stored_at: Timestamp,
    /// The number of firings.
    #[serde(default)]
    pub fired: u64,
    /// When it fired last.
    #[serde(default)]
    pub last_fired: Option<Timestamp>,
    /// The last time its job was refused.
    #[serde(default)]
    pub alert: Option<TriggerAlert>,
    /// The text from which it was read.
    #[serde(skip)]
    pub source: Source,
}

/// The record of a trigger that fired and whose job was refused, for instance because its type is not
/// registered. The firing is not retried: the trigger fires again when its group has finished the next
/// time.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TriggerAlert {
    /// When that was.
    pub at: Timestamp,
    /// Why.
    pub why: String,
}

impl StoredTrigger {
    /// Parses a row of a store. `None` if the text cannot be read or is about another trigger.
    pub fn from_store(
        name: &TriggerName,
        version: u64,
        last_job: Option<i64>,
        is_marked: bool,
        text: &str,
    ) -> Option<Self> {
        let mut record: TriggerRecord = serde_json::from_str(text).ok()?;
        record.source = Source::of(text, "refusal");
        if let Some(why) = serde_json::from_str::<Refused>(text).ok()?.refusal {
            record.record_refusal(&why);
        }
        (record.spec.name == *name).then(|| Self {
            version,
            last_job: last_job.map(JobId),
            is_marked,
            record,
        })
    }

    /// Returns its name.
    pub fn name(&self) -> &TriggerName {
        &self.record.spec.name
    }

    /// Returns the job of its next firing. The version is part of the job's key: no two firings have the
    /// same key, even if the trigger was removed and stored again meanwhile.
    pub(super) fn next_job(&self) -> NewJob {
        let name = own_key(self.name(), self.version);
        let key = Key::parse(&name).expect("a name and a number are a key");
        let correlation = CorrelationId::parse(&name).expect("a name and a number are an id");
        NewJob {
            key: Some(KeyClaim::new(key)),
            correlation: Some(correlation),
            ..self.record.spec.job.new_job()
        }
    }
}

/// What a store that cannot format our texts adds to the record of a firing whose job was refused: the
/// refusal as it got it.
#[derive(serde::Deserialize)]
struct Refused {
    #[serde(default)]
    refusal: Option<Refusal>,
}

impl TriggerRecord {
    /// Notes that the job of the last firing was refused.
    pub(super) fn record_refusal(&mut self, why: &Refusal) {
        let at = self.last_fired.unwrap_or(self.stored_at);
        self.alert = Some(TriggerAlert { at, why: why.to_string() });
    }

    /// Returns the text that a store keeps: fields that newer versions stored beside it stay.
    pub fn to_text(&self) -> String {
        self.source.rewritten(self)
    }
}
