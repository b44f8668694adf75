//! Enqueues jobs: each is accepted or refused by itself, and the batch stores a receipt.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Row, params};
use windlass_core::clock::Timestamp;
use windlass_core::enqueue::{
    Accepted, EnqueueAnswer, EnqueueRequest, NewJob, QueueState, Refusal, RequestId, accept, repeated, told,
};
use windlass_core::job::JobId;
use windlass_core::key::{KeyVerdict, resolve};
use windlass_core::limits::{ENQUEUE_BATCH_MAX, RECEIPT_TTL};
use windlass_core::triggers::rules::JobStanding;

use crate::receipts::unreadable;

use super::catalogue::{QueueEntry, TypeEntry};
use super::counts;
use super::row::lossy;
use super::sql::sql;
use super::store_error::StoreResult;
use super::work::{Hot, Work};
use crate::kit::{CountedState, JobOptions, Total, check_batch_size, to_json};

/// The unfinished jobs of queues before a batch; only queues with a capacity are counted.
pub(super) type Depths = HashMap<i64, i64>;

impl Work<'_> {
    pub(super) fn enqueue(&mut self, request: EnqueueRequest) -> StoreResult<Vec<EnqueueAnswer>> {
        check_batch_size(ENQUEUE_BATCH_MAX, "jobs", request.jobs.len())?;
        if let Some(receipt) = find_receipt(self.conn, request.request, self.now)? {
            return Ok(repeated(receipt, request.jobs.len()));
        }
        let answers = self.enqueue_all(request.jobs)?;
        self.save_receipt(request.request, &answers)?;
        Ok(answers)
    }

    /// Returns the answers of an earlier request. If there are none, stores a tombstone that closes the
    /// request for as long as a receipt is valid.
    pub(super) fn ask(&mut self, request: RequestId) -> StoreResult<Option<Vec<EnqueueAnswer>>> {
        let answers = find_receipt(self.conn, request, self.now)?.and_then(told);
        if answers.is_none() {
            self.save_receipt(request, &[])?;
        }
        Ok(answers)
    }

    fn save_receipt(&self, request: RequestId, answers: &[EnqueueAnswer]) -> StoreResult<()> {
        let mut save = self.conn.prepare_cached(sql!("save_receipt"))?;
        save.execute(params![request.to_bytes(), to_json(&answers), self.now.as_micros()])?;
        Ok(())
    }

    /// Stores a batch without a receipt.
    pub(super) fn enqueue_all(&mut self, jobs: Vec<NewJob>) -> StoreResult<Vec<EnqueueAnswer>> {
        let mut depths = Depths::new();
        jobs.into_iter().map(|new| self.enqueue_one(&new, &mut depths)).collect()
    }

    fn enqueue_one(&mut self, new: &NewJob, depths: &mut Depths) -> StoreResult<EnqueueAnswer> {
        let Some(kind) = self.catalogue.type_named(&new.job_type) else {
            return Ok(EnqueueAnswer::Refused(Refusal::UnknownType { job_type: new.job_type.clone() }));
        };
        let verdict = self.verdict(new, &kind)?;
        let accepted = match self.accept(new, &kind, verdict, depths)? {
            Ok(accepted) => accepted,
            Err(why) => return Ok(EnqueueAnswer::Refused(why)),
        };
        Ok(match verdict {
            KeyVerdict::Insert => EnqueueAnswer::New(self.insert(new, &kind, &accepted)?),
            KeyVerdict::Keep(id) => EnqueueAnswer::Duplicate(id),
            KeyVerdict::Replace(id) => {
                self.renew(id, new, &accepted)?;
                EnqueueAnswer::Replaced(id)
            }
            KeyVerdict::Revive(id) => {
                self.start_over(id, accepted.due)?;
                self.renew(id, new, &accepted)?;
                EnqueueAnswer::Revived(id)
            }
        })
    }

    fn accept(
        &self,
        new: &NewJob,
        kind: &TypeEntry,
        verdict: KeyVerdict,
        depths: &mut Depths,
    ) -> StoreResult<Result<Accepted, Refusal>> {
        let queue = self.catalogue.queue(&kind.spec.queue);
        let unreadable = kind.spec.checked().err();
        let unreadable = unreadable.or_else(|| queue.as_ref()?.spec.checked().err());
        if let Some(why) = unreadable {
            return Ok(Err(why.into()));
        }
        let Some(queue) = queue else {
            return Ok(accept(new, Some(&kind.spec), None, verdict, self.now));
        };
        let unfinished = self.unfinished(&queue, depths)?;
        let queue_state = QueueState { spec: &queue.spec, shut: queue.shut, unfinished };
        Ok(accept(new, Some(&kind.spec), Some(queue_state), verdict, self.now))
    }

    /// Counts the unfinished jobs of a queue, including earlier ones of this transaction and batch.
    pub(super) fn unfinished(&self, queue: &QueueEntry, depths: &mut Depths) -> StoreResult<u64> {
        if queue.spec.capacity.is_none() {
            return Ok(0);
        }
        let stored = match depths.get(&queue.id) {
            Some(stored) => *stored,
            None => *depths.entry(queue.id).or_insert(counts::unfinished(self.conn, queue.id)?),
        };
        let changed = self.counted.unfinished(queue.id) + self.did.deltas.unfinished(queue.id);
        Ok(u64::try_from(stored + changed).unwrap_or(0))
    }

    fn verdict(&self, new: &NewJob, kind: &TypeEntry) -> StoreResult<KeyVerdict> {
        let Some(claim) = &new.key else { return Ok(KeyVerdict::Insert) };
        let holder = self.key_holder(kind.id, claim.key.as_str())?;
        Ok(resolve(holder.as_ref(), claim.on_conflict, self.now))
    }

    fn insert(&mut self, new: &NewJob, kind: &TypeEntry, accepted: &Accepted) -> StoreResult<JobId> {
        let id = JobId(self.catalogue.take_job_id());
        let tags = (!new.tags.is_empty()).then(|| to_json(&new.tags));
        let gate = self.gate_in_ordering_key(kind, new.ordering_key.as_ref())?;
        self.hot(Hot::InsertJob)?.execute(params![
            id.0,
            kind.id,
            accepted.priority.level(),
            new.payload.as_str(),
            self.now.as_micros(),
            accepted.due.as_micros(),
            accepted.expires_at.map(Timestamp::as_micros),
            new.key.as_ref().map(|claim| claim.key.as_str()),
            new.correlation.as_ref().map(|id| id.as_str()),
            new.group.as_ref().map(|group| group.as_str()),
            tags,
            JobOptions::of(new).to_column(),
            new.ordering_key.as_ref().map(|ordering_key| ordering_key.as_str()),
            gate.as_ref().map(|gate| gate.as_str()),
            new.fairness_key.as_ref().map(|fairness_key| fairness_key.as_str()),
        ])?;
        if let Some(claim) = &new.key {
            self.hold_key(kind.id, claim.key.as_str(), claim.scope, id, self.now)?;
        }
        self.did.deltas.moved(
            kind,
            CountedState::Outside,
            CountedState::waiting(accepted.due, gate.is_some()),
        );
        self.did.deltas.total(kind, Total::Enqueued);
        self.did.hints.queue(&kind.spec.queue);
        Ok(id)
    }

    /// Replaces the waiting job that holds the key of a new job.
    fn renew(&mut self, id: JobId, new: &NewJob, accepted: &Accepted) -> StoreResult<()> {
        let Some(job) = self.live_job(id)? else { return Ok(()) };
        self.mark_moved(&job, JobStanding::Waiting { due: accepted.due, gate: job.gate.as_ref() })?;
        let kind = self.type_of(job.kind)?;
        let stored =
            self.conn.prepare_cached(sql!("read_options"))?.query_row([id.0], |row| lossy(row, 0))?;
        let options = JobOptions { label: new.label.clone(), ..JobOptions::from_column(stored.as_deref()) };
        self.conn.prepare_cached(sql!("replace_job"))?.execute(params![
            id.0,
            new.payload.as_str(),
            accepted.due.as_micros(),
            accepted.priority.level(),
            accepted.expires_at.map(Timestamp::as_micros),
            options.to_column(),
        ])?;
        let to = CountedState::waiting(accepted.due, job.gate.is_some());
        self.did.deltas.moved(&kind, job.counted_state(), to);
        self.did.hints.queue(&kind.spec.queue);
        Ok(())
    }
}

/// Reads the answers to a request, if its receipt is still valid; no answers if the request was closed.
pub(super) fn find_receipt(
    conn: &Connection,
    request: RequestId,
    now: Timestamp,
) -> StoreResult<Option<Vec<EnqueueAnswer>>> {
    let lapsed = now.minus(RECEIPT_TTL).as_micros();
    let read = |row: &Row<'_>| Ok(lossy(row, 0)?.unwrap_or_default());
    let answers = conn
        .prepare_cached(sql!("find_receipt"))?
        .query_row(params![request.to_bytes(), lapsed], read)
        .optional()?;
    // An unreadable receipt must not count as missing: the request was answered.
    let read = |answers: String| serde_json::from_str(&answers).map_err(|error| unreadable(&error));
    Ok(answers.map(read).transpose()?)
}
