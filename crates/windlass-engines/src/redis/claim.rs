//! Claims: ready jobs go to a live worker, in the order that core gives.

use std::time::Duration;

use windlass_core::claim::{ClaimAnswer, ClaimRequest, Claimed, Outlook, Suspects};
use windlass_core::clock::Timestamp;
use windlass_core::job::EXPIRED_REASON;
use windlass_core::limits::{CLAIM_BATCH_MAX, QUEUES_PER_CLAIM_MAX};
use windlass_core::names::{QueueName, TypeName};
use windlass_core::settle::{AttemptReport, Transition};

use super::call::Args;
use super::catalogue::{Catalogue, QueueEntry};
use super::fault::Step;
use super::reply::Items;
use super::row::{Row, damaged};
use super::{Store, refuse_over};

impl Store {
    pub(super) async fn claim(&self, request: ClaimRequest) -> Step<ClaimAnswer> {
        refuse_over(QUEUES_PER_CLAIM_MAX, "queues", request.queues.len())?;
        let build = |catalogue: &Catalogue| Ok(claim_args(&request, catalogue));
        let reply = self.call_with_catalogue(&self.scripts().claim, build).await?;
        let mut answer = Items::of(reply.value)?;
        if answer.flag()? {
            return Ok(ClaimAnswer::WorkerDead);
        }
        let catalogue = reply.from.catalogue.clone();
        let mut jobs = self.hand_out(answer.list()?, &catalogue, reply.now).await?;
        reply.from.seen.jobs(jobs.iter().map(|claimed| claimed.job.id));
        if request.repeat {
            jobs.sort_by_key(|claimed| (claimed.job.priority, claimed.job.due, claimed.job.id));
        }
        let outlook = read_outlook(answer.list()?, reply.now)?;
        let outlook = outlook.with_ends_of_pauses(ends_of_pauses(&request.queues, &catalogue), reply.now);
        Ok(ClaimAnswer::Claimed { jobs, outlook })
    }

    /// Jobs as their worker gets them; but what is damaged is given up, as core decides for what cannot be read.
    async fn hand_out(&self, mut rows: Items, catalogue: &Catalogue, now: Timestamp) -> Step<Vec<Claimed>> {
        let (mut jobs, mut given_up) = (Vec::new(), Vec::new());
        while !rows.is_empty() {
            let row = Row::take(&mut rows)?;
            let Some(claimed) = claimed(&row, catalogue, now) else { continue };
            match row.damage(catalogue) {
                None => jobs.push(claimed),
                Some(what) => {
                    let transition = Transition::Bury { error: damaged(what) };
                    given_up.push(claimed.settled(transition, AttemptReport::default()));
                }
            }
        }
        if !given_up.is_empty()
            && let Err(fault) = self.settle(given_up).await
        {
            // They stay with this worker, and keep nobody else waiting.
            tracing::error!(?fault, "damaged jobs can neither be run nor be given up");
        }
        Ok(jobs)
    }

    pub(super) async fn outlook(
        &self,
        queues: Vec<QueueName>,
        types: Vec<TypeName>,
    ) -> Step<Vec<(QueueName, Outlook)>> {
        refuse_over(QUEUES_PER_CLAIM_MAX, "queues", queues.len())?;
        let build = |catalogue: &Catalogue| {
            let mut args = Args::new();
            queue_args(&queues, &types, catalogue, &mut args);
            Ok(args)
        };
        let reply = self.call_with_catalogue(&self.scripts().outlook, build).await?;
        let catalogue = self.catalogue();
        let mut answers = Items::of(reply.value)?;
        let look = |queue: QueueName| {
            let outlook = read_outlook(answers.list()?, reply.now)?;
            let ends = ends_of_pauses(std::slice::from_ref(&queue), &catalogue);
            let outlook = outlook.with_ends_of_pauses(ends, reply.now);
            Ok((queue, outlook))
        };
        queues.into_iter().map(look).collect()
    }
}

fn claim_args(request: &ClaimRequest, catalogue: &Catalogue) -> Args {
    let mut args = Args::new();
    args.bytes(&request.token.to_bytes()).bytes(&request.worker.to_bytes()).flag(request.repeat);
    args.number(request.limit.min(CLAIM_BATCH_MAX).into()).number(request.boosted_max.into());
    match request.suspects {
        Suspects::LeaveOut => args.text(""),
        Suspects::One { crashes_max } => args.number(crashes_max.into()),
    };
    args.text(EXPIRED_REASON);
    queue_args(&request.queues, &request.types, catalogue, &mut args);
    args
}

/// Each queue with its pause and those of its types that were asked for, each once.
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
        waited: claim.since.since(job.due),
        age: job.age(now),
        boosted: row.state.boosted(),
        job,
    })
}

fn read_outlook(mut answer: Items, now: Timestamp) -> Step<Outlook> {
    let more_due = answer.flag()?;
    let next = answer.number_or_none()?.map(Timestamp::from_micros);
    let next_due_in: Option<Duration> = next.map(|due| due.since(now));
    Ok(Outlook { more_due, next_due_in, suspect_due: answer.flag()? })
}
