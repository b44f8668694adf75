//! Flights: callers who come while one request is under way go together in the next. One caller alone waits
//! for nobody; a thousand at once cost a few round trips instead of a thousand.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use windlass_core::engine::Engine;
use windlass_core::enqueue::{EnqueueRequest, Enqueued, NewJob, RequestId};
use windlass_core::error::EngineError;
use windlass_core::job::JobId;
use windlass_core::limits::ENQUEUE_BATCH_MAX;
use windlass_core::planted::{Bug, planted};

use super::EnqueueError;
use crate::{random, store};

/// Requests under way at once. With two, the next is already at the store when one is answered.
const UNDER_WAY_MAX: usize = 2;
/// Callers who may wait for a seat. More are held at the door, not in memory.
const WAITING_MAX: usize = 100_000;
/// How often a request whose answer got lost is sent again before the caller is told.
const TRIES_MAX: u32 = 5;

/// What becomes of a request after an answer.
#[derive(Debug)]
pub enum Judged {
    /// The callers get these answers.
    Answered(Vec<Enqueued>),
    /// Send the same request again after this time: it is idempotent, and an answer got lost.
    Again(Duration),
    /// Nothing was stored.
    NotStored(EngineError),
    /// It is not known.
    Unknown,
}

/// Decides what becomes of a request that was sent `tries` times.
pub fn judge(answer: Result<Vec<Enqueued>, EngineError>, tries: u32) -> Judged {
    match answer {
        Ok(answers) => Judged::Answered(answers),
        Err(_) if planted(Bug::AcknowledgeBeforeWrite) => Judged::Answered(vec![Enqueued::New(JobId(0))]),
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

/// The flights of one client.
pub(crate) struct Flights {
    engine: Arc<dyn Engine>,
    line: Mutex<Line>,
    seats: tokio::sync::Semaphore,
}

#[derive(Default)]
struct Line {
    waiting: VecDeque<Passenger>,
    under_way: usize,
}

struct Passenger {
    job: NewJob,
    answer: oneshot::Sender<Result<Enqueued, EnqueueError>>,
}

impl Flights {
    pub(crate) fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine, line: Mutex::default(), seats: tokio::sync::Semaphore::new(WAITING_MAX) }
    }

    /// Sends one job with the next flight, or on its own if the caller named the request.
    pub(crate) async fn board(
        self: &Arc<Self>,
        job: NewJob,
        request: Option<RequestId>,
    ) -> Result<Enqueued, EnqueueError> {
        if let Some(request) = request {
            let answers = self.send(EnqueueRequest { request, jobs: vec![job] }).await?;
            return answers.into_iter().next().ok_or(EnqueueError::Unknown { request, position: 0 });
        }
        let _seat = self.seats.acquire().await.expect("the seats are never closed");
        let (answer, answered) = oneshot::channel();
        if self.join(Passenger { job, answer }) {
            let flights = Arc::clone(self);
            tokio::spawn(async move { flights.fly().await });
        }
        // The task of the flight ends only after it has answered everybody; if the runtime is shut down
        // under it, nobody knows.
        answered.await.unwrap_or(Err(EnqueueError::Unknown { request: random::request_id(), position: 0 }))
    }

    /// Sends one request until it is answered or given up.
    pub(crate) async fn send(&self, mut request: EnqueueRequest) -> Result<Vec<Enqueued>, EnqueueError> {
        let id = request.request;
        for tries in 1.. {
            let sent = request.clone();
            let answer = store::call(&self.engine, |engine| async move { engine.enqueue(sent).await }).await;
            match judge(answer, tries) {
                Judged::Answered(answers) => return Ok(answers),
                Judged::Again(after) => {
                    tokio::time::sleep(after).await;
                    request = repeat_of(&request);
                }
                Judged::NotStored(error) => return Err(EnqueueError::NotStored(error)),
                Judged::Unknown => break,
            }
        }
        Err(EnqueueError::Unknown { request: id, position: 0 })
    }

    /// Takes a place in the line; tells whether a new flight must start.
    fn join(&self, passenger: Passenger) -> bool {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        line.waiting.push_back(passenger);
        let start = line.under_way < UNDER_WAY_MAX;
        line.under_way += usize::from(start);
        start
    }

    /// Flies until nobody waits.
    async fn fly(&self) {
        while let Some(passengers) = self.load() {
            let request = random::request_id();
            let (jobs, seats): (Vec<_>, Vec<_>) = passengers.into_iter().map(|p| (p.job, p.answer)).unzip();
            match self.send(EnqueueRequest { request, jobs }).await {
                Ok(answers) => {
                    for (seat, answer) in seats.into_iter().zip(answers) {
                        // Whoever stopped waiting does not want to know.
                        let _ = seat.send(Ok(answer));
                    }
                }
                Err(error) => tell_all(seats, &error, request),
            }
        }
    }

    fn load(&self) -> Option<Vec<Passenger>> {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        if line.waiting.is_empty() {
            line.under_way -= 1;
            return None;
        }
        let size = line.waiting.len().min(ENQUEUE_BATCH_MAX);
        Some(line.waiting.drain(..size).collect())
    }
}

fn tell_all(
    seats: Vec<oneshot::Sender<Result<Enqueued, EnqueueError>>>,
    error: &EnqueueError,
    request: RequestId,
) {
    for (position, seat) in seats.into_iter().enumerate() {
        let each = match error {
            EnqueueError::NotStored(why) => EnqueueError::NotStored(again(why)),
            _ => EnqueueError::Unknown { request, position },
        };
        let _ = seat.send(Err(each));
    }
}

/// The same trouble for each of several callers.
fn again(error: &EngineError) -> EngineError {
    match error {
        EngineError::Full { why } => EngineError::Full { why: why.clone() },
        EngineError::Unusable { why } => EngineError::Unusable { why: why.clone() },
        EngineError::Refused(why) => EngineError::Refused(why.clone()),
        EngineError::Unavailable { why } => EngineError::Unavailable { why: why.clone() },
        other => EngineError::Unavailable { why: other.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unavailable() -> EngineError {
        EngineError::Unavailable { why: "away".to_owned() }
    }

    fn unknown() -> EngineError {
        EngineError::Unknown { why: "silent".to_owned() }
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
