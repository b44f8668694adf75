//! Schedules that a store keeps, and the jobs that they enqueue.
//!
//! [`spec`] is the declaration of a schedule, and [`record`] is what a store keeps of it. [`acts`] are
//! the changes that people and programs make, and [`fire`] decides the change for a due schedule. All of
//! that is pure: it reads a [`StoredSchedule`] and makes a [`ScheduleChange`]. A store does two things:
//! it reads schedules and applies changes.
//!
//! **One tick makes at most one job, whichever process fires it.** A change names the version that it was
//! decided from. One transaction or script applies it as a whole, including its jobs, only if that is
//! still the version. So of two processes that decide about one tick, one gets the answer that the other
//! was faster; and a process that slept between deciding and writing writes nothing. In addition, the job
//! of a tick holds the key `schedule/NAME/TICK` for [`TICK_KEPT`]: a row written with the job, which is
//! checked again when a range that has passed is backfilled.

pub mod spec;
pub mod record;
pub mod acts;
pub mod fire;

use std::collections::BTreeSet;

use async_trait::async_trait;

use crate::clock::Timestamp;
use crate::engine::Result;
use crate::enqueue::{EnqueueAnswer, NewJob};
use crate::error::EngineError;
use crate::job::JobId;
use crate::limits::{ENQUEUE_BATCH_MAX, LIST_PAGE_MAX, SCHEDULES_PER_CALL_MAX};
#[cfg(doc)]
use crate::limits::{SCHEDULES_MAX, TICK_KEPT};
use crate::names::ScheduleName;

pub use record::{Alert, ScheduleAlert, ScheduleRecord, StoredSchedule};
pub use spec::{
    GivesWay, JobTemplate, Origin, Overlap, Overlapping, ScheduleSpec, ScheduleSpecError, end_makes_room,
};

/// Stores schedules. Each method is one statement, script or transaction, on the store's clock. Every
/// engine keeps schedules, so no method reports that an engine keeps none.
#[async_trait]
pub trait Schedules: Send + Sync + 'static {
    /// Reads schedules, and the store's current time.
    async fn schedules(&self, which: &WhichSchedules) -> Result<SchedulesRead>;

    /// Applies changes, each as a whole or not at all: only if the schedule still has the version that
    /// the change was decided from. The same transaction or script enqueues its jobs. The failure of one
    /// change does not affect the others.
    async fn change_schedules(&self, changes: &[ScheduleChange]) -> Result<Vec<ScheduleChanged>>;
}

/// Which schedules to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhichSchedules {
    /// The named schedules, as far as they are stored; at most [`SCHEDULES_PER_CALL_MAX`].
    Named(Vec<ScheduleName>),
    /// A page of schedules by name, after the end of another page; at most this number, and never more
    /// than [`LIST_PAGE_MAX`].
    After(Option<PageEnd>, u32),
    /// The schedules that must be checked now, longest due first, after the end of another page; at most
    /// this number, and never more than [`SCHEDULES_PER_CALL_MAX`]. By the page end, a process that fires
    /// schedules skips those that it cannot fire, which would otherwise stay ahead of all others for
    /// ever.
    Due(Option<PageEnd>, u32),
}

/// The end of a page of schedules, from which to read on. It may be a row that cannot be read, whose name
/// may be invalid.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageEnd {
    /// When the last schedule of the page must be checked, according to the store.
    pub look_at: Option<Timestamp>,
    /// The name of the last schedule of the page.
    pub name: String,
}

impl WhichSchedules {
    /// Refuses a request for more schedules than one call may return.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Named(names) => within(SCHEDULES_PER_CALL_MAX, "schedules", names.len()),
            Self::After(..) | Self::Due(..) => Ok(()),
        }
    }

    /// Returns the maximum number of schedules in the answer.
    pub fn limit(&self) -> u32 {
        match self {
            Self::Named(names) => u32::try_from(names.len()).unwrap_or(u32::MAX),
            Self::After(_, limit) => (*limit).min(LIST_PAGE_MAX),
            Self::Due(_, limit) => (*limit).min(u32::try_from(SCHEDULES_PER_CALL_MAX).unwrap_or(u32::MAX)),
        }
    }
}

/// Schedules of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedulesRead {
    /// The requested schedules.
    pub schedules: Vec<StoredSchedule>,
    /// The requested schedules that cannot be read, with their versions: the store was changed by hand,
    /// or by a newer program. They can be removed.
    pub damaged: Vec<(ScheduleName, u64)>,
    /// The end of this page; `None` if it is empty.
    pub end: Option<PageEnd>,
    /// The earliest time at which a schedule must be checked, of all schedules that are not due yet.
    pub next: Option<Timestamp>,
    /// The current time by the store's clock.
    pub now: Timestamp,
}

/// A change of a schedule, and the jobs that are enqueued with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleChange {
    /// The schedule.
    pub name: ScheduleName,
    /// The version that this was decided from; 0 if there was none.
    pub read: u64,
    /// The record to store; `None` removes the schedule.
    pub to: Option<Box<ScheduleRecord>>,
    /// The jobs to enqueue if the change is applied; only together with a record.
    pub jobs: Vec<NewJob>,
    /// What happens to the job if the previous job is still live. Any value other than [`Overlap::Allow`]
    /// requires a single job.
    pub overlap: Overlap,
    /// The ticks of the jobs, in their order; none if a person requested the jobs. A tick that made no
    /// job is noted with the schedule: see [`kept`](Self::kept).
    pub ticks: Vec<Timestamp>,
    /// Whether a person requested the jobs. Then the schedule's last job, by which overlapping is
    /// decided, stays the same.
    pub by_hand: bool,
}

impl ScheduleChange {
    /// Returns the record to store once the change was applied and its jobs got these answers. The step
    /// that fires also records the first tick that made no job. If a second call recorded it, the alert
    /// would be lost with a process that died in between.
    pub fn kept(&self, jobs: &[Put], now: Timestamp) -> Option<ScheduleRecord> {
        let mut record = self.to.as_deref()?.clone();
        let made_none = self.ticks.iter().zip(jobs).find_map(|(tick, put)| record.news_of(*tick, put));
        record.alert = made_none.map(|what| Alert { at: now, what }).or(record.alert);
        Some(record)
    }

    /// Returns the last job of the schedule from now on, given the results of the jobs.
    pub fn last_job(&self, jobs: &[Put], before: Option<JobId>) -> Option<JobId> {
        let new = jobs.iter().filter_map(Put::new_job).next_back().filter(|_| !self.by_hand);
        new.or(before)
    }
}

/// The outcome of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScheduleChanged {
    /// It was applied.
    Done {
        /// The version from now on; for a removed schedule, its last version.
        version: u64,
        /// The result for each job.
        jobs: Vec<Put>,
    },
    /// Another process has changed or removed the schedule since it was read. Nothing was written: read
    /// again, decide again.
    Changed,
    /// The store already keeps [`SCHEDULES_MAX`] other schedules.
    NoRoom,
}

/// The result of enqueuing a job of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Put {
    /// The answer of the enqueue. [`EnqueueAnswer::Duplicate`] names the job that this tick made before.
    Answered(EnqueueAnswer),
    /// The job was not enqueued, because this job of the schedule is still live.
    Overlaps(JobId),
}

impl Put {
    /// Returns the new job, if one was enqueued.
    pub fn new_job(&self) -> Option<JobId> {
        match self {
            Self::Answered(EnqueueAnswer::New(id)) => Some(*id),
            Self::Answered(_) | Self::Overlaps(_) => None,
        }
    }
}

/// Refuses changes that no store could apply as intended.
pub fn check_changes(changes: &[ScheduleChange]) -> Result<()> {
    within(SCHEDULES_PER_CALL_MAX, "schedules", changes.len())?;
    within(ENQUEUE_BATCH_MAX, "jobs of schedules", changes.iter().map(|change| change.jobs.len()).sum())?;
    let mut names = BTreeSet::new();
    for change in changes {
        if !names.insert(&change.name) {
            return refused(format!("expected each schedule once in a request, got {} twice", change.name));
        }
        if change.to.is_none() && !change.jobs.is_empty() {
            return refused(format!("expected no jobs of schedule {}, which is removed", change.name));
        }
        if !change.ticks.is_empty() && change.ticks.len() != change.jobs.len() {
            return refused(format!(
                "expected a tick for each job of schedule {}, or none, got {} for {}",
                change.name,
                change.ticks.len(),
                change.jobs.len()
            ));
        }
        if change.overlap != Overlap::Allow && change.jobs.len() > 1 {
            return refused(format!(
                "expected one job of schedule {} at a time, since it does not let jobs overlap",
                change.name
            ));
        }
        if let Some(record) = &change.to {
            record.spec.check_kept().map_err(|why| EngineError::Refused(why.to_string()))?;
        }
    }
    Ok(())
}

/// Returns the version that follows another. It is no lower than the store's time, so that a schedule
/// that was removed and stored again does not get a version that some process still remembers.
pub fn next_version(read: u64, now: Timestamp) -> u64 {
    (read + 1).max(u64::try_from(now.as_micros()).unwrap_or(0))
}

/// Returns the reason with which the last job of a schedule is cancelled when its next tick comes.
pub fn replaced_by(name: &ScheduleName) -> String {
    format!("replaced by the next tick of schedule {name}")
}

fn within(max: usize, what: &str, got: usize) -> Result<()> {
    match got <= max {
        true => Ok(()),
        false => {
            refused(format!("expected at most {max} {what} in one request, got {got}; send them in parts"))
        }
    }
}

fn refused<T>(why: String) -> Result<T> {
    Err(EngineError::Refused(why))
}

#[cfg(test)]
mod tests;
