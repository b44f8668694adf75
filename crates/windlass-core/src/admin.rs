//! What operators read from the store and do to it.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::job::{Job, JobId, JobState, StoredState};
use crate::job_type::TypeSpec;
use crate::names::{CorrelationId, GroupName, Key, QueueName, Tag, TypeName};
use crate::outcome::JobError;
use crate::queue::{Pause, QueueSpec};
use crate::stored::Unreadable;
use crate::worker::WorkerId;

/// A job and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredJob {
    /// The job.
    pub job: Job,
    /// Its state.
    pub state: StoredState,
    /// The error of its last failed attempt.
    pub last_error: Option<JobError>,
    /// When it was read, by the store's clock.
    pub read_at: Timestamp,
}

impl StoredJob {
    /// Returns its state as one word.
    pub fn job_state(&self) -> JobState {
        self.state.job_state(self.job.due, self.read_at)
    }
}

/// One start of a handler, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAttempt {
    /// Counted from 1.
    pub number: u32,
    /// The worker that ran it.
    pub worker: WorkerId,
    /// When it was claimed or started.
    pub started_at: Timestamp,
    /// When it ended; `None` while it runs.
    pub ended_at: Option<Timestamp>,
    /// How it ended.
    pub ending: AttemptEnding,
    /// The error, if it failed.
    pub error: Option<JobError>,
    /// The output of the handler.
    pub output: Option<String>,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AttemptEnding {
    /// It has not ended.
    Running,
    /// The job succeeded.
    Succeeded,
    /// It failed, and the job waits for a retry.
    Failed,
    /// It failed, and the job is dead.
    Dead,
    /// The handler snoozed the job.
    Snoozed,
    /// It was cancelled on request.
    Cancelled,
    /// The worker stopped and released the job.
    Released,
    /// The worker died.
    Crashed,
}

impl AttemptEnding {
    /// Returns the ending as one word.
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

    /// Parses the word.
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
    /// Only jobs in this state.
    pub job_state: Option<JobState>,
    /// Only jobs of this queue.
    pub queue: Option<QueueName>,
    /// Only jobs of this type.
    pub job_type: Option<TypeName>,
    /// Only jobs with this key.
    pub key: Option<Key>,
    /// Only jobs with this tag.
    pub tag: Option<Tag>,
    /// Only jobs with this correlation id.
    pub correlation: Option<CorrelationId>,
    /// Only jobs of this group.
    pub group: Option<GroupName>,
    /// Only jobs with a lower id: that of the last job on the previous page.
    pub before: Option<JobId>,
    /// The maximum number of jobs, and never more than [`LIST_PAGE_MAX`](crate::limits::LIST_PAGE_MAX).
    pub limit: u32,
}

/// The number of jobs in each state, right now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Counts {
    /// Due.
    pub ready: u64,
    /// Not yet due.
    pub scheduled: u64,
    /// Parked.
    pub parked: u64,
    /// Running.
    pub running: u64,
    /// In the dead-letter queue.
    pub dead_letters: u64,
}

impl Counts {
    /// Returns the number of jobs that have not ended.
    pub fn unfinished(&self) -> u64 {
        self.ready + self.scheduled + self.parked + self.running
    }
}

/// The totals over the life of the store. `enqueued = succeeded + dead + cancelled + unfinished` holds at
/// every moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Totals {
    /// Jobs stored.
    pub enqueued: u64,
    /// Jobs that succeeded.
    pub succeeded: u64,
    /// Retries after a failure.
    pub retried: u64,
    /// Jobs that died and were not restarted since, including discarded ones.
    pub dead: u64,
    /// Dead letters that were restarted. So the sum of `dead` and this is how often jobs died.
    pub started_over: u64,
    /// Jobs that were cancelled, expired, discarded by their handler or purged.
    pub cancelled: u64,
}

impl Totals {
    /// Returns how often jobs died, including jobs that were restarted since.
    pub fn deaths(&self) -> u64 {
        self.dead.saturating_add(self.started_over)
    }
}

/// A queue and its counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueStatus {
    /// The declaration, as far as this version can read it.
    pub spec: QueueSpec,
    /// Why a part of the declaration cannot be read, if so. Then clients get their jobs refused.
    pub unreadable: Option<Unreadable>,
    /// Whether it is paused.
    pub pause: Option<Pause>,
    /// Whether it is being drained and takes no new jobs.
    pub shut: bool,
    /// The number of jobs in each state.
    pub counts: Counts,
    /// The totals so far.
    pub totals: Totals,
    /// How long the ready job that has waited longest has waited: since it fell due or was enqueued,
    /// whichever was later. It is searched among the first
    /// [`OLDEST_SCANNED_MAX`](crate::limits::OLDEST_SCANNED_MAX) of each priority. Redis reads fewer if the
    /// jobs of many types fell due long before they were enqueued.
    pub oldest_ready: Option<Duration>,
}

impl QueueStatus {
    /// Adds the counts that a second store has of the same queue.
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

/// A job type and its workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeStatus {
    /// The registered declaration, as far as this version can read it.
    pub spec: TypeSpec,
    /// Why a part of the declaration cannot be read, if so. Then jobs of this type are refused.
    pub unreadable: Option<Unreadable>,
    /// The number of live workers that handle it.
    pub workers: u64,
    /// The number of its jobs that have not ended.
    pub unfinished: u64,
}

/// The outcome of a cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelAnswer {
    /// It waited, and is cancelled.
    Cancelled,
    /// It runs, and was asked to stop; however its handler ends, the job ends as cancelled.
    Requested,
    /// It had ended already.
    AlreadyEnded(JobState),
    /// There is no such job.
    NotFound,
}

/// The outcome of a retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAnswer {
    /// A dead letter was restarted with fresh counters, or a scheduled or parked job is due at once.
    Retried,
    /// It is in a state that needs no retry or allows none.
    NotRetryable(JobState),
    /// Its key is held by this job.
    KeyHeld(JobId),
    /// There is no such job.
    NotFound,
}

/// The outcome of a change to one job or queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// The change was made.
    Done,
    /// The value was the same already, or the state allows no change.
    Unchanged,
    /// No job or queue has this name.
    NotFound,
}

/// The result of one batch of a long act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BatchDone {
    /// The number of changed rows.
    pub changed: u64,
    /// More rows are left: call again.
    pub more: bool,
}
