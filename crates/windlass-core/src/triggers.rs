//! CompletionTriggers: a job that is put in when a group of others has been worked off.
//!
//! A group is a name that jobs carry, a queue, or a type. It is *drained* when nothing of it runs and nothing of it could: none is
//! ready, no suspect is due, and nobody is due in the line of an ordering key. What waits for a retry, lies in the future or is parked by a
//! policy does not hold a trigger, unless it waits for retries; then all that has not ended does. Dead letters have ended, and hold
//! none. The job of a trigger itself never belongs to the group that the trigger watches, for no trigger that watches it.
//!
//! **Once for each trigger, whoever looks.** Whatever takes a job out of what is ready or runs leaves a *mark* for each trigger that
//! watches it, in its own statement. Afterwards somebody looks: one transaction or script reads the marks, asks whether anything of the
//! group is left, and, if nothing is, puts the job in, counts it and takes away the marks that it saw; if something is left, it only
//! takes those away, since the end of what is left will leave another. Marks and what is left are seen at one moment: so of two who end
//! the last two jobs at once, the one that commits last sees that nothing is left, and nobody fires for both. A mark that comes after
//! that moment stays, and is looked at next. A firing names the version that it was decided from, as a change of a schedule does.
//!
//! [`spec`] is what somebody declares, [`record`] what a store keeps of it, [`rules`] what holds a trigger and what marks it,
//! [`acts`] what people do to it and what is asked of a store that has a mark.

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

/// Where triggers are kept. Each method is one statement, script or transaction, or one for each trigger, on the store's clock.
#[async_trait]
pub trait CompletionTriggers: Send + Sync + 'static {
    /// CompletionTriggers, and the store's now.
    async fn triggers(&self, which: &WhichTriggers) -> Result<TriggersRead>;

    /// Applies changes, each only if the trigger still has the version that the change was decided from.
    async fn change_triggers(&self, changes: &[TriggerChange]) -> Result<Vec<TriggerChanged>>;

    /// Looks at marked triggers, and puts the jobs of those in whose groups are drained. Each as a whole or not at all, and one does not
    /// spoil another. Safe to repeat, and for many at once.
    async fn fire_triggers(&self, firings: &[TriggerFiring]) -> Result<Vec<TriggerFired>>;
}

/// Which triggers to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhichTriggers {
    /// These, as far as they are there; at most [`TRIGGERS_PER_CALL_MAX`].
    Named(Vec<TriggerName>),
    /// By name, after this one; at most so many, and never more than [`LIST_PAGE_MAX`].
    After(Option<TriggerName>, u32),
    /// Those that have a mark and may be looked at now; at most so many, and never more than [`TRIGGERS_PER_CALL_MAX`].
    Marked(u32),
}

impl WhichTriggers {
    /// Refuses a request for more than is given at once.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Named(names) => within(names.len()),
            Self::After(..) | Self::Marked(_) => Ok(()),
        }
    }

    /// How many are given at the most.
    pub fn limit(&self) -> u32 {
        match self {
            Self::Named(names) => u32::try_from(names.len()).unwrap_or(u32::MAX),
            Self::After(_, limit) => (*limit).min(LIST_PAGE_MAX),
            Self::Marked(limit) => (*limit).min(u32::try_from(TRIGGERS_PER_CALL_MAX).unwrap_or(u32::MAX)),
        }
    }
}

/// CompletionTriggers of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriggersRead {
    /// Those that were asked for, by name.
    pub triggers: Vec<StoredTrigger>,
    /// Those of them that cannot be read, with their versions. They can be removed.
    pub damaged: Vec<(TriggerName, u64)>,
    /// Whether the store keeps any.
    pub any: bool,
    /// When the next one that has a mark may be looked at, of those that were looked at a moment ago.
    pub next: Option<Timestamp>,
    /// The store's now.
    pub now: Timestamp,
}

/// What a trigger becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriggerChange {
    /// Which.
    pub name: TriggerName,
    /// The version that this was decided from; 0 if there was none.
    pub read: u64,
    /// What is kept from now on; nothing to remove it, with its marks.
    pub to: Option<Box<TriggerRecord>>,
}

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TriggerChanged {
    /// It was applied.
    Done {
        /// The version from now on; of one that was removed, the last it had.
        version: u64,
    },
    /// Somebody else has changed or removed the trigger since it was read. Nothing was written: read again, decide again.
    Changed,
    /// There are [`TRIGGERS_MAX`] others.
    NoRoom,
}

/// What is done about a trigger that has a mark, if its group is drained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriggerFiring {
    /// Which.
    pub name: TriggerName,
    /// The version that this was decided from.
    pub read: u64,
    /// What is kept once it has fired; but see [`kept`](Self::kept), which stores ask for.
    pub to: Box<TriggerRecord>,
    /// What is put in.
    pub job: NewJob,
}

/// What became of a firing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TriggerFired {
    /// The group is drained, and this trigger has fired.
    Fired {
        /// The version from now on.
        version: u64,
        /// What became of its job.
        job: EnqueueAnswer,
    },
    /// Something is left. The marks that were seen are gone: whatever ends what is left leaves another.
    Held,
    /// There is no mark: somebody else has looked.
    Unmarked,
    /// Not now: it was looked at less than [`TRIGGER_PAUSE`] ago, somebody else is at it, there are more marks than one look takes
    /// away, or the look failed, which the engine has told. There are marks for the next look.
    Later,
    /// Somebody else has fired, changed or removed the trigger since it was read. Its marks stay: read again, decide again.
    Changed,
}

/// Refuses changes that no store could apply as they are meant.
pub fn check_changes(changes: &[TriggerChange]) -> Result<()> {
    check_names(changes.iter().map(|change| &change.name))?;
    for record in changes.iter().filter_map(|change| change.to.as_ref()) {
        record.spec.check().map_err(|why| EngineError::Refused(why.to_string()))?;
    }
    Ok(())
}

/// Refuses firings that no store could apply as they are meant.
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
