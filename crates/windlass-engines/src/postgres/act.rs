//! Acts of operators on jobs, queues and gates.

use std::time::{Duration, Instant as Moment};

use windlass_core::admin::{BatchDone, CancelAnswer, Changed, RetryAnswer};
use windlass_core::claim::Fence;
use windlass_core::engine::Hint;
use windlass_core::gate::{Gate, gate_by_history};
use windlass_core::job::{Counters, JobId, JobState};
use windlass_core::key::HolderStage;
use windlass_core::limits::{MAINTENANCE_BATCH_MAX, OPEN_BATCH_MAX, REASON_BYTES_MAX};
use windlass_core::names::QueueName;
use windlass_core::ordering_keys::gate_if_hurried;
use windlass_core::outcome::bounded;
use windlass_core::priority::Priority;
use windlass_core::queue::Pause;

use super::Store;
use super::apply::{Live, Moved};
use super::claim_cursor::{FIRST, Position, before};
use super::conn::Tx;
use super::counts::Deltas;
use super::gate_cursor::LetThrough;
use super::row::{CANCELLED, SUCCEEDED};
use super::settle::storable;
use super::store_error::StoreResult;
use super::value::{Bits, Instant, instant, int4, number, small_number, text};
use crate::kit::{CountedState, to_json};

/// Acts on one job.
impl Store {
    pub(super) async fn cancel(&self, id: JobId, why: String) -> StoreResult<CancelAnswer> {
        let why = storable(bounded(why, REASON_BYTES_MAX));
        let tx = self.work.begin().await?;
        let answer = self.cancel_in(&tx, id, &why).await;
        let (answer, moved, requested) = tx.end(answer).await?;
        self.publish_moved(moved).await;
        if let Some(fence) = requested {
            self.listeners.tell(&Hint::Cancel(fence));
        }
        Ok(answer)
    }

    async fn cancel_in(
        &self,
        tx: &Tx,
        id: JobId,
        why: &str,
    ) -> StoreResult<(CancelAnswer, Moved, Option<Fence>)> {
        let now = self.transaction_now(tx).await?;
        let mut locked = self.lock_live(tx, &[id.0], false).await?;
        let Some(live) = locked.jobs.pop() else {
            let ended = self.ended_job_state(tx, id).await?;
            let answer = ended.map_or(CancelAnswer::NotFound, CancelAnswer::AlreadyEnded);
            return Ok((answer, Moved::default(), None));
        };
        if live.runs {
            let requested = self.ask_to_stop(tx, id, why).await?;
            return Ok((CancelAnswer::Requested, Moved::default(), requested));
        }
        let moved = self.write_moves(tx, now, vec![live.cancelled(why)], &locked.keys).await?;
        Ok((CancelAnswer::Cancelled, moved, None))
    }

    /// Asks a running job to stop, and notifies its worker. The first reason stays.
    async fn ask_to_stop(&self, tx: &Tx, id: JobId, why: &str) -> StoreResult<Option<Fence>> {
        let channel = self.channels.all();
        let rows = tx.query(&self.sql.request_cancel, &[number(&id.0), text(&why), text(&channel)]).await?;
        let token = rows.first().map(|row| row.try_get::<_, Bits>(0)).transpose()?;
        Ok(token.map(|token| Fence { job: id, token: token.into() }))
    }

    pub(super) async fn retry(&self, id: JobId) -> StoreResult<RetryAnswer> {
        let tx = self.work.begin().await?;
        let answer = self.retry_in(&tx, id).await;
        let (answer, moved) = tx.end(answer).await?;
        self.publish_moved(moved).await;
        Ok(answer)
    }

    async fn retry_in(&self, tx: &Tx, id: JobId) -> StoreResult<(RetryAnswer, Moved)> {
        let now = self.transaction_now(tx).await?;
        let mut locked = self.lock_live(tx, &[id.0], false).await?;
        let Some(live) = locked.jobs.pop() else { return self.retry_ended(tx, id, now).await };
        let job_state = match &live {
            Live { runs: true, .. } => Some(JobState::Running),
            Live { gate: None, due, .. } if *due <= now => Some(JobState::Ready),
            _ => None,
        };
        if let Some(job_state) = job_state {
            return Ok((RetryAnswer::NotRetryable(job_state), Moved::default()));
        }
        let gate = gate_if_hurried(live.gate.as_ref(), &live.counters);
        let moved = self.write_moves(tx, now, vec![live.waits(now, gate)], &locked.keys).await?;
        Ok((RetryAnswer::Retried, moved))
    }

    async fn retry_ended(
        &self,
        tx: &Tx,
        id: JobId,
        now: windlass_core::clock::Timestamp,
    ) -> StoreResult<(RetryAnswer, Moved)> {
        let answer = match self.ended_job_state(tx, id).await? {
            Some(JobState::Dead) => return self.retry_dead(tx, id, now).await,
            Some(ended) => RetryAnswer::NotRetryable(ended),
            None => RetryAnswer::NotFound,
        };
        Ok((answer, Moved::default()))
    }

    async fn retry_dead(
        &self,
        tx: &Tx,
        id: JobId,
        now: windlass_core::clock::Timestamp,
    ) -> StoreResult<(RetryAnswer, Moved)> {
        // The key of a dead job is locked before the job, as everywhere. The job's key never changes.
        if let Some(key) = self.dead_key(tx, id).await?
            && let Some(holder) = self.other_holder(tx, id, &key, now).await?
        {
            return Ok((RetryAnswer::KeyHeld(holder), Moved::default()));
        }
        let Some(letter) = self.dead_letter(tx, id).await? else {
            return Ok((RetryAnswer::NotFound, Moved::default()));
        };
        let mut deltas = Deltas::default();
        self.start_over(tx, id, now, &mut deltas).await?;
        self.add_counts(tx, &deltas).await?;
        let ordering_key = letter.options.ordering_key.map(|ordering_key| (letter.job_type, ordering_key));
        let moved = Moved {
            queues: [letter.queue.clone()].into(),
            started_over: Some(letter.queue),
            ordering_key: ordering_key.into_iter().collect(),
            ..Moved::default()
        };
        Ok((RetryAnswer::Retried, moved))
    }

    async fn dead_key(&self, tx: &Tx, id: JobId) -> StoreResult<Option<super::key::TypeKey>> {
        let rows = tx.query(&self.sql.dead_key, &[number(&id.0)]).await?;
        let key = rows
            .first()
            .map(|row| Ok::<_, super::store_error::StoreError>((row.try_get(0)?, row.try_get(1)?)));
        key.transpose()
    }

    pub(super) async fn discard(&self, id: JobId) -> StoreResult<Changed> {
        let tx = self.work.begin().await?;
        let changed = self.discard_in(&tx, id).await;
        tx.end(changed).await
    }

    async fn discard_in(&self, tx: &Tx, id: JobId) -> StoreResult<Changed> {
        let now = self.transaction_now(tx).await?;
        let keys: std::collections::BTreeSet<_> = self.dead_key(tx, id).await?.into_iter().collect();
        let locked = self.lock_keys(tx, &keys, false).await?;
        let Some(letter) = self.dead_letter(tx, id).await? else { return self.unchanged(tx, id).await };
        tx.query(&self.sql.discard, &[number(&id.0)]).await?;
        let ended: Vec<_> = letter.type_key().map(|key| (key, id, HolderStage::Ended)).into_iter().collect();
        self.free_keys(tx, &ended, &locked, now).await?;
        let mut deltas = Deltas::default();
        deltas.moved((&letter.job_type, &letter.queue), CountedState::Dead, CountedState::Outside);
        self.add_counts(tx, &deltas).await?;
        Ok(Changed::Done)
    }

    pub(super) async fn set_priority(&self, id: JobId, priority: Priority) -> StoreResult<Changed> {
        let tx = self.work.begin().await?;
        let changed = self.set_priority_in(&tx, id, priority).await;
        let (changed, moved) = tx.end(changed).await?;
        self.publish_moved(moved).await;
        Ok(changed)
    }

    async fn set_priority_in(&self, tx: &Tx, id: JobId, priority: Priority) -> StoreResult<(Changed, Moved)> {
        let Some(live) = self.lock_jobs(tx, &[id.0]).await?.pop() else {
            return Ok((self.unchanged(tx, id).await?, Moved::default()));
        };
        if live.runs || live.priority == Some(priority) {
            return Ok((Changed::Unchanged, Moved::default()));
        }
        let level = i32::from(priority.level());
        tx.query(&self.sql.set_priority, &[number(&id.0), small_number(&level)]).await?;
        let mut moved = Moved { queues: [live.queue.clone()].into(), ..Moved::default() };
        if live.gate.is_none() {
            moved.requeued.push((live.queue, priority, before(live.due, id)));
            self.note_requeued_jobs(tx, &moved).await?;
        }
        Ok((Changed::Done, moved))
    }

    async fn unchanged(&self, tx: &Tx, id: JobId) -> StoreResult<Changed> {
        let is_live = !self.lock_jobs(tx, &[id.0]).await?.is_empty();
        let is_known = is_live || self.ended_job_state(tx, id).await?.is_some();
        Ok(if is_known { Changed::Unchanged } else { Changed::NotFound })
    }

    async fn ended_job_state(&self, tx: &Tx, id: JobId) -> StoreResult<Option<JobState>> {
        let rows = tx.query(&self.sql.ended_state, &[number(&id.0)]).await?;
        let state: Option<i16> = rows.first().map(|row| row.try_get(0)).transpose()?;
        Ok(state.map(|state| match state {
            SUCCEEDED => JobState::Succeeded,
            CANCELLED => JobState::Cancelled,
            _ => JobState::Dead,
        }))
    }
}

/// Acts on a queue or a gate.
impl Store {
    pub(super) async fn pause(
        &self,
        name: QueueName,
        reason: Option<String>,
        lasting: Option<Duration>,
    ) -> StoreResult<Changed> {
        self.reload().await?;
        let catalogue = self.catalogue();
        let Some(queue) = catalogue.queue(&name) else { return Ok(Changed::NotFound) };
        let now = self.read_time().await?;
        let reason = reason.map(|reason| bounded(reason, REASON_BYTES_MAX));
        let until = lasting.map(|lasting| now.plus(lasting));
        let is_same = |pause: &Pause| pause.holds(now) && pause.reason == reason && pause.until == until;
        if queue.pause.as_ref().is_some_and(is_same) {
            return Ok(Changed::Unchanged);
        }
        self.save_pause(&name, Some(to_json(&Pause { since: now, reason, until }))).await?;
        Ok(Changed::Done)
    }

    pub(super) async fn resume(&self, name: QueueName) -> StoreResult<Changed> {
        self.reload().await?;
        let catalogue = self.catalogue();
        let Some(queue) = catalogue.queue(&name) else { return Ok(Changed::NotFound) };
        let Some(pause) = &queue.pause else { return Ok(Changed::Unchanged) };
        let now = self.read_time().await?;
        self.save_pause(&name, None).await?;
        if !pause.holds(now) {
            return Ok(Changed::Unchanged);
        }
        self.listeners.tell(&Hint::Queue(name.clone()));
        Ok(Changed::Done)
    }

    async fn save_pause(&self, name: &QueueName, pause: Option<String>) -> StoreResult<()> {
        let (queue, channel) = (name.as_str(), self.channels.all());
        let conn = self.work.get().await?;
        conn.execute(&self.sql.save_pause, &[text(&queue), text(&pause), text(&channel)]).await?;
        drop(conn);
        self.reload().await
    }

    pub(super) async fn set_shut(&self, name: QueueName, shut: bool) -> StoreResult<Changed> {
        self.reload().await?;
        let catalogue = self.catalogue();
        let Some(queue) = catalogue.queue(&name) else { return Ok(Changed::NotFound) };
        if queue.shut == shut {
            return Ok(Changed::Unchanged);
        }
        let conn = self.work.get().await?;
        conn.execute(&self.sql.save_shut, &[text(&name.as_str()), super::value::flag(&shut)]).await?;
        drop(conn);
        self.reload().await?;
        Ok(Changed::Done)
    }

    pub(super) async fn purge(&self, name: QueueName, limit: u32) -> StoreResult<BatchDone> {
        let changed = {
            let ids = self.waiting_in(&name, limit.min(MAINTENANCE_BATCH_MAX)).await?;
            self.move_waiting(&ids, |live| Some(live.cancelled("purged"))).await?
        };
        Ok(BatchDone { changed, more: !self.waiting_in(&name, 1).await?.is_empty() })
    }

    /// Returns jobs of a queue that wait, with or without a gate, at most `limit`.
    async fn waiting_in(&self, name: &QueueName, limit: u32) -> StoreResult<Vec<i64>> {
        let (queue, limit) = (name.as_str(), int4(limit));
        self.ids(&self.sql.waiting_in, &[text(&queue), small_number(&limit)]).await
    }

    pub(super) async fn open_gate(&self, gate: Gate, limit: u32) -> StoreResult<BatchDone> {
        let limit = limit.min(OPEN_BATCH_MAX);
        let from = self.gate_cursors().start(&gate, limit, Moment::now());
        let LetThrough { mut count, last } = self.let_through_after(&gate, limit, from).await?;
        self.gate_cursors().note_end(&gate, from, last, Moment::now());
        if last.is_some() {
            return Ok(BatchDone { changed: count.into(), more: true });
        }
        if from != FIRST && count < limit {
            // Older jobs may have come to the front meanwhile.
            count += self.let_through(&gate, limit - count).await?;
        }
        // Jobs that another transaction has locked are there, too, but a caller that asks again and again
        // for those alone would spin.
        let more = count > 0 && !self.ids_behind(&gate, 1).await?.is_empty();
        Ok(BatchDone { changed: count.into(), more })
    }

    /// Lets the oldest jobs through a gate, at most `limit`. A job that ever crashed goes on as a suspect.
    pub(super) async fn let_through(&self, gate: &Gate, limit: u32) -> StoreResult<u32> {
        Ok(self.let_through_after(gate, limit, FIRST).await?.count)
    }

    /// Lets the oldest jobs behind this position through a gate.
    async fn let_through_after(
        &self,
        gate: &Gate,
        limit: u32,
        (due, id): Position,
    ) -> StoreResult<LetThrough> {
        // Suspects have no gate that could be opened, and operators do not open that of an ordering key.
        if gate.is_suspect() || gate.is_of_ordering_key() {
            return Ok(LetThrough::default());
        }
        let (name, limit) = (gate.as_str(), int4(limit));
        // Core's decision on the gate of a job that goes on after it ever crashed.
        let after_a_crash = gate_by_history(&Counters { crashes: 1, ..Counters::default() });
        let after_a_crash = after_a_crash.as_ref().map(Gate::as_str);
        let due = Instant(due);
        let params = [text(&name), small_number(&limit), text(&after_a_crash), instant(&due), number(&id.0)];
        let rows = self.work.get().await?.execute(&self.sql.open_gate, &params).await?;
        let (mut through, mut moved) = (LetThrough::default(), Moved::default());
        rows.iter().try_for_each(|row| through.add_row(row, &mut moved))?;
        self.publish_moved(moved).await;
        Ok(through)
    }

    /// Returns the oldest jobs behind a gate.
    pub(super) async fn ids_behind(&self, gate: &Gate, limit: u32) -> StoreResult<Vec<i64>> {
        if gate.is_suspect() {
            return Ok(Vec::new());
        }
        let (name, limit) = (gate.as_str(), int4(limit));
        self.ids(&self.sql.behind_gate, &[text(&name), small_number(&limit)]).await
    }

    /// Reads the store's clock.
    pub(super) async fn read_time(&self) -> StoreResult<windlass_core::clock::Timestamp> {
        if let Some(now) = self.now_param() {
            return Ok(now.0);
        }
        let rows = self.work.get().await?.query(&self.sql.read_clock, &[]).await?;
        let now = rows.first().map(|row| row.try_get::<_, super::value::Instant>(0)).transpose()?;
        now.iter().for_each(|now| self.learn_time(now.0));
        Ok(self.estimated_now())
    }
}
