//! Ordering keys: which job of each is out, and which wait in line.

use std::collections::{BTreeSet, HashMap};

use windlass_core::gate::{Gate, gate_by_history};
use windlass_core::job::JobId;
use windlass_core::names::OrderingKey;
use windlass_core::ordering_keys::{gate_of_newcomer, next_out};

use super::{JobRow, Stage, State, TypeAt};

/// An ordering key is unique within its type.
pub(crate) type OrderingKeyAt = (TypeAt, OrderingKey);

#[derive(Debug, Default)]
pub(crate) struct Lines(HashMap<OrderingKeyAt, Line>);

/// There is one as long as somebody is out.
#[derive(Debug)]
struct Line {
    out: JobId,
    waiting: BTreeSet<JobId>,
}

impl Lines {
    pub(crate) fn out(&self, at: &OrderingKeyAt) -> Option<JobId> {
        self.0.get(at).map(|line| line.out)
    }

    /// Takes in a job that is about to wait, and gives the gate behind which it does.
    pub(super) fn join(&mut self, row: &JobRow) -> Option<Gate> {
        let ordering_key = row.job.ordering_key.as_ref()?;
        let at = (row.type_at, ordering_key.clone());
        let gate = gate_of_newcomer(&row.job.job_type, ordering_key, self.out(&at));
        let line = self.0.entry(at).or_insert_with(|| Line { out: row.job.id, waiting: BTreeSet::new() });
        if gate.is_some() {
            line.waiting.insert(row.job.id);
        }
        gate
    }

    /// Takes a job away that has ended. Gives the one that goes out now, if one does.
    fn leave(&mut self, row: &JobRow) -> Option<JobId> {
        let at = (row.type_at, row.job.ordering_key.clone()?);
        let line = self.0.get_mut(&at)?;
        line.waiting.remove(&row.job.id);
        let out = (line.out != row.job.id).then_some(line.out);
        let next = next_out(out, line.waiting.first().copied());
        if let Some(next) = next {
            line.waiting.remove(&next);
            line.out = next;
        } else if out.is_none() {
            self.0.remove(&at);
        }
        next
    }
}

impl State {
    /// A job with an ordering key waits in its line, unless it may go out.
    pub(super) fn stand_in_line(&mut self, row: &mut JobRow) {
        if let Some(gate) = self.lines.join(row) {
            row.stage = Stage::Waiting { gate: Some(gate) };
        }
    }

    /// The job has ended: the next of its ordering key goes out.
    pub(super) fn leave_line(&mut self, row: &JobRow) {
        if let Some(next) = self.lines.leave(row) {
            self.change_waiting(next, |job, gate| *gate = gate_by_history(&job.counters));
        }
    }
}
