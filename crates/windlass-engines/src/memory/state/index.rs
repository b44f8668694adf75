//! Indexes: which job comes next, and how many jobs are in each state. They are no source of truth: all of
//! them follow from the rows, and save reading the rows.
//!
//! Waiting jobs are sorted by type rather than by queue: a claim names the types it can run, and must not
//! pay for a million jobs of other types in the same queue. A type belongs to one queue for good.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use std::ops::Bound;

use windlass_core::admin::Totals;
use windlass_core::boost::ClaimRange;
use windlass_core::clock::Timestamp;
use windlass_core::fairness::{Cursor, Line};
use windlass_core::gate::{Gate, ORDERING_KEY};
use windlass_core::job::{JobId, StoredState};
use windlass_core::job_type::TypeSpec;
use windlass_core::names::{GroupName, QueueName, TypeName};
use windlass_core::priority::Priority;
use windlass_core::queue::{Pause, QueueSpec};
use windlass_core::worker::WorkerId;

use super::groups::{GroupRow, Groups};
use super::lanes::{Lanes, Turn, last_at};
use super::{JobRow, Stage};

/// The position of a type's row. Types are never deleted, so the position stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TypeAt(usize);

/// The position of a queue's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct QueueAt(usize);

#[derive(Debug, Default)]
pub(crate) struct Index {
    queues: Vec<QueueRow>,
    types: Vec<TypeRow>,
    queue_at: HashMap<QueueName, QueueAt>,
    type_at: HashMap<TypeName, TypeAt>,
    /// Parked jobs other than suspects, by their gate.
    gates: BTreeMap<Gate, BTreeSet<Turn>>,
    /// Waiting jobs that expire, by the time of their expiry.
    expiring: BTreeSet<(Timestamp, JobId)>,
    /// Running jobs by worker.
    held: HashMap<WorkerId, BTreeSet<JobId>>,
    groups: Groups,
}

#[derive(Debug)]
pub(crate) struct QueueRow {
    pub(crate) spec: QueueSpec,
    pub(crate) pause: Option<Pause>,
    pub(crate) shut: bool,
    pub(crate) types: Vec<TypeAt>,
    pub(crate) totals: Totals,
    pub(crate) unfinished: u64,
    pub(crate) parked: u64,
    pub(crate) running: u64,
    pub(crate) dead_letters: u64,
    /// The fairness key that was served last, by priority.
    served: [Cursor; 11],
}

#[derive(Debug)]
pub(crate) struct TypeRow {
    pub(crate) spec: TypeSpec,
    queue: QueueAt,
    pub(crate) lanes: Lanes,
    pub(crate) suspects: BTreeSet<Turn>,
    /// All jobs that wait behind another gate than the suspects'.
    pub(crate) parked: BTreeSet<Turn>,
    /// Jobs in the history, by the end of their retention.
    pub(crate) ended: BTreeSet<(Timestamp, JobId)>,
    pub(crate) totals: Totals,
    pub(crate) unfinished: u64,
}

impl QueueRow {
    pub(crate) fn is_paused(&self, now: Timestamp) -> bool {
        self.pause.as_ref().is_some_and(|pause| pause.holds(now))
    }
}

impl TypeRow {
    /// Lists all jobs that wait, with or without a gate.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = JobId> {
        self.lanes.iter().chain(self.suspects.iter().chain(&self.parked).map(|(_, id)| *id))
    }
}

/// Finding rows.
impl Index {
    pub(crate) fn queue_at(&self, name: &QueueName) -> Option<QueueAt> {
        self.queue_at.get(name).copied()
    }

    pub(crate) fn type_at(&self, name: &TypeName) -> Option<TypeAt> {
        self.type_at.get(name).copied()
    }

    pub(crate) fn queue_named(&self, name: &QueueName) -> Option<&QueueRow> {
        self.queue_at(name).map(|at| &self.queues[at.0])
    }

    pub(crate) fn queue_named_mut(&mut self, name: &QueueName) -> Option<&mut QueueRow> {
        self.queue_at(name).map(|at| &mut self.queues[at.0])
    }

    pub(crate) fn type_row(&self, at: TypeAt) -> &TypeRow {
        &self.types[at.0]
    }

    pub(crate) fn type_row_mut(&mut self, at: TypeAt) -> &mut TypeRow {
        &mut self.types[at.0]
    }

    pub(crate) fn queue_of(&self, at: TypeAt) -> &QueueRow {
        &self.queues[self.types[at.0].queue.0]
    }

    pub(crate) fn queue_of_mut(&mut self, at: TypeAt) -> &mut QueueRow {
        &mut self.queues[self.types[at.0].queue.0]
    }

    pub(crate) fn queues(&self) -> impl Iterator<Item = &QueueRow> {
        self.queues.iter()
    }

    pub(crate) fn types(&self) -> impl Iterator<Item = TypeAt> + use<> {
        (0..self.types.len()).map(TypeAt)
    }

    pub(crate) fn save_queue(&mut self, spec: QueueSpec) {
        if let Some(row) = self.queue_named_mut(&spec.name) {
            row.spec = spec;
            return;
        }
        self.queue_at.insert(spec.name.clone(), QueueAt(self.queues.len()));
        self.queues.push(QueueRow {
            spec,
            pause: None,
            shut: false,
            types: Vec::new(),
            totals: Totals::default(),
            unfinished: 0,
            parked: 0,
            running: 0,
            dead_letters: 0,
            served: Default::default(),
        });
    }

    /// Registers or updates a type, whose queue is declared.
    pub(crate) fn save_type(&mut self, spec: TypeSpec) {
        if let Some(at) = self.type_at(&spec.name) {
            self.types[at.0].spec = spec;
            return;
        }
        let Some(queue) = self.queue_at(&spec.queue) else { return };
        let at = TypeAt(self.types.len());
        self.queues[queue.0].types.push(at);
        self.type_at.insert(spec.name.clone(), at);
        self.types.push(TypeRow {
            spec,
            queue,
            lanes: Lanes::default(),
            suspects: BTreeSet::new(),
            parked: BTreeSet::new(),
            ended: BTreeSet::new(),
            totals: Totals::default(),
            unfinished: 0,
        });
    }
}

/// Moves of one job.
impl Index {
    pub(crate) fn enter_waiting(&mut self, row: &JobRow) {
        let (Stage::Waiting { gate }, job) = (&row.stage, &row.job) else { return };
        let turn = (job.due, job.id);
        self.groups.enter_waiting(job, gate.as_ref());
        let of_type = &mut self.types[row.type_at.0];
        match gate {
            None => of_type.lanes.insert(job),
            Some(gate) => {
                self.queues[of_type.queue.0].parked += 1;
                if gate.is_suspect() {
                    of_type.suspects.insert(turn);
                } else {
                    if !gate.is_of_spool() {
                        of_type.parked.insert(turn);
                    }
                    self.gates.entry(gate.clone()).or_default().insert(turn);
                }
            }
        }
        let leaves = gate.as_ref().is_some_and(Gate::is_of_spool);
        if let Some(at) = job.expiry().filter(|_| !leaves) {
            self.expiring.insert((at, job.id));
        }
    }

    pub(crate) fn leave_waiting(&mut self, row: &JobRow) {
        let (Stage::Waiting { gate }, job) = (&row.stage, &row.job) else { return };
        let turn = (job.due, job.id);
        self.groups.leave_waiting(job);
        let of_type = &mut self.types[row.type_at.0];
        match gate {
            None => of_type.lanes.remove(job),
            Some(gate) => {
                self.queues[of_type.queue.0].parked -= 1;
                if gate.is_suspect() {
                    of_type.suspects.remove(&turn);
                } else {
                    of_type.parked.remove(&turn);
                    self.leave_gate(gate, turn);
                }
            }
        }
        if let Some(at) = job.expiry() {
            self.expiring.remove(&(at, job.id));
        }
    }

    fn leave_gate(&mut self, gate: &Gate, turn: Turn) {
        let Some(turns) = self.gates.get_mut(gate) else { return };
        turns.remove(&turn);
        if turns.is_empty() {
            self.gates.remove(gate);
        }
    }

    pub(crate) fn start_running(&mut self, row: &JobRow) {
        let Some(claim) = row.claim() else { return };
        self.held.entry(claim.worker).or_default().insert(row.job.id);
        self.groups.start_running(&row.job);
        self.queue_of_mut(row.type_at).running += 1;
    }

    pub(crate) fn stop_running(&mut self, row: &JobRow) {
        let Some(claim) = row.claim() else { return };
        // An empty set stays for the next claim; it is removed with the worker.
        if let Some(held) = self.held.get_mut(&claim.worker) {
            held.remove(&row.job.id);
        }
        self.groups.stop_running(&row.job);
        self.queue_of_mut(row.type_at).running -= 1;
    }

    pub(crate) fn count_begin(&mut self, row: &JobRow) {
        self.types[row.type_at.0].unfinished += 1;
        self.groups.begin(&row.job);
        self.queue_of_mut(row.type_at).unfinished += 1;
    }

    pub(crate) fn count_end(&mut self, row: &JobRow, end: &StoredState) {
        self.types[row.type_at.0].unfinished -= 1;
        self.groups.end(&row.job);
        self.queue_of_mut(row.type_at).unfinished -= 1;
        match end {
            StoredState::Succeeded { .. } => self.count(row.type_at, |totals| totals.succeeded += 1),
            StoredState::Cancelled { .. } => self.count(row.type_at, |totals| totals.cancelled += 1),
            StoredState::Dead { .. } => {
                self.count(row.type_at, |totals| totals.dead += 1);
                self.queue_of_mut(row.type_at).dead_letters += 1;
            }
            StoredState::Waiting { .. } | StoredState::Running { .. } => {}
        }
    }

    /// Adds an event to the totals of a type and of its queue.
    pub(crate) fn count(&mut self, at: TypeAt, what: impl Fn(&mut Totals)) {
        what(&mut self.types[at.0].totals);
        what(&mut self.queue_of_mut(at).totals);
    }

    pub(crate) fn count_start_over(&mut self, row: &JobRow) {
        self.count(row.type_at, |totals| {
            totals.dead -= 1;
            totals.started_over += 1;
        });
        self.queue_of_mut(row.type_at).dead_letters -= 1;
    }
}

/// The order of jobs.
impl Index {
    /// Lists the first jobs of these types in one range of the claim's order, over all types by due time
    /// and id.
    pub(crate) fn first_in(&self, types: &[TypeAt], range: &ClaimRange, limit: usize) -> Vec<JobId> {
        let mut lanes: Vec<_> = types.iter().flat_map(|at| self.types[at.0].lanes.ranges(range)).collect();
        first_of(&mut lanes, limit)
    }

    /// Lists the first jobs of one fairness key in the same range.
    pub(crate) fn first_of_key(
        &self,
        types: &[TypeAt],
        range: &ClaimRange,
        line: &Line,
        limit: usize,
    ) -> Vec<JobId> {
        let mut lanes: Vec<_> = types.iter().map(|at| self.types[at.0].lanes.line(line, range)).collect();
        first_of(&mut lanes, limit)
    }

    /// Whether jobs of these types and of a priority have fairness keys.
    pub(crate) fn has_fairness_keys(&self, types: &[TypeAt], priority: Priority) -> bool {
        types.iter().any(|at| self.types[at.0].lanes.has_fairness_keys(priority))
    }

    /// Returns which fairness keys have their turn in one range of the claim's order, and how many jobs
    /// each gets. The types belong to one queue.
    pub(crate) fn deal(&mut self, types: &[TypeAt], range: &ClaimRange, room: u32) -> Vec<(Line, u32)> {
        let Some(first) = types.first() else { return Vec::new() };
        let queue = self.types[first.0].queue;
        let served = &mut self.queues[queue.0].served[usize::from(range.priority.level())];
        let mut lines = BTreeSet::new();
        for at in types {
            lines.extend(self.types[at.0].lanes.due_keys(served, range, room as usize));
        }
        served.deal(room, &lines)
    }

    pub(crate) fn suspects_due(&self, at: TypeAt, now: Timestamp) -> impl Iterator<Item = JobId> {
        self.types[at.0].suspects.range(..=last_at(now)).map(|(_, id)| *id)
    }

    /// Returns the due time of the first job of these types with this priority.
    pub(crate) fn oldest(&self, types: &[TypeAt], priority: Priority) -> Option<Timestamp> {
        types.iter().filter_map(|at| self.types[at.0].lanes.first(priority)).min()
    }

    /// Lists the oldest jobs behind a gate, at most `limit`. The gate of suspects cannot be opened.
    pub(crate) fn behind(&self, gate: &Gate, limit: usize) -> Vec<JobId> {
        self.gates.get(gate).into_iter().flatten().take(limit).map(|(_, id)| *id).collect()
    }

    /// Lists gates that jobs wait behind, after the given one, at most `limit`. It skips the gates of
    /// ordering keys: there may be very many.
    pub(crate) fn gates(&self, after: Option<&Gate>, limit: usize) -> Vec<Gate> {
        let after_ordering_key = Gate::after_ordering_key();
        let mut from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut found = Vec::new();
        while found.len() < limit {
            let Some((gate, _)) = self.gates.range::<Gate, _>((from, Bound::Unbounded)).next() else { break };
            if gate.is_of_ordering_key() {
                from = Bound::Included(&after_ordering_key);
            } else {
                found.push(gate.clone());
                from = Bound::Excluded(gate);
            }
        }
        found
    }

    pub(crate) fn anything_behind(&self, gate: &Gate) -> bool {
        self.gates.contains_key(gate)
    }

    /// Lists waiting jobs that have expired, at most `limit`.
    pub(crate) fn expired(&self, limit: usize, now: Timestamp) -> Vec<JobId> {
        self.expiring.range(..=last_at(now)).take(limit).map(|(_, id)| *id).collect()
    }

    /// Lists the waiting jobs of a type that could run now: due jobs that only the gate of suspects or of
    /// their ordering key may hold back.
    pub(crate) fn could_run(&self, at: TypeAt, now: Timestamp) -> impl Iterator<Item = JobId> {
        let row = &self.types[at.0];
        let first = Gate::named(&format!("{ORDERING_KEY}{}:", row.spec.name));
        let after = Gate::named(&format!("{ORDERING_KEY}{};", row.spec.name));
        let lines = self.gates.range(first..after);
        let in_line = lines.flat_map(move |(_, turns)| turns.range(..=last_at(now)).map(|(_, id)| *id));
        row.lanes.due(now).chain(self.suspects_due(at, now)).chain(in_line)
    }

    /// Returns the row of a group, if a job of it has not ended.
    pub(crate) fn group(&self, name: &GroupName) -> Option<&GroupRow> {
        self.groups.get(name)
    }

    /// Lists all running jobs.
    pub(crate) fn running(&self) -> impl Iterator<Item = JobId> {
        self.held.values().flatten().copied()
    }

    /// Lists the running jobs of a worker, by id.
    pub(crate) fn held_by(&self, worker: WorkerId) -> impl Iterator<Item = JobId> {
        self.held.get(&worker).into_iter().flatten().copied()
    }

    pub(crate) fn held_count(&self, worker: WorkerId) -> usize {
        self.held.get(&worker).map_or(0, BTreeSet::len)
    }

    /// Forgets a worker that runs nothing and will claim nothing.
    pub(crate) fn forget_worker(&mut self, worker: WorkerId) {
        self.held.remove(&worker);
    }
}

/// Merges the first jobs of several iterators, by due time and id.
fn first_of<'l>(lanes: &mut [impl Iterator<Item = &'l Turn>], limit: usize) -> Vec<JobId> {
    let heads = lanes.iter_mut().enumerate().filter_map(|(n, lane)| Some(Reverse((*lane.next()?, n))));
    let mut heads: BinaryHeap<_> = heads.collect();
    let mut first = Vec::new();
    while first.len() < limit {
        let Some(Reverse(((_, id), n))) = heads.pop() else { break };
        first.push(id);
        heads.extend(lanes[n].next().map(|next| Reverse((*next, n))));
    }
    first
}
