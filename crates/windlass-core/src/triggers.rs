//! Completion triggers: each enqueues a job when a group of other jobs has finished.
//!
//! A group is a name that jobs carry, a queue, or a type. A group has *finished* when none of its jobs runs
//! and none could run: none is ready, no suspect is due, and no job is due that waits for its turn in an
//! ordering key. A job that waits for a retry, is scheduled for later or is parked by a policy does not
//! hold a trigger, unless the trigger waits for retries; then every unfinished job holds it. Dead letters
//! have ended, and hold no trigger. The job of a trigger itself never belongs to the group that the
//! trigger watches, for any trigger that watches this group.
//!
//! **Each trigger fires once, whichever process evaluates it.** Every statement that takes a job out of
//! the ready or running jobs also leaves a *mark* for each trigger that watches the job. Afterwards a
//! process evaluates the trigger: one transaction or script reads the marks and checks whether any job of
//! the group is left. If none is left, it enqueues the trigger's job, counts the firing and removes the
//! marks that it saw. If some job is left, it only removes those marks, since the end of that job will
//! leave another. Marks and remaining jobs are read at one moment. So if two transactions end the last
//! two jobs at once, the one that commits last sees that no job is left, and the trigger does not fire
//! for both. A mark that comes after that moment stays for the next evaluation. A firing names the
//! version that it was decided from, as a change of a schedule does.
//!
//! [`spec`] is the declaration of a trigger, and [`record`] is what a store keeps of it. [`rules`]
//! decides what holds a trigger and what marks it. [`acts`] are the changes that people and programs
//! make, and the request to a store that has a mark.

pub mod spec;
pub mod record;
pub mod rules;
pub mod acts;

use std::collections::BTreeSet;

use async_trait::async_trait;

use crate::clock::Timestamp;
use crate::engine::Result;
use crate::enqueue::{EnqueueAnswer, NewJob};
use crate::error::EngineError;
use crate::limits::{LIST_PAGE_MAX, TRIGGERS_PER_CALL_MAX};
#[cfg(doc)]
use crate::limits::{TRIGGER_PAUSE, TRIGGERS_MAX};
use crate::names::TriggerName;

pub use record::{StoredTrigger, TriggerAlert, TriggerRecord};
pub use spec::{CompletionTrigger, CompletionTriggerError, Watched, WatchedError};

/// Stores completion triggers. Each method is one statement, script or transaction, or one for each
/// trigger, on the store's clock.
#[async_trait]
pub trait CompletionTriggers: Send + Sync + 'static {
    /// Reads completion triggers, and the store's current time.
    async fn triggers(&self, which: &WhichTriggers) -> Result<TriggersRead>;

    /// Applies changes, each only if the trigger still has the version that the change was decided from.
    async fn change_triggers(&self, changes: &[TriggerChange]) -> Result<Vec<TriggerChanged>>;

    /// Evaluates marked triggers, and enqueues the jobs of those whose groups have finished. Each firing is
    /// applied as a whole or not at all, and the failure of one does not affect the others. The call is
    /// safe to repeat, and for many processes at once.
    async fn fire_triggers(&self, firings: &[TriggerFiring]) -> Result<Vec<TriggerFired>>;
}

/// Which triggers to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhichTriggers {
    /// The named triggers, as far as they are stored; at most [`TRIGGERS_PER_CALL_MAX`].
    Named(Vec<TriggerName>),
    /// A page of triggers by name, after this name; at most this number, and never more than
    /// [`LIST_PAGE_MAX`].
    After(Option<TriggerName>, u32),
    /// The triggers that have a mark and may be evaluated now; at most this number, and never more than
    /// [`TRIGGERS_PER_CALL_MAX`].
    Marked(u32),
}

impl WhichTriggers {
    /// Refuses a request for more triggers than one call may return.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Named(names) => within(names.len()),
            Self::After(..) | Self::Marked(_) => Ok(()),
        }
    }

    /// Returns the maximum number of triggers in the answer.
    pub fn limit(&self) -> u32 {
        match self {
            Self::Named(names) => u32::try_from(names.len()).unwrap_or(u32::MAX),
            Self::After(_, limit) => (*limit).min(LIST_PAGE_MAX),
            Self::Marked(limit) => (*limit).min(u32::try_from(TRIGGERS_PER_CALL_MAX).unwrap_or(u32::MAX)),
        }
    }
}

/// Completion triggers of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriggersRead {
    /// The requested triggers, by name.
    pub triggers: Vec<StoredTrigger>,
    /// The requested triggers that cannot be read, with their versions. They can be removed.
    pub damaged: Vec<(TriggerName, u64)>,
    /// Whether the store keeps any trigger.
    pub any: bool,
    /// When the next marked trigger may be evaluated, of those that were evaluated a moment ago.
    pub next: Option<Timestamp>,
    /// The current time by the store's clock.
    pub now: Timestamp,
}

/// A change of a trigger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriggerChange {
    /// The trigger.
    pub name: TriggerName,
    /// The version that this was decided from; 0 if there was none.
    pub read: u64,
    /// The record to store; `None` removes the trigger and its marks.
    pub to: Option<Box<TriggerRecord>>,
}

/// The outcome of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TriggerChanged {
    /// It was applied.
    Done {
        /// The version from now on; for a removed trigger, its last version.
        version: u64,
    },
    /// Another process has changed or removed the trigger since it was read. Nothing was written: read
    /// again, decide again.
    Changed,
    /// The store already keeps [`TRIGGERS_MAX`] other triggers.
    NoRoom,
}

/// The firing of a marked trigger, applied if its group has finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriggerFiring {
    /// The trigger.
    pub name: TriggerName,
    /// The version that this was decided from.
    pub read: u64,
    /// The record to store once it has fired; stores call [`kept`](Self::kept) for the final form.
    pub to: Box<TriggerRecord>,
    /// The job to enqueue.
    pub job: NewJob,
}

/// The outcome of a firing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TriggerFired {
    /// The group has finished, and this trigger has fired.
    Fired {
        /// The version from now on.
        version: u64,
        /// The answer about its job.
        job: EnqueueAnswer,
    },
    /// Some job of the group is left. The marks that were seen are gone: the statement that ends the
    /// remaining job leaves another.
    Held,
    /// There is no mark: another process has evaluated the trigger.
    Unmarked,
    /// Not evaluated now. It was evaluated less than [`TRIGGER_PAUSE`] ago, another process is evaluating
    /// it, there are more marks than one evaluation removes, or the evaluation failed, which the engine
    /// has logged. There are marks for the next evaluation.
    Later,
    /// Another process has fired, changed or removed the trigger since it was read. Its marks stay: read
    /// again, decide again.
    Changed,
}

/// Refuses changes that no store could apply as intended.
pub fn check_changes(changes: &[TriggerChange]) -> Result<()> {
    check_names(changes.iter().map(|change| &change.name))?;
    for record in changes.iter().filter_map(|change| change.to.as_ref()) {
        record.spec.check().map_err(|why| EngineError::Refused(why.to_string()))?;
    }
    Ok(())
}

/// Refuses firings that no store could apply as intended.
pub fn check_firings(firings: &[TriggerFiring]) -> Result<()> {
    check_names(firings.iter().map(|firing| &firing.name))
}

fn check_names<'a>(names: impl ExactSizeIterator<Item = &'a TriggerName>) -> Result<()> {
    within(names.len())?;
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            let why = format!("expected each completion trigger once in a request, got {name} twice");
            return Err(EngineError::Refused(why));
        }
    }
    Ok(())
}

fn within(got: usize) -> Result<()> {
    match got <= TRIGGERS_PER_CALL_MAX {
        true => Ok(()),
        false => Err(EngineError::Refused(format!(
            "expected at most {TRIGGERS_PER_CALL_MAX} triggers in one request, got {got}; send them in parts"
        ))),
    }
}

#[cfg(test)]
mod tests;
