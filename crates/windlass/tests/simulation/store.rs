//! The store as a cluster sees it: the memory engine behind a network that loses, delays and repeats calls.
//!
//! A call may fail before its effect, or after it, or take long, or be applied after its caller has given
//! up. Each operation of the engine stays one atomic step, as on every engine.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use windlass::engines::memory::MemoryEngine;
use windlass_core::admin::{BatchDone, CancelAnswer, ListRequest, QueueStatus, RetryAnswer, StoredJob};
use windlass_core::claim::{ClaimAnswer, ClaimRequest};
use windlass_core::clock::{Clock, ManualClock, Timestamp};
use windlass_core::engine::{Admin, Declaration, Engine, Hint, HintListener, RescueRequest, Rescued};
use windlass_core::enqueue::{EnqueueAnswer, EnqueueRequest, RequestId};
use windlass_core::error::EngineError;
use windlass_core::job::JobId;
use windlass_core::lease::{LeaseRelease, LeaseRequest, Leases, Renewal, Renewed, Taking};
use windlass_core::limits::{LIST_PAGE_MAX, MAINTENANCE_BATCH_MAX};
use windlass_core::names::QueueName;
use windlass_core::settle::{Settled, Settlement};
use windlass_core::worker::{Heartbeat, HeartbeatAnswer, WorkerCard, WorkerId, WorkerSighting};

use crate::test_rng::TestRng;

/// How long a caller waits, as the client and the workers do.
pub(crate) const CALL_DEADLINE: Duration = Duration::from_secs(10);

/// A request to the store.
#[derive(Debug, Clone)]
pub(crate) enum Call {
    Declare(Declaration),
    Register(WorkerCard),
    HeartbeatAnswer(Heartbeat),
    Retire(WorkerId),
    Claim(ClaimRequest),
    Settle(Vec<Settlement>),
    Look,
    Rescue(RescueRequest),
    Sweep,
    Prune,
    TakeLeases(LeaseRequest),
    RenewLeases(Vec<Renewal>),
    ReleaseLeases(Vec<LeaseRelease>),
    Enqueue(EnqueueRequest),
    Ask(RequestId),
    Cancel(JobId),
    Retry(JobId),
    Pause(QueueName, Option<Duration>),
    Resume(QueueName),
}

impl Call {
    pub(crate) fn only_reads(&self) -> bool {
        matches!(self, Self::Look)
    }
}

/// An answer of the store.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Done,
    HeartbeatAnswer(HeartbeatAnswer),
    Claimed(ClaimAnswer),
    Settled(Vec<Settled>),
    Workers(Vec<WorkerSighting>),
    Rescued(Rescued),
    Swept(BatchDone),
    Taken(Vec<Taking>),
    Renewed(Vec<Renewed>),
    EnqueueAnswer(Vec<EnqueueAnswer>),
    Receipt(Option<Vec<EnqueueAnswer>>),
    Cancelled(CancelAnswer),
    Retried(RetryAnswer),
    Changed,
}

pub(crate) type Answer = Result<Reply, EngineError>;

/// What happens to a call on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The call arrives after the first time, and its answer after the second.
    Answered(Duration, Duration),
    /// The call never arrives, and the caller knows.
    Refused(Duration),
    /// The call arrives after the first time; after the second the caller knows only that no answer will
    /// come.
    Lost(Duration, Duration),
}

/// How unreliable the network is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Weather {
    /// Of a thousand calls, how many fail before their effect.
    pub(crate) refused: u64,
    /// Of a thousand calls, how many lose their answer.
    pub(crate) lost: u64,
    /// Of a thousand calls, how many take seconds.
    pub(crate) slow: u64,
    /// Of a thousand calls, how many are applied after their caller has given up.
    pub(crate) late: u64,
}

impl Weather {
    pub(crate) fn fate(&self, rng: &mut TestRng) -> Fate {
        let way = rng.micros(100, 4000);
        let back = rng.micros(100, 4000);
        let throw = rng.below(1000);
        let (refused, lost) = (self.refused, self.refused + self.lost);
        let (slow, late) = (lost + self.slow, lost + self.slow + self.late);
        match throw {
            n if n < refused => Fate::Refused(way + back),
            // The connection breaks at once, or stays silent until the deadline.
            n if n < lost && rng.per_mille(500) => Fate::Lost(way, way + back),
            n if n < lost => Fate::Lost(way, CALL_DEADLINE),
            n if n < slow => Fate::Answered(rng.millis(100, 8000), back),
            // The store still executes the call when its caller no longer waits, also after the caller has
            // repeated it.
            n if n < late && rng.per_mille(600) => Fate::Lost(rng.millis(10_001, 40_000), CALL_DEADLINE),
            n if n < late => Fate::Lost(rng.millis(10, 9000), way),
            _ => Fate::Answered(way, back),
        }
    }
}

/// The engine and its clock.
pub(crate) struct Store {
    pub(crate) engine: MemoryEngine,
    clock: Arc<ManualClock>,
    start: Timestamp,
    /// How far the store's clock has been stepped, in microseconds.
    stepped: i64,
    hints: Arc<Hints>,
}

impl Store {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(ManualClock::default());
        let engine = MemoryEngine::with_clock(Arc::<ManualClock>::clone(&clock));
        let hints = Arc::new(Hints::default());
        engine.on_hint(Arc::<Hints>::downgrade(&hints));
        let start = clock.now();
        Self { engine, clock, start, stepped: 0, hints }
    }

    /// Sets the store's clock from the world's time.
    pub(crate) fn at(&self, now: Duration) {
        let stepped =
            i64::try_from(now.as_micros()).expect("a history lasts hours").saturating_add(self.stepped);
        self.clock.set(Timestamp::from_micros(self.start.as_micros() + stepped));
    }

    pub(crate) fn step_clock(&mut self, by_millis: i64) {
        self.stepped += by_millis * 1000;
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The world's time as an instant: the clock that the writers of the ledger share. It is never stepped.
    pub(crate) fn true_instant(&self, now: Duration) -> Timestamp {
        self.start.plus(now)
    }

    /// Applies a call at once.
    pub(crate) fn apply(&self, call: Call) -> Answer {
        let engine = &self.engine;
        match call {
            Call::Declare(declaration) => ready(engine.declare(declaration)).map(|()| Reply::Done),
            Call::Register(card) => ready(engine.register(card)).map(|()| Reply::Done),
            Call::HeartbeatAnswer(heartbeat) => {
                ready(engine.heartbeat_with_members(heartbeat, self.now())).map(Reply::HeartbeatAnswer)
            }
            Call::Retire(worker) => ready(engine.retire(worker)).map(|()| Reply::Done),
            Call::Claim(request) => ready(engine.claim(request)).map(Reply::Claimed),
            Call::Settle(batch) => ready(engine.settle(batch)).map(Reply::Settled),
            Call::Look => ready(engine.workers()).map(Reply::Workers),
            Call::Rescue(request) => ready(engine.rescue(request)).map(Reply::Rescued),
            Call::Sweep => ready(engine.sweep(MAINTENANCE_BATCH_MAX)).map(Reply::Swept),
            Call::Prune => ready(engine.prune(MAINTENANCE_BATCH_MAX)).map(Reply::Swept),
            Call::TakeLeases(request) => ready(engine.take_leases(&request)).map(Reply::Taken),
            Call::RenewLeases(renewals) => ready(engine.renew_leases(&renewals)).map(Reply::Renewed),
            Call::ReleaseLeases(releases) => ready(engine.release_leases(&releases)).map(|_| Reply::Done),
            Call::Enqueue(request) => ready(engine.enqueue(request)).map(Reply::EnqueueAnswer),
            Call::Ask(request) => ready(engine.ask(request)).map(Reply::Receipt),
            Call::Cancel(job) => ready(engine.cancel(job, "cancelled by the operator")).map(Reply::Cancelled),
            Call::Retry(job) => ready(engine.retry(job)).map(Reply::Retried),
            Call::Pause(queue, lasting) => ready(engine.pause(&queue, None, lasting)).map(|_| Reply::Changed),
            Call::Resume(queue) => ready(engine.resume(&queue)).map(|_| Reply::Changed),
        }
    }

    pub(crate) fn take_hints(&self) -> Vec<Hint> {
        std::mem::take(&mut *self.hints.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn job(&self, id: JobId) -> Option<StoredJob> {
        ready(self.engine.job(id)).expect("the memory engine answers")
    }

    pub(crate) fn workers(&self) -> Vec<WorkerSighting> {
        ready(self.engine.workers()).expect("the memory engine answers")
    }

    pub(crate) fn queues(&self) -> Vec<QueueStatus> {
        ready(self.engine.queues()).expect("the memory engine answers")
    }

    /// All jobs, newest first.
    pub(crate) fn jobs(&self) -> Vec<StoredJob> {
        let mut all: Vec<StoredJob> = Vec::new();
        loop {
            let before = all.last().map(|record| record.job.id);
            let request = ListRequest { before, limit: LIST_PAGE_MAX, ..ListRequest::default() };
            let page = ready(self.engine.list(request)).expect("the memory engine answers");
            if page.is_empty() {
                return all;
            }
            all.extend(page);
        }
    }
}

/// Polls a future once: the memory engine never waits.
pub(crate) fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the memory engine never waits"),
    }
}

pub(crate) fn unavailable() -> EngineError {
    EngineError::Unavailable { why: "the simulated store is unavailable".to_owned() }
}

pub(crate) fn unknown() -> EngineError {
    EngineError::Unknown { why: "the simulated answer was lost".to_owned() }
}

#[derive(Default)]
struct Hints(Mutex<Vec<Hint>>);

impl HintListener for Hints {
    fn hint(&self, hint: Hint) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(hint);
    }
}
