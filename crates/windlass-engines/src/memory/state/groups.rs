//! Groups: the unfinished jobs that carry a name, for completion triggers.

use std::collections::{BTreeSet, HashMap};

use windlass_core::clock::Timestamp;
use windlass_core::gate::Gate;
use windlass_core::job::Job;
use windlass_core::names::GroupName;
use windlass_core::triggers::rules::could_run;

use super::lanes::Turn;

/// The groups. A group has a row as long as a job of it has not ended.
#[derive(Debug, Default)]
pub(crate) struct Groups(HashMap<GroupName, GroupRow>);

#[derive(Debug, Default)]
pub(crate) struct GroupRow {
    /// Waiting jobs that could run once they are due.
    waiting: BTreeSet<Turn>,
    pub(crate) running: u64,
    pub(crate) unfinished: u64,
}

impl GroupRow {
    /// Returns when the first of the jobs falls due that could run then.
    pub(crate) fn first_due(&self) -> Option<Timestamp> {
        self.waiting.first().map(|(due, _)| *due)
    }
}

impl Groups {
    pub(crate) fn get(&self, name: &GroupName) -> Option<&GroupRow> {
        self.0.get(name)
    }

    pub(super) fn begin(&mut self, job: &Job) {
        if let Some(name) = &job.group {
            self.0.entry(name.clone()).or_default().unfinished += 1;
        }
    }

    pub(super) fn end(&mut self, job: &Job) {
        let Some(row) = self.row(job) else { return };
        row.unfinished -= 1;
        if row.unfinished == 0 {
            job.group.as_ref().map(|name| self.0.remove(name));
        }
    }

    pub(super) fn enter_waiting(&mut self, job: &Job, gate: Option<&Gate>) {
        // At its own due time: a job that could run then could run later, too.
        if could_run(gate, job.due, job.due)
            && let Some(row) = self.row(job)
        {
            row.waiting.insert((job.due, job.id));
        }
    }

    pub(super) fn leave_waiting(&mut self, job: &Job) {
        if let Some(row) = self.row(job) {
            row.waiting.remove(&(job.due, job.id));
        }
    }

    pub(super) fn start_running(&mut self, job: &Job) {
        if let Some(row) = self.row(job) {
            row.running += 1;
        }
    }

    pub(super) fn stop_running(&mut self, job: &Job) {
        if let Some(row) = self.row(job) {
            row.running -= 1;
        }
    }

    fn row(&mut self, job: &Job) -> Option<&mut GroupRow> {
        self.0.get_mut(job.group.as_ref()?)
    }
}
