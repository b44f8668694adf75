//! Acts of operators on jobs and queues.

use std::time::Duration;

use rusqlite::{OptionalExtension, params};
use windlass_core::admin::{BatchDone, CancelAnswer, Changed, RetryAnswer};
use windlass_core::claim::Fence;
use windlass_core::gate::{Gate, gate_by_history};
use windlass_core::job::{JobId, JobState};
use windlass_core::key::{HolderStage, KeyVerdict, OnConflict, resolve};
use windlass_core::limits::{MAINTENANCE_BATCH_MAX, OPEN_BATCH_MAX, REASON_BYTES_MAX};
use windlass_core::names::QueueName;
use windlass_core::ordering_keys::gate_if_hurried;
use windlass_core::outcome::bounded;
use windlass_core::priority::Priority;
use windlass_core::queue::Pause;

use super::apply::{DeadLetter, LiveJob};
use super::row::{CANCELLED, SUCCEEDED, token};
use super::sql::sql;
use super::store_error::StoreResult;
use super::work::Work;
use crate::kit::{CountedState, to_json};

/// Acts on one job.
impl Work<'_> {
    pub(super) fn cancel(&mut self, id: JobId, why: &str) -> StoreResult<CancelAnswer> {
        self.check_may_change(id)?;
        let why = bounded(why.to_owned(), REASON_BYTES_MAX);
        match self.live_job(id)? {
            Some(job) if job.runs => self.ask_to_stop(id, &why),
            Some(job) => {
                self.cancel_waiting(&job, &why)?;
                Ok(CancelAnswer::Cancelled)
            }
            None => Ok(self.ended_job_state(id)?.map_or(CancelAnswer::NotFound, CancelAnswer::AlreadyEnded)),
        }
    }

    /// Asks a running job to stop. The first reason stays.
    fn ask_to_stop(&mut self, id: JobId, why: &str) -> StoreResult<CancelAnswer> {
        let mut statement = self.conn.prepare_cached(sql!("request_cancel"))?;
        let claim = statement.query_row(params![id.0, why], |row| row.get(0).map(token))?;
        self.did.hints.cancel(Fence { job: id, token: claim });
        Ok(CancelAnswer::Requested)
    }

    pub(super) fn retry(&mut self, id: JobId) -> StoreResult<RetryAnswer> {
        self.check_may_change(id)?;
        if let Some(job) = self.live_job(id)? {
            return self.retry_live(&job);
        }
        match self.ended_job_state(id)? {
            Some(JobState::Dead) => self.retry_dead(id),
            Some(ended) => Ok(RetryAnswer::NotRetryable(ended)),
            None => Ok(RetryAnswer::NotFound),
        }
    }

    fn retry_live(&mut self, job: &LiveJob) -> StoreResult<RetryAnswer> {
        if job.runs {
            return Ok(RetryAnswer::NotRetryable(JobState::Running));
        }
        if job.gate.is_none() && job.due <= self.now {
            return Ok(RetryAnswer::NotRetryable(JobState::Ready));
        }
        self.change_waiting(job, self.now, gate_if_hurried(job.gate.as_ref(), &job.counters).as_ref())?;
        Ok(RetryAnswer::Retried)
    }

    fn retry_dead(&mut self, id: JobId) -> StoreResult<RetryAnswer> {
        let Some(letter) = self.dead_letter(id)? else { return Ok(RetryAnswer::NotFound) };
        if let Some(holder) = self.other_holder(id, &letter)? {
            return Ok(RetryAnswer::KeyHeld(holder));
        }
        self.start_over(id, self.now)?;
        Ok(RetryAnswer::Retried)
    }

    /// Returns the other job that holds this job's key now.
    fn other_holder(&self, id: JobId, letter: &DeadLetter) -> StoreResult<Option<JobId>> {
        let Some(key) = &letter.key else { return Ok(None) };
        let holder = self.key_holder(letter.kind, key)?;
        match resolve(holder.as_ref(), OnConflict::Keep, self.now) {
            KeyVerdict::Keep(holder) if holder != id => Ok(Some(holder)),
            _ => Ok(None),
        }
    }

    pub(super) fn discard(&mut self, id: JobId) -> StoreResult<Changed> {
        let Some(letter) = self.dead_letter(id)? else { return self.unchanged(id) };
        let kind = self.type_of(letter.kind)?;
        self.conn.prepare_cached(sql!("remove_dead"))?.execute([id.0])?;
        self.conn.prepare_cached(sql!("forget_attempts"))?.execute([id.0])?;
        if let Some(key) = &letter.key {
            self.free_key(kind.id, key, id, HolderStage::Ended)?;
        }
        self.did.deltas.moved(&kind, CountedState::Dead, CountedState::Outside);
        Ok(Changed::Done)
    }

    pub(super) fn set_priority(&mut self, id: JobId, priority: Priority) -> StoreResult<Changed> {
        self.check_may_change(id)?;
        let Some(job) = self.live_job(id)? else { return self.unchanged(id) };
        if job.runs || job.priority == i64::from(priority) {
            return Ok(Changed::Unchanged);
        }
        self.conn.prepare_cached(sql!("set_priority"))?.execute(params![id.0, priority.level()])?;
        let kind = self.type_of(job.kind)?;
        self.did.hints.queue(&kind.spec.queue);
        Ok(Changed::Done)
    }

    fn unchanged(&self, id: JobId) -> StoreResult<Changed> {
        let is_known = self.live_job(id)?.is_some() || self.ended_job_state(id)?.is_some();
        Ok(if is_known { Changed::Unchanged } else { Changed::NotFound })
    }

    fn ended_job_state(&self, id: JobId) -> StoreResult<Option<JobState>> {
        let mut statement = self.conn.prepare_cached(sql!("ended_state"))?;
        let state: Option<i64> = statement.query_row([id.0], |row| row.get(0)).optional()?;
        Ok(state.map(|state| match state {
            SUCCEEDED => JobState::Succeeded,
            CANCELLED => JobState::Cancelled,
            _ => JobState::Dead,
        }))
    }
}

/// Acts on a queue or a gate.
impl Work<'_> {
    pub(super) fn pause(
        &mut self,
        name: &QueueName,
        reason: Option<&str>,
        lasting: Option<Duration>,
    ) -> StoreResult<Changed> {
        let Some(queue) = self.catalogue.queue(name) else { return Ok(Changed::NotFound) };
        let reason = reason.map(|reason| bounded(reason.to_owned(), REASON_BYTES_MAX));
        let until = lasting.map(|lasting| self.now.plus(lasting));
        let is_same = |pause: &Pause| pause.holds(self.now) && pause.reason == reason && pause.until == until;
        if queue.pause.as_ref().is_some_and(is_same) {
            return Ok(Changed::Unchanged);
        }
        let pause = Pause { since: self.now, reason, until };
        self.conn.prepare_cached(sql!("save_pause"))?.execute(params![queue.id, to_json(&pause)])?;
        self.did.declared = true;
        Ok(Changed::Done)
    }

    pub(super) fn resume(&mut self, name: &QueueName) -> StoreResult<Changed> {
        let Some(queue) = self.catalogue.queue(name) else { return Ok(Changed::NotFound) };
        let Some(pause) = &queue.pause else { return Ok(Changed::Unchanged) };
        self.conn.prepare_cached(sql!("save_pause"))?.execute(params![queue.id, None::<String>])?;
        self.did.declared = true;
        if !pause.holds(self.now) {
            return Ok(Changed::Unchanged);
        }
        self.did.hints.queue(name);
        Ok(Changed::Done)
    }

    pub(super) fn set_shut(&mut self, name: &QueueName, shut: bool) -> StoreResult<Changed> {
        let Some(queue) = self.catalogue.queue(name) else { return Ok(Changed::NotFound) };
        if queue.shut == shut {
            return Ok(Changed::Unchanged);
        }
        self.conn.prepare_cached(sql!("save_shut"))?.execute(params![queue.id, shut])?;
        self.did.declared = true;
        Ok(Changed::Done)
    }

    pub(super) fn purge(&mut self, name: &QueueName, limit: u32) -> StoreResult<BatchDone> {
        let waiting = self.waiting_in(name, limit.min(MAINTENANCE_BATCH_MAX))?;
        for id in &waiting {
            if let Some(job) = self.live_job(*id)? {
                self.cancel_waiting(&job, "purged")?;
            }
        }
        Ok(BatchDone { changed: waiting.len() as u64, more: !self.waiting_in(name, 1)?.is_empty() })
    }

    /// Lists the jobs of a queue that wait, with or without a gate, at most `limit`.
    fn waiting_in(&self, name: &QueueName, limit: u32) -> StoreResult<Vec<JobId>> {
        let Some(queue) = self.catalogue.queue(name) else { return Ok(Vec::new()) };
        let mut found: Vec<JobId> = Vec::new();
        for kind in self.catalogue.types_of(queue.id) {
            for sql in [sql!("waiting_of_type"), sql!("parked_of_type")] {
                let left = limit.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX));
                found.extend(self.ids(sql, params![kind.id, left])?);
            }
        }
        Ok(found)
    }

    pub(super) fn open_gate(&mut self, gate: &Gate, limit: u32) -> StoreResult<BatchDone> {
        let changed = self.let_through(gate, limit.min(OPEN_BATCH_MAX))?;
        let more = !gate.is_of_ordering_key() && !self.behind(gate, 1)?.is_empty();
        Ok(BatchDone { changed: changed.into(), more })
    }

    /// Lets the oldest jobs through a gate, at most `limit`. A job that has ever crashed becomes a suspect.
    pub(super) fn let_through(&mut self, gate: &Gate, limit: u32) -> StoreResult<u32> {
        if gate.is_of_ordering_key() {
            return Ok(0);
        }
        let through = self.behind(gate, limit)?;
        for id in &through {
            if let Some(job) = self.live_job(*id)? {
                self.change_waiting(&job, job.due, gate_by_history(&job.counters).as_ref())?;
            }
        }
        Ok(u32::try_from(through.len()).unwrap_or(u32::MAX))
    }

    /// Lists the oldest jobs behind a gate. The gate of suspects cannot be opened.
    fn behind(&self, gate: &Gate, limit: u32) -> StoreResult<Vec<JobId>> {
        if gate.is_suspect() {
            return Ok(Vec::new());
        }
        self.ids(sql!("behind_gate"), params![gate.as_str(), limit])
    }
}
