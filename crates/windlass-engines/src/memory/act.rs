//! Acts of operators on jobs and queues.

use std::time::Duration;

use windlass_core::admin::{BatchDone, CancelAnswer, Changed, RetryAnswer};
use windlass_core::claim::Fence;
use windlass_core::clock::Timestamp;
use windlass_core::gate::{Gate, gate_by_history};
use windlass_core::job::{JobId, JobState};
use windlass_core::key::{KeyVerdict, OnConflict, resolve};
use windlass_core::limits::{MAINTENANCE_BATCH_MAX, OPEN_BATCH_MAX, REASON_BYTES_MAX};
use windlass_core::names::QueueName;
use windlass_core::ordering_keys::gate_if_hurried;
use windlass_core::outcome::bounded;
use windlass_core::priority::Priority;
use windlass_core::queue::Pause;

use super::state::{JobRow, Stage, State};

/// Acts on one job.
impl State {
    pub(super) fn cancel(&mut self, id: JobId, why: &str, now: Timestamp) -> CancelAnswer {
        let why = bounded(why.to_owned(), REASON_BYTES_MAX);
        if self.cancel_waiting(id, &why, now) {
            return CancelAnswer::Cancelled;
        }
        if self.ask_to_stop(id, why) {
            return CancelAnswer::Requested;
        }
        match self.row(id) {
            Some(row) => CancelAnswer::AlreadyEnded(row.job_state(now)),
            None => CancelAnswer::NotFound,
        }
    }

    /// Asks a running job to stop. The first reason stays. Returns whether it runs.
    fn ask_to_stop(&mut self, id: JobId, why: String) -> bool {
        let Some(row) = self.live.get_mut(&id) else { return false };
        let Stage::Running(claim) = &mut row.stage else { return false };
        claim.cancel_requested.get_or_insert(why);
        self.hints.cancel(Fence { job: id, token: claim.token });
        true
    }

    pub(super) fn retry(&mut self, id: JobId, now: Timestamp) -> RetryAnswer {
        let Some(row) = self.row(id) else { return RetryAnswer::NotFound };
        match row.job_state(now) {
            JobState::Dead => self.retry_dead(id, now),
            JobState::Scheduled | JobState::Parked => {
                self.change_waiting(id, |job, gate| {
                    job.due = now;
                    *gate = gate_if_hurried(gate.as_ref(), &job.counters);
                });
                RetryAnswer::Retried
            }
            other => RetryAnswer::NotRetryable(other),
        }
    }

    fn retry_dead(&mut self, id: JobId, now: Timestamp) -> RetryAnswer {
        if let Some(holder) = self.dead.get(&id).and_then(|row| self.other_holder(row, now)) {
            return RetryAnswer::KeyHeld(holder);
        }
        self.start_over(id, |job| {
            job.due = now;
            // It was started in time once; an operator who starts it over does not want it to expire at
            // once.
            job.expires_at = None;
        });
        RetryAnswer::Retried
    }

    /// Returns the other job that holds this job's key now.
    fn other_holder(&self, row: &JobRow, now: Timestamp) -> Option<JobId> {
        let claim = row.job.key.as_ref()?;
        let holder = self.key_holder(&(row.type_at, claim.key.clone()));
        match resolve(holder.as_ref(), OnConflict::Keep, now) {
            KeyVerdict::Keep(holder) if holder != row.job.id => Some(holder),
            _ => None,
        }
    }

    pub(super) fn discard(&mut self, id: JobId, now: Timestamp) -> Changed {
        let Some(row) = self.dead.remove(&id) else { return self.unchanged(id) };
        self.index.queue_of_mut(row.type_at).dead_letters -= 1;
        self.keys.after_discard(&row, now);
        Changed::Done
    }

    pub(super) fn set_priority(&mut self, id: JobId, priority: Priority) -> Changed {
        if self.row(id).is_some_and(|row| row.job.priority == priority) {
            return Changed::Unchanged;
        }
        if self.change_waiting(id, |job, _| job.priority = priority) {
            return Changed::Done;
        }
        self.unchanged(id)
    }

    fn unchanged(&self, id: JobId) -> Changed {
        if self.row(id).is_some() { Changed::Unchanged } else { Changed::NotFound }
    }
}

/// Acts on a queue or a gate.
impl State {
    pub(super) fn pause(
        &mut self,
        name: &QueueName,
        reason: Option<&str>,
        lasting: Option<Duration>,
        now: Timestamp,
    ) -> Changed {
        let Some(queue) = self.index.queue_named_mut(name) else { return Changed::NotFound };
        let reason = reason.map(|reason| bounded(reason.to_owned(), REASON_BYTES_MAX));
        let until = lasting.map(|lasting| now.plus(lasting));
        let is_same = |pause: &Pause| pause.holds(now) && pause.reason == reason && pause.until == until;
        if queue.pause.as_ref().is_some_and(is_same) {
            return Changed::Unchanged;
        }
        queue.pause = Some(Pause { since: now, reason, until });
        Changed::Done
    }

    pub(super) fn resume(&mut self, name: &QueueName, now: Timestamp) -> Changed {
        let Some(queue) = self.index.queue_named_mut(name) else { return Changed::NotFound };
        match queue.pause.take() {
            Some(pause) if pause.holds(now) => {
                self.hints.queue(name);
                Changed::Done
            }
            _ => Changed::Unchanged,
        }
    }

    pub(super) fn set_shut(&mut self, name: &QueueName, shut: bool) -> Changed {
        let Some(queue) = self.index.queue_named_mut(name) else { return Changed::NotFound };
        if std::mem::replace(&mut queue.shut, shut) == shut { Changed::Unchanged } else { Changed::Done }
    }

    pub(super) fn purge(&mut self, name: &QueueName, limit: u32, now: Timestamp) -> BatchDone {
        let limit = limit.min(MAINTENANCE_BATCH_MAX) as usize;
        let waiting = self.waiting_in(name, limit);
        for id in &waiting {
            self.cancel_waiting(*id, "purged", now);
        }
        BatchDone { changed: waiting.len() as u64, more: !self.waiting_in(name, 1).is_empty() }
    }

    /// Lists the jobs of a queue that wait, with or without a gate, at most `limit`.
    fn waiting_in(&self, name: &QueueName, limit: usize) -> Vec<JobId> {
        let types = self.index.queue_named(name).map_or(&[][..], |queue| &queue.types);
        types.iter().flat_map(|at| self.index.type_row(*at).waiting()).take(limit).collect()
    }

    pub(super) fn open_gate(&mut self, gate: &Gate, limit: u32) -> BatchDone {
        let changed = self.let_through(gate, limit.min(OPEN_BATCH_MAX) as usize);
        BatchDone {
            changed: changed as u64,
            more: !gate.is_of_ordering_key() && self.index.anything_behind(gate),
        }
    }

    /// Lets the oldest jobs through a gate, at most `limit`. A job that has ever crashed becomes a suspect.
    pub(super) fn let_through(&mut self, gate: &Gate, limit: usize) -> usize {
        if gate.is_of_ordering_key() {
            return 0;
        }
        let through = self.index.behind(gate, limit);
        for id in &through {
            self.change_waiting(*id, |job, gate| *gate = gate_by_history(&job.counters));
        }
        through.len()
    }
}
