//! Claims: a live worker gets ready jobs, in the order that core defines.

use std::collections::BTreeMap;
use std::time::Duration;

use windlass_core::claim::{ClaimAnswer, ClaimRequest, Claimed, NextDue, Suspects};
use windlass_core::clock::Timestamp;
use windlass_core::job::{EXPIRED_REASON, JobId};
use windlass_core::limits::{CLAIM_BATCH_MAX, QUEUES_PER_CLAIM_MAX};
use windlass_core::names::{QueueName, TypeName};
use windlass_core::settle::{AttemptReport, Transition};

use super::Store;
use super::call::Args;
use super::catalogue::{Catalogue, QueueEntry};
use super::reply::{Reply, ReplyReader};
use super::row::{Row, damaged};
use super::script::TYPES_PER_CALL;
use super::store_error::StoreResult;
use crate::kit::check_batch_size;

/// The maximum number of types that one script reads. If a worker handles more, jobs are ordered only within
/// each such part.
const TYPES_PER_CLAIM: usize = 500;

impl Store {
    pub(super) async fn claim(&self, request: ClaimRequest) -> StoreResult<ClaimAnswer> {
        check_batch_size(QUEUES_PER_CLAIM_MAX, "queues", request.queues.len())?;
        if request.repeat {
            return self.repeat_claim(request).await;
        }
        self.record_claim(&request);
        if request.types.len() <= TYPES_PER_CLAIM {
            let build = |catalogue: &Catalogue| Ok(claim_args(&request, catalogue));
            let reply = self.call_with_catalogue(&self.scripts().claim, build).await?;
            return Ok(self.read_claim(reply, &request.queues).await?.0);
        }
        self.claim_in_parts(request).await
    }

    /// Claims jobs of more types than one script reads: some types at a time, until there are enough jobs.
    /// All parts have one token.
    async fn claim_in_parts(&self, mut request: ClaimRequest) -> StoreResult<ClaimAnswer> {
        let (mut all, mut ahead) = (Vec::new(), NextDue::default());
        let mut types = std::mem::take(&mut request.types);
        // The first part changes, so that no part waits for ever.
        let parts = types.len().div_ceil(TYPES_PER_CLAIM);
        types.rotate_left(fastrand::usize(..parts) * TYPES_PER_CLAIM);
        for part in types.chunks(TYPES_PER_CLAIM) {
            let part = ClaimRequest { types: part.to_vec(), ..request.clone() };
            let (jobs, peek) = match Box::pin(self.claim(part)).await {
                Ok(ClaimAnswer::Claimed { jobs, peek }) => (jobs, peek),
                Ok(ClaimAnswer::WorkerDead) if all.is_empty() => return Ok(ClaimAnswer::WorkerDead),
                Err(fault) if all.is_empty() => return Err(fault),
                // Jobs that were claimed must be returned.
                Ok(ClaimAnswer::WorkerDead) | Err(_) => break,
            };
            let boosted = jobs.iter().filter(|claimed| claimed.boosted).count();
            request.boosted_max =
                request.boosted_max.saturating_sub(u32::try_from(boosted).unwrap_or(u32::MAX));
            request.limit = request.limit.saturating_sub(u32::try_from(jobs.len()).unwrap_or(u32::MAX));
            all.extend(jobs);
            ahead = both(ahead, peek);
            if request.limit == 0 {
                // Types that were not read may have due jobs.
                ahead.more_due = true;
                break;
            }
        }
        Ok(ClaimAnswer::Claimed { jobs: all, peek: ahead })
    }

    /// Returns the jobs that an earlier request of a claim has claimed. Its worker may hold very many jobs,
    /// so they are read page by page.
    async fn repeat_claim(&self, request: ClaimRequest) -> StoreResult<ClaimAnswer> {
        let mut cursor = "0".to_owned();
        let mut all: BTreeMap<JobId, Claimed> = BTreeMap::new();
        loop {
            let build = |catalogue: &Catalogue| Ok(repeat_args(&request, &cursor, catalogue));
            let reply = self.call_with_catalogue(&self.scripts().repeat_claim, build).await?;
            let (answer, next) = self.read_claim(reply, &request.queues).await?;
            let ClaimAnswer::Claimed { jobs, peek } = answer else { return Ok(answer) };
            // A page may contain jobs of another page.
            all.extend(jobs.into_iter().map(|claimed| (claimed.job.id, claimed)));
            if next == "0" {
                let mut jobs: Vec<_> = all.into_values().collect();
                jobs.sort_by_key(|claimed| (claimed.job.priority, claimed.job.due, claimed.job.id));
                return Ok(ClaimAnswer::Claimed { jobs, peek });
            }
            cursor = next;
        }
    }

    /// The outcome of a claim, and the cursor from which a repeat goes on.
    async fn read_claim(&self, reply: Reply, queues: &[QueueName]) -> StoreResult<(ClaimAnswer, String)> {
        let mut answer = ReplyReader::of(reply.value)?;
        if answer.flag()? {
            return Ok((ClaimAnswer::WorkerDead, String::new()));
        }
        let catalogue = reply.from.catalogue.clone();
        let jobs = self.hand_out(answer.list()?, &catalogue, reply.now).await?;
        reply.from.seen.jobs(jobs.iter().map(|claimed| claimed.job.id));
        let peek = read_next_due(answer.list()?, reply.now)?;
        let peek = peek.with_ends_of_pauses(ends_of_pauses(queues, &catalogue), reply.now);
        Ok((ClaimAnswer::Claimed { jobs, peek }, answer.text()?))
    }

    /// Returns the claimed jobs as their worker gets them. Damaged jobs are buried, as core decides for jobs
    /// that cannot be read.
    async fn hand_out(
        &self,
        mut rows: ReplyReader,
        catalogue: &Catalogue,
        now: Timestamp,
    ) -> StoreResult<Vec<Claimed>> {
        let (mut jobs, mut damaged_jobs) = (Vec::new(), Vec::new());
        while !rows.is_empty() {
            let row = Row::take(&mut rows)?;
            let Some(claimed) = claimed(&row, catalogue, now) else { continue };
            match row.damage(catalogue) {
                None => jobs.push(claimed),
                Some(what) => {
                    let transition = Transition::Bury { error: damaged(what) };
                    damaged_jobs.push(claimed.settled(transition, AttemptReport::default()));
                }
            }
        }
        if !damaged_jobs.is_empty()
            && let Err(fault) = self.settle(damaged_jobs).await
        {
            // The damaged jobs stay with this worker, and keep no other worker waiting.
            tracing::error!(error = ?fault, "burying damaged jobs failed; they stay with this worker");
        }
        Ok(jobs)
    }

    pub(super) async fn peek(
        &self,
        queues: Vec<QueueName>,
        types: Vec<TypeName>,
    ) -> StoreResult<Vec<(QueueName, NextDue)>> {
        check_batch_size(QUEUES_PER_CLAIM_MAX, "queues", queues.len())?;
        let mut ahead = vec![NextDue::default(); queues.len()];
        let mut parts: Vec<_> = types.chunks(TYPES_PER_CALL).collect();
        if parts.is_empty() {
            parts.push(&[]);
        }
        for types in parts {
            for (known, peek) in ahead.iter_mut().zip(self.peek_part(&queues, types).await?) {
                *known = both(*known, peek);
            }
        }
        Ok(queues.into_iter().zip(ahead).collect())
    }

    async fn peek_part(&self, queues: &[QueueName], types: &[TypeName]) -> StoreResult<Vec<NextDue>> {
        let build = |catalogue: &Catalogue| {
            let mut args = Args::new();
            queue_args(queues, types, catalogue, &mut args);
            Ok(args)
        };
        let reply = self.call_with_catalogue(&self.scripts().peek, build).await?;
        let catalogue = self.catalogue();
        let mut answers = ReplyReader::of(reply.value)?;
        let look = |queue: &QueueName| {
            let peek = read_next_due(answers.list()?, reply.now)?;
            let ends = ends_of_pauses(std::slice::from_ref(queue), &catalogue);
            Ok(peek.with_ends_of_pauses(ends, reply.now))
        };
        queues.iter().map(look).collect()
    }
}

/// Combines the next due jobs of two parts.
fn both(one: NextDue, other: NextDue) -> NextDue {
    NextDue {
        more_due: one.more_due || other.more_due,
        next_due_in: one.next_due_in.into_iter().chain(other.next_due_in).min(),
        suspect_due: one.suspect_due || other.suspect_due,
    }
}

fn repeat_args(request: &ClaimRequest, cursor: &str, catalogue: &Catalogue) -> Args {
    let mut args = Args::new();
    args.bytes(&request.token.to_bytes()).bytes(&request.worker.to_bytes()).text(cursor);
    // With very many types, the next claim peeks at the rest.
    let types = &request.types[..request.types.len().min(TYPES_PER_CLAIM)];
    queue_args(&request.queues, types, catalogue, &mut args);
    args
}

fn claim_args(request: &ClaimRequest, catalogue: &Catalogue) -> Args {
    let mut args = Args::new();
    args.bytes(&request.token.to_bytes()).bytes(&request.worker.to_bytes());
    args.number(request.limit.min(CLAIM_BATCH_MAX).into()).number(request.boosted_max.into());
    match request.suspects {
        Suspects::LeaveOut => args.text(""),
        Suspects::One { crashes_max } => args.number(crashes_max.into()),
    };
    args.text(EXPIRED_REASON);
    queue_args(&request.queues, &request.types, catalogue, &mut args);
    args
}

/// Adds each queue with its pause and its requested types, each once.
fn queue_args(queues: &[QueueName], types: &[TypeName], catalogue: &Catalogue, args: &mut Args) {
    let mut asked: Vec<_> = types.iter().filter_map(|name| catalogue.type_named(name)).collect();
    asked.sort_by_key(|entry| entry.number);
    asked.dedup_by_key(|entry| entry.number);
    args.count(queues.len());
    for name in queues {
        let of_queue: Vec<_> = asked.iter().filter(|entry| entry.spec.queue == *name).collect();
        args.text(name.as_str()).text(&pause(catalogue.queue(name))).count(of_queue.len());
        of_queue.iter().for_each(|entry| _ = args.number(entry.number.into()));
    }
}

fn pause(queue: Option<&QueueEntry>) -> String {
    match queue.and_then(|queue| queue.pause.as_ref()) {
        None => String::new(),
        Some(pause) => pause.until.map_or_else(|| "open".to_owned(), |until| until.as_micros().to_string()),
    }
}

/// When the pauses of these queues end by themselves.
fn ends_of_pauses(queues: &[QueueName], catalogue: &Catalogue) -> impl Iterator<Item = Timestamp> {
    queues.iter().filter_map(|name| catalogue.queue(name)?.pause.as_ref()?.until)
}

/// A running job as its worker gets it.
fn claimed(row: &Row, catalogue: &Catalogue, now: Timestamp) -> Option<Claimed> {
    let claim = row.state.claim?;
    let job = row.job(catalogue);
    Some(Claimed {
        token: claim.token,
        waited: job.waited(claim.since),
        age: job.age(now),
        boosted: row.state.boosted(),
        job,
    })
}

fn read_next_due(mut answer: ReplyReader, now: Timestamp) -> StoreResult<NextDue> {
    let more_due = answer.flag()?;
    let next = answer.number_or_none()?.map(Timestamp::from_micros);
    let next_due_in: Option<Duration> = next.map(|due| due.since(now));
    Ok(NextDue { more_due, next_due_in, suspect_due: answer.flag()? })
}
