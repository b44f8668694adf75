//! Maintenance: cancels expired jobs, parks jobs that no live worker handles, deletes old records.

use std::collections::HashSet;

use windlass_core::admin::BatchDone;
use windlass_core::job::EXPIRED_REASON;
use windlass_core::limits::{DEAD_WORKER_KEPT, MAINTENANCE_BATCH_MAX, RECEIPT_TTL};

use super::Store;
use super::call::Args;
use super::catalogue::Catalogue;
use super::enqueue::micros;
use super::reply::ReplyReader;
use super::script::TYPES_PER_CALL;
use super::store_error::StoreResult;
use super::workers::AllWorkers;

/// How often a sweep starts again because a worker has registered meanwhile.
const SWEEPS_MAX: usize = 5;

impl Store {
    /// Sweeps some types at a time. If a worker registers while the handled types are read, the sweep starts
    /// again: the jobs that the new worker handles must not be parked.
    pub(super) async fn sweep(&self, limit: u32) -> StoreResult<BatchDone> {
        let mut sweep = Sweep {
            expired: limit.min(MAINTENANCE_BATCH_MAX),
            others: limit.min(MAINTENANCE_BATCH_MAX),
            done: BatchDone::default(),
        };
        for _ in 0..SWEEPS_MAX {
            if self.sweep_types(&mut sweep).await? {
                return Ok(sweep.done);
            }
        }
        sweep.done.more = true;
        Ok(sweep.done)
    }

    /// Whether the sweep reached its end.
    async fn sweep_types(&self, sweep: &mut Sweep) -> StoreResult<bool> {
        let workers = self.all_workers().await?;
        sweep.done.more = false;
        let mut part = 0;
        loop {
            let mut parts = 0;
            let build = |catalogue: &Catalogue| {
                parts = catalogue.types().count().div_ceil(TYPES_PER_CALL);
                Ok(sweep_args(sweep, &workers, catalogue, part))
            };
            let reply = self.call_with_catalogue(&self.scripts().sweep, build).await?;
            let mut answer = ReplyReader::of(reply.value)?;
            let Some(expired) = answer.number_or_none()? else { return Ok(false) };
            sweep.add(expired, answer.number()?, answer.flag()?);
            part += 1;
            if part >= parts {
                return Ok(true);
            }
        }
    }

    pub(super) async fn prune(&self, limit: u32) -> StoreResult<BatchDone> {
        let mut args = Args::new();
        args.number(limit.min(MAINTENANCE_BATCH_MAX).into());
        args.number(micros(RECEIPT_TTL)).number(micros(DEAD_WORKER_KEPT));
        read_done(ReplyReader::of(self.call(&self.scripts().prune, args).await?.value)?)
    }
}

/// The progress of a sweep.
struct Sweep {
    /// How many expired jobs may still be cancelled.
    expired: u32,
    /// How many other jobs may still be parked.
    others: u32,
    done: BatchDone,
}

impl Sweep {
    fn add(&mut self, expired: i64, parked: i64, more: bool) {
        let (expired, parked) =
            (u32::try_from(expired).unwrap_or_default(), u32::try_from(parked).unwrap_or_default());
        self.expired = self.expired.saturating_sub(expired);
        self.others = self.others.saturating_sub(parked);
        self.done.changed += u64::from(expired + parked);
        self.done.more |= more;
    }
}

/// The arguments for one part of all types: types that no live worker handles though their queue is served,
/// and types that a live worker handles. For a queue without any worker nothing is known: a producer that
/// starts first must not see its jobs parked.
fn sweep_args(sweep: &Sweep, workers: &AllWorkers, catalogue: &Catalogue, part: usize) -> Args {
    let live = || workers.members.values().filter(|member| !member.sighting.expired);
    let served: HashSet<_> = live().flat_map(|member| member.queues.lines()).collect();
    let handled: HashSet<_> = live().flat_map(|member| member.types.lines()).collect();
    let mut types: Vec<_> = catalogue.types().collect();
    types.sort_by_key(|entry| entry.number);
    let types = types.into_iter().skip(part * TYPES_PER_CALL).take(TYPES_PER_CALL);
    let (known, unknown): (Vec<_>, Vec<_>) =
        types.partition(|entry| handled.contains(entry.spec.name.as_str()));
    let unhandled = unknown.iter().filter(|entry| served.contains(entry.spec.queue.as_str()));
    let mut args = Args::new();
    args.number(sweep.expired.into()).text(EXPIRED_REASON).number(sweep.others.into());
    args.text(&workers.arrivals.unwrap_or_default().to_string()).count(unhandled.clone().count());
    unhandled.for_each(|entry| _ = args.number(entry.number.into()).text(entry.spec.name.as_str()));
    args.count(known.len());
    known.iter().for_each(|entry| _ = args.text(entry.spec.name.as_str()));
    args
}

/// Reads how many jobs were changed, and whether there is more to do.
pub(super) fn read_done(mut answer: ReplyReader) -> StoreResult<BatchDone> {
    Ok(BatchDone { changed: answer.count()?, more: answer.flag()? })
}
