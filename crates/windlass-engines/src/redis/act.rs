//! Acts of operators on jobs and queues.

use std::time::Duration;

use windlass_core::admin::{BatchDone, CancelAnswer, Changed, RetryAnswer};
use windlass_core::claim::{ClaimToken, Fence};
use windlass_core::clock::Timestamp;
use windlass_core::engine::Hint;
use windlass_core::gate::Gate;
use windlass_core::job::{JobId, JobState, StoredState};
use windlass_core::limits::{MAINTENANCE_BATCH_MAX, REASON_BYTES_MAX};
use windlass_core::names::QueueName;
use windlass_core::outcome::bounded;
use windlass_core::priority::Priority;

use super::Store;
use super::call::Args;
use super::catalogue::Catalogue;
use super::enqueue::micros;
use super::maintenance::read_done;
use super::reply::{ReplyReader, text};
use super::row::read_id;
use super::script::{Script, TYPES_PER_CALL};
use super::store_error::StoreResult;

/// Acts on one job.
impl Store {
    pub(super) async fn cancel(&self, id: JobId, why: String) -> StoreResult<CancelAnswer> {
        let mut args = Args::new();
        args.job(id).text(&bounded(why, REASON_BYTES_MAX));
        let mut answer = ReplyReader::of(self.call(&self.scripts().cancel, args).await?.value)?;
        Ok(match answer.text()?.as_str() {
            "" => CancelAnswer::NotFound,
            "cancelled" => CancelAnswer::Cancelled,
            "requested" => {
                let token = <[u8; 16]>::try_from(answer.bytes()?).unwrap_or_default();
                let fence = Fence { job: id, token: ClaimToken::from_bytes(token) };
                self.listeners.tell(&Hint::Cancel(fence));
                CancelAnswer::Requested
            }
            stage => CancelAnswer::AlreadyEnded(job_state(stage)),
        })
    }

    pub(super) async fn retry(&self, id: JobId) -> StoreResult<RetryAnswer> {
        let mut args = Args::new();
        args.job(id);
        let mut answer = ReplyReader::of(self.call(&self.scripts().retry, args).await?.value)?;
        Ok(match answer.text()?.as_str() {
            "" => RetryAnswer::NotFound,
            "retried" => RetryAnswer::Retried,
            "held" => RetryAnswer::KeyHeld(read_id(&answer.bytes()?)),
            stage => RetryAnswer::NotRetryable(job_state(stage)),
        })
    }

    pub(super) async fn discard(&self, id: JobId) -> StoreResult<Changed> {
        let mut args = Args::new();
        args.job(id);
        self.change(&self.scripts().discard, args).await
    }

    pub(super) async fn set_priority(&self, id: JobId, priority: Priority) -> StoreResult<Changed> {
        let mut args = Args::new();
        args.job(id).number(priority.level().into());
        self.change(&self.scripts().set_priority, args).await
    }

    async fn change(&self, script: &Script, args: Args) -> StoreResult<Changed> {
        Ok(match text(self.call(script, args).await?.value)?.as_str() {
            "done" => Changed::Done,
            "unchanged" => Changed::Unchanged,
            _ => Changed::NotFound,
        })
    }
}

/// The state of a job that is due or has ended, by the letter of its stage.
fn job_state(stage: &str) -> JobState {
    match stage {
        "s" => JobState::Succeeded,
        "d" => JobState::Dead,
        "c" => JobState::Cancelled,
        "r" => JobState::Running,
        _ => StoredState::Waiting { gate: None }.job_state(Timestamp::EPOCH, Timestamp::EPOCH),
    }
}

/// Acts on a queue or a gate.
impl Store {
    pub(super) async fn pause(
        &self,
        queue: QueueName,
        reason: Option<String>,
        lasting: Option<Duration>,
    ) -> StoreResult<Changed> {
        let reason = reason.map(|reason| format!("r{}", bounded(reason, REASON_BYTES_MAX)));
        let mut args = Args::new();
        args.text(queue.as_str())
            .text(&lasting.map_or_else(String::new, |lasting| micros(lasting).to_string()));
        args.text(&reason.unwrap_or_default());
        self.change(&self.scripts().pause, args).await
    }

    pub(super) async fn resume(&self, queue: QueueName) -> StoreResult<Changed> {
        let mut args = Args::new();
        args.text(queue.as_str());
        self.change(&self.scripts().resume, args).await
    }

    pub(super) async fn set_shut(&self, queue: QueueName, shut: bool) -> StoreResult<Changed> {
        let mut args = Args::new();
        args.text(queue.as_str()).flag(shut);
        self.change(&self.scripts().set_shut, args).await
    }

    pub(super) async fn purge(&self, queue: QueueName, limit: u32) -> StoreResult<BatchDone> {
        let mut done = BatchDone::default();
        let mut part = 0;
        loop {
            let left = u64::from(limit.min(MAINTENANCE_BATCH_MAX)).saturating_sub(done.changed);
            let mut parts = 0;
            let build = |catalogue: &Catalogue| {
                let types = catalogue.types_of(&queue);
                parts = types.len().div_ceil(TYPES_PER_CALL);
                let types: Vec<_> = types.iter().skip(part * TYPES_PER_CALL).take(TYPES_PER_CALL).collect();
                let mut args = Args::new();
                args.text(&left.to_string()).text("purged").count(types.len());
                types.iter().for_each(|entry| _ = args.number(entry.number.into()));
                Ok(args)
            };
            let of_part = read_done(ReplyReader::of(
                self.call_with_catalogue(&self.scripts().purge, build).await?.value,
            )?)?;
            done = BatchDone { changed: done.changed + of_part.changed, more: done.more || of_part.more };
            part += 1;
            if part >= parts {
                return Ok(done);
            }
        }
    }

    pub(super) async fn open_gate(&self, gate: Gate, limit: u32) -> StoreResult<BatchDone> {
        if gate.is_of_ordering_key() {
            return Ok(BatchDone::default());
        }
        let mut args = Args::new();
        args.text(gate.as_str()).number(limit.min(MAINTENANCE_BATCH_MAX).into());
        read_done(ReplyReader::of(self.call(&self.scripts().open_gate, args).await?.value)?)
    }
}
