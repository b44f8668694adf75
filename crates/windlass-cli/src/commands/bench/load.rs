//! The jobs of a measurement, and how they are put in.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use windlass::{Client, JobType};
use windlass_core::enqueue::NewJob;
use windlass_core::limits::ENQUEUE_BATCH_MAX;
use windlass_core::names::{QueueName, TypeName};
use windlass_core::payload::Payload;

use super::failed;
use super::progress::Progress;
use crate::exit::Failure;

/// Callers of single enqueues at once.
pub(super) const CALLERS: u64 = 16;
/// Bulk requests at once.
const BULK_AT_ONCE: u64 = 2;
/// Jobs of a bulk request.
const BATCH: u64 = ENQUEUE_BATCH_MAX as u64;
/// The size of a payload as JSON.
pub(super) const PAYLOAD_BYTES: usize = 100;

pub(super) const QUEUE: &str = "bench";

/// The one type of job. Its handler does nothing that takes time.
#[derive(Serialize, Deserialize)]
pub(super) struct Work {
    /// When it was put in, in nanoseconds on the clock of the measurement; 0 where nobody asks.
    pub(super) at: u64,
    text: String,
}

impl JobType for Work {
    const NAME: &'static str = "bench.work";
    const QUEUE: &'static str = QUEUE;
}

impl Work {
    /// Filled up to [`PAYLOAD_BYTES`].
    pub(super) fn put_in(at: u64) -> Self {
        let bare = r#"{"at":,"text":""}"#.len() + at.to_string().len();
        Self { at, text: "x".repeat(PAYLOAD_BYTES - bare) }
    }

    pub(super) fn new() -> Self {
        Self::put_in(0)
    }
}

pub(super) fn queue_name() -> QueueName {
    QueueName::parse(QUEUE).expect("a plain name")
}

/// A job to be changed before it is put in. Clones share the payload.
pub(super) fn draft() -> NewJob {
    let name = TypeName::parse(Work::NAME).expect("a plain name");
    NewJob::new(name, Payload::encode(&Work::new()).expect("a small payload"))
}

/// Callers who each wait for their own answer before the next. Gives how long all took.
pub(super) async fn one_by_one(client: &Client, jobs: u64, progress: &Progress) -> Result<Duration, Failure> {
    progress.part("enqueue one by one", jobs);
    let done = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (client, done) = (client.clone(), Arc::clone(&done));
        let share = jobs / CALLERS + u64::from(caller < jobs % CALLERS);
        callers.spawn(async move {
            for _ in 0..share {
                client.enqueue(Work::new()).await.map_err(failed)?;
                done.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
    }
    finish(callers, &done, progress).await?;
    Ok(started.elapsed())
}

/// Fills a queue with jobs that differ by their number, in batches, two at once. Gives how long it took.
pub(super) async fn fill(
    client: &Client,
    jobs: u64,
    draft: impl Fn(u64) -> NewJob + Send + Sync + 'static,
    progress: &Progress,
) -> Result<Duration, Failure> {
    progress.part("enqueue in bulk", jobs);
    let (draft, next, done) = (Arc::new(draft), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let started = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..BULK_AT_ONCE {
        let (client, draft) = (client.clone(), Arc::clone(&draft));
        let (next, done) = (Arc::clone(&next), Arc::clone(&done));
        callers.spawn(async move {
            loop {
                let first = next.fetch_add(BATCH, Ordering::Relaxed);
                if first >= jobs {
                    return Ok(());
                }
                let batch: Vec<_> = (first..jobs.min(first + BATCH)).map(|number| draft(number)).collect();
                done.fetch_add(put(&client, batch).await?, Ordering::Relaxed);
            }
        });
    }
    finish(callers, &done, progress).await?;
    Ok(started.elapsed())
}

/// Puts one batch in; every job must be taken.
pub(super) async fn put(client: &Client, batch: Vec<NewJob>) -> Result<u64, Failure> {
    let answers = client.enqueue_drafts(batch).await.map_err(failed)?;
    let count = answers.len() as u64;
    answers.into_iter().collect::<Result<Vec<_>, _>>().map_err(failed)?;
    Ok(count)
}

async fn finish(
    mut callers: JoinSet<Result<(), Failure>>,
    done: &AtomicU64,
    progress: &Progress,
) -> Result<(), Failure> {
    const LOOK_EVERY: Duration = Duration::from_millis(100);
    loop {
        tokio::select! {
            ended = callers.join_next() => match ended {
                None => return Ok(()),
                Some(ended) => ended.map_err(failed)??,
            },
            // may sleep: often enough for an eye, and so rarely that showing progress costs the measurement nothing.
            () = tokio::time::sleep(LOOK_EVERY) => progress.at(done.load(Ordering::Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_payload_has_the_same_size() {
        for at in [0, 7, 1_234_567, u64::MAX] {
            assert_eq!(serde_json::to_string(&Work::put_in(at)).unwrap().len(), PAYLOAD_BYTES);
        }
    }
}
