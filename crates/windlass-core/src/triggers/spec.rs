//! What somebody declares: which group is watched, which job is put in, and whether retries are waited for.

use std::fmt;

use crate::limits::TRIGGER_RECORD_BYTES_MAX;
use crate::names::{GroupName, NameError, QueueName, TriggerName, TypeName};
use crate::schedules::JobTemplate;

/// A trigger as it is declared.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CompletionTrigger {
    /// Its name.
    pub name: TriggerName,
    /// The group that it watches.
    pub watch: Watched,
    /// What it puts in. It never belongs to the group, also if it is of the type or in the queue that is watched, and whichever other
    /// drain watches the same.
    pub job: JobTemplate,
    /// Whether all that has not ended holds the trigger: also what waits for a retry, lies in the future or is parked by a policy.
    #[serde(default)]
    pub wait_for_retries: bool,
}

/// The group that a trigger watches. Each queue and each type is one by itself.
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
    /// What kind of group it is, in one word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Group(_) => "group",
            Self::Queue(_) => "queue",
            Self::Type(_) => "type",
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Group(name) => name.as_str(),
            Self::Queue(name) => name.as_str(),
            Self::Type(name) => name.as_str(),
        }
    }

    /// Whether a job of this type, queue and group is of it. `made_for` is what the trigger watches that put the job in, if one did:
    /// of that it is not, whichever drain watches it.
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
    /// Its job could not be put in.
    #[error("trigger {name}: {why}")]
    Job {
        /// Which drain.
        name: TriggerName,
        /// What is wrong.
        why: String,
    },
    /// It is too big to be kept.
    #[error(
        "trigger {name}: expected at most {TRIGGER_RECORD_BYTES_MAX} bytes with its payload, got {got}; keep big data elsewhere and put a reference to it in the job"
    )]
    TooBig {
        /// Which drain.
        name: TriggerName,
        /// How big.
        got: usize,
    },
    /// The same name again in one declaration.
    #[error(
        "expected each completion trigger once, got two of the name {name}; give one of them another name"
    )]
    Twice {
        /// Which name.
        name: TriggerName,
    },
}

impl CompletionTrigger {
    /// A trigger that does not wait for retries.
    pub fn new(name: TriggerName, watch: Watched, job: JobTemplate) -> Self {
        Self { name, watch, job, wait_for_retries: false }
    }

    /// Checks what types cannot say.
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

/// The trigger that put in a job with this key. The job is not of what that trigger watches: else a trigger of a queue that puts its job into
/// it, or two of them, would fire for ever.
pub fn maker(key: Option<&str>) -> Option<TriggerName> {
    let (name, _) = key?.strip_prefix(OWN_KEYS)?.split_once('/')?;
    TriggerName::parse(name).ok().filter(|parsed| parsed.as_str() == name)
}

/// The key of a trigger's own job: `trigger/backfill/7`.
pub(super) fn own_key(name: &TriggerName, version: u64) -> String {
    format!("{OWN_KEYS}{name}/{version}")
}

/// What the keys of the jobs of triggers begin with. It is their mark, by which stores know them.
const OWN_KEYS: &str = "trigger/";

/// Checks all triggers of one declaration: each by itself, and that no two have one name.
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
    /// It is not of this form.
    #[error("expected `group NAME`, `queue NAME` or `type NAME`, got {got:?}")]
    Form {
        /// What came.
        got: String,
    },
    /// The name is wrong.
    #[error(transparent)]
    Name(#[from] NameError),
}

impl std::str::FromStr for Watched {
    type Err = WatchedError;

    /// The text that it is shown as: `queue backfill`.
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
