//! Producers enqueue jobs, and repeat a request when its answer was lost. The client's own `judge` decides
//! what an answer means.

use std::time::Duration;

use windlass::enqueue::{Judged, judge, repeat_of};
use windlass_core::enqueue::{EnqueueAnswer, EnqueueRequest, NewJob, RequestId, When};
use windlass_core::key::{KeyClaim, KeyScope, OnConflict};
use windlass_core::names::Key;
use windlass_core::payload::Payload;
use windlass_core::priority::Priority;

use crate::observer::{Moment, Observer};
use crate::plan::type_names;
use crate::store::{Answer, Call, Reply};
use crate::test_rng::TestRng;

/// A producer, with at most one request under way.
pub(crate) struct Producer {
    at: usize,
    rng: TestRng,
    made: u64,
    under_way: Option<UnderWay>,
}

struct UnderWay {
    request: EnqueueRequest,
    tries: u32,
    /// How often the request was begun again after the client gave up.
    rounds: u32,
    /// Whether the producer now queries the receipt of the request.
    queries_receipt: bool,
}

/// What a producer does next.
pub(crate) enum Next {
    SendAfter(Duration),
    Rest,
}

impl Producer {
    pub(crate) fn new(at: usize, seed: u64) -> Self {
        Self { at, rng: TestRng::of(seed, 500 + at as u64), made: 0, under_way: None }
    }

    pub(crate) fn made(&self) -> u64 {
        self.made
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.under_way.is_some()
    }

    pub(crate) fn pause(&mut self) -> Duration {
        self.rng.millis(5, 6000)
    }

    /// Creates a new request.
    pub(crate) fn produce(&mut self, observer: &mut Observer, at: &Moment<'_>) -> EnqueueRequest {
        let count = if self.rng.per_mille(200) { self.rng.between(2, 12) } else { 1 };
        let jobs: Vec<_> = (0..count).map(|_| self.new_job()).collect();
        for job in &jobs {
            observer.invoked(&uid(job), at);
        }
        let request = EnqueueRequest { request: RequestId::from_random(self.rng.bits128()), jobs };
        self.under_way =
            Some(UnderWay { request: request.clone(), tries: 1, rounds: 0, queries_receipt: false });
        request
    }

    fn new_job(&mut self) -> NewJob {
        self.made += 1;
        let name = format!("producer-{}/{}", self.at, self.made);
        let types = type_names();
        let job_type = self.rng.pick(&types).expect("there are types").clone();
        let rng = &mut self.rng;
        let delayed = rng.per_mille(300);
        let when = if delayed { When::In(rng.millis(10, 60_000)) } else { When::Now };
        let expires = rng.per_mille(80).then(|| When::In(rng.millis(500, 90_000)));
        let priority = rng.per_mille(400).then(|| Priority::new(rng.below(11) as i64).expect("0 to 10"));
        let key = rng.per_mille(350).then(|| key(rng));
        let payload = Payload::encode(&name).expect("a short text");
        NewJob { when, expires, priority, key, ..NewJob::new(job_type, payload) }
    }

    /// Returns the next call: the same request under the id that the client gives it, or the query for its
    /// receipt.
    pub(crate) fn again(&mut self) -> Option<Call> {
        let under_way = self.under_way.as_mut()?;
        if under_way.queries_receipt {
            return Some(Call::Ask(under_way.request.request));
        }
        under_way.tries += 1;
        under_way.request = repeat_of(&under_way.request);
        Some(Call::Enqueue(under_way.request.clone()))
    }

    /// Handles an answer, or an error in its place.
    pub(crate) fn answered(&mut self, answer: Answer, observer: &mut Observer, at: &Moment<'_>) -> Next {
        let Some(under_way) = &mut self.under_way else { return Next::Rest };
        if under_way.queries_receipt {
            return self.on_receipt(answer, observer, at);
        }
        let answer = answer.map(|reply| match reply {
            Reply::EnqueueAnswer(answers) => answers,
            other => panic!("expected the answer to an enqueue, got {other:?}"),
        });
        match judge(answer, under_way.tries) {
            // A caller may stop waiting for the client, or doubt that the request has failed.
            Judged::Again(_) | Judged::Unknown if self.rng.per_mille(250) => {
                under_way.queries_receipt = true;
                return Next::SendAfter(self.rng.millis(10, 2000));
            }
            Judged::Again(after) => return Next::SendAfter(after),
            Judged::Answered(answers) => report(&under_way.request, &answers, observer, at),
            Judged::NotStored(_) => {
                under_way.request.jobs.iter().for_each(|job| observer.not_stored(&uid(job), at));
            }
            // A caller that named the request repeats it under the same id; another caller gives up.
            Judged::Unknown if under_way.rounds < 2 && self.rng.per_mille(600) => {
                under_way.rounds += 1;
                under_way.tries = 1;
                return Next::SendAfter(self.rng.millis(1000, 20_000));
            }
            Judged::Unknown => {
                under_way.request.jobs.iter().for_each(|job| observer.answered(&uid(job), None, at));
            }
        }
        self.under_way = None;
        Next::Rest
    }

    /// Handles the receipt of a request. A request that was not stored is enqueued again under a new id.
    fn on_receipt(&mut self, answer: Answer, observer: &mut Observer, at: &Moment<'_>) -> Next {
        let Some(under_way) = &mut self.under_way else { return Next::Rest };
        match answer {
            Ok(Reply::Receipt(Some(answers))) => report(&under_way.request, &answers, observer, at),
            Ok(Reply::Receipt(None)) => {
                let request = RequestId::from_random(self.rng.bits128());
                under_way.request.request = request;
                (under_way.tries, under_way.queries_receipt) = (0, false);
                return Next::SendAfter(self.rng.millis(10, 1000));
            }
            Ok(other) => panic!("expected the receipt of a request, got {other:?}"),
            Err(_) => return Next::SendAfter(self.rng.millis(100, 5000)),
        }
        self.under_way = None;
        Next::Rest
    }
}

fn report(request: &EnqueueRequest, answers: &[EnqueueAnswer], observer: &mut Observer, at: &Moment<'_>) {
    for (job, answer) in request.jobs.iter().zip(answers) {
        observer.answered(&uid(job), Some(answer), at);
    }
}

fn uid(job: &NewJob) -> String {
    job.payload.decode().expect("payloads are texts")
}

fn key(rng: &mut TestRng) -> KeyClaim {
    let scope = match rng.below(4) {
        0 | 1 => KeyScope::WhileLive,
        2 => KeyScope::WhileLiveOrDead,
        _ => KeyScope::For(rng.millis(1000, 60_000)),
    };
    let on_conflict = [OnConflict::Keep, OnConflict::Keep, OnConflict::Replace, OnConflict::Revive];
    let on_conflict = *rng.pick(&on_conflict).expect("there are four");
    let key = Key::parse(&format!("item-{}", rng.below(6))).expect("a valid key");
    KeyClaim { key, scope, on_conflict }
}
