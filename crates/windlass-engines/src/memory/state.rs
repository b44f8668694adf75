//! The state behind the lock: every job exactly once, in the map of its state, and indexes that say which
//! job comes next. A job changes its state only through the methods of this file, which keep the indexes
//! consistent.

mod index;
mod lanes;
mod groups;
mod fairness_keys;
mod keys;
mod ordering_keys;

use std::collections::{BTreeMap, VecDeque};

use windlass_core::admin::{AttemptEnding, StoredAttempt, StoredJob};
use windlass_core::claim::{ClaimToken, Fence};
use windlass_core::clock::Timestamp;
use windlass_core::enqueue::RequestId;
use windlass_core::gate::Gate;
use windlass_core::job::{Counters, Job, JobId, JobState, StoredState};
use windlass_core::key::{HolderStage, KeyHolder};
use windlass_core::lease::StoredLease;
use windlass_core::limits::ATTEMPTS_SHOWN_MAX;
use windlass_core::names::DutyName;
use windlass_core::outcome::JobError;
use windlass_core::planted::{Bug, planted};
use windlass_core::settle::{AppliedTransition, NewState};
use windlass_core::spool::StagedBatch;
use windlass_core::triggers::rules::JobStanding;
use windlass_core::worker::WorkerId;

use super::claim::SpentTokens;
use super::enqueue::Receipts;
use super::hints::HintsDue;
use super::policies::Shared;
use super::rescue::Death;
use super::rollups::Minutes;
use super::schedules::Agenda;
use super::settle::Traces;
use super::triggers::TriggerRows;
use super::workers::WorkerRow;

pub(super) use index::{Index, QueueRow, TypeAt};
use keys::Keys;
pub(super) use lanes::next_after;
use ordering_keys::OrderingKeys;

/// Jobs by their id, which is also the order of their enqueue.
pub(super) type Rows = BTreeMap<JobId, Box<JobRow>>;

/// All data of the engine.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) last_id: i64,
    /// Jobs that wait or run.
    pub(super) live: Rows,
    /// The dead-letter queue.
    pub(super) dead: Rows,
    /// Jobs that succeeded or were cancelled, until they are pruned.
    pub(super) history: Rows,
    /// The traces of jobs whose type keeps no history.
    pub(super) traces: Traces,
    pub(super) index: Index,
    pub(super) keys: Keys,
    pub(super) ordering_keys: OrderingKeys,
    /// Workers that were declared dead stay for a while; later they are unknown, which is refused alike.
    pub(super) workers: BTreeMap<WorkerId, WorkerRow>,
    /// Workers declared dead whose jobs may not all be taken back yet.
    pub(super) deaths: VecDeque<Death>,
    pub(super) receipts: Receipts,
    pub(super) spent_tokens: SpentTokens,
    pub(super) shared: Shared,
    pub(super) leases: BTreeMap<DutyName, StoredLease>,
    pub(super) agenda: Agenda,
    pub(super) triggers: TriggerRows,
    pub(super) rollups: Minutes,
    /// Batches that move to another store, oldest first.
    pub(super) staged: BTreeMap<(Timestamp, RequestId), StagedBatch>,
    pub(super) hints: HintsDue,
}

/// A job and its state.
#[derive(Debug)]
pub(super) struct JobRow {
    pub(super) job: Job,
    pub(super) type_at: TypeAt,
    pub(super) stage: Stage,
    /// The token of the last settlement that was stored, so that a repeat of it gets the same answer.
    pub(super) settled_by: Option<ClaimToken>,
    pub(super) last_error: Option<JobError>,
    /// The newest attempts that ended, oldest first.
    pub(super) attempts: VecDeque<StoredAttempt>,
}

/// The state of a job.
#[derive(Debug)]
pub(super) enum Stage {
    /// In the map of live jobs.
    Waiting { gate: Option<Gate> },
    /// In the map of live jobs.
    Running(Claim),
    /// Succeeded, dead or cancelled: in the history or in the dead-letter queue.
    Ended(StoredState),
}

/// The worker that runs a job, and its claim.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) worker: WorkerId,
    pub(super) token: ClaimToken,
    pub(super) since: Timestamp,
    pub(super) boosted: bool,
    pub(super) cancel_requested: Option<String>,
}

impl JobRow {
    pub(super) fn claim(&self) -> Option<&Claim> {
        match &self.stage {
            Stage::Running(claim) => Some(claim),
            _ => None,
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.stage, Stage::Waiting { .. })
    }

    /// Whether it should have started by now. Only for waiting jobs.
    pub(super) fn has_expired(&self, now: Timestamp) -> bool {
        self.job.has_expired(now)
    }

    pub(super) fn record(&self, now: Timestamp) -> StoredJob {
        StoredJob {
            job: self.job.clone(),
            state: self.state(),
            last_error: self.last_error.clone(),
            read_at: now,
        }
    }

    pub(super) fn state(&self) -> StoredState {
        match &self.stage {
            Stage::Waiting { gate } => StoredState::Waiting { gate: gate.clone() },
            Stage::Running(claim) => StoredState::Running {
                worker: claim.worker,
                since: claim.since,
                cancel_requested: claim.cancel_requested.clone(),
            },
            Stage::Ended(state) => state.clone(),
        }
    }

    /// Returns the job state as users see it.
    pub(super) fn job_state(&self, now: Timestamp) -> JobState {
        match &self.stage {
            Stage::Ended(state) => state.job_state(self.job.due, now),
            _ => self.state().job_state(self.job.due, now),
        }
    }

    /// Stores the end of the running attempt.
    pub(super) fn note_attempt(&mut self, ended: EndedAttempt) {
        let Stage::Running(claim) = &self.stage else { return };
        if self.attempts.len() >= ATTEMPTS_SHOWN_MAX as usize {
            self.attempts.pop_front();
        }
        // Most jobs have one attempt, and many jobs are kept.
        self.attempts.reserve_exact(1);
        self.attempts.push_back(StoredAttempt {
            number: self.job.counters.attempts,
            worker: claim.worker,
            started_at: ended.started_at.unwrap_or(claim.since),
            ended_at: Some(ended.ended_at),
            ending: ended.ending,
            error: ended.error,
            output: ended.output,
        });
    }
}

/// The stored fields of an attempt that ended.
#[derive(Debug)]
pub(super) struct EndedAttempt {
    /// The start if the worker reported it; otherwise the start of the claim counts.
    pub(super) started_at: Option<Timestamp>,
    pub(super) ended_at: Timestamp,
    pub(super) ending: AttemptEnding,
    pub(super) error: Option<JobError>,
    pub(super) output: Option<String>,
}

impl State {
    /// Reads one job from the map that has it.
    pub(super) fn row(&self, id: JobId) -> Option<&JobRow> {
        [&self.live, &self.dead, &self.history].into_iter().find_map(|rows| rows.get(&id)).map(|row| &**row)
    }

    /// Stores a job that is new or was started over, and waits.
    pub(super) fn begin(&mut self, mut row: Box<JobRow>) {
        self.enter_ordering_key(&mut row);
        self.index.count_begin(&row);
        self.index.enter_waiting(&row);
        self.keys.hold(&row);
        self.hints.queue(&row.job.queue);
        self.live.insert(row.job.id, row);
    }

    /// Changes the fields of a waiting job that decide its turn. Returns whether the job waits.
    pub(super) fn change_waiting(
        &mut self,
        id: JobId,
        change: impl FnOnce(&mut Job, &mut Option<Gate>),
    ) -> bool {
        let Some(row) = self.live.get_mut(&id).filter(|row| row.is_waiting()) else { return false };
        self.index.leave_waiting(row);
        if let Stage::Waiting { gate } = &mut row.stage {
            change(&mut row.job, gate);
        }
        self.index.enter_waiting(row);
        self.hints.queue(&row.job.queue);
        true
    }

    /// Changes a waiting job as `change_waiting` does, and marks the completion triggers that it keeps
    /// unfinished no longer.
    pub(super) fn move_waiting(
        &mut self,
        id: JobId,
        now: Timestamp,
        change: impl FnOnce(&mut Job, &mut Option<Gate>),
    ) -> bool {
        let Some((job, from)) = self.standing(id).filter(|_| !self.triggers.is_empty()) else {
            return self.change_waiting(id, change);
        };
        let changed = self.change_waiting(id, change);
        let Some((_, to)) = self.standing(id) else { return changed };
        let (from, to) = ((from.0, from.1.as_ref()), (to.0, to.1.as_ref()));
        let waiting_at = |(due, gate)| JobStanding::Waiting { due, gate };
        self.mark_triggers(&job, waiting_at(from), waiting_at(to), now);
        changed
    }

    /// Returns a job that waits, with its due time and its gate.
    fn standing(&self, id: JobId) -> Option<(Job, (Timestamp, Option<Gate>))> {
        let row = self.live.get(&id)?;
        let Stage::Waiting { gate } = &row.stage else { return None };
        Some((row.job.clone(), (row.job.due, gate.clone())))
    }

    /// Writes the new state of a running job.
    pub(super) fn apply(
        &mut self,
        id: JobId,
        applied: AppliedTransition,
        ended_at: Timestamp,
        now: Timestamp,
    ) {
        let Some(row) = self.live.get_mut(&id) else { return };
        self.index.stop_running(row);
        row.job.counters = applied.counters;
        if !self.triggers.is_empty() {
            let job = row.job.clone();
            self.mark_triggers(&job, JobStanding::Running, JobStanding::at(&applied.state), now);
        }
        let Some(row) = self.live.get_mut(&id) else { return };
        match applied.state {
            NewState::Waiting { due, gate } => {
                row.job.due = due;
                row.stage = Stage::Waiting { gate };
                self.index.enter_waiting(row);
                self.hints.queue(&row.job.queue);
            }
            NewState::Succeeded { result } => {
                self.end(id, StoredState::Succeeded { at: ended_at, result }, now)
            }
            NewState::Dead { error } => self.end(id, StoredState::Dead { at: ended_at, error }, now),
            NewState::Cancelled { why } => self.end(id, StoredState::Cancelled { at: ended_at, why }, now),
        }
    }

    /// Cancels a job that waits. Returns whether the job waited.
    pub(super) fn cancel_waiting(&mut self, id: JobId, why: &str, now: Timestamp) -> bool {
        let Some(row) = self.live.get(&id).filter(|row| row.is_waiting()) else { return false };
        self.index.leave_waiting(row);
        if let Some((job, (due, gate))) = self.standing(id).filter(|_| !self.triggers.is_empty()) {
            self.mark_triggers(
                &job,
                JobStanding::Waiting { due, gate: gate.as_ref() },
                JobStanding::Ended,
                now,
            );
        }
        self.end(id, StoredState::Cancelled { at: now, why: why.to_owned() }, now);
        true
    }

    /// Moves a job that no longer waits or runs to the map of its end.
    fn end(&mut self, id: JobId, end: StoredState, now: Timestamp) {
        let Some(mut row) = self.live.remove(&id) else { return };
        let spec = &self.index.type_row(row.type_at).spec;
        let is_dead = matches!(end, StoredState::Dead { .. });
        let keep_until = spec.keep_until(now);
        self.index.count_end(&row, &end);
        row.stage = Stage::Ended(end);
        self.keys.after_end(&row, now);
        self.leave_ordering_key(&row);
        if is_dead {
            self.dead.insert(id, row);
        } else if let Some(until) = keep_until {
            self.index.type_row_mut(row.type_at).ended.insert((until, id));
            self.history.insert(id, row);
        } else if let Some(token) = row.settled_by {
            self.traces.leave(Fence { job: id, token });
        }
    }

    /// Starts a dead letter over with fresh counters. Returns whether it existed.
    pub(super) fn start_over(&mut self, id: JobId, change: impl FnOnce(&mut Job)) -> bool {
        let Some(mut row) = self.dead.remove(&id) else { return false };
        self.index.count_start_over(&row);
        row.job.counters = Counters::default();
        row.job.progress = None;
        row.stage = Stage::Waiting { gate: None };
        change(&mut row.job);
        self.begin(row);
        true
    }

    /// Returns the holder of a key, if a job ever held it and it was not freed since.
    pub(super) fn key_holder(&self, row: &keys::KeyAt) -> Option<KeyHolder> {
        let held = self.keys.get(row)?;
        let stage = self.stage_of(held.job);
        Some(KeyHolder { job: held.job, stage, scope: held.scope, until: held.until })
    }

    /// Returns the stage of a job for callers that wait for its end.
    pub(super) fn stage_of(&self, job: JobId) -> HolderStage {
        match self.row(job).map(|row| &row.stage) {
            // A job that is moving to another store is as good as claimed: it cannot be changed any more.
            Some(Stage::Waiting { gate: Some(gate) }) if gate.is_of_spool() => HolderStage::Running,
            Some(Stage::Waiting { .. }) => HolderStage::Waiting,
            Some(Stage::Running(_)) => HolderStage::Running,
            Some(Stage::Ended(StoredState::Dead { .. })) if planted(Bug::KeyNotFreedByDeath) => {
                HolderStage::Running
            }
            Some(Stage::Ended(StoredState::Dead { .. })) => HolderStage::Dead,
            Some(Stage::Ended(_)) | None => HolderStage::Ended,
        }
    }

    /// Forgets keys whose period is over, at most `limit`, and returns how many.
    pub(super) fn prune_keys(&mut self, limit: usize, now: Timestamp) -> usize {
        let mut pruned = 0;
        for at in self.keys.lapsed(limit, now) {
            // Another job may have taken the key since.
            if self.key_holder(&at).is_some_and(|holder| !holder.holds(now)) {
                self.keys.forget(&at);
                pruned += 1;
            }
        }
        pruned
    }
}
