//! Schedules that a store keeps, and the jobs that they make.
//!
//! [`spec`] is what somebody declares, [`record`] what a store keeps of it, [`acts`] what people do to it, [`fire`] what is
//! to be done when it is due. All of that is pure: it reads a [`StoredSchedule`] and makes a [`ScheduleChange`]. A store does
//! two things, reads schedules and applies changes.
//!
//! **One tick makes at most one job, whoever fires.** A change names the version that it was decided from, and is applied as a
//! whole, its jobs included, by one transaction or script, only if that is still the version. So of two processes that decide
//! about one tick, one is told that somebody was faster; and one that slept between deciding and writing writes nothing. Beside
//! that, the job of a tick holds the key `schedule/NAME/TICK` for [`TICK_KEPT`]: a row
//! written with the job, which is asked for again when somebody fills a range that has passed.

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

/// Where schedules are kept. Each method is one statement, script or transaction, on the store's clock. There is no engine that
/// keeps none, so there is no method that says so.
#[async_trait]
pub trait Schedules: Send + Sync + 'static {
    /// Schedules, and the store's now.
    async fn schedules(&self, which: &WhichSchedules) -> Result<SchedulesRead>;

    /// Applies changes, each as a whole or not at all: only if the schedule still has the version that the change was decided
    /// from. Its jobs are put in by the same transaction or script. One change does not spoil another.
    async fn change_schedules(&self, changes: &[ScheduleChange]) -> Result<Vec<ScheduleChanged>>;
}

/// Which schedules to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhichSchedules {
    /// These, as far as they are there; at most [`SCHEDULES_PER_CALL_MAX`].
    Named(Vec<ScheduleName>),
    /// By name, after the end of another page; at most so many, and never more than [`LIST_PAGE_MAX`].
    After(Option<PageEnd>, u32),
    /// Those that somebody has to look at now, longest due first, after the end of another page; at most so many, and never more
    /// than [`SCHEDULES_PER_CALL_MAX`]. Whoever fires passes over what it cannot fire by this, which would else stand before all
    /// others for ever.
    Due(Option<PageEnd>, u32),
}

/// Where a page of schedules ended, to read on from. It may be a row that cannot be read, whose name may be no name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageEnd {
    /// When somebody has to look at the last one, by what the store keeps of that.
    pub look_at: Option<Timestamp>,
    /// What it is called.
    pub name: String,
}

impl WhichSchedules {
    /// Refuses a request for more than is given at once.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Named(names) => within(SCHEDULES_PER_CALL_MAX, "schedules", names.len()),
            Self::After(..) | Self::Due(..) => Ok(()),
        }
    }

    /// How many are given at the most.
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
    /// Those that were asked for.
    pub schedules: Vec<StoredSchedule>,
    /// Those of them that cannot be read, with their versions: the store was changed by hand, or by a newer program. They can be
    /// removed.
    pub damaged: Vec<(ScheduleName, u64)>,
    /// Where this page ended; nothing if it is empty.
    pub end: Option<PageEnd>,
    /// When somebody has to look next, of all schedules that are not due yet.
    pub next: Option<Timestamp>,
    /// The store's now.
    pub now: Timestamp,
}

/// What a schedule becomes, and the jobs that are put in with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleChange {
    /// Which.
    pub name: ScheduleName,
    /// The version that this was decided from; 0 if there was none.
    pub read: u64,
    /// What is kept from now on; nothing to remove it.
    pub to: Option<Box<ScheduleRecord>>,
    /// What is put in if the change is applied; only beside a record.
    pub jobs: Vec<NewJob>,
    /// What happens to the job if the one before it is still live. Other than [`Overlap::Allow`] it is for one job.
    pub overlap: Overlap,
    /// The ticks of the jobs, in their order; none if somebody asked for them by hand. That one made no job is kept with the schedule:
    /// see [`kept`](Self::kept).
    pub ticks: Vec<Timestamp>,
    /// Whether somebody asked for the jobs by hand. Then the schedule's last job stays the one it is, by which overlapping is decided.
    pub by_hand: bool,
}

impl ScheduleChange {
    /// What is kept once the change was applied and its jobs got these answers: the first tick that made none is told with the
    /// schedule, by the step that fires. Told by a second call, it would be lost with a process that died in between.
    pub fn kept(&self, jobs: &[Put], now: Timestamp) -> Option<ScheduleRecord> {
        let mut record = self.to.as_deref()?.clone();
        let made_none = self.ticks.iter().zip(jobs).find_map(|(tick, put)| record.news_of(*tick, put));
        record.alert = made_none.map(|alarm| Alert { at: now, alarm }).or(record.alert);
        Some(record)
    }

    /// The last job of the schedule from now on, given what became of the jobs.
    pub fn last_job(&self, jobs: &[Put], before: Option<JobId>) -> Option<JobId> {
        let new = jobs.iter().filter_map(Put::new_job).next_back().filter(|_| !self.by_hand);
        new.or(before)
    }
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScheduleChanged {
    /// It was applied.
    Done {
        /// The version from now on; of one that was removed, the last it had.
        version: u64,
        /// What became of each job.
        jobs: Vec<Put>,
    },
    /// Somebody else has changed or removed the schedule since it was read. Nothing was written: read again, decide again.
    Changed,
    /// There are [`SCHEDULES_MAX`] others.
    NoRoom,
}

/// What became of a job of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Put {
    /// The answer of the enqueue. [`EnqueueAnswer::Duplicate`] names the job that this tick made before.
    Answered(EnqueueAnswer),
    /// It was left out, because this one is still live.
    Overlaps(JobId),
}

impl Put {
    /// The job that was made.
    pub fn new_job(&self) -> Option<JobId> {
        match self {
            Self::Answered(EnqueueAnswer::New(id)) => Some(*id),
            Self::Answered(_) | Self::Overlaps(_) => None,
        }
    }
}

/// Refuses changes that no store could apply as they are meant.
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

/// The version that follows another. It is no lower than the store's time, so that one that was removed and stored again does
/// not get a version that somebody remembers.
pub fn next_version(read: u64, now: Timestamp) -> u64 {
    (read + 1).max(u64::try_from(now.as_micros()).unwrap_or(0))
}

/// Why the last job of a schedule was cancelled when its next tick came.
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
