//! Schedules: to declare, query, pause and fire them.
//!
//! A worker declares the schedules of its [options](crate::WorkerOptions::schedules) and fires the due
//! schedules of its store. [`Schedules`] is for everything else: an application can do by it what people do
//! at the command line. The rules are in [`windlass_core::schedules`]; this module sends their decisions to
//! the store, and decides again if another process changed the schedule first.

pub(crate) mod duty;
pub(crate) mod shell;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use windlass_core::admin::Changed;
use windlass_core::clock::Timestamp;
use windlass_core::engine::Engine;
use windlass_core::error::EngineError;
use windlass_core::limits::{ENQUEUE_BATCH_MAX, LIST_PAGE_MAX, SCHEDULES_MAX, SCHEDULES_PER_CALL_MAX};
use windlass_core::names::ScheduleName;
use windlass_core::schedule::{BackfillError, backfill};
use windlass_core::schedules::spec::check_all;
use windlass_core::schedules::{
    Origin, Put, ScheduleChange, ScheduleChanged, ScheduleSpec, ScheduleSpecError, SchedulesRead,
    StoredSchedule, WhichSchedules, acts,
};

use crate::store;

/// How often a change is decided again because another process changed the schedule first.
const CONFLICTS_MAX: usize = 20;

/// The schedules of a store. Cheap to clone.
#[derive(Clone)]
pub struct Schedules {
    engine: Arc<dyn Engine>,
}

/// The result of declaring a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Declared {
    /// The store did not have it.
    New,
    /// The store had it, and it is now as declared.
    Updated,
    /// The store had it as declared.
    Unchanged,
}

/// The reason why an operation on schedules failed.
#[derive(Debug, thiserror::Error)]
pub enum SchedulesError {
    /// A declared schedule is invalid. No schedule was stored.
    #[error(transparent)]
    Spec(#[from] ScheduleSpecError),
    /// The range of the backfill is invalid.
    #[error(transparent)]
    Range(#[from] BackfillError),
    /// The store has no schedule of this name.
    #[error("expected the name of a schedule, got {0}, and there is none; see `windlass schedule list`")]
    Unknown(ScheduleName),
    /// The stored schedule cannot be read.
    #[error(
        "schedule {0} cannot be read; a person or a newer version changed it: remove it and declare it again"
    )]
    Damaged(ScheduleName),
    /// The store has no room for another schedule.
    #[error(
        "expected at most {SCHEDULES_MAX} schedules, got one more; remove a schedule before you store {0}"
    )]
    NoRoom(ScheduleName),
    /// The store failed or refused.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

type Result<T> = std::result::Result<T, SchedulesError>;

impl Schedules {
    /// The schedules of an engine's store.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine }
    }

    /// Stores schedules, or changes the stored ones to what is declared. All are checked before any is
    /// stored. Schedules that are not named stay as they are: removing a schedule is a step of its own.
    pub async fn declare(
        &self,
        specs: &[ScheduleSpec],
        origin: Origin,
    ) -> Result<Vec<(ScheduleName, Declared)>> {
        check_all(specs)?;
        self.declare_parts(specs, origin, refuse_damaged).await
    }

    /// Declares schedules for a worker that starts. Stored schedules that cannot be read, as after a newer
    /// version ran, prevent neither the other schedules from being stored nor the worker from running its
    /// jobs. They are logged, and stay as they are.
    pub(crate) async fn apply_lenient(&self, specs: &[ScheduleSpec], origin: Origin) -> Result<()> {
        check_all(specs)?;
        self.declare_parts(specs, origin, log_damaged).await.map(drop)
    }

    async fn declare_parts(
        &self,
        specs: &[ScheduleSpec],
        origin: Origin,
        of_damaged: fn(&SchedulesRead) -> Result<()>,
    ) -> Result<Vec<(ScheduleName, Declared)>> {
        let mut declared = Vec::with_capacity(specs.len());
        for part in specs.chunks(SCHEDULES_PER_CALL_MAX) {
            declared.extend(self.declare_part(part, origin, of_damaged).await?);
        }
        Ok(declared)
    }

    async fn declare_part(
        &self,
        specs: &[ScheduleSpec],
        origin: Origin,
        of_damaged: fn(&SchedulesRead) -> Result<()>,
    ) -> Result<Vec<(ScheduleName, Declared)>> {
        let mut declared: Vec<_> =
            specs.iter().map(|spec| (spec.name.clone(), Declared::Unchanged)).collect();
        for _ in 0..CONFLICTS_MAX {
            let read = self
                .read(WhichSchedules::Named(specs.iter().map(|spec| spec.name.clone()).collect()))
                .await?;
            of_damaged(&read)?;
            let is_sound = |spec: &&ScheduleSpec| read.damaged.iter().all(|(name, _)| *name != spec.name);
            let before =
                |spec: &ScheduleSpec| read.schedules.iter().find(|stored| *stored.name() == spec.name);
            let sound = specs.iter().filter(is_sound);
            let wanted = sound.filter_map(|spec| acts::declare(spec, origin, before(spec), read.now));
            let changes: Vec<_> = wanted.collect();
            if changes.is_empty() {
                return Ok(declared);
            }
            for (change, changed) in changes.iter().zip(self.change_all(changes.clone()).await?) {
                match changed {
                    ScheduleChanged::NoRoom => return Err(SchedulesError::NoRoom(change.name.clone())),
                    ScheduleChanged::Changed => {}
                    ScheduleChanged::Done { .. } => {
                        let how = if change.read == 0 { Declared::New } else { Declared::Updated };
                        declared
                            .iter_mut()
                            .filter(|(name, _)| *name == change.name)
                            .for_each(|row| row.1 = how);
                    }
                }
            }
        }
        Err(too_many_conflicts().into())
    }

    /// The schedules among these that the store does not have, readable or not.
    pub(crate) async fn missing(&self, specs: &[ScheduleSpec]) -> Result<Vec<ScheduleSpec>> {
        let mut missing = specs.to_vec();
        for part in specs.chunks(SCHEDULES_PER_CALL_MAX) {
            let names = part.iter().map(|spec| spec.name.clone()).collect();
            let read = self.read(WhichSchedules::Named(names)).await?;
            missing.retain(|spec| read.schedules.iter().all(|stored| *stored.name() != spec.name));
            missing.retain(|spec| read.damaged.iter().all(|(name, _)| *name != spec.name));
        }
        Ok(missing)
    }

    /// The stored schedules of this origin that are not among these: they go on until they are removed.
    /// Another application on the same store may have declared them.
    pub async fn undeclared(&self, specs: &[ScheduleSpec], origin: Origin) -> Result<Vec<ScheduleName>> {
        let all = self.all().await?.schedules.into_iter();
        let of_origin = all.filter(|stored| stored.record.origin == origin);
        let names = of_origin.map(|stored| stored.record.spec.name);
        Ok(names.filter(|name| specs.iter().all(|spec| spec.name != *name)).collect())
    }

    /// Logs the undeclared schedules when a worker starts: a schedule that was removed from the code is
    /// easily forgotten in the store. A failure to read them does not prevent the worker from starting.
    pub(crate) async fn log_undeclared(&self, specs: &[ScheduleSpec], origin: Origin) {
        for schedule in self.undeclared(specs, origin).await.unwrap_or_default() {
            tracing::info!(%schedule, origin = origin.as_str(), "a stored schedule is not declared by this worker; it goes on until it is removed");
        }
    }

    /// One schedule, and the store's time.
    pub async fn find(&self, name: &ScheduleName) -> Result<(StoredSchedule, Timestamp)> {
        let mut read = self.read(WhichSchedules::Named(vec![name.clone()])).await?;
        refuse_damaged(&read)?;
        let found = read.schedules.pop().ok_or_else(|| SchedulesError::Unknown(name.clone()))?;
        Ok((found, read.now))
    }

    /// All schedules, by name. There are never more than [`SCHEDULES_MAX`].
    pub async fn all(&self) -> Result<SchedulesRead> {
        let mut all = self.read(WhichSchedules::After(None, LIST_PAGE_MAX)).await?;
        // A page may be short because one of its rows has no readable name, and there are more pages all
        // the same.
        while let Some(end) = all.end.take() {
            let next = self.read(WhichSchedules::After(Some(end), LIST_PAGE_MAX)).await?;
            all.schedules.extend(next.schedules);
            all.damaged.extend(next.damaged);
            all.end = next.end;
        }
        Ok(all)
    }

    /// Pauses a schedule, for a time or until it is resumed. Ticks that fall due meanwhile are dropped.
    pub async fn pause(
        &self,
        name: &ScheduleName,
        reason: Option<&str>,
        lasting: Option<Duration>,
    ) -> Result<Changed> {
        self.act(name, |stored, now| acts::pause(stored, reason, lasting, now)).await
    }

    /// Resumes a schedule.
    pub async fn resume(&self, name: &ScheduleName) -> Result<Changed> {
        self.act(name, acts::resume).await
    }

    /// Skips the next tick, and returns which; none if no tick lies ahead.
    pub async fn skip_next(&self, name: &ScheduleName) -> Result<Option<Timestamp>> {
        let mut skipped = None;
        self.act(name, |stored, now| {
            let (tick, change) = acts::skip_next(stored, now)?;
            skipped = Some(tick);
            change
        })
        .await?;
        Ok(skipped)
    }

    /// Removes a schedule. Jobs that it enqueued stay. A schedule that cannot be read is removed, too.
    pub async fn remove(&self, name: &ScheduleName) -> Result<Changed> {
        for _ in 0..CONFLICTS_MAX {
            let read = self.read(WhichSchedules::Named(vec![name.clone()])).await?;
            let sound = read.schedules.first().map(|stored| stored.version);
            let Some(version) = sound.or(read.damaged.first().map(|(_, version)| *version)) else {
                return Ok(Changed::NotFound);
            };
            let changed = self.change_all(vec![acts::remove(name, version)]).await?;
            if matches!(changed[..], [ScheduleChanged::Done { .. }]) {
                return Ok(Changed::Done);
            }
        }
        Err(too_many_conflicts().into())
    }

    /// Enqueues a job now, whatever the schedule says. Returns the instant that stands for its tick, and
    /// the answer.
    pub async fn run(&self, name: &ScheduleName) -> Result<(Timestamp, Put)> {
        let (_, now) = self.find(name).await?;
        let mut put = self.run_ticks(name, &[now]).await?;
        let put = put.pop().ok_or_else(too_many_conflicts)?;
        Ok((now, put))
    }

    /// The ticks of a range in the past.
    pub async fn ticks_of(
        &self,
        name: &ScheduleName,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<Timestamp>> {
        let (stored, now) = self.find(name).await?;
        let spec = &stored.record.spec;
        Ok(backfill(&spec.schedule, &spec.holidays, from, to, now)?)
    }

    /// Enqueues the jobs of these ticks. A tick that enqueued its job within the last thirty days enqueues
    /// no second one: its answer is
    /// [`EnqueueAnswer::Duplicate`](windlass_core::enqueue::EnqueueAnswer::Duplicate). So if the result is
    /// not known, the call may be repeated.
    pub async fn run_ticks(&self, name: &ScheduleName, ticks: &[Timestamp]) -> Result<Vec<Put>> {
        let mut answers = Vec::with_capacity(ticks.len());
        for part in ticks.chunks(ENQUEUE_BATCH_MAX) {
            let mut put = Vec::new();
            self.act_with(name, |stored, _| Some(acts::run(stored, part)), |jobs| put = jobs).await?;
            answers.append(&mut put);
        }
        Ok(answers)
    }

    async fn act(
        &self,
        name: &ScheduleName,
        decide: impl FnMut(&StoredSchedule, Timestamp) -> Option<ScheduleChange>,
    ) -> Result<Changed> {
        self.act_with(name, decide, |_| {}).await
    }

    /// Decides about a schedule and sends the change to the store, again if another process changed the
    /// schedule first.
    async fn act_with(
        &self,
        name: &ScheduleName,
        mut decide: impl FnMut(&StoredSchedule, Timestamp) -> Option<ScheduleChange>,
        on_jobs: impl FnOnce(Vec<Put>),
    ) -> Result<Changed> {
        for _ in 0..CONFLICTS_MAX {
            let (stored, now) = self.find(name).await?;
            let Some(change) = decide(&stored, now) else { return Ok(Changed::Unchanged) };
            match self.change_all(vec![change]).await?.pop() {
                Some(ScheduleChanged::Done { jobs, .. }) => {
                    on_jobs(jobs);
                    return Ok(Changed::Done);
                }
                Some(ScheduleChanged::NoRoom) => return Err(SchedulesError::NoRoom(name.clone())),
                Some(ScheduleChanged::Changed) | None => {}
            }
        }
        Err(too_many_conflicts().into())
    }

    async fn read(&self, which: WhichSchedules) -> Result<SchedulesRead> {
        Ok(read(&self.engine, which).await?)
    }

    async fn change_all(&self, changes: Vec<ScheduleChange>) -> Result<Vec<ScheduleChanged>> {
        Ok(change(&self.engine, changes).await?)
    }
}

async fn read(
    engine: &Arc<dyn Engine>,
    which: WhichSchedules,
) -> std::result::Result<SchedulesRead, EngineError> {
    store::call(engine, |engine| async move { engine.schedules(&which).await }).await
}

async fn change(
    engine: &Arc<dyn Engine>,
    changes: Vec<ScheduleChange>,
) -> std::result::Result<Vec<ScheduleChanged>, EngineError> {
    store::call(engine, |engine| async move { engine.change_schedules(&changes).await }).await
}

fn refuse_damaged(read: &SchedulesRead) -> Result<()> {
    read.damaged.first().map_or(Ok(()), |(name, _)| Err(SchedulesError::Damaged(name.clone())))
}

fn log_damaged(read: &SchedulesRead) -> Result<()> {
    for (schedule, _) in &read.damaged {
        tracing::error!(%schedule, "a stored schedule cannot be read, so it is not updated and does not run: remove it, or start the version that wrote it");
    }
    Ok(())
}

fn too_many_conflicts() -> EngineError {
    let why = "other processes keep changing this schedule; try again later".to_owned();
    EngineError::Unavailable { why }
}
