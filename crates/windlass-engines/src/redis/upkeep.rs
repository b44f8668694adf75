//! Upkeep: what has expired is cancelled, what nobody handles is parked, what is old is deleted.

use windlass_core::admin::BatchDone;
use windlass_core::job::EXPIRED_REASON;
use windlass_core::limits::{DEAD_WORKER_KEPT, RECEIPT_TTL, UPKEEP_BATCH_MAX};

use super::Store;
use super::call::Args;
use super::catalogue::Catalogue;
use super::enqueue::micros;
use super::fault::Step;
use super::reply::Items;

impl Store {
    pub(super) async fn sweep(&self, limit: u32) -> Step<BatchDone> {
        let build = |catalogue: &Catalogue| {
            let mut types: Vec<_> = catalogue.types().collect();
            types.sort_by_key(|entry| entry.number);
            let mut args = Args::new();
            args.number(limit.min(UPKEEP_BATCH_MAX).into()).text(EXPIRED_REASON).count(types.len());
            for entry in types {
                args.number(entry.number.into())
                    .text(entry.spec.name.as_str())
                    .text(entry.spec.queue.as_str());
            }
            Ok(args)
        };
        read_done(Items::of(self.call_with_catalogue(&self.scripts().sweep, build).await?.value)?)
    }

    pub(super) async fn prune(&self, limit: u32) -> Step<BatchDone> {
        let mut args = Args::new();
        args.number(limit.min(UPKEEP_BATCH_MAX).into());
        args.number(micros(RECEIPT_TTL)).number(micros(DEAD_WORKER_KEPT));
        read_done(Items::of(self.call(&self.scripts().prune, args).await?.value)?)
    }
}

/// How many were changed, and whether there is more to do.
pub(super) fn read_done(mut answer: Items) -> Step<BatchDone> {
    Ok(BatchDone { changed: answer.count()?, more: answer.flag()? })
}
