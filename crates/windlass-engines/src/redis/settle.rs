//! Settling: writes the end of an attempt, if its fence holds.

use windlass_core::claim::Fence;
use windlass_core::job::Progress;
use windlass_core::limits::{PROGRESS_BYTES_MAX, SETTLE_BATCH_MAX};
use windlass_core::outcome::bounded;
use windlass_core::settle::{Settled, Settlement};

use super::Store;
use super::apply::{Order, spans};
use super::call::Args;
use super::reply::ReplyReader;
use super::store_error::StoreResult;
use crate::kit::{check_batch_size, to_json};

impl Store {
    pub(super) async fn settle(&self, batch: Vec<Settlement>) -> StoreResult<Vec<Settled>> {
        check_batch_size(SETTLE_BATCH_MAX, "settlements", batch.len())?;
        let mut args = Args::new();
        args.flag(true).text(&Order::plain_success()).count(batch.len());
        for settlement in batch {
            let fence = settlement.fence;
            args.job(fence.job).bytes(&fence.token.to_bytes());
            let [ran_for, ended_ago] = spans(&settlement.transition, &settlement.report);
            args.number(ran_for).number(ended_ago).text(&Order::of(settlement));
        }
        read_settled(ReplyReader::of(self.call(&self.scripts().settle, args).await?.value)?)
    }

    pub(super) async fn report(&self, batch: Vec<(Fence, Progress)>) -> StoreResult<Vec<Settled>> {
        check_batch_size(SETTLE_BATCH_MAX, "reports of progress", batch.len())?;
        let mut args = Args::new();
        args.count(batch.len());
        for (fence, progress) in batch {
            let progress = Progress {
                percent: progress.percent.min(100),
                note: progress.note.map(|note| bounded(note, PROGRESS_BYTES_MAX)),
            };
            args.job(fence.job).bytes(&fence.token.to_bytes()).text(&to_json(&progress));
        }
        read_settled(ReplyReader::of(self.call(&self.scripts().report, args).await?.value)?)
    }
}

fn read_settled(mut answers: ReplyReader) -> StoreResult<Vec<Settled>> {
    let mut settled = Vec::new();
    while !answers.is_empty() {
        settled.push(if answers.flag()? { Settled::Applied } else { Settled::ClaimLost });
    }
    Ok(settled)
}
