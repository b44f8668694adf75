//! Enqueues jobs: each is judged by itself, and the batch leaves a receipt. Jobs without keys take one
//! statement. Keys need a query for their holders, and ordering keys a mark, so they take a transaction
//! ([`key`](super::key)).

use std::collections::{BTreeMap, BTreeSet};

use tokio_postgres::Row;
use windlass_core::clock::Timestamp;
use windlass_core::engine::Hint;
use windlass_core::enqueue::{
    Accepted, EnqueueAnswer, EnqueueRequest, NewJob, QueueState, Refusal, RequestId, When, accept, repeated,
    told,
};
use windlass_core::error::EngineError;
use windlass_core::job::JobId;
use windlass_core::key::KeyVerdict;
use windlass_core::limits::{ENQUEUE_BATCH_MAX, RECEIPT_TTL};
use windlass_core::names::QueueName;

use crate::receipts::unreadable;

use super::Store;
use super::catalogue::Catalogue;
use super::counts::Depths;
use super::fairness_keys::NewLines;
use super::store_error::{StoreError, StoreResult, despite_deadlocks};
use super::value::{
    Bits, Instant, Param, flag, instant, instants, levels, maybe, micros, number, numbers, small_numbers,
    text, texts, uuid,
};
use crate::kit::{JobOptions, check_batch_size, to_json};

/// How often a request is judged again because queues or types changed meanwhile.
const JUDGED_MAX: u32 = 10;

/// Jobs of a request that the server refuses, by position.
pub(super) type Unstorable = BTreeMap<usize, Refusal>;

/// The result of one try to store a batch.
pub(super) enum Tried {
    Stored(Vec<EnqueueAnswer>),
    /// The request was answered before.
    Repeated,
    /// Queues or types have changed since the request was judged.
    Stale,
}

impl Store {
    pub(super) async fn enqueue(&self, request: EnqueueRequest) -> StoreResult<Vec<EnqueueAnswer>> {
        check_batch_size(ENQUEUE_BATCH_MAX, "jobs", request.jobs.len())?;
        let mut unstorable = Unstorable::new();
        for _ in 0..JUDGED_MAX {
            match self.try_despite_deadlocks(&request, &unstorable).await {
                Ok(Tried::Stored(answers)) => return Ok(answers),
                Ok(Tried::Repeated) => {
                    let receipt = self.receipt_left(request.request).await?;
                    return Ok(repeated(receipt, request.jobs.len()));
                }
                Ok(Tried::Stale) => self.reload().await?,
                Err(fault) if fault.is_about_data() && unstorable.is_empty() => {
                    unstorable = self.find_unstorable(&request).await?;
                    if unstorable.is_empty() {
                        return Err(fault);
                    }
                }
                Err(fault) => return Err(fault),
            }
        }
        let why =
            "queues and types keep changing; wait until the processes that declare them are done".to_owned();
        Err(EngineError::Unavailable { why }.into())
    }

    /// Tries the jobs part by part, without leaving anything behind, until each job that the server refuses
    /// is alone. A check or a trigger that a user has added to our tables refuses that job, and not its
    /// neighbours.
    async fn find_unstorable(&self, request: &EnqueueRequest) -> StoreResult<Unstorable> {
        let mut unstorable = Unstorable::new();
        let whole = 0..request.jobs.len();
        let mut parts = vec![whole];
        while let Some(part) = parts.pop() {
            let jobs = request.jobs[part.clone()].to_vec();
            match self.try_out(EnqueueRequest { request: request.request, jobs }).await {
                Err(fault) if fault.is_about_data() && part.len() == 1 => {
                    let why = format!("the store refused its row: {}", EngineError::from(fault));
                    unstorable.insert(part.start, Refusal::Malformed { why });
                }
                Err(fault) if fault.is_about_data() => {
                    let middle = part.start + part.len() / 2;
                    parts.extend([part.start..middle, middle..part.end]);
                }
                tried => tried?,
            }
        }
        Ok(unstorable)
    }

    /// Tries again after a deadlock. Our own requests lock in one order; the application's transactions
    /// need not. The server has rolled back the ended try, and the next one waits behind the transaction
    /// that went on. The receipt makes sure that no try happens twice.
    async fn try_despite_deadlocks(
        &self,
        request: &EnqueueRequest,
        unstorable: &Unstorable,
    ) -> StoreResult<Tried> {
        despite_deadlocks("an enqueue", || self.try_enqueue(request, unstorable)).await
    }

    async fn try_enqueue(&self, request: &EnqueueRequest, unstorable: &Unstorable) -> StoreResult<Tried> {
        self.record_fairness_keys_of(&request.jobs).await;
        let catalogue = self.catalogue();
        let tried = if request.jobs.iter().any(|new| new.key.is_some() || new.ordering_key.is_some()) {
            self.enqueue_keyed(request, &catalogue, unstorable).await?
        } else {
            self.enqueue_plain(request, &catalogue, unstorable).await?
        };
        if let Tried::Stored(answers) = &tried {
            self.notify_of_new(&request.jobs, answers, &catalogue);
        }
        Ok(tried)
    }

    async fn enqueue_plain(
        &self,
        request: &EnqueueRequest,
        catalogue: &Catalogue,
        unstorable: &Unstorable,
    ) -> StoreResult<Tried> {
        let mut depths = self.depths(&request.jobs, catalogue).await?;
        let now = self.estimated_now();
        let judged: Vec<_> = (0..)
            .zip(&request.jobs)
            .map(|(position, new)| match unstorable.get(&position) {
                Some(refusal) => Err(refusal.clone()),
                None => judge(new, catalogue, KeyVerdict::Insert, &mut depths, now),
            })
            .collect();
        let mut columns = Columns::default();
        for (new, judgement) in request.jobs.iter().zip(&judged) {
            if let Ok(accepted) = judgement {
                columns.push(new, accepted, catalogue);
            }
        }
        let refused = refusals(&judged);
        let answers = (!refused.iter().all(Option::is_none)).then(|| to_json(&refused));
        let quiet = columns.wake_only_this_process(self);
        let (now, name) = (self.now_param(), Bits::from(request.request));
        let head: [Param<'_>; 5] =
            [instant(&now), uuid(&name), number(&catalogue.version), text(&answers), flag(&quiet)];
        let params: Vec<_> = head.into_iter().chain(columns.params()).collect();
        let rows = self.work.get().await?.execute(&self.sql.enqueue, &params).await?;
        let tried = self.read_enqueued(&rows, catalogue, refused, depths)?;
        if matches!(tried, Tried::Stored(_)) {
            self.claim_cursors().found_fairness_keys(&columns.lines);
        }
        Ok(tried)
    }

    fn read_enqueued(
        &self,
        rows: &[Row],
        catalogue: &Catalogue,
        refused: Vec<Option<EnqueueAnswer>>,
        depths: Depths,
    ) -> StoreResult<Tried> {
        let Some(row) = rows.first() else { return Ok(Tried::Stale) };
        let (version, stored): (i64, bool) = (row.try_get(0)?, row.try_get(1)?);
        if version != catalogue.version {
            return Ok(Tried::Stale);
        }
        if !stored {
            return Ok(Tried::Repeated);
        }
        self.remember_depths(depths);
        let ids: Vec<i64> = row.try_get::<_, Option<_>>(2)?.unwrap_or_default();
        Ok(Tried::Stored(fill(refused, ids)))
    }

    /// The answers of an earlier request, if its receipt is still valid.
    pub(super) async fn receipt(&self, request: RequestId) -> StoreResult<Option<Vec<EnqueueAnswer>>> {
        Ok(self.find_receipt(request).await?.and_then(told))
    }

    /// Returns the answers of an earlier request. If there are none, it closes the request.
    pub(super) async fn ask(&self, request: RequestId) -> StoreResult<Option<Vec<EnqueueAnswer>>> {
        let (now, name) = (self.now_param(), Bits::from(request));
        let params = [instant(&now), uuid(&name)];
        let closed = self.work.get().await?.execute(&self.sql.close_request, &params).await;
        let closed = closed.map_err(request_is_held)?;
        if !closed.is_empty() {
            return Ok(None);
        }
        // Read by a statement of its own: the one before may have waited for the transaction that left the
        // receipt.
        Ok(told(self.receipt_left(request).await?))
    }

    /// The answers to a request, if its receipt is still valid; an empty list if the request was closed.
    async fn find_receipt(&self, request: RequestId) -> StoreResult<Option<Vec<EnqueueAnswer>>> {
        let (now, name, ttl) = (self.now_param(), Bits::from(request), micros(RECEIPT_TTL));
        let params = [instant(&now), uuid(&name), number(&ttl)];
        let rows = self.work.get().await?.query(&self.sql.find_receipt, &params).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let ids: Option<Vec<i64>> = row.try_get(0)?;
        let answers: Option<&str> = row.try_get(1)?;
        Ok(Some(read_receipt(ids.unwrap_or_default(), answers)?))
    }

    /// The receipt that was in the way of a statement.
    async fn receipt_left(&self, request: RequestId) -> StoreResult<Vec<EnqueueAnswer>> {
        let receipt = self.find_receipt(request).await?;
        receipt.ok_or_else(|| {
            let why = "this request was answered more than an hour ago; make a new request id".to_owned();
            EngineError::Refused(why).into()
        })
    }

    /// Notifies the workers of this process that serve the queues of new jobs.
    pub(super) fn notify_of_new(&self, jobs: &[NewJob], answers: &[EnqueueAnswer], catalogue: &Catalogue) {
        let stored =
            jobs.iter().zip(answers).filter(|(_, answer)| !matches!(answer, EnqueueAnswer::Refused(_)));
        let mut queues = BTreeSet::new();
        for (new, _) in stored {
            let Some(spec) = catalogue.type_named(&new.job_type) else { continue };
            queues.insert(&spec.queue);
            if matches!(new.when, When::At(due) if due < self.estimated_now()) {
                // The job lies behind the claim cursors.
                self.claim_cursors().notified(&spec.queue);
            }
        }
        queues.into_iter().for_each(|queue| self.listeners.tell(&Hint::Queue(queue.clone())));
    }
}

/// The error when an open transaction holds the request for longer than the lock timeout, which says
/// nothing of the store.
fn request_is_held(fault: StoreError) -> StoreError {
    if !fault.is_locked() {
        return fault;
    }
    let why = "another open transaction has enqueued under this request id; ask again when it has ended";
    EngineError::Busy { why: why.to_owned() }.into()
}

/// Core's decision on a new job.
pub(super) fn judge(
    new: &NewJob,
    catalogue: &Catalogue,
    verdict: KeyVerdict,
    depths: &mut Depths,
    now: Timestamp,
) -> Result<Accepted, Refusal> {
    let spec = catalogue.type_named(&new.job_type);
    let queue = spec.and_then(|spec| catalogue.queue(&spec.queue));
    spec.map_or(Ok(()), |spec| spec.checked().map(|_| ()))?;
    queue.map_or(Ok(()), |queue| queue.spec.checked().map(|_| ()))?;
    let queue_state = queue.map(|queue| QueueState {
        spec: &queue.spec,
        shut: queue.shut,
        unfinished: depths.of(&queue.spec.name),
    });
    let accepted = accept(new, spec.map(|spec| &**spec), queue_state, verdict, now)?;
    if matches!(verdict, KeyVerdict::Insert | KeyVerdict::Revive(_)) {
        depths.add(&accepted.queue);
    }
    Ok(accepted)
}

/// The refusals by position, with gaps for accepted jobs.
fn refusals(judged: &[Result<Accepted, Refusal>]) -> Vec<Option<EnqueueAnswer>> {
    judged.iter().map(|judgement| judgement.as_ref().err().cloned().map(EnqueueAnswer::Refused)).collect()
}

/// Fills the gaps with new jobs, in order.
fn fill(answers: Vec<Option<EnqueueAnswer>>, ids: Vec<i64>) -> Vec<EnqueueAnswer> {
    let mut ids = ids.into_iter();
    let next =
        |answer: Option<EnqueueAnswer>| answer.or_else(|| Some(EnqueueAnswer::New(JobId(ids.next()?))));
    answers.into_iter().filter_map(next).collect()
}

fn read_receipt(ids: Vec<i64>, answers: Option<&str>) -> StoreResult<Vec<EnqueueAnswer>> {
    let Some(answers) = answers else {
        return Ok(ids.into_iter().map(|id| EnqueueAnswer::New(JobId(id))).collect());
    };
    // A receipt that cannot be read must not pass for one without answers.
    let answers =
        serde_json::from_str::<Vec<Option<EnqueueAnswer>>>(answers).map_err(|error| unreadable(&error))?;
    let (gaps, found) = (answers.iter().filter(|answer| answer.is_none()).count(), ids.len());
    if gaps != found {
        let cause = format!("expected the ids of {gaps} new jobs, got {found}");
        return Err(unreadable(&cause).into());
    }
    Ok(fill(answers, ids))
}

/// New jobs, column by column.
#[derive(Debug, Default)]
pub(super) struct Columns {
    pub(super) queues: Vec<QueueName>,
    queue_texts: Vec<String>,
    types: Vec<String>,
    priorities: Vec<i16>,
    payloads: Vec<String>,
    due_at: Vec<Option<Instant>>,
    due_in: Vec<Option<i64>>,
    expires_at: Vec<Option<Instant>>,
    expires_in: Vec<Option<i64>>,
    correlations: Vec<Option<String>>,
    groups: Vec<Option<String>>,
    tags: Vec<Option<String>>,
    options: Vec<Option<String>>,
    max_attempts: Vec<i32>,
    /// Its length reaches only to the last job that has one.
    fairness_keys: Vec<Option<String>>,
    /// The fairness keys of the jobs.
    pub(super) lines: NewLines,
}

impl Columns {
    /// Whether all of them wake only this very process.
    fn wake_only_this_process(&self, store: &Store) -> bool {
        self.queues.iter().zip(&self.types).all(|(queue, job_type)| store.wakes_itself(queue, job_type))
    }

    pub(super) fn push(&mut self, new: &NewJob, accepted: &Accepted, catalogue: &Catalogue) {
        let own = |name: &dyn ToString| name.to_string();
        self.queue_texts.push(accepted.queue.to_string());
        self.queues.push(accepted.queue.clone());
        self.types.push(new.job_type.to_string());
        self.priorities.push(accepted.priority.level().into());
        self.payloads.push(new.payload.as_str().to_owned());
        let (at, in_micros) = when(new.when);
        self.due_at.push(at);
        self.due_in.push(in_micros);
        let (at, in_micros) = new.expires.map_or((None, None), when);
        self.expires_at.push(at);
        self.expires_in.push(in_micros);
        self.correlations.push(new.correlation.as_ref().map(|name| own(name)));
        self.groups.push(new.group.as_ref().map(|name| own(name)));
        self.tags.push((!new.tags.is_empty()).then(|| to_json(&new.tags)));
        self.options.push(JobOptions::of(new).to_column());
        self.push_fairness_key(new, accepted, catalogue);
        let policy =
            new.retry.as_ref().or_else(|| catalogue.type_named(&new.job_type).map(|spec| &spec.retry));
        self.max_attempts.push(policy.map_or(5, |policy| super::value::int4(policy.attempts_max())));
    }

    /// Adds the fairness key of a job. Where jobs have fairness keys, a job without one gets the empty one,
    /// under which such jobs are found together.
    fn push_fairness_key(&mut self, new: &NewJob, accepted: &Accepted, catalogue: &Catalogue) {
        let has_line = new.fairness_key.is_some() || catalogue.has_fairness_keys(&accepted.queue);
        if has_line {
            self.fairness_keys.resize(self.types.len() - 1, None);
            self.fairness_keys
                .push(Some(new.fairness_key.as_ref().map_or_else(String::new, ToString::to_string)));
        }
        if has_line && new.when == When::Now {
            self.lines.push((accepted.queue.clone(), accepted.priority, new.fairness_key.clone()));
        }
    }

    /// The values by position, in the order of the statements that take them.
    pub(super) fn params(&self) -> impl Iterator<Item = Param<'_>> {
        [
            texts(&self.queue_texts),
            texts(&self.types),
            levels(&self.priorities),
            texts(&self.payloads),
            instants(&self.due_at),
            numbers(&self.due_in),
            instants(&self.expires_at),
            numbers(&self.expires_in),
            texts(&self.correlations),
            texts(&self.groups),
            texts(&self.tags),
            texts(&self.options),
            small_numbers(&self.max_attempts),
            texts(&self.fairness_keys),
        ]
        .into_iter()
    }
}

/// Splits a time into an instant that a caller gave, or a span to be counted from the store's now.
fn when(when: When) -> (Option<Instant>, Option<i64>) {
    match when {
        When::Now => (None, Some(0)),
        When::In(span) => (None, Some(micros(span))),
        When::At(instant) => (maybe(Some(instant)), None),
    }
}
