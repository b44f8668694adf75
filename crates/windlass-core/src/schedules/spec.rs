//! The declaration of a schedule: when it runs, which job it enqueues, and what happens if ticks are
//! missed or jobs overlap.

use std::time::Duration;

use crate::enqueue::{EnqueueAnswer, NewJob, Refusal};
use crate::key::HolderStage;
use crate::limits::{SCHEDULE_RECORD_BYTES_MAX, TAGS_MAX, TIMEOUT_MAX};
use crate::names::{QueueName, ScheduleName, Tag, TypeName};
use crate::payload::Payload;
use crate::priority::Priority;
use crate::provenance::Provenance;
use crate::retry::RetryPolicy;
use crate::schedule::{CatchUp, CatchUpError, Holidays, Schedule};
use crate::span;

/// A declared schedule.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ScheduleSpec {
    /// Its name.
    pub name: ScheduleName,
    /// When it runs.
    pub schedule: Schedule,
    /// The days that `except holidays` excludes.
    #[serde(default)]
    pub holidays: Holidays,
    /// The job that it enqueues.
    pub job: JobTemplate,
    /// What happens to ticks that no process noticed in time.
    #[serde(default)]
    pub catch_up: CatchUp,
    /// What happens if its last job is still live.
    #[serde(default)]
    pub overlap: Overlap,
}

/// The job that each tick, or each trigger, enqueues.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct JobTemplate {
    /// Its type. If the type is not registered when a tick comes, that is reported, and the schedule goes
    /// on.
    pub job_type: TypeName,
    /// Its payload.
    #[serde(default, with = "payload_text")]
    pub payload: Payload,
    /// The queue, if it is named; must be the type's.
    #[serde(default)]
    pub queue: Option<QueueName>,
    /// Its priority; otherwise that of its type.
    #[serde(default)]
    pub priority: Option<Priority>,
    /// Its tags.
    #[serde(default)]
    pub tags: Vec<Tag>,
    /// Its own time-out.
    #[serde(default, with = "span::optional_text")]
    pub timeout: Option<Duration>,
    /// Its own retry policy.
    #[serde(default)]
    pub retry: Option<RetryPolicy>,
    /// Where it comes from.
    #[serde(flatten)]
    pub provenance: Provenance,
}

/// What happens to a tick if the last job of the schedule is still live: it waits, is parked or runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overlap {
    /// It makes its job all the same.
    #[default]
    Allow,
    /// It makes no job.
    Skip,
    /// It makes its job, and the last one is cancelled if it has not started.
    Replace,
}

/// The decision about a tick whose schedule has a last job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlapping {
    /// The job is enqueued.
    Put,
    /// The job is not enqueued.
    LeaveOut,
    /// The job is enqueued, and the last job [gives way](GivesWay) to it.
    CancelLast,
}

/// What happens to the last job, which still waits, once the enqueue has answered about the job that
/// replaces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivesWay {
    /// It stays: no job would replace it.
    No,
    /// It is cancelled.
    Now,
    /// It is cancelled if that makes the room that the new job lacks; then the new job is enqueued once
    /// more.
    IfThatMakesRoom,
}

impl GivesWay {
    /// Decides by the answer of the enqueue.
    pub fn to(answer: &EnqueueAnswer) -> Self {
        match answer {
            EnqueueAnswer::New(_) => Self::Now,
            EnqueueAnswer::Refused(Refusal::QueueFull { .. }) => Self::IfThatMakesRoom,
            _ => Self::No,
        }
    }
}

/// Whether the end of a job of a queue makes room for another job that was refused for this reason, given
/// how many jobs of the queue have not ended.
pub fn end_makes_room(of: &QueueName, unfinished: u64, refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::QueueFull { queue, capacity } if queue == of && unfinished <= *capacity)
}

impl Overlap {
    /// Decides by the stage of the last job.
    pub fn decide(self, last: HolderStage) -> Overlapping {
        match (self, last) {
            (Self::Skip, HolderStage::Waiting | HolderStage::Running) => Overlapping::LeaveOut,
            (Self::Replace, HolderStage::Waiting) => Overlapping::CancelLast,
            _ => Overlapping::Put,
        }
    }

    /// Returns the policy as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Skip => "skip",
            Self::Replace => "replace",
        }
    }
}

/// What declared a schedule last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// An application.
    Code,
    /// A configuration file.
    Configuration,
    /// A person at the command line.
    Cli,
}

impl Origin {
    /// Returns the origin as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Configuration => "configuration",
            Self::Cli => "cli",
        }
    }
}

/// Why a schedule was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleSpecError {
    /// Its policy for missed ticks is invalid.
    #[error("schedule {name}: {why}")]
    CatchUp {
        /// The schedule.
        name: ScheduleName,
        /// Why it is invalid.
        why: CatchUpError,
    },
    /// Its job could not be enqueued.
    #[error("schedule {name}: {why}")]
    Job {
        /// The schedule.
        name: ScheduleName,
        /// Why it is invalid.
        why: String,
    },
    /// It is too big to be stored.
    #[error(
        "schedule {name}: expected at most {SCHEDULE_RECORD_BYTES_MAX} bytes with its payload and its holidays, got {got}; keep big data elsewhere and leave out holidays that are long past"
    )]
    TooBig {
        /// The schedule.
        name: ScheduleName,
        /// Its size in bytes.
        got: usize,
    },
    /// It excludes holidays, but has no list of holidays.
    #[error(
        "schedule {name} says `except holidays`: expected `holidays`, a list with a date and a name a line; leave `except holidays` out if it runs on all days"
    )]
    NoHolidays {
        /// The schedule.
        name: ScheduleName,
    },
    /// The same name occurs twice in one declaration.
    #[error("expected each schedule once, got two of the name {name}; give one of them another name")]
    Twice {
        /// The name.
        name: ScheduleName,
    },
}

impl ScheduleSpec {
    /// Creates a schedule with the defaults for everything except time and job.
    pub fn new(name: ScheduleName, schedule: Schedule, job: JobTemplate) -> Self {
        let (holidays, catch_up, overlap) = (Holidays::default(), CatchUp::default(), Overlap::default());
        Self { name, schedule, holidays, job, catch_up, overlap }
    }

    /// Checks what types cannot express, when it is declared.
    pub fn check(&self) -> Result<(), ScheduleSpecError> {
        if self.schedule.window().except_holidays && self.holidays.is_empty() {
            return Err(ScheduleSpecError::NoHolidays { name: self.name.clone() });
        }
        self.check_kept()
    }

    /// Checks that a store can keep it. Advisory checks are left out: a schedule that was stored before
    /// such a check existed goes on.
    pub fn check_kept(&self) -> Result<(), ScheduleSpecError> {
        let name = || self.name.clone();
        self.catch_up.check().map_err(|why| ScheduleSpecError::CatchUp { name: name(), why })?;
        self.job.check().map_err(|why| ScheduleSpecError::Job { name: name(), why })?;
        let got = serde_json::to_string(self).map_or(usize::MAX, |text| text.len());
        match got <= SCHEDULE_RECORD_BYTES_MAX {
            true => Ok(()),
            false => Err(ScheduleSpecError::TooBig { name: name(), got }),
        }
    }
}

/// Checks all schedules of one declaration: each by itself, and that no two have the same name.
pub fn check_all(specs: &[ScheduleSpec]) -> Result<(), ScheduleSpecError> {
    let mut names = std::collections::BTreeSet::new();
    for spec in specs {
        spec.check()?;
        if !names.insert(&spec.name) {
            return Err(ScheduleSpecError::Twice { name: spec.name.clone() });
        }
    }
    Ok(())
}

impl JobTemplate {
    /// Creates a job of this type with an empty payload.
    pub fn new(job_type: TypeName) -> Self {
        Self {
            job_type,
            payload: Payload::default(),
            queue: None,
            priority: None,
            tags: Vec::new(),
            timeout: None,
            retry: None,
            provenance: Provenance::default(),
        }
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if self.tags.len() > TAGS_MAX {
            return Err(format!("expected at most {TAGS_MAX} tags, got {}", self.tags.len()));
        }
        if self.timeout.is_some_and(|timeout| timeout.is_zero() || timeout > TIMEOUT_MAX) {
            return Err("expected a time-out between 1 microsecond and 30 days".to_owned());
        }
        self.retry.as_ref().map_or(Ok(()), |retry| retry.check().map_err(|why| why.to_string()))
    }

    /// Returns a new job, without the fields that belong to a tick or a trigger.
    pub(crate) fn new_job(&self) -> NewJob {
        NewJob {
            queue: self.queue.clone(),
            priority: self.priority,
            tags: self.tags.clone(),
            timeout: self.timeout,
            retry: self.retry.clone(),
            provenance: self.provenance.clone(),
            ..NewJob::new(self.job_type.clone(), self.payload.clone())
        }
    }
}

/// Serializes a payload as a text within a text: so large numbers survive.
mod payload_text {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::payload::Payload;

    pub(super) fn serialize<S: Serializer>(payload: &Payload, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(payload.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Payload, D::Error> {
        Ok(Payload::from_store(&String::deserialize(from)?))
    }
}
