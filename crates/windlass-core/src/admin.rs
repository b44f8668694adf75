//! What people read of the store and do to it.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::job::{Job, JobId, JobState, Phase};
use crate::job_type::TypeSpec;
use crate::names::{CorrelationId, GroupName, Key, QueueName, Tag, TypeName};
use crate::outcome::JobError;
use crate::queue::{Pause, QueueSpec};
use crate::worker::WorkerId;

/// A job and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredJob {
    /// The job.
    pub job: Job,
    /// Where it is.
    pub state: JobState,
    /// The error of its last failed attempt.
    pub last_error: Option<JobError>,
    /// By the store's clock, when this was read.
    pub read_at: Timestamp,
}

impl StoredJob {
    /// Where it is, in one word.
    pub fn phase(&self) -> Phase {
        self.state.phase(self.job.due, self.read_at)
    }
}

/// One start of a handler, as it is remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAttempt {
    /// Counted from 1.
    pub number: u32,
    /// Who ran it.
    pub worker: WorkerId,
    /// When it was claimed or started.
    pub started_at: Timestamp,
    /// When it ended; nothing while it runs.
    pub ended_at: Option<Timestamp>,
    /// How it ended.
    pub ending: AttemptEnding,
    /// What went wrong.
    pub error: Option<JobError>,
    /// What the handler wrote.
    pub output: Option<String>,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AttemptEnding {
    /// It has not.
    Running,
    /// The job is done.
    Succeeded,
    /// It failed, and the job waits for another try.
    Failed,
    /// It failed, and the job was given up.
    Dead,
    /// The handler put the job off.
    Snoozed,
    /// It was stopped on request.
    Cancelled,
    /// The worker ended and gave the job back.
    Released,
    /// The worker died.
    Crashed,
}

impl AttemptEnding {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Dead => "dead",
            Self::Snoozed => "snoozed",
            Self::Cancelled => "cancelled",
            Self::Released => "released",
            Self::Crashed => "crashed",
        }
    }

    /// Reads the word back.
    pub fn parse(text: &str) -> Option<Self> {
        [
            Self::Running,
            Self::Succeeded,
            Self::Failed,
            Self::Dead,
            Self::Snoozed,
            Self::Cancelled,
            Self::Released,
            Self::Crashed,
        ]
        .into_iter()
        .find(|ending| ending.as_str() == text)
    }
}

/// Which jobs to list, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListRequest {
    /// Only those in this phase.
    pub phase: Option<Phase>,
    /// Only those of this queue.
    pub queue: Option<QueueName>,
    /// Only those of this type.
    pub job_type: Option<TypeName>,
    /// Only those with this key.
    pub key: Option<Key>,
    /// Only those with this tag.
    pub tag: Option<Tag>,
    /// Only those with this correlation id.
    pub correlation: Option<CorrelationId>,
    /// Only those of this group.
    pub group: Option<GroupName>,
    /// Only those with a lower number: the last one of the page before.
    pub before: Option<JobId>,
    /// At most so many; [`LIST_PAGE_MAX`](crate::limits::LIST_PAGE_MAX) if more.
    pub limit: u32,
}

/// How many jobs are where, right now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Counts {
    /// Due.
    pub ready: u64,
    /// Not yet due.
    pub scheduled: u64,
    /// Held back.
    pub parked: u64,
    /// Running.
    pub running: u64,
    /// In the dead-letter queue.
    pub dead_letters: u64,
}

impl Counts {
    /// All that have not ended.
    pub fn unfinished(&self) -> u64 {
        self.ready + self.scheduled + self.parked + self.running
    }
}

/// What happened over the life of the store. `enqueued = succeeded + dead + cancelled + unfinished` holds at
/// every moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Totals {
    /// Jobs stored.
    pub enqueued: u64,
    /// Jobs done.
    pub succeeded: u64,
    /// Retries after a failure.
    pub retried: u64,
    /// Jobs given up and not started over since, discarded ones included.
    pub dead: u64,
    /// Dead letters started over. So `dead` and this together are how often a job was given up.
    pub started_over: u64,
    /// Jobs stopped, expired, discarded by their handler or purged.
    pub cancelled: u64,
}

impl Totals {
    /// How often a job was given up, also one that was started over since.
    pub fn deaths(&self) -> u64 {
        self.dead.saturating_add(self.started_over)
    }
}

/// A queue and what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueStatus {
    /// As declared.
    pub spec: QueueSpec,
    /// Whether it is paused.
    pub pause: Option<Pause>,
    /// Whether it is being drained and takes no new jobs.
    pub shut: bool,
    /// How many jobs are where.
    pub counts: Counts,
    /// What happened so far.
    pub totals: Totals,
    /// How long the ready job that has waited longest has waited: since it fell due or was put in, whichever was later.
    /// Looked for among the first [`OLDEST_LOOKED_AT`](crate::limits::OLDEST_LOOKED_AT) of each priority.
    /// Redis looks at fewer if the jobs of many types fell due long before they were put in.
    pub oldest_ready: Option<Duration>,
}

impl QueueStatus {
    /// Adds what a store beside this one has of the same queue.
    pub fn add(&mut self, beside: &Self) {
        let (counts, more) = (&mut self.counts, &beside.counts);
        counts.ready += more.ready;
        counts.scheduled += more.scheduled;
        counts.parked += more.parked;
        counts.running += more.running;
        counts.dead_letters += more.dead_letters;
        let (totals, more) = (&mut self.totals, &beside.totals);
        totals.enqueued += more.enqueued;
        totals.succeeded += more.succeeded;
        totals.retried += more.retried;
        totals.dead += more.dead;
        totals.started_over += more.started_over;
        totals.cancelled += more.cancelled;
        self.oldest_ready = self.oldest_ready.max(beside.oldest_ready);
    }
}

/// A job type and who handles it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeStatus {
    /// As registered.
    pub spec: TypeSpec,
    /// How many live workers handle it.
    pub workers: u64,
    /// How many of its jobs have not ended.
    pub unfinished: u64,
}

/// What a cancel did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelAnswer {
    /// It waited, and is cancelled.
    Cancelled,
    /// It runs, and was asked to stop; however its handler ends, it ends as cancelled.
    Requested,
    /// It had ended already.
    AlreadyEnded(Phase),
    /// There is no such job.
    NotFound,
}

/// What a retry did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAnswer {
    /// A dead letter was started over with fresh counters, or a scheduled or parked job is due at once.
    Retried,
    /// It is in a phase that needs no retry or allows none.
    NotRetryable(Phase),
    /// Its key is held by this job.
    KeyHeld(JobId),
    /// There is no such job.
    NotFound,
}

/// What became of a change to one job or queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// It was done.
    Done,
    /// It was so already, or the state allows no change.
    Unchanged,
    /// There is nothing of that name.
    NotFound,
}

/// What a batch of a long act did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BatchDone {
    /// So many rows were changed.
    pub changed: u64,
    /// There is more to do: call again.
    pub more: bool,
}
