//! Drains, their marks, and the jobs that they make.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use windlass_core::clock::Timestamp;
use windlass_core::drains::rules::{Left, Stand, is_drained, look_again, marks, may_look};
use windlass_core::drains::spec::{DrainSpec, Watched, maker};
use windlass_core::drains::{
    DrainChange, DrainChanged, DrainFired, DrainFiring, DrainsRead, StoredDrain, WhichDrains, check_changes,
    check_firings,
};
use windlass_core::engine::Result;
use windlass_core::enqueue::Enqueued;
use windlass_core::job::{Job, JobId};
use windlass_core::limits::DRAINS_MAX;
use windlass_core::names::{DrainName, GroupName};
use windlass_core::planted::{Bug, planted};
use windlass_core::schedules::next_version;

use super::state::{State, TypeAt};

/// A drain, and when it may be looked at again.
#[derive(Debug)]
pub(super) struct DrainRow {
    stored: StoredDrain,
    look_at: Option<Timestamp>,
}

/// Drains by name.
pub(super) type DrainRows = BTreeMap<DrainName, DrainRow>;

impl State {
    pub(super) fn read_drains(&self, which: &WhichDrains, now: Timestamp) -> Result<DrainsRead> {
        which.check()?;
        let limit = which.limit() as usize;
        let marked = || self.drains.values().filter(|row| row.stored.is_marked);
        let rows: Vec<&DrainRow> = match which {
            WhichDrains::Named(names) => names.iter().filter_map(|name| self.drains.get(name)).collect(),
            WhichDrains::After(after, _) => {
                let from = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
                self.drains.range((from, Bound::Unbounded)).take(limit).map(|(_, row)| row).collect()
            }
            WhichDrains::Marked(_) => marked().filter(|row| may_look(row.look_at, now)).take(limit).collect(),
        };
        let later = marked().filter(|row| !may_look(row.look_at, now)).filter_map(|row| row.look_at).min();
        Ok(DrainsRead {
            drains: rows.into_iter().map(|row| row.stored.clone()).collect(),
            damaged: Vec::new(),
            any: !self.drains.is_empty(),
            next: later,
            now,
        })
    }

    pub(super) fn change_drains(
        &mut self,
        changes: &[DrainChange],
        now: Timestamp,
    ) -> Result<Vec<DrainChanged>> {
        check_changes(changes)?;
        Ok(changes.iter().map(|change| self.change_drain(change, now)).collect())
    }

    fn change_drain(&mut self, change: &DrainChange, now: Timestamp) -> DrainChanged {
        let before = self.drains.get(&change.name).map(|row| &row.stored);
        let version = before.map_or(0, |stored| stored.version);
        if version != change.read {
            return DrainChanged::Changed;
        }
        let Some(record) = &change.to else {
            self.drains.remove(&change.name);
            return DrainChanged::Done { version };
        };
        if before.is_none() && self.drains.len() >= DRAINS_MAX as usize {
            return DrainChanged::NoRoom;
        }
        let version = next_version(version, now);
        // What ended in another group is none of its business.
        let keeps_marks = |stored: &StoredDrain| stored.record.spec.watch == record.spec.watch;
        let stored = StoredDrain {
            version,
            last_job: before.and_then(|stored| stored.last_job),
            is_marked: before.is_some_and(|stored| stored.is_marked && keeps_marks(stored)),
            record: (**record).clone(),
        };
        let look_at = self.drains.get(&change.name).and_then(|row| row.look_at);
        self.drains.insert(change.name.clone(), DrainRow { stored, look_at });
        DrainChanged::Done { version }
    }

    pub(super) fn fire_drains(&mut self, firings: &[DrainFiring], now: Timestamp) -> Result<Vec<DrainFired>> {
        check_firings(firings)?;
        Ok(firings.iter().map(|firing| self.fire_drain(firing, now)).collect())
    }

    fn fire_drain(&mut self, firing: &DrainFiring, now: Timestamp) -> DrainFired {
        let Some(row) = self.drains.get(&firing.name).filter(|row| row.stored.version == firing.read) else {
            return DrainFired::Changed;
        };
        if !row.stored.is_marked {
            return DrainFired::Unmarked;
        }
        if !may_look(row.look_at, now) {
            return DrainFired::Later;
        }
        let spec = &row.stored.record.spec;
        let drained = is_drained(self.left_of(spec, now), spec.wait_for_retries);
        let fired = drained.then(|| self.put(firing.job.clone(), now));
        let row = self.drains.get_mut(&firing.name).expect("it was just there");
        row.stored.is_marked = planted(Bug::DrainKeepsItsMark);
        row.look_at = Some(look_again(now, Duration::ZERO));
        let Some(job) = fired else { return DrainFired::Held };
        let version = next_version(firing.read, now);
        let last_job = match job {
            Enqueued::New(id) => Some(id),
            _ => row.stored.last_job,
        };
        let is_marked = row.stored.is_marked;
        row.stored = StoredDrain { version, last_job, is_marked, record: firing.kept(&job) };
        DrainFired::Fired { version, job }
    }

    /// A job goes from here to there: marks the drains that it held.
    pub(super) fn mark_drains(&mut self, job: &Job, from: Stand<'_>, to: Stand<'_>, now: Timestamp) {
        let made_for = self.made_for(job).cloned();
        for row in self.drains.values_mut() {
            let spec = &row.stored.record.spec;
            let is_of = spec.watch.has(&job.job_type, &job.queue, job.group.as_ref(), made_for.as_ref());
            if is_of && marks(from, to, spec.wait_for_retries, now) {
                row.stored.is_marked = !(row.stored.is_marked && planted(Bug::SecondMarkTakesTheFirst));
                self.hints.drain();
            }
        }
    }

    /// What the drain watches that put a job in.
    fn made_for(&self, job: &Job) -> Option<&Watched> {
        let maker = maker(job.key.as_ref().map(|claim| claim.key.as_str()))?;
        self.drains.get(&maker).map(|row| &row.stored.record.spec.watch)
    }

    /// What is left of the group of a drain.
    fn left_of(&self, spec: &DrainSpec, now: Timestamp) -> Left {
        let is_hook =
            |id: &JobId| self.live.get(id).is_some_and(|row| self.made_for(&row.job) == Some(&spec.watch));
        let types = match &spec.watch {
            Watched::Group(group) => return self.left_of_group(group, now),
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

    /// The job of a drain has no group.
    fn left_of_group(&self, group: &GroupName, now: Timestamp) -> Left {
        let Some(row) = self.index.group(group) else { return Left::default() };
        Left {
            running: row.running > 0,
            could_run: row.first_due().is_some_and(|due| due <= now),
            unfinished: row.unfinished > 0,
        }
    }
}
