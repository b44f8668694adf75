//! Two stores as seen by one process that is about to die, or to lose an answer, at a certain step of
//! replaying jobs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use windlass_core::admin::{
    BatchDone, CancelAnswer, Changed, ListRequest, QueueStatus, RetryAnswer, StoredAttempt, StoredJob,
    TypeStatus,
};
use windlass_core::claim::{ClaimAnswer, ClaimRequest, Fence, NextDue};
use windlass_core::clock::{ManualClock, Timestamp};
use windlass_core::engine::{
    Admin, Declaration, Engine, EngineInfo, HintListener, RescueRequest, Rescued, Result,
};
use windlass_core::enqueue::{EnqueueAnswer, EnqueueRequest, RequestId};
use windlass_core::error::EngineError;
use windlass_core::gate::Gate;
use windlass_core::job::{Job, JobId, Progress};
use windlass_core::lease::Leases;
use windlass_core::names::{OrderingKey, QueueName, TypeName};
use windlass_core::policies::Policies;
use windlass_core::priority::Priority;
use windlass_core::rollups::{
    RollupChange, RollupInput, RollupKey, RollupOutcome, Rollups, RollupsRead, RollupsRequest, Sample,
};
use windlass_core::schedules::{ScheduleChange, ScheduleChanged, Schedules, SchedulesRead, WhichSchedules};
use windlass_core::settle::{Settled, Settlement};
use windlass_core::spool::{BatchMost, Following, LeftOut, Spool, StagedBatch};
use windlass_core::triggers::{
    CompletionTriggers, TriggerChange, TriggerChanged, TriggerFired, TriggerFiring, TriggersRead,
    WhichTriggers,
};
use windlass_core::worker::{Heartbeat, Liveness, WorkerCard, WorkerId, WorkerSighting};

/// The fault of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The call is not done, and the caller gets an error that says so.
    Refused,
    /// The call is done, and the caller gets no answer.
    Unanswered,
    /// The process dies before the call is done.
    DiesBefore,
    /// The call is done, and the process dies before it receives the answer.
    DiesAfter,
    /// The process dies, and the call is done long after other processes have taken over.
    DoneLate,
    /// The process lives, and the call is done only when [`Life::late`] is notified.
    Held,
}

/// The faults by which a process dies, or learns that something went wrong.
pub(crate) const FAULTS: [Fault; 5] =
    [Fault::Refused, Fault::Unanswered, Fault::DiesBefore, Fault::DiesAfter, Fault::DoneLate];

/// The life of one process: which of its steps has a fault, and which fault.
pub(crate) struct Life {
    fault: Option<(usize, Fault)>,
    steps: AtomicUsize,
    is_dead: watch::Sender<bool>,
    /// Starts the calls that are done late, once it is notified.
    pub(crate) late: Arc<Notify>,
    under_way: Mutex<Vec<JoinHandle<()>>>,
    latency: Option<Latency>,
}

/// The latency to a store and back. Clocks advance by the next of these spans on each leg of a call that
/// reads the time or enqueues jobs.
pub(crate) struct Latency {
    pub(crate) clocks: Vec<Arc<ManualClock>>,
    pub(crate) legs: Mutex<Box<dyn Iterator<Item = Duration> + Send>>,
}

impl Latency {
    fn pass(&self) {
        let leg = self.legs.lock().unwrap().next().unwrap_or_default();
        self.clocks.iter().for_each(|clock| clock.advance(leg));
    }
}

impl Life {
    pub(crate) fn new(fault: Option<(usize, Fault)>) -> Arc<Self> {
        let (is_dead, _) = watch::channel(false);
        let (steps, late) = (AtomicUsize::new(0), Arc::new(Notify::new()));
        Arc::new(Self { fault, steps, is_dead, late, under_way: Mutex::default(), latency: None })
    }

    /// Creates a life without a fault, with a high latency to its store.
    pub(crate) fn far_away(latency: Latency) -> Arc<Self> {
        let far = Self { latency: Some(latency), ..Arc::into_inner(Self::new(None)).unwrap() };
        Arc::new(far)
    }

    fn leg(&self) {
        if let Some(latency) = &self.latency {
            latency.pass();
        }
    }

    /// Returns how many steps it did.
    pub(crate) fn steps(&self) -> usize {
        self.steps.load(Ordering::SeqCst)
    }

    pub(crate) async fn died(&self) {
        self.is_dead.subscribe().wait_for(|is_dead| *is_dead).await.expect("the sender is kept");
    }

    /// Lets the calls that were pending when the process died be done.
    pub(crate) async fn let_be_done(&self) {
        self.late.notify_one();
        let under_way = std::mem::take(&mut *self.under_way.lock().unwrap());
        for call in under_way {
            call.await.unwrap();
        }
    }

    /// Returns only if the process lives: a dead process does nothing more.
    async fn live(&self) {
        if *self.is_dead.borrow() {
            std::future::pending().await
        }
    }

    async fn die<T>(&self) -> T {
        self.is_dead.send_replace(true);
        std::future::pending().await
    }

    /// Does a step: a call that changes something, or on which a change depends.
    async fn step<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        self.live().await;
        let number = self.steps.fetch_add(1, Ordering::SeqCst);
        match self.fault.filter(|(at, _)| *at == number).map(|(_, fault)| fault) {
            None => call.await,
            Some(Fault::Refused) => Err(EngineError::Unavailable { why: "not now".to_owned() }),
            Some(Fault::Unanswered) => {
                let _ = call.await;
                Err(EngineError::Unknown { why: "no answer".to_owned() })
            }
            Some(Fault::DiesBefore) => self.die().await,
            Some(Fault::DiesAfter) => {
                let _ = call.await;
                self.die().await
            }
            Some(Fault::Held) => {
                self.late.notified().await;
                call.await
            }
            Some(Fault::DoneLate) => {
                let late = Arc::clone(&self.late);
                let done = tokio::spawn(async move {
                    late.notified().await;
                    let _ = call.await;
                });
                self.under_way.lock().unwrap().push(done);
                self.die().await
            }
        }
    }
}

/// A store as a process sees it.
pub(crate) struct Seen<S: ?Sized> {
    pub(crate) store: Arc<S>,
    pub(crate) life: Arc<Life>,
}

/// Calls that are forwarded for as long as the process lives.
macro_rules! hand_on {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {
        #[async_trait]
        impl<S: Engine + ?Sized> Admin for Seen<S> {
            $(async fn $name(&self, $($arg: $type),*) -> Result<$answer> {
                self.life.live().await;
                self.store.$name($($arg),*).await
            })*
        }
    };
}

hand_on! {
    fn job(id: JobId) -> Option<StoredJob>;
    fn attempts(id: JobId) -> Vec<StoredAttempt>;
    fn list(request: ListRequest) -> Vec<StoredJob>;
    fn queues() -> Vec<QueueStatus>;
    fn types() -> Vec<TypeStatus>;
    fn cancel(id: JobId, why: &str) -> CancelAnswer;
    fn retry(id: JobId) -> RetryAnswer;
    fn discard(id: JobId) -> Changed;
    fn set_priority(id: JobId, priority: Priority) -> Changed;
    fn pause(queue: &QueueName, reason: Option<&str>, lasting: Option<Duration>) -> Changed;
    fn resume(queue: &QueueName) -> Changed;
    fn set_shut(queue: &QueueName, shut: bool) -> Changed;
    fn purge(queue: &QueueName, limit: u32) -> BatchDone;
    fn head_of(job_type: &TypeName, ordering_key: &OrderingKey) -> Option<JobId>;
    fn open_gate(gate: &Gate, limit: u32) -> BatchDone;
}

/// Processes share neither limits nor duties here.
impl<S: Engine + ?Sized> Policies for Seen<S> {}
impl<S: Engine + ?Sized> Leases for Seen<S> {}

#[async_trait]
impl<S: Engine + ?Sized> Schedules for Seen<S> {
    async fn schedules(&self, which: &WhichSchedules) -> Result<SchedulesRead> {
        self.life.live().await;
        self.store.schedules(which).await
    }

    async fn change_schedules(&self, changes: &[ScheduleChange]) -> Result<Vec<ScheduleChanged>> {
        self.life.live().await;
        self.store.change_schedules(changes).await
    }
}

#[async_trait]
impl<S: Engine + ?Sized> CompletionTriggers for Seen<S> {
    async fn triggers(&self, which: &WhichTriggers) -> Result<TriggersRead> {
        self.life.live().await;
        self.store.triggers(which).await
    }

    async fn change_triggers(&self, changes: &[TriggerChange]) -> Result<Vec<TriggerChanged>> {
        self.life.live().await;
        self.store.change_triggers(changes).await
    }

    async fn fire_triggers(&self, firings: &[TriggerFiring]) -> Result<Vec<TriggerFired>> {
        self.life.live().await;
        self.store.fire_triggers(firings).await
    }
}

#[async_trait]
impl<S: Engine + ?Sized> Rollups for Seen<S> {
    async fn append_samples(&self, samples: &[Sample]) -> Result<()> {
        self.life.live().await;
        self.store.append_samples(samples).await
    }

    async fn rollup_input(&self, limit: u32) -> Result<RollupInput> {
        self.life.live().await;
        self.store.rollup_input(limit).await
    }

    async fn rollups_of(&self, keys: &[RollupKey]) -> Result<RollupsRead> {
        self.life.live().await;
        self.store.rollups_of(keys).await
    }

    async fn apply_rollup(&self, change: &RollupChange) -> Result<RollupOutcome> {
        self.life.live().await;
        self.store.apply_rollup(change).await
    }

    async fn rollups(&self, request: &RollupsRequest) -> Result<RollupsRead> {
        self.life.live().await;
        self.store.rollups(request).await
    }

    async fn forget_rollups(&self, kept: Duration, limit: u32) -> Result<BatchDone> {
        self.life.live().await;
        self.store.forget_rollups(kept, limit).await
    }
}

/// Forwards like `hand_on`, except for the calls on the path of a job: new jobs and receipts are steps.
macro_rules! hand_on_or_step {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {
        #[async_trait]
        impl<S: Engine + ?Sized> Engine for Seen<S> {
            async fn enqueue(&self, request: EnqueueRequest) -> Result<Vec<EnqueueAnswer>> {
                let store = Arc::clone(&self.store);
                // A check of the store enqueues no job.
                if request.jobs.is_empty() {
                    self.life.live().await;
                    return store.enqueue(request).await;
                }
                self.life.leg();
                let answers = self.life.step(async move { store.enqueue(request).await }).await;
                self.life.leg();
                answers
            }

            async fn receipt(&self, request: RequestId) -> Result<Option<Vec<EnqueueAnswer>>> {
                let store = Arc::clone(&self.store);
                self.life.step(async move { store.receipt(request).await }).await
            }

            async fn now(&self) -> Result<Timestamp> {
                self.life.live().await;
                self.life.leg();
                let now = self.store.now().await;
                self.life.leg();
                now
            }

            async fn ask(&self, request: RequestId) -> Result<Option<Vec<EnqueueAnswer>>> {
                let store = Arc::clone(&self.store);
                self.life.step(async move { store.ask(request).await }).await
            }

            fn info(&self) -> EngineInfo {
                self.store.info()
            }

            fn on_hint(&self, listener: Weak<dyn HintListener>) {
                self.store.on_hint(listener);
            }

            $(async fn $name(&self, $($arg: $type),*) -> Result<$answer> {
                self.life.live().await;
                self.store.$name($($arg),*).await
            })*
        }
    };
}

hand_on_or_step! {
    fn declare(declaration: Declaration) -> ();
    fn claim(request: ClaimRequest) -> ClaimAnswer;
    fn peek(queues: &[QueueName], types: &[TypeName]) -> Vec<(QueueName, NextDue)>;
    fn settle(batch: Vec<Settlement>) -> Vec<Settled>;
    fn report(batch: Vec<(Fence, Progress)>) -> Vec<Settled>;
    fn register(card: WorkerCard) -> ();
    fn extend(heartbeat: Heartbeat) -> Liveness;
    fn asked_to_stop(worker: WorkerId) -> Vec<Fence>;
    fn retire(worker: WorkerId) -> ();
    fn workers() -> Vec<WorkerSighting>;
    fn rescue(request: RescueRequest) -> Rescued;
    fn sweep(limit: u32) -> BatchDone;
    fn prune(limit: u32) -> BatchDone;
}

#[async_trait]
impl Spool for Seen<dyn Spool> {
    async fn enqueue_staged(
        &self,
        request: EnqueueRequest,
        sent_ago: Duration,
    ) -> Result<Vec<EnqueueAnswer>> {
        let store = Arc::clone(&self.store);
        self.life.step(async move { store.enqueue_staged(request, sent_ago).await }).await
    }

    async fn stage(
        &self,
        request: RequestId,
        most: BatchMost,
        but: &LeftOut,
        following: &Following,
    ) -> Result<Option<StagedBatch>> {
        let (store, but, following) = (Arc::clone(&self.store), but.clone(), following.clone());
        self.life.step(async move { store.stage(request, most, &but, &following).await }).await
    }

    async fn staged(&self, after: Option<&StagedBatch>, limit: u32) -> Result<Vec<StagedBatch>> {
        let (store, after) = (Arc::clone(&self.store), after.cloned());
        self.life.step(async move { store.staged(after.as_ref(), limit).await }).await
    }

    async fn still_staged(&self, request: RequestId) -> Result<Option<(StagedBatch, Vec<Job>)>> {
        let store = Arc::clone(&self.store);
        self.life.step(async move { store.still_staged(request).await }).await
    }

    async fn end_batch(&self, request: RequestId, ends: Vec<(JobId, Option<String>)>) -> Result<bool> {
        let store = Arc::clone(&self.store);
        self.life.step(async move { store.end_batch(request, ends).await }).await
    }

    async fn keep_here(&self, request: RequestId, younger_than: Duration) -> Result<bool> {
        let store = Arc::clone(&self.store);
        self.life.step(async move { store.keep_here(request, younger_than).await }).await
    }
}
