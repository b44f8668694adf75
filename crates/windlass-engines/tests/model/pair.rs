//! Two engines on one clock, and what the test knows about their jobs.

use std::any::Any;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::Arc;

use proptest_state_machine::StateMachineTest;
use tokio::runtime::Runtime;

use windlass_core::claim::{ClaimRequest, Fence};
use windlass_core::clock::{ManualClock, Timestamp};
use windlass_core::engine::{Declaration, Engine};
use windlass_core::enqueue::EnqueueRequest;
use windlass_core::job::JobId;
use windlass_core::job_type::TypeSpec;
use windlass_core::limits::WORKER_LEASE;
use windlass_core::names::{QueueName, TypeName};
use windlass_core::queue::QueueSpec;
use windlass_core::worker::{WorkerCard, WorkerId};
use windlass_engines::memory::MemoryEngine;

use crate::steps::{Known, Rows, Step, TYPES};

/// An engine to compare with the model.
pub(crate) trait Subject {
    /// Whether fairness keys take turns in exactly the model's order. Engines that discover fairness keys
    /// by scanning begin their turns elsewhere, and are compared without fairness keys; their promises
    /// about them are among the behaviours.
    const TURNS_ARE_THE_MODELS: bool = false;

    /// Opens a fresh engine on this clock, and a value that must live as long as it.
    fn open(clock: Arc<ManualClock>) -> (Arc<dyn Engine>, Box<dyn Any>);

    /// Called before each call to the subject.
    fn enter() {}

    /// Called after each call to the subject.
    fn leave() {}
}

/// The memory engine.
pub(crate) struct Memory;

impl Subject for Memory {
    const TURNS_ARE_THE_MODELS: bool = true;

    fn open(clock: Arc<ManualClock>) -> (Arc<dyn Engine>, Box<dyn Any>) {
        (Arc::new(MemoryEngine::with_clock(clock)), Box::new(()))
    }
}

/// The test of one subject.
pub(crate) struct Test<S>(PhantomData<S>);

impl<S: Subject> StateMachineTest for Test<S> {
    type SystemUnderTest = Pair<S>;
    type Reference = Rows;

    fn init_test(_: &Known) -> Pair<S> {
        Pair::open()
    }

    fn apply(mut pair: Pair<S>, _: &Known, step: Step) -> Pair<S> {
        let step = if S::TURNS_ARE_THE_MODELS { step } else { step.without_fairness_keys() };
        let runtime = pair.runtime.clone();
        runtime.block_on(pair.play(step));
        pair
    }

    fn check_invariants(pair: &Pair<S>, _: &Known) {
        pair.runtime.block_on(pair.compare_stores());
    }

    fn teardown(pair: Pair<S>, _: Known) {
        pair.runtime.block_on(pair.compare_everything());
    }
}

/// One of the two engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Model,
    Subject,
}

/// Two engines on one clock.
pub(crate) struct Pair<S> {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) clock: Arc<ManualClock>,
    model: Arc<dyn Engine>,
    subject: Arc<dyn Engine>,
    /// The ids of each job in the model and in the subject.
    pub(crate) jobs: Vec<(JobId, JobId)>,
    /// The model's ids by the subject's.
    pub(crate) model_ids: HashMap<JobId, JobId>,
    pub(crate) requests: Vec<EnqueueRequest>,
    pub(crate) claims: Vec<ClaimRequest>,
    /// Requests whose repeat arrived before them, and when.
    pub(crate) late: Vec<(ClaimRequest, Timestamp)>,
    /// All claims ever made and when, under the model's ids; most are stale sooner or later.
    pub(crate) fences: Vec<(Fence, Timestamp)>,
    pub(crate) workers: Vec<WorkerId>,
    /// Whether there ever were schedules or completion triggers.
    pub(crate) has_agenda: bool,
    names: u128,
    _keep: Box<dyn Any>,
    _subject: PhantomData<S>,
}

impl<S: Subject> Pair<S> {
    pub(crate) fn open() -> Self {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime starts");
        let clock = Arc::new(ManualClock::default());
        let (subject, keep) = S::open(clock.clone());
        let mut pair = Self {
            runtime: Arc::new(runtime),
            model: Arc::new(MemoryEngine::with_clock(clock.clone())),
            clock,
            subject,
            jobs: Vec::new(),
            model_ids: HashMap::new(),
            requests: Vec::new(),
            claims: Vec::new(),
            late: Vec::new(),
            fences: Vec::new(),
            workers: Vec::new(),
            has_agenda: false,
            names: 0,
            _keep: keep,
            _subject: PhantomData,
        };
        let runtime = pair.runtime.clone();
        runtime.block_on(pair.begin());
        pair
    }

    /// Makes the same declaration on both engines and registers two workers.
    async fn begin(&mut self) {
        self.both(async |engine, _| {
            engine.declare(declaration()).await.expect("a fresh engine accepts the declaration")
        })
        .await;
        for _ in 0..2 {
            self.register(false).await;
        }
    }

    /// Registers a worker on both sides.
    pub(crate) async fn register(&mut self, narrow: bool) {
        let id = WorkerId::from_random(self.fresh_bits());
        self.both(async |engine, _| engine.register(card(id, narrow)).await.expect("the worker is new"))
            .await;
        self.workers.push(id);
    }

    /// Makes the same call on both sides.
    pub(crate) async fn both<T>(&self, call: impl AsyncFn(&dyn Engine, Side) -> T) -> (T, T) {
        let expected = call(&*self.model, Side::Model).await;
        S::enter();
        let got = call(&*self.subject, Side::Subject).await;
        S::leave();
        (expected, got)
    }

    /// Returns a number that was not returned before.
    pub(crate) fn fresh_bits(&mut self) -> u128 {
        self.names += 1;
        self.names.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)
    }

    /// Returns the id of a job on one side.
    pub(crate) fn id_on(&self, side: Side, job: usize) -> JobId {
        let Some((model, subject)) = pick(&self.jobs, job) else { return JobId(987_654_321) };
        if side == Side::Model { *model } else { *subject }
    }

    /// Translates a claim to one side; `fence` has the model's id.
    pub(crate) fn fence_on(&self, side: Side, fence: Fence) -> Fence {
        let ids = self.jobs.iter().find(|(model, _)| *model == fence.job);
        match (side, ids) {
            (Side::Subject, Some((_, subject))) => Fence { job: *subject, ..fence },
            _ => fence,
        }
    }
}

/// Returns the item to which a number refers.
pub(crate) fn pick<T>(items: &[T], number: usize) -> Option<&T> {
    items.get(number.checked_rem(items.len())?)
}

pub(crate) fn queue(name: &str) -> QueueName {
    QueueName::parse(name).expect("a plain name")
}

pub(crate) fn type_name(name: &str) -> TypeName {
    TypeName::parse(name).expect("a plain name")
}

/// Returns the types that some worker handles.
pub(crate) fn handled() -> Vec<TypeName> {
    TYPES[..5].iter().map(|name| type_name(name)).collect()
}

fn declaration() -> Declaration {
    let spec = |name: &str, in_queue: &str| TypeSpec::new(type_name(name), queue(in_queue));
    let small = QueueSpec { capacity: Some(3), ..QueueSpec::new(queue("small")) };
    Declaration {
        queues: vec![QueueSpec::new(queue("main")), QueueSpec::new(queue("other")), small],
        types: vec![
            spec("work", "main"),
            TypeSpec { keep_result: true, retention_days: 1, ..spec("kept", "main") },
            TypeSpec { retention_days: 0, ..spec("fleeting", "main") },
            spec("other.work", "other"),
            spec("small.work", "small"),
            spec("orphan", "main"),
        ],
    }
}

fn card(id: WorkerId, narrow: bool) -> WorkerCard {
    let mut types = handled();
    types.truncate(if narrow { 1 } else { types.len() });
    WorkerCard {
        id,
        host: "testhost".to_owned(),
        pid: std::process::id(),
        version: "0.0.0".to_owned(),
        queues: ["main", "other", "small"].map(queue).to_vec(),
        types,
        duties: Vec::new(),
        slots: 0,
        lease: WORKER_LEASE,
    }
}
