//! Enqueues new jobs, each judged by itself, and stores a receipt for the batch. The rules of core that need
//! no store are applied here; the script checks keys and room.

use std::time::Duration;

use serde::Serialize;
use windlass_core::clock::Timestamp;
use windlass_core::enqueue::{
    Accepted, EnqueueAnswer, EnqueueRequest, NewJob, QueueState, Refusal, RequestId, When, accept, repeated,
    told,
};
use windlass_core::gate::Gate;
use windlass_core::job::JobId;
use windlass_core::key::{KeyScope, KeyVerdict, OnConflict};
use windlass_core::limits::{ENQUEUE_BATCH_MAX, RECEIPT_TTL};
use windlass_core::names::{FairnessKey, QueueName};

use crate::receipts::unreadable;

use super::Store;
use super::call::Args;
use super::catalogue::{Catalogue, TypeEntry};
use super::reply::text;
use super::row::body;
use super::script::Script;
use super::store_error::StoreResult;
use crate::kit::{check_batch_size, to_json};

impl Store {
    /// Stores a batch. Workers that wait for the queues in `notified` were notified already.
    pub(super) async fn enqueue(
        &self,
        request: EnqueueRequest,
        mut notified: Vec<QueueName>,
    ) -> StoreResult<Vec<EnqueueAnswer>> {
        check_batch_size(ENQUEUE_BATCH_MAX, "jobs", request.jobs.len())?;
        let bodies: Vec<_> = request.jobs.iter().map(body).collect();
        let build = |catalogue: &Catalogue| {
            let mut args = self.enqueue_args(&request, &bodies, catalogue);
            // If the script has to be sent again, a worker that was notified early has claimed too early, and
            // found nothing.
            args.notified(std::mem::take(&mut notified));
            Ok(args)
        };
        let reply = self.call_with_catalogue(&self.scripts().enqueue, build).await?;
        let answers = repeated(read_answers(&text(reply.value)?)?, request.jobs.len());
        reply.from.seen.jobs(answers.iter().filter_map(|answer| answer.job().ok()));
        Ok(answers)
    }

    fn enqueue_args(&self, request: &EnqueueRequest, bodies: &[String], catalogue: &Catalogue) -> Args {
        let now = self.estimated_now();
        let mut args = Args::new();
        args.text(&request.request.to_string()).number(micros(RECEIPT_TTL));
        limits(request.jobs.iter(), catalogue, &mut args);
        args.count(request.jobs.len());
        for (new, body) in request.jobs.iter().zip(bodies) {
            push_job(new, body, catalogue, now, &mut args);
        }
        args
    }

    /// The queues of jobs that can be claimed as soon as they are stored, as far as this process knows. Jobs
    /// that may not be claimable, because of their key, their ordering key or a pause, are left to the
    /// answer.
    pub(super) fn claimable(&self, jobs: &[NewJob]) -> Vec<QueueName> {
        let (catalogue, now) = (self.catalogue(), self.estimated_now());
        let mut queues: Vec<QueueName> = Vec::new();
        for new in
            jobs.iter().filter(|new| new.when == When::Now && new.key.is_none() && new.ordering_key.is_none())
        {
            let Some(entry) = catalogue.type_named(&new.job_type) else { continue };
            let queue = &entry.spec.queue;
            let is_open = catalogue.queue(queue).is_some_and(|queue| queue.pause.is_none());
            if is_open && !queues.contains(queue) && judge(new, Some(entry), &catalogue, now).is_ok() {
                queues.push(queue.clone());
            }
        }
        queues
    }

    pub(super) async fn receipt(&self, request: RequestId) -> StoreResult<Option<Vec<EnqueueAnswer>>> {
        self.find_receipt(&self.scripts().receipt, request).await
    }

    /// Returns the answers of an earlier request. If there are none, closes the request.
    pub(super) async fn ask(&self, request: RequestId) -> StoreResult<Option<Vec<EnqueueAnswer>>> {
        self.find_receipt(&self.scripts().ask, request).await
    }

    async fn find_receipt(
        &self,
        script: &Script,
        request: RequestId,
    ) -> StoreResult<Option<Vec<EnqueueAnswer>>> {
        let mut args = Args::new();
        args.text(&request.to_string()).number(micros(RECEIPT_TTL));
        Ok(told(read_answers(&text(self.call(script, args).await?.value)?)?))
    }
}

/// Adds how many jobs the queues of a batch accept, for queues with a limit.
pub(super) fn limits<'a>(jobs: impl Iterator<Item = &'a NewJob>, catalogue: &Catalogue, args: &mut Args) {
    let types = jobs.filter_map(|new| catalogue.type_named(&new.job_type));
    let mut queues: Vec<_> = types.filter_map(|entry| catalogue.queue(&entry.spec.queue)).collect();
    queues.retain(|queue| queue.spec.capacity.is_some());
    queues.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
    queues.dedup_by(|a, b| a.spec.name == b.spec.name);
    args.count(queues.len());
    for queue in queues {
        let (name, capacity) = (queue.spec.name.clone(), queue.spec.capacity.unwrap_or_default());
        let types = catalogue.types_of(&name);
        args.text(&capacity.to_string()).text(&to_json(&Refusal::QueueFull { queue: name, capacity }));
        args.count(types.len());
        types.iter().for_each(|entry| _ = args.number(entry.number.into()));
    }
}

/// The special properties of a new job. Most jobs have none.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Special<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    conflict: Option<char>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ordering_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fairness_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    room_first: Option<bool>,
}

/// Adds the arguments of one new job.
pub(super) fn push_job(new: &NewJob, body: &str, catalogue: &Catalogue, now: Timestamp, args: &mut Args) {
    let entry = catalogue.type_named(&new.job_type).map(|entry| &**entry);
    let judged = judge(new, entry, catalogue, now);
    let mut special = Special {
        key: new.key.as_ref().map(|claim| claim.key.as_str()),
        scope: new.key.as_ref().map(|claim| scope(claim.scope)),
        conflict: new.key.as_ref().map(|claim| conflict(claim.on_conflict)),
        ordering_key: new
            .ordering_key
            .as_ref()
            .map(|ordering_key| Gate::ordering_key(&new.job_type, ordering_key).to_string()),
        group: new.group.as_ref().map(|group| group.as_str()),
        fairness_key: new.fairness_key.as_ref().map(FairnessKey::as_str),
        expires: new.expires.map(when),
        ..Special::default()
    };
    if let Err(why) = &judged {
        special.refused = Some(to_json(why));
        special.room_first = Some(comes_after_room(why));
    }
    let head = entry.map(|entry| head(entry, judged.as_ref().ok()));
    args.bytes(head.as_ref().map_or(&[], |head| head.as_slice())).text(&when(new.when)).text(body);
    let special = if special == Special::default() { String::new() } else { to_json(&special) };
    args.text(&special);
}

/// Core's decision, except for key and room, which only the script can check.
fn judge(
    new: &NewJob,
    entry: Option<&TypeEntry>,
    catalogue: &Catalogue,
    now: Timestamp,
) -> Result<Accepted, Refusal> {
    let queue = entry.and_then(|entry| catalogue.queue(&entry.spec.queue));
    entry.map_or(Ok(()), |entry| entry.spec.checked().map(|_| ()))?;
    queue.map_or(Ok(()), |queue| queue.spec.checked().map(|_| ()))?;
    let queue_state = queue.map(|queue| QueueState { spec: &queue.spec, shut: queue.shut, unfinished: 0 });
    // A job that is kept needs no room, so core does not check it.
    accept(new, entry.map(|entry| &*entry.spec), queue_state, KeyVerdict::Keep(JobId(0)), now)
}

/// Whether core checks the room of a queue before it refuses a job for this reason.
fn comes_after_room(why: &Refusal) -> bool {
    !matches!(
        why,
        Refusal::UnknownType { .. }
            | Refusal::OtherQueue { .. }
            | Refusal::UnknownQueue { .. }
            | Refusal::QueueShut { .. }
            | Refusal::Unreadable(_)
    )
}

/// Type and priority, in the form in which a job's state contains them.
fn head(entry: &TypeEntry, accepted: Option<&Accepted>) -> [u8; 5] {
    let [a, b, c, d] = entry.number.to_be_bytes();
    [a, b, c, d, accepted.map_or(0, |accepted| accepted.priority.level())]
}

fn when(when: When) -> String {
    match when {
        When::Now => String::new(),
        When::In(span) => format!("+{}", micros(span)),
        When::At(instant) => format!("@{}", instant.as_micros()),
    }
}

fn scope(scope: KeyScope) -> String {
    match scope {
        KeyScope::WhileLive => "l".to_owned(),
        KeyScope::WhileLiveOrDead => "d".to_owned(),
        KeyScope::For(period) => format!("p{}", micros(period)),
    }
}

fn conflict(on_conflict: OnConflict) -> char {
    match on_conflict {
        OnConflict::Keep => 'k',
        OnConflict::Replace => 'r',
        OnConflict::Revive => 'v',
    }
}

/// A span in microseconds, limited to numbers that a script can count exactly.
pub(super) fn micros(span: Duration) -> i64 {
    const COUNTED_MAX: i64 = 1 << 52;
    i64::try_from(span.as_micros()).unwrap_or(COUNTED_MAX).min(COUNTED_MAX)
}

/// Reads the answers of a batch as `enqueue.lua` writes them. It wrote them with the jobs, now or in an
/// earlier call.
pub(super) fn read_answers(text: &str) -> StoreResult<Vec<EnqueueAnswer>> {
    let mut answers = Vec::new();
    for line in text.lines() {
        let cause = "expected the answer to an enqueue, got something else";
        read_line(line, &mut answers).ok_or_else(|| unreadable(&cause))?;
    }
    Ok(answers)
}

fn read_line(line: &str, answers: &mut Vec<EnqueueAnswer>) -> Option<()> {
    let (kind, rest) = line.split_at_checked(1)?;
    if kind == "x" {
        answers.push(EnqueueAnswer::Refused(serde_json::from_str(rest).ok()?));
        return Some(());
    }
    let (first, count) = rest.split_once('+').unwrap_or((rest, "1"));
    let (first, count): (i64, usize) = (first.parse().ok()?, count.parse().ok()?);
    let count = Some(count).filter(|count| (1..=ENQUEUE_BATCH_MAX).contains(count))?;
    let end = first.checked_add(i64::try_from(count).ok()?)?;
    let answer: fn(JobId) -> EnqueueAnswer = match kind {
        "n" => EnqueueAnswer::New,
        "k" => EnqueueAnswer::Duplicate,
        "r" => EnqueueAnswer::Replaced,
        "v" => EnqueueAnswer::Revived,
        _ => return None,
    };
    answers.extend((first..end).map(|id| answer(JobId(id))));
    Some(())
}
