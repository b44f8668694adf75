//! The jobs of a measurement, and how they are enqueued.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use windlass::types::enqueue::NewJob;
use windlass::types::limits::ENQUEUE_BATCH_MAX;
use windlass::types::names::{QueueName, TypeName};
use windlass::types::payload::Payload;
use windlass::{Client, JobType};

/// Callers of single enqueues at once.
pub(crate) const CALLERS: u64 = 16;
/// Bulk requests at once.
const BULK_CALLERS: u64 = 2;
/// Jobs of a bulk request.
const BATCH: u64 = ENQUEUE_BATCH_MAX as u64;
/// The size of a payload as JSON.
pub(crate) const PAYLOAD_BYTES: usize = 100;

const QUEUE: &str = "bench";

/// The only job type. Its handler does no work.
#[derive(Serialize, Deserialize)]
pub(crate) struct Work {
    /// When it was enqueued, in nanoseconds on the clock of the measurement; 0 where that is not measured.
    pub(crate) at: u64,
    text: String,
}

impl JobType for Work {
    const NAME: &'static str = "bench.work";
    const QUEUE: &'static str = QUEUE;
}

impl Work {
    /// Filled up to [`PAYLOAD_BYTES`].
    pub(crate) fn enqueued_at(at: u64) -> Self {
        let bare = r#"{"at":,"text":""}"#.len() + at.to_string().len();
        Self { at, text: "x".repeat(PAYLOAD_BYTES - bare) }
    }

    pub(crate) fn new() -> Self {
        Self::enqueued_at(0)
    }
}

pub(crate) fn queue_name() -> QueueName {
    QueueName::parse(QUEUE).expect("a plain name")
}

/// A job with the defaults. Clones share the payload.
pub(crate) fn new_job() -> NewJob {
    let name = TypeName::parse(Work::NAME).expect("a plain name");
    NewJob::new(name, Payload::encode(&Work::new()).expect("a small payload"))
}

/// Enqueues one job a request, by [`CALLERS`] that each wait for their answer. Returns how long that took.
pub(crate) async fn enqueue_single(client: &Client, jobs: u64) -> Result<Duration> {
    let started = Instant::now();
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let client = client.clone();
        let own = jobs / CALLERS + u64::from(caller < jobs % CALLERS);
        callers.spawn(async move {
            for _ in 0..own {
                client.enqueue(Work::new()).await?;
            }
            Ok(())
        });
    }
    join(callers).await?;
    Ok(started.elapsed())
}

/// Enqueues jobs that are made from their numbers, in batches, two at once. Returns how long that took.
pub(crate) async fn enqueue_bulk(
    client: &Client,
    jobs: u64,
    job: impl Fn(u64) -> NewJob + Send + Sync + 'static,
) -> Result<Duration> {
    let (job, next) = (Arc::new(job), Arc::new(AtomicU64::new(0)));
    let started = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..BULK_CALLERS {
        let (client, job, next) = (client.clone(), Arc::clone(&job), Arc::clone(&next));
        callers.spawn(async move {
            loop {
                let first = next.fetch_add(BATCH, Ordering::Relaxed);
                if first >= jobs {
                    return Ok(());
                }
                let batch = (first..jobs.min(first + BATCH)).map(|number| job(number)).collect();
                for answer in client.enqueue_drafts(batch).await? {
                    answer?;
                }
            }
        });
    }
    join(callers).await?;
    Ok(started.elapsed())
}

/// Waits for all tasks; the first failure ends the wait, and with it the others.
pub(crate) async fn join(mut tasks: JoinSet<Result<()>>) -> Result<()> {
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_payload_has_the_same_size() {
        for at in [0, 7, 1_234_567, u64::MAX] {
            assert_eq!(serde_json::to_string(&Work::enqueued_at(at)).unwrap().len(), PAYLOAD_BYTES);
        }
    }
}
