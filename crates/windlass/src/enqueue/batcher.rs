//! Batcher: callers who come while one request is under way go together in the next. One caller alone waits
//! for nobody; a thousand at once cost a few round trips instead of a thousand.

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

/// Requests of one line under way at once. With two, the next is already at the store when one is answered.
const UNDER_WAY_MAX: usize = 2;
/// Callers who may wait for a seat. More are held before they enqueue, not in memory.
const WAITING_MAX: usize = 100_000;
/// How often a request whose answer got lost is sent again before the caller is told.
const TRIES_MAX: u32 = 5;

/// What becomes of a request after an answer.
#[derive(Debug)]
pub enum Judged {
    /// The callers get these answers.
    Answered(Vec<EnqueueAnswer>),
    /// Send the same request again after this time: it is idempotent, and an answer got lost.
    Again(Duration),
    /// Nothing was stored.
    NotStored(EngineError),
    /// It is not known.
    Unknown,
}

/// Decides what becomes of a request that was sent `tries` times.
pub fn judge(answer: Result<Vec<EnqueueAnswer>, EngineError>, tries: u32) -> Judged {
    match answer {
        Ok(answers) => Judged::Answered(answers),
        Err(_) if planted(Bug::AcknowledgeBeforeWrite) => {
            Judged::Answered(vec![EnqueueAnswer::New(JobId(0))])
        }
        // Once one answer got lost, a later failure says nothing of the try before it.
        Err(error) if (error.is_unknown() || tries > 1) && tries < TRIES_MAX => {
            Judged::Again(Duration::from_millis(50) * tries)
        }
        Err(error) if error.is_unknown() || tries > 1 => Judged::Unknown,
        Err(error) => Judged::NotStored(error),
    }
}

/// The request as it is sent again: under its own name, by which the store knows it.
pub fn repeat_of(request: &EnqueueRequest) -> EnqueueRequest {
    let mut repeat = request.clone();
    if planted(Bug::RepeatWithoutReceipt) {
        repeat.request = RequestId::from_bytes(request.request.to_bytes().map(|byte| byte.wrapping_add(1)));
    }
    repeat
}

/// Jobs that travel apart, so that what keeps some of them keeps no others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Plain,
    /// Somebody's open transaction may hold a key.
    Keyed,
    /// They take more than one statement, and a spool refuses them.
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

/// The flights of one client.
pub(crate) struct Batcher {
    engine: Arc<dyn Engine>,
    plain: Mutex<Line>,
    keyed: Mutex<Line>,
    ordered: Mutex<Line>,
    seats: Arc<Semaphore>,
}

#[derive(Default)]
struct Line {
    waiting: VecDeque<Pending>,
    under_way: usize,
}

struct Pending {
    job: NewJob,
    answer: oneshot::Sender<Result<EnqueueAnswer, EnqueueError>>,
    /// Given back when the passenger is, not when its caller stops waiting: the job is still in memory.
    _seat: OwnedSemaphorePermit,
}

impl Batcher {
    pub(crate) fn new(engine: Arc<dyn Engine>) -> Self {
        Self {
            engine,
            plain: Mutex::default(),
            keyed: Mutex::default(),
            ordered: Mutex::default(),
            seats: Arc::new(Semaphore::new(WAITING_MAX)),
        }
    }

    /// Sends one job with the next flight, or on its own if the caller named the request.
    pub(crate) async fn submit(
        self: &Arc<Self>,
        job: NewJob,
        request: Option<RequestId>,
    ) -> Result<EnqueueAnswer, EnqueueError> {
        if let Some(request) = request {
            let alone = EnqueueRequest { request, jobs: vec![job] };
            return self.send(alone).await.pop().expect("a request of one job has one answer");
        }
        let seat = Arc::clone(&self.seats).acquire_owned().await.expect("the seats are never closed");
        let (answer, answered) = oneshot::channel();
        if let Some(batch) = self.join(Pending { job, answer, _seat: seat }) {
            // Nobody waits for the flight: it answers its passengers, and goes on with others.
            drop(store::begin(batch.flush()));
        }
        // A flight answers all its passengers before it ends, unless the runtime is shut down under it.
        answered.await.unwrap_or(Err(EnqueueError::Unknown(None)))
    }

    /// Sends one request until it is answered or given up. Gives an answer for each job.
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

    /// Takes a place in the line; gives a new flight if one must start.
    fn join(self: &Arc<Self>, pending: Pending) -> Option<Batch> {
        let class = Class::of(&pending.job);
        let mut line = self.line(class);
        line.waiting.push_back(pending);
        (line.under_way < UNDER_WAY_MAX).then(|| {
            line.under_way += 1;
            Batch { batcher: Arc::clone(self), class }
        })
    }

    fn line(&self, class: Class) -> MutexGuard<'_, Line> {
        let line = match class {
            Class::Plain => &self.plain,
            Class::Keyed => &self.keyed,
            Class::Ordered => &self.ordered,
        };
        line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A flight under way. However it ends, even with its runtime, it makes room for the next.
struct Batch {
    batcher: Arc<Batcher>,
    class: Class,
}

impl Batch {
    /// Flies until nobody waits.
    async fn flush(self) {
        while let Some(pending) = self.load() {
            let request = random::request_id();
            let (jobs, answers): (Vec<_>, Vec<_>) = pending.into_iter().map(|p| (p.job, p.answer)).unzip();
            let placed = self.batcher.send(EnqueueRequest { request, jobs }).await;
            for (answer, placed) in answers.into_iter().zip(placed) {
                // Whoever stopped waiting does not want to know.
                let _ = answer.send(placed);
            }
            // Whoever began the flight goes on with its own work, and does not serve those who come later.
            tokio::task::yield_now().await;
        }
    }

    fn load(&self) -> Option<Vec<Pending>> {
        let mut line = self.batcher.line(self.class);
        let size = line.waiting.len().min(ENQUEUE_BATCH_MAX);
        (size > 0).then(|| line.waiting.drain(..size).collect())
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.batcher.line(self.class).under_way -= 1;
    }
}

fn for_each(count: usize, error: impl Fn(usize) -> EnqueueError) -> Vec<Result<EnqueueAnswer, EnqueueError>> {
    (0..count).map(|position| Err(error(position))).collect()
}

/// The same trouble for each of several callers.
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
        let seat = Arc::clone(&batcher.seats).try_acquire_owned().unwrap();
        Pending { job, answer: oneshot::channel().0, _seat: seat }
    }

    /// A flight sends one request for each load, and no other.
    #[test]
    fn a_hundred_callers_who_come_while_a_request_is_under_way_make_at_most_two_more() {
        let batcher = Arc::new(Batcher::new(Arc::new(crate::MemoryEngine::new())));
        let first = batcher.join(pending(&batcher)).expect("nobody flies yet");
        assert_eq!(first.load().map(|pending| pending.len()), Some(1), "it is under way");
        let new: Vec<_> = (0..100).filter_map(|_| batcher.join(pending(&batcher))).collect();
        let loads: Vec<_> =
            new.iter().chain([&first]).map_while(Batch::load).map(|load| load.len()).collect();
        assert!(loads.len() <= 2, "{loads:?}");
        assert_eq!(loads.iter().sum::<usize>(), 100, "nobody is left behind");
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
