//! Enqueues jobs: each is accepted or refused by itself, and the batch stores a receipt.

use std::collections::{HashMap, VecDeque};

use windlass_core::clock::Timestamp;
use windlass_core::engine::Result;
use windlass_core::enqueue::{
    Accepted, EnqueueAnswer, EnqueueRequest, NewJob, QueueState, Refusal, RequestId, accept, repeated, told,
};
use windlass_core::job::{Counters, Job, JobId};
use windlass_core::key::{KeyVerdict, resolve};
use windlass_core::limits::{ENQUEUE_BATCH_MAX, RECEIPT_TTL};
use windlass_core::planted::{Bug, planted};

use super::state::{JobRow, Stage, State, TypeAt};
use crate::kit::check_batch_size;

impl State {
    pub(super) fn enqueue(&mut self, request: EnqueueRequest, now: Timestamp) -> Result<Vec<EnqueueAnswer>> {
        check_batch_size(ENQUEUE_BATCH_MAX, "jobs", request.jobs.len())?;
        if let Some(receipt) = self.receipts.find(request.request, now) {
            return Ok(repeated(receipt, request.jobs.len()));
        }
        let answers: Vec<_> = request.jobs.into_iter().map(|new| self.enqueue_one(new, now)).collect();
        self.receipts.keep(request.request, answers.clone(), now);
        Ok(answers)
    }

    pub(super) fn enqueue_one(&mut self, new: NewJob, now: Timestamp) -> EnqueueAnswer {
        let Some(type_at) = self.index.type_at(&new.job_type) else {
            return EnqueueAnswer::Refused(Refusal::UnknownType { job_type: new.job_type });
        };
        let verdict = self.verdict(&new, type_at, now);
        let accepted = match self.accept(&new, type_at, verdict, now) {
            Ok(accepted) => accepted,
            Err(why) => return EnqueueAnswer::Refused(why),
        };
        match verdict {
            KeyVerdict::Insert => EnqueueAnswer::New(self.insert(new, type_at, accepted, now)),
            KeyVerdict::Keep(id) => EnqueueAnswer::Duplicate(id),
            KeyVerdict::Replace(id) => {
                self.move_waiting(id, now, |job, _| renew(job, new, accepted));
                EnqueueAnswer::Replaced(id)
            }
            KeyVerdict::Revive(id) => {
                self.start_over(id, |job| renew(job, new, accepted));
                EnqueueAnswer::Revived(id)
            }
        }
    }

    fn accept(
        &self,
        new: &NewJob,
        type_at: TypeAt,
        verdict: KeyVerdict,
        now: Timestamp,
    ) -> std::result::Result<Accepted, Refusal> {
        self.accept_after(0, new, type_at, verdict, now)
    }

    /// Decides as `accept` does, if this number of other jobs had been enqueued into its queue before it.
    pub(super) fn accept_after(
        &self,
        before: u64,
        new: &NewJob,
        type_at: TypeAt,
        verdict: KeyVerdict,
        now: Timestamp,
    ) -> std::result::Result<Accepted, Refusal> {
        let queue = self.index.queue_of(type_at);
        let unfinished = queue.unfinished + before;
        let queue_state = QueueState { spec: &queue.spec, shut: queue.shut, unfinished };
        accept(new, Some(&self.index.type_row(type_at).spec), Some(queue_state), verdict, now)
    }

    fn verdict(&self, new: &NewJob, type_at: TypeAt, now: Timestamp) -> KeyVerdict {
        let Some(claim) = &new.key else { return KeyVerdict::Insert };
        let holder = self.key_holder(&(type_at, claim.key.clone()));
        resolve(holder.as_ref(), claim.on_conflict, now)
    }

    fn insert(&mut self, new: NewJob, type_at: TypeAt, accepted: Accepted, now: Timestamp) -> JobId {
        self.last_id += 1;
        let id = JobId(self.last_id);
        self.index.count(type_at, |totals| totals.enqueued += 1);
        self.begin(Box::new(JobRow {
            job: stored(id, new, accepted, now),
            type_at,
            stage: Stage::Waiting { gate: None },
            settled_by: None,
            last_error: None,
            attempts: VecDeque::new(),
        }));
        id
    }
}

fn stored(id: JobId, new: NewJob, accepted: Accepted, now: Timestamp) -> Job {
    Job {
        id,
        job_type: new.job_type,
        queue: accepted.queue,
        payload: new.payload,
        priority: accepted.priority,
        label: new.label,
        enqueued_at: now,
        due: accepted.due,
        expires_at: accepted.expires_at,
        key: new.key,
        ordering_key: new.ordering_key,
        fairness_key: new.fairness_key,
        correlation: new.correlation,
        provenance: new.provenance,
        tags: new.tags,
        group: new.group,
        retry: new.retry,
        timeout: new.timeout,
        counters: Counters::default(),
        progress: None,
    }
}

/// Replaces the job that holds the key of a new job.
fn renew(job: &mut Job, new: NewJob, accepted: Accepted) {
    job.payload = new.payload;
    job.due = accepted.due;
    job.priority = accepted.priority;
    job.label = new.label;
    job.expires_at = accepted.expires_at;
}

/// The answers of earlier requests, so that a repeat enqueues no second job.
#[derive(Debug, Default)]
pub(super) struct Receipts {
    by_request: HashMap<RequestId, Receipt>,
    /// In the order of their arrival.
    by_age: VecDeque<(Timestamp, RequestId)>,
}

#[derive(Debug)]
struct Receipt {
    at: Timestamp,
    answers: Vec<EnqueueAnswer>,
}

impl Receipts {
    /// Returns the answers of an earlier request. If there are none, stores a tombstone that closes the
    /// request for as long as a receipt is valid.
    pub(super) fn ask(&mut self, request: RequestId, now: Timestamp) -> Option<Vec<EnqueueAnswer>> {
        let answers = self.find(request, now).and_then(told);
        if answers.is_none() && !planted(Bug::LateRequestIsStored) {
            self.keep(request, Vec::new(), now);
        }
        answers
    }

    /// Returns the answers to a request; no answers if it was closed.
    pub(super) fn find(&self, request: RequestId, now: Timestamp) -> Option<Vec<EnqueueAnswer>> {
        let receipt = self.by_request.get(&request).filter(|receipt| !has_lapsed(receipt.at, now))?;
        Some(receipt.answers.clone())
    }

    fn keep(&mut self, request: RequestId, answers: Vec<EnqueueAnswer>, now: Timestamp) {
        self.by_request.insert(request, Receipt { at: now, answers });
        self.by_age.push_back((now, request));
    }

    /// Forgets old receipts, at most `limit`, and returns how many.
    pub(super) fn prune(&mut self, limit: usize, now: Timestamp) -> usize {
        let mut pruned = 0;
        while pruned < limit && self.has_old(now) {
            let Some((at, request)) = self.by_age.pop_front() else { break };
            // A request that was sent again after its receipt had lapsed has a younger one.
            if self.by_request.get(&request).is_some_and(|receipt| receipt.at == at) {
                self.by_request.remove(&request);
                pruned += 1;
            }
        }
        pruned
    }

    pub(super) fn has_old(&self, now: Timestamp) -> bool {
        self.by_age.front().is_some_and(|(at, _)| has_lapsed(*at, now))
    }
}

fn has_lapsed(at: Timestamp, now: Timestamp) -> bool {
    at.plus(RECEIPT_TTL) <= now
}
