//! An engine under test, a clock that the behaviour moves, and short verbs, so that a behaviour reads as a
//! sentence.
//!
//! Every harness starts in the same state: three queues (`main`, `other`, and `small`, which takes three
//! jobs), a few types, and one worker that handles all of them.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use windlass_core::claim::{ClaimAnswer, ClaimRequest, ClaimToken, Claimed, NextDue, Suspects};
use windlass_core::clock::{Clock, ManualClock, Timestamp};
use windlass_core::engine::{Declaration, Engine};
use windlass_core::enqueue::{EnqueueAnswer, EnqueueRequest, NewJob, Refusal, RequestId};
use windlass_core::job::JobId;
use windlass_core::job_type::TypeSpec;
use windlass_core::queue::QueueSpec;
use windlass_core::worker::WorkerId;

mod words;
mod settling;
mod workers;
mod reads;
mod at_once;
mod hints;
mod used;
mod raw;

pub use hints::HintLog;
pub use raw::{RawCall, RawSpec, RawStore};
pub use settling::oops;
pub use used::Used;
pub use words::*;

/// Why a call must return an answer: this suite never disturbs the engine.
pub(crate) const UP: &str = "the engine is up";

/// The queue that most behaviours use.
pub const MAIN: &str = "main";
/// A second queue.
pub const OTHER: &str = "other";
/// A queue that accepts [`SMALL_CAPACITY`] unfinished jobs.
pub const SMALL: &str = "small";
/// The capacity of [`SMALL`].
pub const SMALL_CAPACITY: u64 = 3;

/// The type that most behaviours use; in [`MAIN`].
pub const WORK: &str = "work";
/// A type in [`MAIN`] whose results are kept.
pub const KEPT: &str = "kept";
/// A type in [`MAIN`] whose finished jobs are not kept at all.
pub const FLEETING: &str = "fleeting";
/// A type in [`OTHER`].
pub const OTHER_WORK: &str = "other.work";
/// A type in [`SMALL`].
pub const SMALL_WORK: &str = "small.work";

/// The shortest time that a store can represent.
pub const MICROSECOND: Duration = Duration::from_micros(1);

/// A task that runs beside others, on a thread of its own if the runtime has one.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What the caller of the suite provides for each behaviour: a fresh, empty engine on a clock that only the
/// behaviour moves.
pub struct Fixture {
    /// The engine.
    pub engine: Arc<dyn Engine>,
    /// Its clock.
    pub clock: Arc<ManualClock>,
    /// Access below the engine, if its store keeps specs as text.
    pub raw: Option<Box<dyn RawStore>>,
    /// Values that must live as long as the engine, such as a temporary directory.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// An engine under test, with short verbs.
pub struct Harness {
    /// The engine.
    pub engine: Arc<dyn Engine>,
    /// Its clock.
    pub clock: Arc<ManualClock>,
    /// The id of a worker that handles every type that the harness declares.
    pub worker: WorkerId,
    spawn: Box<dyn Fn(Task) + Send + Sync>,
    numbers: AtomicU64,
    raw: Option<Box<dyn RawStore>>,
    _keep: Box<dyn Any + Send + Sync>,
}

impl fmt::Debug for Harness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Harness").field("engine", &self.engine.info().name).finish_non_exhaustive()
    }
}

impl Harness {
    /// Declares the queues and types of the harness and registers its worker. `spawn` runs a task beside the
    /// caller.
    pub async fn start(fixture: Fixture, spawn: impl Fn(Task) + Send + Sync + 'static) -> Self {
        let Fixture { engine, clock, raw, keep } = fixture;
        engine.declare(declaration()).await.expect("a fresh engine takes the harness's declaration");
        let mut harness = Self {
            engine,
            clock,
            worker: WorkerId::from_random(0),
            spawn: Box::new(spawn),
            numbers: AtomicU64::new(1),
            raw,
            _keep: keep,
        };
        harness.worker = harness.register_worker().await;
        harness
    }

    /// Returns the time by the store's clock.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// Returns a number that this harness has not returned before, for names that must be unique. The
    /// numbers are spread by a large odd factor, since engines may treat tokens as random.
    pub fn fresh_bits(&self) -> u128 {
        let number = u128::from(self.numbers.fetch_add(1, Ordering::SeqCst));
        number.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)
    }

    // ---- enqueue -------------------------------------------------------------------------------------

    /// Enqueues a batch under a new request id.
    pub async fn enqueue_all(&self, jobs: Vec<NewJob>) -> Vec<EnqueueAnswer> {
        self.engine.enqueue(self.request(jobs)).await.expect(UP)
    }

    /// Creates the request of a batch under a new request id.
    pub fn request(&self, jobs: Vec<NewJob>) -> EnqueueRequest {
        EnqueueRequest { request: RequestId::from_random(self.fresh_bits()), jobs }
    }

    /// Enqueues one job and returns the answer.
    pub async fn offer(&self, new: NewJob) -> EnqueueAnswer {
        let answers = self.enqueue_all(vec![new]).await;
        let [answer] = <[EnqueueAnswer; 1]>::try_from(answers).expect("one answer for one job");
        answer
    }

    /// Enqueues one job, which must be stored as a new job.
    pub async fn enqueue(&self, new: NewJob) -> JobId {
        match self.offer(new).await {
            EnqueueAnswer::New(id) => id,
            other => panic!("expected a new job, got {other:?}"),
        }
    }

    /// Enqueues one job, which must be refused.
    pub async fn refusal(&self, new: NewJob) -> Refusal {
        match self.offer(new).await {
            EnqueueAnswer::Refused(why) => why,
            other => panic!("expected a refusal, got {other:?}"),
        }
    }

    /// Enqueues this number of plain jobs.
    pub async fn enqueue_many(&self, count: usize) -> Vec<JobId> {
        let answers = self.enqueue_all(vec![work(); count]).await;
        answers.iter().map(|answer| answer.job().expect("plain jobs are accepted")).collect()
    }

    // ---- claim ---------------------------------------------------------------------------------------

    /// Returns a claim request for every queue and type by the harness's worker, without boosts and
    /// suspects.
    pub fn claim_request(&self, limit: u32) -> ClaimRequest {
        ClaimRequest {
            token: ClaimToken::from_random(self.fresh_bits()),
            repeat: false,
            worker: self.worker,
            queues: [MAIN, OTHER, SMALL].map(queue).to_vec(),
            types: all_types(),
            limit,
            boosted_max: 0,
            suspects: Suspects::LeaveOut,
        }
    }

    /// Claims with this request, for a live worker.
    pub async fn claim_with(&self, request: ClaimRequest) -> Vec<Claimed> {
        self.claim_and_peek(request).await.0
    }

    /// Claims with this request, and returns the jobs and when the next job is due.
    pub async fn claim_and_peek(&self, request: ClaimRequest) -> (Vec<Claimed>, NextDue) {
        match self.engine.claim(request).await.expect(UP) {
            ClaimAnswer::Claimed { jobs, peek } => (jobs, peek),
            ClaimAnswer::WorkerDead => panic!("expected the worker to be live, got WorkerDead"),
        }
    }

    /// Claims at most this number of jobs for the harness's worker.
    pub async fn claim(&self, limit: u32) -> Vec<Claimed> {
        self.claim_with(self.claim_request(limit)).await
    }

    /// Claims at most this number of jobs for another worker.
    pub async fn claim_as(&self, worker: WorkerId, limit: u32) -> Vec<Claimed> {
        self.claim_with(ClaimRequest { worker, ..self.claim_request(limit) }).await
    }

    /// Claims the only ready job.
    pub async fn claim_one(&self) -> Claimed {
        self.claim_one_as(self.worker).await
    }

    /// Claims the only ready job for another worker.
    pub async fn claim_one_as(&self, worker: WorkerId) -> Claimed {
        only(self.claim_as(worker, 2).await)
    }

    /// Claims a suspect for the harness's worker, if one is due.
    pub async fn claim_suspect(&self) -> Option<Claimed> {
        let suspects = Suspects::One { crashes_max: u32::MAX };
        let mut jobs = self.claim_with(ClaimRequest { suspects, ..self.claim_request(2) }).await;
        assert!(jobs.len() <= 1, "suspects are claimed one at a time, got {}", jobs.len());
        jobs.pop()
    }

    /// Enqueues a plain job and claims it.
    pub async fn enqueue_and_claim_one(&self) -> Claimed {
        self.enqueue(work()).await;
        self.claim_one().await
    }
}

/// The declaration that every harness starts with.
fn declaration() -> Declaration {
    let small = QueueSpec { capacity: Some(SMALL_CAPACITY), ..QueueSpec::new(queue(SMALL)) };
    Declaration {
        queues: vec![QueueSpec::new(queue(MAIN)), QueueSpec::new(queue(OTHER)), small],
        types: vec![
            type_spec(WORK, MAIN),
            TypeSpec { keep_result: true, ..type_spec(KEPT, MAIN) },
            TypeSpec { retention_days: 0, ..type_spec(FLEETING, MAIN) },
            type_spec(OTHER_WORK, OTHER),
            type_spec(SMALL_WORK, SMALL),
        ],
    }
}
