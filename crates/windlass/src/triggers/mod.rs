//! Completion triggers: enqueue a job when a group of jobs has finished.
//!
//! A worker declares the triggers of its [options](crate::WorkerOptions::triggers). The process that ends
//! the last job of a group evaluates the trigger at once, and a duty evaluates the triggers of processes
//! that died before they could. [`CompletionTriggers`] is for everything else: an application can do by it
//! what people do at the command line. The rules are in [`windlass_core::triggers`].

pub(crate) mod duty;
pub(crate) mod shell;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use windlass_core::admin::Changed;
use windlass_core::engine::Engine;
use windlass_core::error::EngineError;
use windlass_core::limits::{LIST_PAGE_MAX, TRIGGERS_MAX, TRIGGERS_PER_CALL_MAX};
use windlass_core::names::TriggerName;
use windlass_core::schedules::Origin;
use windlass_core::triggers::spec::check_all;
use windlass_core::triggers::{
    CompletionTrigger, CompletionTriggerError, StoredTrigger, TriggerChange, TriggerChanged, TriggerFired,
    TriggerFiring, TriggersRead, WhichTriggers, acts,
};

use crate::schedules::Declared;
use crate::store;

/// How often a change is decided again because another process changed the trigger first.
const CONFLICTS_MAX: usize = 20;

/// The triggers of a store. Cheap to clone.
#[derive(Clone)]
pub struct CompletionTriggers {
    engine: Arc<dyn Engine>,
}

/// The reason why an operation on completion triggers failed.
#[derive(Debug, thiserror::Error)]
pub enum TriggersError {
    /// A declared trigger is invalid. No trigger was stored.
    #[error(transparent)]
    Spec(#[from] CompletionTriggerError),
    /// The store has no trigger of this name.
    #[error(
        "expected the name of a completion trigger, got {0}, and there is none; see `windlass trigger list`"
    )]
    Unknown(TriggerName),
    /// The stored trigger cannot be read.
    #[error(
        "trigger {0} cannot be read; a person or a newer version changed it: remove it and declare it again"
    )]
    Damaged(TriggerName),
    /// The store has no room for another trigger.
    #[error("expected at most {TRIGGERS_MAX} triggers, got one more; remove a trigger before you store {0}")]
    NoRoom(TriggerName),
    /// The store failed or refused.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

type Result<T> = std::result::Result<T, TriggersError>;

impl CompletionTriggers {
    /// The triggers of an engine's store.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine }
    }

    /// Stores triggers, or changes the stored ones to what is declared. All are checked before any is
    /// stored. Triggers that are not named stay as they are: removing a trigger is a step of its own.
    pub async fn declare(
        &self,
        specs: &[CompletionTrigger],
        origin: Origin,
    ) -> Result<Vec<(TriggerName, Declared)>> {
        check_all(specs)?;
        self.declare_parts(specs, origin, refuse_damaged).await
    }

    /// Declares triggers for a worker that starts. Stored triggers that cannot be read, as after a newer
    /// version ran, prevent neither the other triggers from being stored nor the worker from running its
    /// jobs. They are logged, and stay as they are.
    pub(crate) async fn apply_lenient(&self, specs: &[CompletionTrigger], origin: Origin) -> Result<()> {
        check_all(specs)?;
        self.declare_parts(specs, origin, log_damaged).await.map(drop)
    }

    /// The triggers among these that the store does not have, readable or not.
    pub(crate) async fn missing(&self, specs: &[CompletionTrigger]) -> Result<Vec<CompletionTrigger>> {
        let mut missing = specs.to_vec();
        for part in specs.chunks(TRIGGERS_PER_CALL_MAX) {
            let names = part.iter().map(|spec| spec.name.clone()).collect();
            let read = self.read(WhichTriggers::Named(names)).await?;
            missing.retain(|spec| read.triggers.iter().all(|stored| *stored.name() != spec.name));
            missing.retain(|spec| read.damaged.iter().all(|(name, _)| *name != spec.name));
        }
        Ok(missing)
    }

    /// The stored triggers of this origin that are not among these: they go on until they are removed.
    /// Another application on the same store may have declared them.
    pub async fn undeclared(&self, specs: &[CompletionTrigger], origin: Origin) -> Result<Vec<TriggerName>> {
        let all = self.all().await?.triggers.into_iter();
        let of_origin = all.filter(|stored| stored.record.origin == origin);
        let names = of_origin.map(|stored| stored.record.spec.name);
        Ok(names.filter(|name| specs.iter().all(|spec| spec.name != *name)).collect())
    }

    /// Logs the undeclared triggers when a worker starts: a trigger that was removed from the code is
    /// easily forgotten in the store. A failure to read them does not prevent the worker from starting.
    pub(crate) async fn log_undeclared(&self, specs: &[CompletionTrigger], origin: Origin) {
        for trigger in self.undeclared(specs, origin).await.unwrap_or_default() {
            tracing::info!(%trigger, origin = origin.as_str(), "a stored completion trigger is not declared by this worker; it goes on until it is removed");
        }
    }

    async fn declare_parts(
        &self,
        specs: &[CompletionTrigger],
        origin: Origin,
        of_damaged: fn(&TriggersRead) -> Result<()>,
    ) -> Result<Vec<(TriggerName, Declared)>> {
        let mut declared = Vec::with_capacity(specs.len());
        for part in specs.chunks(TRIGGERS_PER_CALL_MAX) {
            declared.extend(self.declare_part(part, origin, of_damaged).await?);
        }
        Ok(declared)
    }

    async fn declare_part(
        &self,
        specs: &[CompletionTrigger],
        origin: Origin,
        of_damaged: fn(&TriggersRead) -> Result<()>,
    ) -> Result<Vec<(TriggerName, Declared)>> {
        let mut declared: Vec<_> =
            specs.iter().map(|spec| (spec.name.clone(), Declared::Unchanged)).collect();
        for _ in 0..CONFLICTS_MAX {
            let names = specs.iter().map(|spec| spec.name.clone()).collect();
            let read = self.read(WhichTriggers::Named(names)).await?;
            of_damaged(&read)?;
            let is_sound =
                |spec: &&CompletionTrigger| read.damaged.iter().all(|(name, _)| *name != spec.name);
            let before =
                |spec: &CompletionTrigger| read.triggers.iter().find(|stored| *stored.name() == spec.name);
            let sound = specs.iter().filter(is_sound);
            let wanted = sound.filter_map(|spec| acts::declare(spec, origin, before(spec), read.now));
            let changes: Vec<_> = wanted.collect();
            if changes.is_empty() {
                return Ok(declared);
            }
            for (change, changed) in changes.iter().zip(self.change_all(changes.clone()).await?) {
                let how = if change.read == 0 { Declared::New } else { Declared::Updated };
                let row = declared.iter_mut().find(|(name, _)| *name == change.name);
                match (changed, row) {
                    (TriggerChanged::NoRoom, _) => return Err(TriggersError::NoRoom(change.name.clone())),
                    (TriggerChanged::Done { .. }, Some(row)) => row.1 = how,
                    (TriggerChanged::Changed | TriggerChanged::Done { .. }, _) => {}
                }
            }
        }
        Err(too_many_conflicts().into())
    }

    /// One completion trigger.
    pub async fn find(&self, name: &TriggerName) -> Result<StoredTrigger> {
        let mut read = self.read(WhichTriggers::Named(vec![name.clone()])).await?;
        refuse_damaged(&read)?;
        read.triggers.pop().ok_or_else(|| TriggersError::Unknown(name.clone()))
    }

    /// All triggers, by name. There are never more than [`TRIGGERS_MAX`], which one page holds.
    pub async fn all(&self) -> Result<TriggersRead> {
        self.read(WhichTriggers::After(None, LIST_PAGE_MAX)).await
    }

    /// Removes a trigger, with its marks. Jobs that it enqueued stay. A trigger that cannot be read is
    /// removed, too.
    pub async fn remove(&self, name: &TriggerName) -> Result<Changed> {
        for _ in 0..CONFLICTS_MAX {
            let read = self.read(WhichTriggers::Named(vec![name.clone()])).await?;
            let sound = read.triggers.first().map(|stored| stored.version);
            let Some(version) = sound.or(read.damaged.first().map(|(_, version)| *version)) else {
                return Ok(Changed::NotFound);
            };
            let changed = self.change_all(vec![acts::remove(name, version)]).await?;
            if matches!(changed[..], [TriggerChanged::Done { .. }]) {
                return Ok(Changed::Done);
            }
        }
        Err(too_many_conflicts().into())
    }

    async fn read(&self, which: WhichTriggers) -> Result<TriggersRead> {
        Ok(read(&self.engine, which).await?)
    }

    async fn change_all(&self, changes: Vec<TriggerChange>) -> Result<Vec<TriggerChanged>> {
        Ok(change(&self.engine, changes).await?)
    }
}

async fn read(
    engine: &Arc<dyn Engine>,
    which: WhichTriggers,
) -> std::result::Result<TriggersRead, EngineError> {
    store::call(engine, |engine| async move { engine.triggers(&which).await }).await
}

async fn change(
    engine: &Arc<dyn Engine>,
    changes: Vec<TriggerChange>,
) -> std::result::Result<Vec<TriggerChanged>, EngineError> {
    store::call(engine, |engine| async move { engine.change_triggers(&changes).await }).await
}

async fn fire(
    engine: &Arc<dyn Engine>,
    firings: Vec<TriggerFiring>,
) -> std::result::Result<Vec<TriggerFired>, EngineError> {
    store::call(engine, |engine| async move { engine.fire_triggers(&firings).await }).await
}

fn refuse_damaged(read: &TriggersRead) -> Result<()> {
    read.damaged.first().map_or(Ok(()), |(name, _)| Err(TriggersError::Damaged(name.clone())))
}

fn log_damaged(read: &TriggersRead) -> Result<()> {
    for (trigger, _) in &read.damaged {
        tracing::error!(%trigger, "a stored completion trigger cannot be read, so it is not updated and does not fire: remove it, or start the version that wrote it");
    }
    Ok(())
}

fn too_many_conflicts() -> EngineError {
    let why = "other processes keep changing this completion trigger; try again later".to_owned();
    EngineError::Unavailable { why }
}
