//! Applies transitions: core decides where a job goes next, and this file writes it. Every move of a job
//! from one table or state to another is in this file, so that counts, keys and attempts always move with
//! it.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{OptionalExtension, Row, params};
use windlass_core::admin::AttemptEnding;
use windlass_core::claim::ClaimToken;
use windlass_core::clock::Timestamp;
use windlass_core::gate::Gate;
use windlass_core::job::{Counters, JobId};
use windlass_core::key::HolderStage;
use windlass_core::limits::ATTEMPTS_SHOWN_MAX;
use windlass_core::names::{FairnessKey, OrderingKey};
use windlass_core::outcome::JobError;
use windlass_core::settle::{AppliedTransition, NewState};
use windlass_core::triggers::rules::JobStanding;
use windlass_core::worker::WorkerId;

use super::catalogue::TypeEntry;
use super::row::{CANCELLED, SUCCEEDED, count, lossy};
use super::sql::sql;
use super::store_error::StoreResult;
use super::triggers::Mover;
use super::work::{Hot, Work};
use crate::kit::{CountedState, JobOptions, Total, parse_error, to_json};

/// The number of attempts of a job after which its old attempts are deleted.
const TRIM_EVERY: u32 = 50;

/// A job that has not ended, with the columns that a move needs.
#[derive(Debug)]
pub(super) struct LiveJob {
    pub(super) id: JobId,
    pub(super) kind: i64,
    pub(super) due: Timestamp,
    pub(super) counters: Counters,
    pub(super) key: Option<String>,
    pub(super) gate: Option<Gate>,
    pub(super) priority: i64,
    pub(super) runs: bool,
    pub(super) ordering_key: Option<String>,
    pub(super) group: Option<String>,
}

impl LiveJob {
    /// Returns its standing towards completion triggers.
    fn standing(&self) -> JobStanding<'_> {
        match self.runs {
            true => JobStanding::Running,
            false => JobStanding::Waiting { due: self.due, gate: self.gate.as_ref() },
        }
    }

    pub(super) fn counted_state(&self) -> CountedState {
        if self.runs { CountedState::Running } else { CountedState::waiting(self.due, self.gate.is_some()) }
    }
}

/// A running job under its claim.
#[derive(Debug)]
pub(super) struct HeldJob {
    pub(super) id: JobId,
    pub(super) token: ClaimToken,
    pub(super) kind: i64,
    pub(super) due: Timestamp,
    pub(super) counters: Counters,
    pub(super) key: Option<String>,
    pub(super) worker: WorkerId,
    pub(super) since: Timestamp,
    pub(super) cancel_requested: Option<String>,
    pub(super) ordering_key: Option<String>,
    pub(super) group: Option<String>,
}

/// The stored fields of an attempt that ended.
#[derive(Debug)]
pub(super) struct EndedAttempt {
    pub(super) number: u32,
    pub(super) worker: WorkerId,
    pub(super) started_at: Timestamp,
    pub(super) ended_at: Timestamp,
    pub(super) ending: AttemptEnding,
    pub(super) error: Option<JobError>,
    pub(super) output: Option<String>,
}

/// The end of a claim, besides the new state of its job.
#[derive(Debug, Default)]
pub(super) struct AttemptEnd {
    pub(super) attempt: Option<EndedAttempt>,
    pub(super) last_error: Option<JobError>,
    /// The token, if the holder itself settled; `None` if its claim was taken away.
    pub(super) settled_by: Option<ClaimToken>,
    /// How long ago the job ended, if this ends it.
    pub(super) ended_ago: Duration,
    /// Whether this is a retry after a failure, if it waits again.
    pub(super) is_retry: bool,
}

/// A job that leaves its claim or the live jobs.
struct LeavingJob<'a> {
    id: JobId,
    token: Option<ClaimToken>,
    kind: Arc<TypeEntry>,
    counters: Counters,
    key: Option<&'a str>,
    ordering_key: Option<&'a str>,
    from: CountedState,
    attempt_end: &'a AttemptEnd,
}

impl Work<'_> {
    /// Reads a job that has not ended.
    pub(super) fn live_job(&self, id: JobId) -> StoreResult<Option<LiveJob>> {
        let mut statement = self.conn.prepare_cached(sql!("waiting"))?;
        Ok(statement.query_row([id.0], |row| read_live(row, id)).optional()?)
    }

    /// Reads a running job, if this claim holds.
    pub(super) fn held_job(&self, id: JobId, token: ClaimToken) -> StoreResult<Option<HeldJob>> {
        let mut statement = self.hot(Hot::Held)?;
        let held = statement.query_row(params![id.0, token.to_bytes()], |row| read_held(row, id, token));
        Ok(held.optional()?)
    }

    /// Writes the new state of a running job.
    pub(super) fn apply(
        &mut self,
        held: &HeldJob,
        applied: AppliedTransition,
        attempt_end: &AttemptEnd,
    ) -> StoreResult<()> {
        let kind = self.type_of(held.kind)?;
        let mover = Mover {
            kind: &kind,
            group: held.group.as_deref(),
            key: held.key.as_deref(),
            from: JobStanding::Running,
        };
        self.mark_triggers(&mover, JobStanding::at(&applied.state))?;
        let end = LeavingJob {
            id: held.id,
            token: Some(held.token),
            kind,
            counters: applied.counters,
            key: held.key.as_deref(),
            ordering_key: held.ordering_key.as_deref(),
            from: CountedState::Running,
            attempt_end,
        };
        match applied.state {
            NewState::Waiting { due, gate } => self.wait_again(&end, due, gate.as_ref()),
            NewState::Succeeded { result } => self.finish(&end, SUCCEEDED, result.as_deref(), None),
            NewState::Dead { error } => self.bury(&end, &error),
            NewState::Cancelled { why } => self.finish(&end, CANCELLED, None, Some(&why)),
        }
    }

    /// Cancels a job that waits.
    pub(super) fn cancel_waiting(&mut self, job: &LiveJob, why: &str) -> StoreResult<()> {
        self.mark_moved(job, JobStanding::Ended)?;
        let attempt_end = AttemptEnd::default();
        let end = self.leaving_waiting(job, &attempt_end)?;
        self.finish(&end, CANCELLED, None, Some(why))
    }

    /// Moves a waiting job to the dead-letter queue, because its row cannot be read.
    pub(super) fn bury_waiting(&mut self, job: &LiveJob, error: &JobError) -> StoreResult<()> {
        self.mark_moved(job, JobStanding::Ended)?;
        let attempt_end = AttemptEnd { last_error: Some(error.clone()), ..AttemptEnd::default() };
        let end = self.leaving_waiting(job, &attempt_end)?;
        self.bury(&end, error)
    }

    /// Changes the gate and the due time of a waiting job.
    pub(super) fn change_waiting(
        &mut self,
        job: &LiveJob,
        due: Timestamp,
        gate: Option<&Gate>,
    ) -> StoreResult<()> {
        self.mark_moved(job, JobStanding::Waiting { due, gate })?;
        let kind = self.type_of(job.kind)?;
        let mut statement = self.conn.prepare_cached(sql!("set_due"))?;
        statement.execute(params![job.id.0, due.as_micros(), gate.map(Gate::as_str)])?;
        self.did.deltas.moved(&kind, job.counted_state(), CountedState::waiting(due, gate.is_some()));
        self.did.hints.queue(&kind.spec.queue);
        Ok(())
    }

    /// Marks the completion triggers that a waiting job kept unfinished before it moves to this standing.
    pub(super) fn mark_moved(&mut self, job: &LiveJob, to: JobStanding<'_>) -> StoreResult<()> {
        let kind = self.type_of(job.kind)?;
        let (group, key) = (job.group.as_deref(), job.key.as_deref());
        self.mark_triggers(&Mover { kind: &kind, group, key, from: job.standing() }, to)
    }

    /// Starts a dead letter over with fresh counters, and gives it its key again.
    pub(super) fn start_over(&mut self, id: JobId, due: Timestamp) -> StoreResult<()> {
        let Some(letter) = self.dead_letter(id)? else { return Ok(()) };
        let kind = self.type_of(letter.kind)?;
        if let Some(attempt) = &letter.attempt {
            self.note_attempt(id, attempt)?;
        }
        let ordering_key = letter.options.ordering_key.as_ref();
        let gate = self.gate_in_ordering_key(&kind, ordering_key)?;
        let place = (ordering_key.map(OrderingKey::as_str), gate.as_ref().map(Gate::as_str));
        self.conn.prepare_cached(sql!("start_over"))?.execute(params![
            id.0,
            due.as_micros(),
            place.0,
            place.1,
            letter.options.fairness_key.as_ref().map(FairnessKey::as_str),
        ])?;
        self.conn.prepare_cached(sql!("remove_dead"))?.execute([id.0])?;
        if let Some(key) = &letter.key {
            self.hold_key(kind.id, key, letter.options.scope, id, letter.enqueued_at)?;
        }
        self.did.deltas.moved(&kind, CountedState::Dead, CountedState::waiting(due, gate.is_some()));
        self.did.deltas.total(&kind, Total::StartedOver);
        self.did.hints.queue(&kind.spec.queue);
        Ok(())
    }

    fn leaving_waiting<'a>(
        &self,
        job: &'a LiveJob,
        attempt_end: &'a AttemptEnd,
    ) -> StoreResult<LeavingJob<'a>> {
        Ok(LeavingJob {
            id: job.id,
            token: None,
            kind: self.type_of(job.kind)?,
            counters: job.counters,
            key: job.key.as_deref(),
            ordering_key: job.ordering_key.as_deref(),
            from: job.counted_state(),
            attempt_end,
        })
    }

    fn wait_again(&mut self, end: &LeavingJob<'_>, due: Timestamp, gate: Option<&Gate>) -> StoreResult<()> {
        let LeavingJob { id, counters, kind, attempt_end, .. } = end;
        self.conn.prepare_cached(sql!("settle_waiting"))?.execute(params![
            id.0,
            end.token.map(ClaimToken::to_bytes),
            due.as_micros(),
            gate.map(Gate::as_str),
            counters.attempts,
            counters.failures,
            counters.crashes,
            counters.holds,
            attempt_end.last_error.as_ref().map(to_json),
            attempt_end.settled_by.map(ClaimToken::to_bytes),
        ])?;
        if let Some(attempt) = &attempt_end.attempt {
            self.note_attempt(*id, attempt)?;
        }
        if attempt_end.is_retry {
            self.did.deltas.total(kind, Total::Retried);
        }
        self.did.deltas.moved(kind, end.from, CountedState::waiting(due, gate.is_some()));
        self.did.hints.queue(&kind.spec.queue);
        Ok(())
    }

    /// Moves a job that succeeded or was cancelled to the history, if its type keeps one.
    fn finish(
        &mut self,
        end: &LeavingJob<'_>,
        state: i64,
        result: Option<&str>,
        why: Option<&str>,
    ) -> StoreResult<()> {
        match end.kind.spec.keep_until(self.now) {
            None => self.leave_trace(end)?,
            Some(until) => self.keep(end, state, until, result, why)?,
        }
        let total = if state == SUCCEEDED { Total::Succeeded } else { Total::Cancelled };
        self.leave(end, CountedState::Outside, total, HolderStage::Ended)
    }

    /// Stores the trace of a job whose type keeps no history, which is all that remains of it.
    fn leave_trace(&self, end: &LeavingJob<'_>) -> StoreResult<()> {
        self.conn.prepare_cached(sql!("settle_trace"))?.execute(params![
            end.id.0,
            end.token.map(ClaimToken::to_bytes),
            end.attempt_end.settled_by.map(ClaimToken::to_bytes),
            self.now.as_micros(),
        ])?;
        self.conn.prepare_cached(sql!("forget_attempts"))?.execute([end.id.0])?;
        Ok(())
    }

    fn keep(
        &self,
        end: &LeavingJob<'_>,
        state: i64,
        until: Timestamp,
        result: Option<&str>,
        why: Option<&str>,
    ) -> StoreResult<()> {
        let LeavingJob { id, counters, attempt_end, .. } = end;
        let attempt = attempt_end.attempt.as_ref();
        self.hot(Hot::SettleEnded)?.execute(params![
            id.0,
            end.token.map(ClaimToken::to_bytes),
            counters.attempts,
            counters.failures,
            counters.crashes,
            counters.holds,
            attempt_end.last_error.as_ref().map(to_json),
            state,
            until.as_micros(),
            result,
            why,
            self.now.minus(attempt_end.ended_ago).as_micros(),
            attempt.map(|attempt| attempt.worker.to_bytes()),
            attempt.map(|attempt| attempt.started_at.as_micros()),
            attempt.map(|attempt| attempt.ending.as_str()),
            attempt.and_then(|attempt| attempt.error.as_ref()).map(to_json),
            attempt.and_then(|attempt| attempt.output.as_deref()),
            attempt_end.settled_by.map(ClaimToken::to_bytes),
        ])?;
        Ok(())
    }

    /// Moves a dead job to the dead-letter queue.
    fn bury(&mut self, end: &LeavingJob<'_>, error: &JobError) -> StoreResult<()> {
        let LeavingJob { id, counters, attempt_end, .. } = end;
        let attempt = attempt_end.attempt.as_ref();
        self.conn.prepare_cached(sql!("settle_dead"))?.execute(params![
            id.0,
            end.token.map(ClaimToken::to_bytes),
            counters.attempts,
            counters.failures,
            counters.crashes,
            counters.holds,
            attempt_end.last_error.as_ref().map(to_json),
            to_json(error),
            self.now.minus(attempt_end.ended_ago).as_micros(),
            attempt.map(|attempt| attempt.worker.to_bytes()),
            attempt.map(|attempt| attempt.started_at.as_micros()),
            attempt.map(|attempt| attempt.ending.as_str()),
            attempt.and_then(|attempt| attempt.error.as_ref()).map(to_json),
            attempt.and_then(|attempt| attempt.output.as_deref()),
            attempt_end.settled_by.map(ClaimToken::to_bytes),
        ])?;
        self.leave(end, CountedState::Dead, Total::Dead, HolderStage::Dead)
    }

    /// Deletes the live row, and updates counts and key with it.
    fn leave(
        &mut self,
        end: &LeavingJob<'_>,
        to: CountedState,
        total: Total,
        stage: HolderStage,
    ) -> StoreResult<()> {
        let token = end.token.map(ClaimToken::to_bytes);
        self.hot(Hot::Leave)?.execute(params![end.id.0, token])?;
        if let Some(key) = end.key {
            self.free_key(end.kind.id, key, end.id, stage)?;
        }
        self.did.deltas.moved(&end.kind, end.from, to);
        self.did.deltas.total(&end.kind, total);
        if let Some(ordering_key) = end.ordering_key {
            self.advance_ordering_key(&end.kind, ordering_key)?;
        }
        Ok(())
    }

    fn note_attempt(&self, id: JobId, attempt: &EndedAttempt) -> StoreResult<()> {
        self.conn.prepare_cached(sql!("insert_attempt"))?.execute(params![
            id.0,
            attempt.number,
            attempt.worker.to_bytes(),
            attempt.started_at.as_micros(),
            attempt.ended_at.as_micros(),
            attempt.ending.as_str(),
            attempt.error.as_ref().map(to_json),
            attempt.output,
        ])?;
        // Not each time: a job may be retried for years, and a few more attempts than are shown do no harm.
        if attempt.number.is_multiple_of(TRIM_EVERY) {
            self.conn.prepare_cached(sql!("trim_attempts"))?.execute(params![id.0, ATTEMPTS_SHOWN_MAX])?;
        }
        Ok(())
    }

    /// Reads a dead letter, with the columns that starting over or discarding needs.
    pub(super) fn dead_letter(&self, id: JobId) -> StoreResult<Option<DeadLetter>> {
        let mut statement = self.conn.prepare_cached(sql!("dead_letter"))?;
        Ok(statement.query_row([id.0], read_dead_letter).optional()?)
    }
}

/// A dead letter, with the columns that starting over or discarding needs.
#[derive(Debug)]
pub(super) struct DeadLetter {
    pub(super) kind: i64,
    pub(super) key: Option<String>,
    pub(super) options: JobOptions,
    pub(super) enqueued_at: Timestamp,
    attempt: Option<EndedAttempt>,
}

fn read_dead_letter(row: &Row<'_>) -> rusqlite::Result<DeadLetter> {
    let worker: Option<[u8; 16]> = row.get(5)?;
    let error = lossy(row, 9)?;
    let ending = lossy(row, 8)?.and_then(|word| AttemptEnding::parse(&word));
    let attempt = match (ending, worker) {
        (Some(ending), Some(worker)) => Some(EndedAttempt {
            number: count(row, 4)?,
            worker: WorkerId::from_bytes(worker),
            started_at: Timestamp::from_micros(row.get::<_, Option<i64>>(6)?.unwrap_or_default()),
            ended_at: Timestamp::from_micros(row.get(7)?),
            ending,
            error: error.as_deref().map(parse_error),
            output: lossy(row, 10)?,
        }),
        _ => None,
    };
    Ok(DeadLetter {
        kind: row.get(0)?,
        key: lossy(row, 1)?,
        options: JobOptions::from_column(lossy(row, 2)?.as_deref()),
        enqueued_at: Timestamp::from_micros(row.get(3)?),
        attempt,
    })
}

fn read_live(row: &Row<'_>, id: JobId) -> rusqlite::Result<LiveJob> {
    Ok(LiveJob {
        id,
        kind: row.get(0)?,
        due: Timestamp::from_micros(row.get(1)?),
        counters: read_counters(row, 2)?,
        key: lossy(row, 6)?,
        gate: lossy(row, 7)?.as_deref().map(Gate::named),
        priority: row.get(8)?,
        runs: row.get(9)?,
        ordering_key: lossy(row, 10)?,
        group: lossy(row, 11)?,
    })
}

fn read_held(row: &Row<'_>, id: JobId, token: ClaimToken) -> rusqlite::Result<HeldJob> {
    Ok(HeldJob {
        id,
        token,
        kind: row.get(0)?,
        due: Timestamp::from_micros(row.get(1)?),
        counters: read_counters(row, 2)?,
        key: lossy(row, 6)?,
        worker: WorkerId::from_bytes(row.get(7)?),
        since: Timestamp::from_micros(row.get(8)?),
        cancel_requested: lossy(row, 9)?,
        ordering_key: lossy(row, 10)?,
        group: lossy(row, 11)?,
    })
}

fn read_counters(row: &Row<'_>, first: usize) -> rusqlite::Result<Counters> {
    Ok(Counters {
        attempts: count(row, first)?,
        failures: count(row, first + 1)?,
        crashes: count(row, first + 2)?,
        holds: count(row, first + 3)?,
    })
}
