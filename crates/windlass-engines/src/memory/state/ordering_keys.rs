//! Ordering keys: which job of each is out, and which wait behind its gate.

use std::collections::{BTreeSet, HashMap};

use windlass_core::gate::{Gate, gate_by_history};
use windlass_core::job::JobId;
use windlass_core::names::OrderingKey;
use windlass_core::ordering_keys::{gate_of_newcomer, next_out};

use super::{JobRow, Stage, State, TypeAt};

/// An ordering key is unique within its type.
pub(crate) type OrderingKeyAt = (TypeAt, OrderingKey);

#[derive(Debug, Default)]
pub(crate) struct OrderingKeys(HashMap<OrderingKeyAt, OrderingKeyRow>);

/// The jobs of an ordering key. It exists as long as a job is out.
#[derive(Debug)]
struct OrderingKeyRow {
    out: JobId,
    waiting: BTreeSet<JobId>,
}

impl OrderingKeys {
    pub(crate) fn out(&self, at: &OrderingKeyAt) -> Option<JobId> {
        self.0.get(at).map(|key_row| key_row.out)
    }

    /// Adds a job that is about to wait, and returns its gate.
    pub(super) fn join(&mut self, row: &JobRow) -> Option<Gate> {
        let ordering_key = row.job.ordering_key.as_ref()?;
        let at = (row.type_at, ordering_key.clone());
        let gate = gate_of_newcomer(&row.job.job_type, ordering_key, self.out(&at));
        let key_row =
            self.0.entry(at).or_insert_with(|| OrderingKeyRow { out: row.job.id, waiting: BTreeSet::new() });
        if gate.is_some() {
            key_row.waiting.insert(row.job.id);
        }
        gate
    }

    /// Removes a job that has ended. Returns the job that goes out now, if there is one.
    fn leave(&mut self, row: &JobRow) -> Option<JobId> {
        let at = (row.type_at, row.job.ordering_key.clone()?);
        let key_row = self.0.get_mut(&at)?;
        key_row.waiting.remove(&row.job.id);
        let out = (key_row.out != row.job.id).then_some(key_row.out);
        let next = next_out(out, key_row.waiting.first().copied());
        if let Some(next) = next {
            key_row.waiting.remove(&next);
            key_row.out = next;
        } else if out.is_none() {
            self.0.remove(&at);
        }
        next
    }
}

impl State {
    /// Puts a job behind the gate of its ordering key, unless it may go out.
    pub(super) fn enter_ordering_key(&mut self, row: &mut JobRow) {
        if let Some(gate) = self.ordering_keys.join(row) {
            row.stage = Stage::Waiting { gate: Some(gate) };
        }
    }

    /// Lets the next job of an ordering key go out after this one has ended.
    pub(super) fn leave_ordering_key(&mut self, row: &JobRow) {
        if let Some(next) = self.ordering_keys.leave(row) {
            self.change_waiting(next, |job, gate| *gate = gate_by_history(&job.counters));
        }
    }
}
