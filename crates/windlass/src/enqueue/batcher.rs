//! Batcher: calls that arrive while one request is in flight go together in the next. A single caller waits
//! for no other call; a thousand at once cost a few round trips instead of a thousand.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use windlass_core::engine::Engine;
use windlass_core::enqueue::{EnqueueAnswer, EnqueueRequest, NewJob, RequestId};
use windlass_core::error::EngineError;
use windlass_core::job::JobId;
use windlass_core::limits::ENQUEUE_BATCH_MAX;
use windlass_core::planted::{Bug, planted};

use super::{EnqueueError, Handle};
use crate::{random, store};

/// The most requests of one class in flight at once. With two, the next is already at the store when one is
/// answered.
const UNDER_WAY_MAX: usize = 2;
/// The most calls that may be pending. Further callers are blocked before they enqueue, instead of being
/// kept in memory.
const WAITING_MAX: usize = 100_000;
/// How often a request whose answer was lost is sent in all before the caller gets an error.
const TRIES_MAX: u32 = 5;

/// The decision about a request after an answer.
#[derive(Debug)]
pub enum Judged {
    /// The callers get these answers.
    Answered(Vec<EnqueueAnswer>),
    /// Send the same request again after this time: it is idempotent, and an answer was lost.
    Again(Duration),
    /// No job was stored.
    NotStored(EngineError),
    /// It is unknown whether the jobs were stored.
    Unknown,
}

/// Decides how to go on with a request that was sent `tries` times.
pub fn judge(answer: Result<Vec<EnqueueAnswer>, EngineError>, tries: u32) -> Judged {
    match answer {
        Ok(answers) => Judged::Answered(answers),
        Err(_) if planted(Bug::AcknowledgeBeforeWrite) => {
            Judged::Answered(vec![EnqueueAnswer::New(JobId(0))])
        }
        // Once one answer was lost, a later failure says nothing of the attempt before it.
        Err(error) if (error.is_unknown() || tries > 1) && tries < TRIES_MAX => {
            Judged::Again(Duration::from_millis(50) * tries)
        }
        Err(error) if error.is_unknown() || tries > 1 => Judged::Unknown,
        Err(error) => Judged::NotStored(error),
    }
}

/// The request as it is sent again: under the same request id, by which the store recognizes it.
pub fn repeat_of(request: &EnqueueRequest) -> EnqueueRequest {
    let mut repeat = request.clone();
    if planted(Bug::RepeatWithoutReceipt) {
        repeat.request = RequestId::from_bytes(request.request.to_bytes().map(|byte| byte.wrapping_add(1)));
    }
    repeat
}

/// The classes of jobs that are batched apart, so that a delay of one class does not hold up the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Plain,
    /// Another application's open transaction may hold a key.
    Keyed,
    /// Jobs with an ordering key take more than one statement, and a spool refuses them.
    Ordered,
}

impl Class {
    fn of(job: &NewJob) -> Self {
        match (&job.ordering_key, &job.key) {
            (Some(_), _) => Self::Ordered,
            (None, Some(_)) => Self::Keyed,
            (None, None) => Self::Plain,
        }
    }
}

/// The pending and the sent enqueue calls of one client.
pub(crate) struct Batcher {
    engine: Arc<dyn Engine>,
    plain: Mutex<PendingQueue>,
    keyed: Mutex<PendingQueue>,
    ordered: Mutex<PendingQueue>,
    permits: Arc<Semaphore>,
}

#[derive(Default)]
struct PendingQueue {
    waiting: VecDeque<Pending>,
    under_way: usize,
}

struct Pending {
    job: NewJob,
    answer: oneshot::Sender<Result<EnqueueAnswer, EnqueueError>>,
    /// Released when this entry is dropped, not when its caller stops waiting: until then the job is still
    /// in memory.
    _permit: OwnedSemaphorePermit,
}

impl Batcher {
    pub(crate) fn new(engine: Arc<dyn Engine>) -> Self {
        Self {
            engine,
            plain: Mutex::default(),
            keyed: Mutex::default(),
            ordered: Mutex::default(),
            permits: Arc::new(Semaphore::new(WAITING_MAX)),
        }
    }

    /// Sends one job with the next batch, or in a request of its own if the caller named the request.
    pub(crate) async fn submit(
        self: &Arc<Self>,
        job: NewJob,
        request: Option<RequestId>,
    ) -> Result<EnqueueAnswer, EnqueueError> {
        if let Some(request) = request {
            let alone = EnqueueRequest { request, jobs: vec![job] };
            return self.send(alone).await.pop().expect("a request of one job has one answer");
        }
        let permit = Arc::clone(&self.permits).acquire_owned().await.expect("the permits are never closed");
        let (answer, answered) = oneshot::channel();
        if let Some(batch) = self.join(Pending { job, answer, _permit: permit }) {
            // No task waits for the batch: it answers its callers, and then sends the calls that came
            // meanwhile.
            drop(store::begin(batch.flush()));
        }
        // A batch answers all its callers before it ends, unless the runtime is shut down under it.
        answered.await.unwrap_or(Err(EnqueueError::Unknown(None)))
    }

    /// Sends one request until it is answered or has used up its tries. Returns an answer for each job.
    pub(crate) async fn send(&self, mut request: EnqueueRequest) -> Vec<Result<EnqueueAnswer, EnqueueError>> {
        let (id, count) = (request.request, request.jobs.len());
        for tries in 1.. {
            let sent = request.clone();
            let answer = store::call(&self.engine, |engine| async move { engine.enqueue(sent).await }).await;
            match judge(answer, tries) {
                Judged::Answered(answers) if answers.len() == count => {
                    return answers.into_iter().map(Ok).collect();
                }
                Judged::Answered(_) => return for_each(count, |_| EnqueueError::RequestUsed(id)),
                Judged::Again(after) => {
                    tokio::time::sleep(after).await;
                    request = repeat_of(&request);
                }
                Judged::NotStored(error) => {
                    return for_each(count, |_| EnqueueError::NotStored(again(&error)));
                }
                Judged::Unknown => break,
            }
        }
        for_each(count, |position| EnqueueError::Unknown(Some(Handle { request: id, position })))
    }

    /// Queues a call; returns a new batch if one must start.
    fn join(self: &Arc<Self>, pending: Pending) -> Option<Batch> {
        let class = Class::of(&pending.job);
        let mut queue = self.queue(class);
        queue.waiting.push_back(pending);
        (queue.under_way < UNDER_WAY_MAX).then(|| {
            queue.under_way += 1;
            Batch { batcher: Arc::clone(self), class }
        })
    }

    fn queue(&self, class: Class) -> MutexGuard<'_, PendingQueue> {
        let queue = match class {
            Class::Plain => &self.plain,
            Class::Keyed => &self.keyed,
            Class::Ordered => &self.ordered,
        };
        queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A batch in flight. However it ends, even with its runtime, its drop allows the next batch to start.
struct Batch {
    batcher: Arc<Batcher>,
    class: Class,
}

impl Batch {
    /// Sends requests until no call is pending.
    async fn flush(self) {
        while let Some(pending) = self.load() {
            let request = random::request_id();
            let (jobs, answers): (Vec<_>, Vec<_>) = pending.into_iter().map(|p| (p.job, p.answer)).unzip();
            let outcomes = self.batcher.send(EnqueueRequest { request, jobs }).await;
            for (answer, outcome) in answers.into_iter().zip(outcomes) {
                // A caller that stopped waiting needs no answer.
                let _ = answer.send(outcome);
            }
            // The task that began the batch goes on with its own work, and does not serve the calls that
            // come later.
            tokio::task::yield_now().await;
        }
    }

    fn load(&self) -> Option<Vec<Pending>> {
        let mut queue = self.batcher.queue(self.class);
        let size = queue.waiting.len().min(ENQUEUE_BATCH_MAX);
        (size > 0).then(|| queue.waiting.drain(..size).collect())
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.batcher.queue(self.class).under_way -= 1;
    }
}

fn for_each(count: usize, error: impl Fn(usize) -> EnqueueError) -> Vec<Result<EnqueueAnswer, EnqueueError>> {
    (0..count).map(|position| Err(error(position))).collect()
}

/// A copy of an error, for each of several callers.
fn again(error: &EngineError) -> EngineError {
    match error {
        EngineError::Full { why } => EngineError::Full { why: why.clone() },
        EngineError::Unusable { why } => EngineError::Unusable { why: why.clone() },
        EngineError::Refused(why) => EngineError::Refused(why.clone()),
        EngineError::Busy { why } => EngineError::Busy { why: why.clone() },
        EngineError::Unavailable { why } => EngineError::Unavailable { why: why.clone() },
        EngineError::Unreadable(why) => EngineError::Unreadable(why.clone()),
        other => EngineError::Unavailable { why: other.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::payload::Payload;

    use super::*;

    fn unavailable() -> EngineError {
        EngineError::Unavailable { why: "away".to_owned() }
    }

    fn unknown() -> EngineError {
        EngineError::Unknown { why: "silent".to_owned() }
    }

    fn pending(batcher: &Batcher) -> Pending {
        let job = NewJob::new("t".parse().unwrap(), Payload::default());
        let permit = Arc::clone(&batcher.permits).try_acquire_owned().unwrap();
        Pending { job, answer: oneshot::channel().0, _permit: permit }
    }

    /// Each `load` becomes one request, and no other request is sent.
    #[test]
    fn a_hundred_callers_who_come_while_a_request_is_under_way_make_at_most_two_more() {
        let batcher = Arc::new(Batcher::new(Arc::new(crate::MemoryEngine::new())));
        let first = batcher.join(pending(&batcher)).expect("no batch is in flight yet");
        assert_eq!(first.load().map(|pending| pending.len()), Some(1), "its request is in flight");
        let new: Vec<_> = (0..100).filter_map(|_| batcher.join(pending(&batcher))).collect();
        let loads: Vec<_> =
            new.iter().chain([&first]).map_while(Batch::load).map(|load| load.len()).collect();
        assert!(loads.len() <= 2, "{loads:?}");
        assert_eq!(loads.iter().sum::<usize>(), 100, "no call is left behind");
        assert!(first.load().is_none());
    }

    #[test]
    fn a_first_try_that_failed_was_not_stored() {
        assert!(matches!(judge(Err(unavailable()), 1), Judged::NotStored(_)));
    }

    #[test]
    fn after_a_lost_answer_a_failure_does_not_mean_that_nothing_is_stored() {
        assert!(matches!(judge(Err(unknown()), 1), Judged::Again(_)));
        assert!(matches!(judge(Err(unavailable()), 2), Judged::Again(_)));
        assert!(matches!(judge(Err(unavailable()), TRIES_MAX), Judged::Unknown));
    }
}
