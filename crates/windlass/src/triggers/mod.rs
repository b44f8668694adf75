//! CompletionTriggers: a job that is put in when a group of others was worked off.
//!
//! A worker declares the triggers of its [options](crate::WorkerOptions::triggers). Whoever ends the last job of a group looks at once whether
//! it was the last, and a duty looks for those whose process died before it could. [`CompletionTriggers`] is for everything else: what people do at
//! the command line, an application can do by it, too. What is decided is decided in [`windlass_core::triggers`].

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

/// How often a change is decided again because somebody else was faster.
const FASTER_MAX: usize = 20;

/// The triggers of a store. Cheap to clone.
#[derive(Clone)]
pub struct CompletionTriggers {
    engine: Arc<dyn Engine>,
}

/// Why something about triggers was not done.
#[derive(Debug, thiserror::Error)]
pub enum TriggersError {
    /// What was declared is wrong. Nothing was stored.
    #[error(transparent)]
    Spec(#[from] CompletionTriggerError),
    /// There is none of this name.
    #[error(
        "expected the name of a completion trigger, got {0}, and there is none; see `windlass completion trigger list`"
    )]
    Unknown(TriggerName),
    /// What the store has of it cannot be read.
    #[error(
        "trigger {0} cannot be read; it was changed by hand or by a newer version: remove it and declare it again"
    )]
    Damaged(TriggerName),
    /// The store has no room for another.
    #[error(
        "expected at most {TRIGGERS_MAX} triggers, and there are so many; remove some before you store {0}"
    )]
    NoRoom(TriggerName),
    /// The store.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

type Result<T> = std::result::Result<T, TriggersError>;

impl CompletionTriggers {
    /// The triggers of an engine's store.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine }
    }

    /// Stores triggers, or makes the stored ones what is declared. All are checked before anything is stored. Those that are not named
    /// stay as they are: removing one is a step of its own.
    pub async fn declare(
        &self,
        specs: &[CompletionTrigger],
        origin: Origin,
    ) -> Result<Vec<(TriggerName, Declared)>> {
        check_all(specs)?;
        self.declare_parts(specs, origin, refuse_damaged).await
    }

    /// The same for a worker that starts: what the store has of some of them and cannot be read, as after a newer version was here,
    /// keeps neither the others from being stored nor the worker from its jobs. It is told, and stays as it is.
    pub(crate) async fn apply_lenient(&self, specs: &[CompletionTrigger], origin: Origin) -> Result<()> {
        check_all(specs)?;
        self.declare_parts(specs, origin, tell_of_damaged).await.map(drop)
    }

    /// Those of these that the store does not have, readable or not.
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

    /// CompletionTriggers that somebody of this origin has stored and that are not among these: they go on until they are removed. Another
    /// application on the same store may have declared them.
    pub async fn undeclared(&self, specs: &[CompletionTrigger], origin: Origin) -> Result<Vec<TriggerName>> {
        let all = self.all().await?.triggers.into_iter();
        let of_origin = all.filter(|stored| stored.record.origin == origin);
        let names = of_origin.map(|stored| stored.record.spec.name);
        Ok(names.filter(|name| specs.iter().all(|spec| spec.name != *name)).collect())
    }

    /// Tells of them when a worker starts: one that was taken out of the code is easily forgotten in the store. What cannot be found out
    /// keeps nobody from starting.
    pub(crate) async fn tell_of_undeclared(&self, specs: &[CompletionTrigger], origin: Origin) {
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
        for _ in 0..FASTER_MAX {
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
        Err(others_are_faster().into())
    }

    /// One drain.
    pub async fn find(&self, name: &TriggerName) -> Result<StoredTrigger> {
        let mut read = self.read(WhichTriggers::Named(vec![name.clone()])).await?;
        refuse_damaged(&read)?;
        read.triggers.pop().ok_or_else(|| TriggersError::Unknown(name.clone()))
    }

    /// All triggers, by name. There are never more than [`TRIGGERS_MAX`], which one page holds.
    pub async fn all(&self) -> Result<TriggersRead> {
        self.read(WhichTriggers::After(None, LIST_PAGE_MAX)).await
    }

    /// Forgets a trigger, with its marks. Jobs that it made stay. One that cannot be read is forgotten, too.
    pub async fn remove(&self, name: &TriggerName) -> Result<Changed> {
        for _ in 0..FASTER_MAX {
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
        Err(others_are_faster().into())
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

fn tell_of_damaged(read: &TriggersRead) -> Result<()> {
    for (trigger, _) in &read.damaged {
        tracing::error!(%trigger, "a completion trigger cannot be read, so it is not what is declared here and does not fire: remove it, or start the version that wrote it");
    }
    Ok(())
}

fn others_are_faster() -> EngineError {
    let why = "others change this completion trigger all the time; try again when they are done".to_owned();
    EngineError::Unavailable { why }
}
