//! The declaration of a completion trigger: which group is watched, which job is enqueued, and whether it
//! waits for retries.

use std::fmt;

use crate::limits::TRIGGER_RECORD_BYTES_MAX;
use crate::names::{GroupName, NameError, QueueName, TriggerName, TypeName};
use crate::schedules::JobTemplate;

/// A declared completion trigger.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CompletionTrigger {
    /// Its name.
    pub name: TriggerName,
    /// The group that it watches.
    pub watch: Watched,
    /// The job that it enqueues. This job never belongs to the group, even if it is of the watched type
    /// or in the watched queue, and whichever other trigger watches the same group.
    pub job: JobTemplate,
    /// Whether every unfinished job holds the trigger: also a job that waits for a retry, is scheduled
    /// for later or is parked by a policy.
    #[serde(default)]
    pub wait_for_retries: bool,
}

/// The group that a trigger watches. Each queue and each type is a group by itself.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Watched {
    /// The jobs that carry this name.
    Group(GroupName),
    /// The jobs of this queue.
    Queue(QueueName),
    /// The jobs of this type.
    Type(TypeName),
}

impl Watched {
    /// Returns the kind of group, as one word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Group(_) => "group",
            Self::Queue(_) => "queue",
            Self::Type(_) => "type",
        }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Group(name) => name.as_str(),
            Self::Queue(name) => name.as_str(),
            Self::Type(name) => name.as_str(),
        }
    }

    /// Whether a job of this type, queue and group belongs to it. `made_for` is the group that the
    /// trigger watches which enqueued the job, if one did: the job does not belong to that group,
    /// whichever trigger watches it.
    pub fn has(
        &self,
        job_type: &TypeName,
        queue: &QueueName,
        group: Option<&GroupName>,
        made_for: Option<&Self>,
    ) -> bool {
        let is_of = match self {
            Self::Group(name) => group == Some(name),
            Self::Queue(name) => queue == name,
            Self::Type(name) => job_type == name,
        };
        is_of && made_for != Some(self)
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), self.name())
    }
}

/// Why a trigger was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompletionTriggerError {
    /// Its job could not be enqueued.
    #[error("trigger {name}: {why}")]
    Job {
        /// The trigger.
        name: TriggerName,
        /// Why it is invalid.
        why: String,
    },
    /// It is too big to be stored.
    #[error(
        "trigger {name}: expected at most {TRIGGER_RECORD_BYTES_MAX} bytes with its payload, got {got}; keep big data elsewhere and put a reference to it in the job"
    )]
    TooBig {
        /// The trigger.
        name: TriggerName,
        /// Its size in bytes.
        got: usize,
    },
    /// The same name occurs twice in one declaration.
    #[error(
        "expected each completion trigger once, got two of the name {name}; give one of them another name"
    )]
    Twice {
        /// The name.
        name: TriggerName,
    },
}

impl CompletionTrigger {
    /// Creates a trigger that does not wait for retries.
    pub fn new(name: TriggerName, watch: Watched, job: JobTemplate) -> Self {
        Self { name, watch, job, wait_for_retries: false }
    }

    /// Checks what types cannot express.
    pub fn check(&self) -> Result<(), CompletionTriggerError> {
        let name = || self.name.clone();
        self.job.check().map_err(|why| CompletionTriggerError::Job { name: name(), why })?;
        let got = serde_json::to_string(self).map_or(usize::MAX, |text| text.len());
        match got <= TRIGGER_RECORD_BYTES_MAX {
            true => Ok(()),
            false => Err(CompletionTriggerError::TooBig { name: name(), got }),
        }
    }
}

/// Returns the trigger that enqueued a job with this key. The job does not belong to the group that this
/// trigger watches: otherwise a trigger of a queue that enqueues its job into that queue, or two such
/// triggers, would fire for ever.
pub fn maker(key: Option<&str>) -> Option<TriggerName> {
    let (name, _) = key?.strip_prefix(OWN_KEYS)?.split_once('/')?;
    TriggerName::parse(name).ok().filter(|parsed| parsed.as_str() == name)
}

/// Returns the key of a trigger's own job: `trigger/backfill/7`.
pub(super) fn own_key(name: &TriggerName, version: u64) -> String {
    format!("{OWN_KEYS}{name}/{version}")
}

/// The prefix of the keys of the jobs of triggers, by which stores recognize them.
const OWN_KEYS: &str = "trigger/";

/// Checks all triggers of one declaration: each by itself, and that no two have the same name.
pub fn check_all(specs: &[CompletionTrigger]) -> Result<(), CompletionTriggerError> {
    let mut names = std::collections::BTreeSet::new();
    for spec in specs {
        spec.check()?;
        if !names.insert(&spec.name) {
            return Err(CompletionTriggerError::Twice { name: spec.name.clone() });
        }
    }
    Ok(())
}

/// Why a text names no group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WatchedError {
    /// The text has another form.
    #[error("expected `group NAME`, `queue NAME` or `type NAME`, got {got:?}")]
    Form {
        /// The given text.
        got: String,
    },
    /// The name is invalid.
    #[error(transparent)]
    Name(#[from] NameError),
}

impl std::str::FromStr for Watched {
    type Err = WatchedError;

    /// Parses the text that `Display` writes: `queue backfill`.
    fn from_str(text: &str) -> Result<Self, WatchedError> {
        let (kind, name) = text.trim().split_once(' ').unwrap_or((text, ""));
        let name = name.trim();
        match kind {
            "group" => Ok(Self::Group(GroupName::parse(name)?)),
            "queue" => Ok(Self::Queue(QueueName::parse(name)?)),
            "type" => Ok(Self::Type(TypeName::parse(name)?)),
            _ => Err(WatchedError::Form { got: text.chars().take(40).collect() }),
        }
    }
}
