//! Completion triggers, their marks, and the jobs that they enqueue.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use windlass_core::clock::Timestamp;
use windlass_core::engine::Result;
use windlass_core::enqueue::EnqueueAnswer;
use windlass_core::job::{Job, JobId};
use windlass_core::limits::TRIGGERS_MAX;
use windlass_core::names::{GroupName, TriggerName};
use windlass_core::planted::{Bug, planted};
use windlass_core::schedules::next_version;
use windlass_core::triggers::rules::{JobStanding, Left, has_finished, look_again, marks, may_look};
use windlass_core::triggers::spec::{CompletionTrigger, Watched, maker};
use windlass_core::triggers::{
    StoredTrigger, TriggerChange, TriggerChanged, TriggerFired, TriggerFiring, TriggersRead, WhichTriggers,
    check_changes, check_firings,
};

use super::state::{State, TypeAt};

/// A trigger, and when it may be evaluated again.
#[derive(Debug)]
pub(super) struct TriggerRow {
    stored: StoredTrigger,
    look_at: Option<Timestamp>,
}

/// Completion triggers by name.
pub(super) type TriggerRows = BTreeMap<TriggerName, TriggerRow>;

impl State {
    pub(super) fn read_triggers(&self, which: &WhichTriggers, now: Timestamp) -> Result<TriggersRead> {
        which.check()?;
        let limit = which.limit() as usize;
        let marked = || self.triggers.values().filter(|row| row.stored.is_marked);
        let rows: Vec<&TriggerRow> = match which {
            WhichTriggers::Named(names) => names.iter().filter_map(|name| self.triggers.get(name)).collect(),
            WhichTriggers::After(after, _) => {
                let from = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
                self.triggers.range((from, Bound::Unbounded)).take(limit).map(|(_, row)| row).collect()
            }
            WhichTriggers::Marked(_) => {
                marked().filter(|row| may_look(row.look_at, now)).take(limit).collect()
            }
        };
        let later = marked().filter(|row| !may_look(row.look_at, now)).filter_map(|row| row.look_at).min();
        Ok(TriggersRead {
            triggers: rows.into_iter().map(|row| row.stored.clone()).collect(),
            damaged: Vec::new(),
            any: !self.triggers.is_empty(),
            next: later,
            now,
        })
    }

    pub(super) fn change_triggers(
        &mut self,
        changes: &[TriggerChange],
        now: Timestamp,
    ) -> Result<Vec<TriggerChanged>> {
        check_changes(changes)?;
        Ok(changes.iter().map(|change| self.change_trigger(change, now)).collect())
    }

    fn change_trigger(&mut self, change: &TriggerChange, now: Timestamp) -> TriggerChanged {
        let before = self.triggers.get(&change.name).map(|row| &row.stored);
        let version = before.map_or(0, |stored| stored.version);
        if version != change.read {
            return TriggerChanged::Changed;
        }
        let Some(record) = &change.to else {
            self.triggers.remove(&change.name);
            return TriggerChanged::Done { version };
        };
        if before.is_none() && self.triggers.len() >= TRIGGERS_MAX as usize {
            return TriggerChanged::NoRoom;
        }
        let version = next_version(version, now);
        // Marks of another group do not concern it.
        let keeps_marks = |stored: &StoredTrigger| stored.record.spec.watch == record.spec.watch;
        let stored = StoredTrigger {
            version,
            last_job: before.and_then(|stored| stored.last_job),
            is_marked: before.is_some_and(|stored| stored.is_marked && keeps_marks(stored)),
            record: (**record).clone(),
        };
        let look_at = self.triggers.get(&change.name).and_then(|row| row.look_at);
        self.triggers.insert(change.name.clone(), TriggerRow { stored, look_at });
        TriggerChanged::Done { version }
    }

    pub(super) fn fire_triggers(
        &mut self,
        firings: &[TriggerFiring],
        now: Timestamp,
    ) -> Result<Vec<TriggerFired>> {
        check_firings(firings)?;
        Ok(firings.iter().map(|firing| self.fire_trigger(firing, now)).collect())
    }

    fn fire_trigger(&mut self, firing: &TriggerFiring, now: Timestamp) -> TriggerFired {
        let Some(row) = self.triggers.get(&firing.name).filter(|row| row.stored.version == firing.read)
        else {
            return TriggerFired::Changed;
        };
        if !row.stored.is_marked {
            return TriggerFired::Unmarked;
        }
        if !may_look(row.look_at, now) {
            return TriggerFired::Later;
        }
        let spec = &row.stored.record.spec;
        let drained = has_finished(self.left_of(spec, now), spec.wait_for_retries);
        let fired = drained.then(|| self.enqueue_one(firing.job.clone(), now));
        let row = self.triggers.get_mut(&firing.name).expect("the trigger was found above");
        row.stored.is_marked = planted(Bug::TriggerKeepsItsMark);
        row.look_at = Some(look_again(now, Duration::ZERO));
        let Some(job) = fired else { return TriggerFired::Held };
        let version = next_version(firing.read, now);
        let last_job = match job {
            EnqueueAnswer::New(id) => Some(id),
            _ => row.stored.last_job,
        };
        let is_marked = row.stored.is_marked;
        row.stored = StoredTrigger { version, last_job, is_marked, record: firing.kept(&job) };
        TriggerFired::Fired { version, job }
    }

    /// Marks the triggers that a job kept unfinished before it moved from one standing to another.
    pub(super) fn mark_triggers(
        &mut self,
        job: &Job,
        from: JobStanding<'_>,
        to: JobStanding<'_>,
        now: Timestamp,
    ) {
        let made_for = self.made_for(job).cloned();
        for row in self.triggers.values_mut() {
            let spec = &row.stored.record.spec;
            let is_of = spec.watch.has(&job.job_type, &job.queue, job.group.as_ref(), made_for.as_ref());
            if is_of && marks(from, to, spec.wait_for_retries, now) {
                row.stored.is_marked = !(row.stored.is_marked && planted(Bug::SecondMarkTakesTheFirst));
                self.hints.trigger();
            }
        }
    }

    /// Returns the group that a job's own trigger watches, if a trigger enqueued it.
    fn made_for(&self, job: &Job) -> Option<&Watched> {
        let maker = maker(job.key.as_ref().map(|claim| claim.key.as_str()))?;
        self.triggers.get(&maker).map(|row| &row.stored.record.spec.watch)
    }

    /// Returns which work of a trigger's group is left.
    fn left_of(&self, spec: &CompletionTrigger, now: Timestamp) -> Left {
        let is_hook =
            |id: &JobId| self.live.get(id).is_some_and(|row| self.made_for(&row.job) == Some(&spec.watch));
        let types = match &spec.watch {
            Watched::Group(group) => return self.group_has_work(group, now),
            Watched::Queue(queue) => {
                self.index.queue_named(queue).map_or_else(Vec::new, |row| row.types.clone())
            }
            Watched::Type(job_type) => self.index.type_at(job_type).into_iter().collect(),
        };
        let runs = |id: &JobId| self.live.get(id).is_some_and(|row| types.contains(&row.type_at));
        let running = self.index.running().any(|id| runs(&id) && !is_hook(&id));
        let waits = |at: &TypeAt| self.index.type_row(*at).waiting().any(|id| !is_hook(&id));
        Left {
            running,
            could_run: types.iter().any(|at| self.index.could_run(*at, now).any(|id| !is_hook(&id))),
            unfinished: running || types.iter().any(waits),
        }
    }

    /// Returns which work of a named group is left. The job of a trigger has no group.
    fn group_has_work(&self, group: &GroupName, now: Timestamp) -> Left {
        let Some(row) = self.index.group(group) else { return Left::default() };
        Left {
            running: row.running > 0,
            could_run: row.first_due().is_some_and(|due| due <= now),
            unfinished: row.unfinished > 0,
        }
    }
}
