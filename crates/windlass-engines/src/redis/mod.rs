//! Jobs in Redis: fast, for as many processes as you like; how durable, the server's settings say.
//!
//! Every call is one script ([`script`]; the files in `lua/`), which the server runs as a whole ([`call`]). Read the rest in
//! the order of a job's life: [`enqueue`], [`claim`], [`settle`]; [`apply`] says where a job goes, [`rescue`] takes back what
//! dead workers held. [`hints`] is how processes wake each other, and [`look`] finds what nobody told of. What is stored is
//! described in `lua/parts/`: the state of a job in `state.lua`, where it waits in `waiting.lua`, what is left of it in
//! `ending.lua`.

mod declare;
mod enqueue;
mod claim;
mod settle;
mod apply;
mod workers;
mod rescue;
mod maintenance;
mod read;
mod act;
mod counts;
mod policies;
mod leases;
mod schedules;
mod triggers;
mod rollups;
mod hints;
mod scan;
mod doctor;

mod call;
mod reply;
mod script;
mod keys;
mod row;
mod catalogue;
mod store_epoch;
mod conn;
mod address;
mod store_error;
mod open;
mod info;
mod server;
#[cfg(test)]
mod damage;

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use windlass_core::admin::{
    BatchDone, CancelAnswer, Changed, ListRequest, QueueStatus, RetryAnswer, StoredAttempt, StoredJob,
    TypeStatus,
};
use windlass_core::breaker::BreakerState;
use windlass_core::claim::{ClaimAnswer, ClaimRequest, Fence, NextDue};
use windlass_core::clock::{Clock, Timestamp};
use windlass_core::duty::DutyModes;
use windlass_core::engine::{
    Admin, Declaration, Engine, EngineInfo, HintListener, Replaced, RescueRequest, Rescued, Result,
};
use windlass_core::enqueue::{EnqueueAnswer, EnqueueRequest, RequestId};
use windlass_core::gate::Gate;
use windlass_core::job::{JobId, Progress};
use windlass_core::lease::{
    LeaseFence, LeaseRelease, LeaseRequest, Leases, LeasesRead, Released, Renewal, Renewed, Taking,
    check_fences, check_releases, check_renewals,
};
use windlass_core::names::{BreakerName, DutyName, OrderingKey, QueueName, TypeName};
use windlass_core::policies::{BreakersRead, Policies, Saved, Take};
use windlass_core::priority::Priority;
use windlass_core::rate_limit::Taken;
use windlass_core::schedules::{
    ScheduleChange, ScheduleChanged, Schedules, SchedulesRead, WhichSchedules, check_changes,
};
use windlass_core::settle::{Settled, Settlement};
use windlass_core::worker::{Heartbeat, HeartbeatAnswer, Liveness, WorkerCard, WorkerId, WorkerSighting};

use crate::io_thread::IoThread;
use crate::listeners::Listeners;
use call::Args;
use conn::Link;
use keys::Keys;
use scan::InUse;
use server::KnownServer;
use store_epoch::Opened;
use store_error::StoreResult;

pub use crate::finding::{Finding, Grade};
pub use address::Address;
#[doc(hidden)]
pub use open::Periods;
pub use open::RedisOptions;
pub use server::ServerFacts;

/// While no more calls than this are under way, each is sent in the order in which they were begun: the connection has room for all of
/// them, and for what the engine itself asks beside them.
const CALLS_IN_ORDER_MAX: usize = conn::TAKEN_OVER_MAX / 2;

/// Jobs in Redis. Dropping it closes its connections.
pub struct RedisEngine {
    // Before the thread, so that what runs there finds the store gone.
    store: Arc<Store>,
    io_thread: IoThread,
    /// Calls that have not ended.
    under_way: Arc<AtomicUsize>,
}

/// Counted among the calls that have not ended, for as long as it is kept.
struct UnderWay(Arc<AtomicUsize>);

impl UnderWay {
    fn begin(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What all calls share. Lives on the thread of the connections.
#[derive(Debug)]
struct Store {
    work: Link,
    heart: Link,
    keys: Keys,
    /// The name under which this engine is woken.
    engine: String,
    listens: bool,
    /// A clock in place of the server's, for tests that move it.
    clock: Option<Arc<dyn Clock>>,
    /// The server's clock as it was last read, and when.
    time: Mutex<(Timestamp, Instant)>,
    /// What the server says about itself, and the scripts for it. Known once it was asked.
    server: RwLock<Option<Arc<KnownServer>>>,
    /// By which connection it was asked.
    asked_by: AtomicU64,
    allow_eviction: bool,
    /// Whose form of scripts is used, if not the server's own.
    scripts_of: Option<u32>,
    /// Which store this is, and what it knows; one that comes back empty is another.
    opened: RwLock<Arc<Opened>>,
    /// How often the store is known to have been another one than was opened.
    replaced: AtomicU64,
    /// Held by whoever opens another store.
    opening: tokio::sync::Mutex<()>,
    /// All that this process has declared, for a store that comes back empty.
    declared: Mutex<Declaration>,
    listeners: Listeners,
    /// What workers of this process claim from, for looks.
    in_use: Mutex<InUse>,
    /// What tests do to arguments on their way.
    #[cfg(test)]
    damage: damage::Damage,
}

impl RedisEngine {
    /// Connects, looks at the server's settings, and makes the namespace if it is not there. May be called on any runtime.
    pub async fn connect(url: &str, options: RedisOptions) -> Result<Self> {
        let keys =
            Keys::new(&options.namespace, options.ready_key.as_deref(), options.scheduled_key.as_deref())?;
        let address = Arc::new(Address::parse(url)?.with_authority(options.authority()?));
        let link = |within| Link::new(address.clone(), format!("{}layout", keys.all), within);
        let io_thread = IoThread::start("windlass-redis")?;
        let store = Arc::new(Store {
            work: link(options.periods.answer_within),
            heart: link(options.periods.heartbeat_within),
            engine: format!("{:016x}", fastrand::u64(..)),
            listens: options.listen,
            clock: options.clock.clone(),
            time: Mutex::new((Timestamp::EPOCH, Instant::now())),
            server: RwLock::default(),
            asked_by: AtomicU64::new(0),
            allow_eviction: options.allow_eviction,
            scripts_of: options.scripts_of,
            opened: RwLock::default(),
            replaced: AtomicU64::new(0),
            opening: tokio::sync::Mutex::default(),
            declared: Mutex::default(),
            listeners: Listeners::default(),
            #[cfg(test)]
            damage: damage::Damage::default(),
            in_use: Mutex::default(),
            keys,
        });
        let opening = store.clone();
        io_thread.run(async move { opening.open().await }).await?;
        io_thread.spawn(Store::keep_looking(Arc::downgrade(&store), options.periods.look_every));
        if options.listen {
            io_thread.spawn(hints::keep_listening(Arc::downgrade(&store), options.periods));
        }
        Ok(Self { store, io_thread, under_way: Arc::default() })
    }

    /// Deletes everything in this engine's namespace, and tells how many keys that were. Nobody may use it meanwhile.
    pub async fn erase(self) -> Result<u64> {
        self.run(|store| async move { store.erase().await }).await
    }

    /// What the server said about itself when it was last connected to.
    pub fn facts(&self) -> ServerFacts {
        self.store.server().facts.clone()
    }

    async fn run<T, F, W>(&self, work: W) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + Send + 'static,
        W: FnOnce(Arc<Store>) -> F,
    {
        self.begin(work).await
    }

    /// The same, on its way when this returns: whatever is begun from then on is sent behind it.
    fn begin<T, F, W>(&self, work: W) -> impl Future<Output = Result<T>> + use<T, F, W>
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + Send + 'static,
        W: FnOnce(Arc<Store>) -> F,
    {
        let (work, under_way) = (work(self.store.clone()), UnderWay::begin(&self.under_way));
        self.io_thread.begin(async move {
            let _under_way = under_way;
            work.await
        })
    }

    /// Puts jobs in. Whoever waits for them in this process is told at once, and not by the answer: a claim then follows on the same
    /// way, and both come to the server together. But not if so many calls are under way that the claim might overtake. Should it come to
    /// another server all the same, it marks its worker as waiting, and a look finds what it missed.
    async fn put_in(&self, request: EnqueueRequest) -> Result<Vec<EnqueueAnswer>> {
        let is_first_in_first_out = self.under_way.load(Ordering::SeqCst) < CALLS_IN_ORDER_MAX;
        let told = if is_first_in_first_out { self.store.claimable(&request.jobs) } else { Vec::new() };
        let come = told.clone();
        let answer = self.begin(|store| async move { store.enqueue(request, told).await });
        self.store.tell_of(&come);
        answer.await
    }
}

impl fmt::Debug for RedisEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisEngine").finish_non_exhaustive()
    }
}

/// What this process remembers.
impl Store {
    /// Remembers what was declared: the last word on each queue and type.
    fn remember(&self, declaration: Declaration) {
        let mut declared = self.declared.lock().unwrap_or_else(PoisonError::into_inner);
        for queue in declaration.queues {
            declared.queues.retain(|known| known.name != queue.name);
            declared.queues.push(queue);
        }
        for spec in declaration.types {
            declared.types.retain(|known| known.name != spec.name);
            declared.types.push(spec);
        }
    }

    fn declared(&self) -> Declaration {
        self.declared.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The server's clock.
    async fn read_time(&self) -> StoreResult<Timestamp> {
        Ok(self.call(&self.scripts().now, Args::new()).await?.now)
    }

    /// The server's clock as far as we know it. Good enough to refuse what lies ten years ahead; nothing that is written
    /// comes from it.
    fn estimated_now(&self) -> Timestamp {
        if let Some(clock) = &self.clock {
            return clock.now();
        }
        let (read, at) = *self.time.lock().unwrap_or_else(PoisonError::into_inner);
        read.plus(at.elapsed())
    }

    fn learn_time(&self, now: Timestamp) {
        *self.time.lock().unwrap_or_else(PoisonError::into_inner) = (now, Instant::now());
    }
}

#[async_trait]
impl Engine for RedisEngine {
    fn info(&self) -> EngineInfo {
        let duty_modes = DutyModes::default();
        EngineInfo { name: "redis", durability: self.store.server().facts.durability(), duty_modes }
    }

    async fn now(&self) -> Result<Timestamp> {
        self.run(|store| async move { store.read_time().await }).await
    }

    async fn replaced(&self) -> Result<Option<Replaced>> {
        self.run(|store| async move { store.read_replaced().await }).await
    }

    async fn declare(&self, declaration: Declaration) -> Result<()> {
        self.run(|store| async move { store.declare(declaration).await }).await
    }

    async fn enqueue(&self, request: EnqueueRequest) -> Result<Vec<EnqueueAnswer>> {
        self.put_in(request).await
    }

    async fn receipt(&self, request: RequestId) -> Result<Option<Vec<EnqueueAnswer>>> {
        self.run(|store| async move { store.receipt(request).await }).await
    }

    async fn ask(&self, request: RequestId) -> Result<Option<Vec<EnqueueAnswer>>> {
        self.run(|store| async move { store.ask(request).await }).await
    }

    async fn claim(&self, request: ClaimRequest) -> Result<ClaimAnswer> {
        self.run(|store| async move { store.claim(request).await }).await
    }

    async fn peek(&self, queues: &[QueueName], types: &[TypeName]) -> Result<Vec<(QueueName, NextDue)>> {
        let (queues, types) = (queues.to_vec(), types.to_vec());
        self.run(|store| async move { store.peek(queues, types).await }).await
    }

    async fn settle(&self, batch: Vec<Settlement>) -> Result<Vec<Settled>> {
        self.run(|store| async move { store.settle(batch).await }).await
    }

    async fn report(&self, batch: Vec<(Fence, Progress)>) -> Result<Vec<Settled>> {
        self.run(|store| async move { store.report(batch).await }).await
    }

    async fn register(&self, card: WorkerCard) -> Result<()> {
        self.run(|store| async move { store.register(card).await }).await
    }

    async fn extend(&self, heartbeat: Heartbeat) -> Result<Liveness> {
        self.run(|store| async move { store.extend(heartbeat, None).await })
            .await
            .map(|heartbeat_answer| heartbeat_answer.beat)
    }

    async fn heartbeat_with_members(
        &self,
        heartbeat: Heartbeat,
        clock: Timestamp,
    ) -> Result<HeartbeatAnswer> {
        self.run(|store| async move { store.extend(heartbeat, Some(clock)).await }).await
    }

    async fn asked_to_stop(&self, worker: WorkerId) -> Result<Vec<Fence>> {
        self.run(|store| async move { store.asked_to_stop(worker).await }).await
    }

    async fn retire(&self, worker: WorkerId) -> Result<()> {
        self.run(|store| async move { store.retire(worker).await }).await
    }

    async fn workers(&self) -> Result<Vec<WorkerSighting>> {
        self.run(|store| async move { store.workers().await }).await
    }

    async fn rescue(&self, request: RescueRequest) -> Result<Rescued> {
        self.run(|store| async move { store.rescue(request).await }).await
    }

    async fn sweep(&self, limit: u32) -> Result<BatchDone> {
        self.run(|store| async move { store.sweep(limit).await }).await
    }

    async fn prune(&self, limit: u32) -> Result<BatchDone> {
        self.run(|store| async move { store.prune(limit).await }).await
    }

    fn on_hint(&self, listener: Weak<dyn HintListener>) {
        self.store.listeners.add(listener);
    }
}

#[async_trait]
impl Admin for RedisEngine {
    async fn job(&self, id: JobId) -> Result<Option<StoredJob>> {
        self.run(|store| async move { store.job(id).await }).await
    }

    async fn attempts(&self, id: JobId) -> Result<Vec<StoredAttempt>> {
        self.run(|store| async move { store.attempts(id).await }).await
    }

    async fn list(&self, request: ListRequest) -> Result<Vec<StoredJob>> {
        self.run(|store| async move { store.list(request).await }).await
    }

    async fn queues(&self) -> Result<Vec<QueueStatus>> {
        self.run(|store| async move { store.queues().await }).await
    }

    async fn types(&self) -> Result<Vec<TypeStatus>> {
        self.run(|store| async move { store.types().await }).await
    }

    async fn cancel(&self, id: JobId, why: &str) -> Result<CancelAnswer> {
        let why = why.to_owned();
        self.run(|store| async move { store.cancel(id, why).await }).await
    }

    async fn retry(&self, id: JobId) -> Result<RetryAnswer> {
        self.run(|store| async move { store.retry(id).await }).await
    }

    async fn discard(&self, id: JobId) -> Result<Changed> {
        self.run(|store| async move { store.discard(id).await }).await
    }

    async fn set_priority(&self, id: JobId, priority: Priority) -> Result<Changed> {
        self.run(|store| async move { store.set_priority(id, priority).await }).await
    }

    async fn pause(
        &self,
        queue: &QueueName,
        reason: Option<&str>,
        lasting: Option<Duration>,
    ) -> Result<Changed> {
        let (queue, reason) = (queue.clone(), reason.map(str::to_owned));
        self.run(|store| async move { store.pause(queue, reason, lasting).await }).await
    }

    async fn resume(&self, queue: &QueueName) -> Result<Changed> {
        let queue = queue.clone();
        self.run(|store| async move { store.resume(queue).await }).await
    }

    async fn set_shut(&self, queue: &QueueName, shut: bool) -> Result<Changed> {
        let queue = queue.clone();
        self.run(|store| async move { store.set_shut(queue, shut).await }).await
    }

    async fn purge(&self, queue: &QueueName, limit: u32) -> Result<BatchDone> {
        let queue = queue.clone();
        self.run(|store| async move { store.purge(queue, limit).await }).await
    }

    async fn head_of(&self, job_type: &TypeName, ordering_key: &OrderingKey) -> Result<Option<JobId>> {
        let gate = Gate::ordering_key(job_type, ordering_key);
        self.run(|store| async move { store.head_of(gate).await }).await
    }

    async fn open_gate(&self, gate: &Gate, limit: u32) -> Result<BatchDone> {
        let gate = gate.clone();
        self.run(|store| async move { store.open_gate(gate, limit).await }).await
    }
}

#[async_trait]
impl Policies for RedisEngine {
    async fn breakers(&self) -> Result<BreakersRead> {
        self.run(|store| async move { store.breakers().await }).await
    }

    async fn save_breaker(&self, name: &BreakerName, read: u64, state: &BreakerState) -> Result<Saved> {
        let (name, state) = (name.clone(), state.clone());
        self.run(|store| async move { store.save_breaker(name, read, state).await }).await
    }

    async fn still_hold(&self, claims: &[Fence]) -> Result<Vec<bool>> {
        let claims = claims.to_vec();
        self.run(|store| async move { store.still_hold(claims).await }).await
    }

    async fn take_tokens(&self, takes: &[Take]) -> Result<Vec<Taken>> {
        let takes = takes.to_vec();
        self.run(|store| async move { store.take_tokens(takes).await }).await
    }

    async fn gates(&self, after: Option<&Gate>, limit: u32) -> Result<Vec<Gate>> {
        let after = after.cloned();
        self.run(|store| async move { store.gates(after, limit).await }).await
    }

    async fn behind(&self, gate: &Gate, limit: u32) -> Result<Vec<JobId>> {
        let gate = gate.clone();
        self.run(|store| async move { store.behind(gate, limit).await }).await
    }
}

#[async_trait]
impl Leases for RedisEngine {
    async fn take_leases(&self, request: &LeaseRequest) -> Result<Vec<Taking>> {
        request.check()?;
        let request = request.clone();
        self.run(|store| async move { store.take_leases(request).await }).await
    }

    async fn renew_leases(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>> {
        check_renewals(renewals)?;
        let renewals = renewals.to_vec();
        self.run(|store| async move { store.renew_leases(renewals).await }).await
    }

    async fn release_leases(&self, releases: &[LeaseRelease]) -> Result<Vec<Released>> {
        check_releases(releases)?;
        let releases = releases.to_vec();
        self.run(|store| async move { store.release_leases(releases).await }).await
    }

    async fn leases_hold(&self, leases: &[LeaseFence]) -> Result<Vec<bool>> {
        check_fences(leases)?;
        let leases = leases.to_vec();
        self.run(|store| async move { store.leases_hold(leases).await }).await
    }

    async fn leases(&self) -> Result<LeasesRead> {
        self.run(|store| async move { store.leases().await }).await
    }

    async fn step_down(&self, duty: &DutyName) -> Result<Changed> {
        let duty = duty.clone();
        self.run(|store| async move { store.step_down(duty).await }).await
    }
}

#[async_trait]
impl Schedules for RedisEngine {
    async fn schedules(&self, which: &WhichSchedules) -> Result<SchedulesRead> {
        which.check()?;
        let which = which.clone();
        self.run(|store| async move { store.schedules(which).await }).await
    }

    async fn change_schedules(&self, changes: &[ScheduleChange]) -> Result<Vec<ScheduleChanged>> {
        check_changes(changes)?;
        let changes = changes.to_vec();
        self.run(|store| async move { store.change_schedules(changes).await }).await
    }
}
