//! What a store keeps of a trigger.

use crate::clock::Timestamp;
use crate::enqueue::{NewJob, Refusal};
use crate::job::JobId;
use crate::key::KeyClaim;
use crate::names::{CorrelationId, Key, TriggerName};
use crate::schedules::Origin;
use crate::stored::Source;

use super::spec::{CompletionTrigger, own_key};

/// A trigger as a store gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTrigger {
    /// Goes up with each change and each firing; to be named by the next one.
    pub version: u64,
    /// The last job that it made.
    pub last_job: Option<JobId>,
    /// Whether something has left a mark that nobody has looked at.
    pub is_marked: bool,
    /// Everything else. A store keeps it as one text.
    pub record: TriggerRecord,
}

/// A trigger as it was declared, and how it stands.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TriggerRecord {
    /// As declared.
    pub spec: CompletionTrigger,
    /// By whom.
    pub origin: Origin,
    /// When it was stored first.
    pub stored_at: Timestamp,
    /// How often it has fired.
    #[serde(default)]
    pub fired: u64,
    /// When it fired last.
    #[serde(default)]
    pub last_fired: Option<Timestamp>,
    /// The last time its job was refused.
    #[serde(default)]
    pub alert: Option<TriggerAlert>,
    /// What it was read from.
    #[serde(skip)]
    pub source: Source,
}

/// A trigger fired, and its job was refused, for instance because nobody has registered its type. It is not tried again: it fires
/// after the next trigger.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TriggerAlert {
    /// When that was.
    pub at: Timestamp,
    /// Why.
    pub why: String,
}

impl StoredTrigger {
    /// Takes a row of a store apart. Nothing if the text cannot be read or is about another trigger.
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
            record.tell_of(&why);
        }
        (record.spec.name == *name).then(|| Self {
            version,
            last_job: last_job.map(JobId),
            is_marked,
            record,
        })
    }

    /// Its name.
    pub fn name(&self) -> &TriggerName {
        &self.record.spec.name
    }

    /// The job of its next firing. The version is in its name: no two firings have one, also if the trigger was removed and stored again
    /// meanwhile.
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

/// What a store that does not know our words adds to the record of a firing whose job was refused: the refusal as it got it.
#[derive(serde::Deserialize)]
struct Refused {
    #[serde(default)]
    refusal: Option<Refusal>,
}

impl TriggerRecord {
    /// Notes that the job of the last firing was refused.
    pub(super) fn tell_of(&mut self, why: &Refusal) {
        let at = self.last_fired.unwrap_or(self.stored_at);
        self.alert = Some(TriggerAlert { at, why: why.to_string() });
    }

    /// The text that a store keeps: what newer versions stored beside it stays.
    pub fn to_text(&self) -> String {
        self.source.rewritten(self)
    }
}
