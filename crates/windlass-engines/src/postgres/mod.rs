//! Jobs in PostgreSQL: durable, for any number of processes, beside the application's own tables.
//!
//! All connections live on one thread ([`conn`]). Read the rest in the order of a job's life: [`enqueue`]
//! ([`key`] for jobs with keys), [`claim`] ([`claim_cursor`] says from where), [`settle`]. [`apply`] stores
//! transitions, and [`rescue`] takes back the jobs of dead workers. By [`notify`] and [`listen`] a process
//! learns that there are jobs to claim. [`inside`] is for jobs that are enqueued and completed in the
//! application's own transactions. Every statement is a file in `sql/`.

mod declare;
mod enqueue;
mod key;
mod ordering_keys;
mod fairness_keys;
mod claim;
mod claim_outcome;
mod inflight_claims;
mod claim_cursor;
mod claim_ranges;
mod peek;
mod settle;
mod ctid_cache;
mod apply;
mod workers;
mod claims;
mod rescue;
mod maintenance;
mod read;
mod act;
mod gate_cursor;
mod counts;
mod policies;
mod leases;
mod duty_locks;
mod schedules;
mod triggers;
mod rollups;
mod hints;
mod notify;
mod listen;
mod scan;
mod doctor;
mod inside;
#[cfg(feature = "sqlx")]
pub mod with_sqlx;

mod catalogue;
mod row;
mod value;
mod sql;
mod conn;
mod address;
mod tls;
mod store_error;
pub mod migrate;
mod open;
mod plans;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant as Moment};

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
    Admin, Declaration, Durability, Engine, EngineInfo, Hint, HintListener, RescueRequest, Rescued, Result,
};
use windlass_core::enqueue::{EnqueueAnswer, EnqueueRequest, RequestId};
use windlass_core::gate::Gate;
use windlass_core::job::{JobId, Progress};
use windlass_core::lease::{
    LeaseFence, LeaseRelease, LeaseRequest, Leases, LeasesRead, LockRequest, Released, Renewal, Renewed,
    Taking, check_fences, check_releases, check_renewals,
};
use windlass_core::names::{BreakerName, DutyName, OrderingKey, QueueName, TypeName};
use windlass_core::policies::{BreakersRead, Policies, Saved, Take};
use windlass_core::priority::Priority;
use windlass_core::queue::QueueSpec;
use windlass_core::rate_limit::Taken;
use windlass_core::schedules::{
    ScheduleChange, ScheduleChanged, Schedules, SchedulesRead, WhichSchedules, check_changes,
};
use windlass_core::settle::{Settled, Settlement};
use windlass_core::worker::{Heartbeat, HeartbeatAnswer, Liveness, WorkerCard, WorkerId, WorkerSighting};

use crate::io_thread::IoThread;
use crate::listeners::Listeners;
use catalogue::Catalogue;
use claim_cursor::ClaimCursors;
use conn::Connections;
use counts::DepthsSeen;
use ctid_cache::CtidCache;
use duty_locks::{LOCK_REQUESTS_MAX, LockCalls};
use gate_cursor::GateCursors;
use hints::Channels;
use listen::Listener;
use notify::IdleRegistry;
use sql::Statements;
use store_error::StoreResult;
use value::{Instant, instant};

pub use address::Address;
pub use doctor::{Finding, Grade};
pub use inside::{complete_in, enqueue_in};
#[doc(hidden)]
pub use open::Periods;
pub use open::PostgresOptions;
/// The library of [`with_sqlx`], so that a caller has the same version.
#[cfg(feature = "sqlx")]
pub use sqlx;
/// The library of [`enqueue_in`] and [`complete_in`], so that a caller has the same version.
pub use tokio_postgres;

/// Jobs in PostgreSQL. Dropping it closes its connections.
pub struct PostgresEngine {
    // Before the thread, so that tasks that run there find the store gone.
    store: Arc<Store>,
    io_thread: IoThread,
    info: EngineInfo,
}

/// The state that all calls share. It lives on the thread of the connections.
#[derive(Debug)]
struct Store {
    work: Connections,
    heart: Connections,
    sql: Statements,
    channels: Channels,
    listens: bool,
    /// The channel to the listener's session, which has the locks of duties.
    lock_calls: Option<LockCalls>,
    /// A clock in place of the server's, for tests that move it.
    clock: Option<Arc<dyn Clock>>,
    /// The server's clock as it was last read, and when.
    time: Mutex<(Timestamp, Moment)>,
    catalogue: RwLock<Arc<Catalogue>>,
    /// How often this process has begun to read the catalogue.
    catalogue_reads: AtomicU64,
    claim_cursors: Mutex<ClaimCursors>,
    gate_cursors: Mutex<GateCursors>,
    ctid_cache: Mutex<CtidCache>,
    idle_registry: Mutex<IdleRegistry>,
    looks_after_mark: Vec<Duration>,
    /// Held while this process records in the store which queues it waits for.
    idle_writes: tokio::sync::Mutex<()>,
    depths_seen: Mutex<DepthsSeen>,
    /// How long the last scan from the very front took.
    scan_micros: AtomicU64,
    /// Whether the last claim was a big one, and full.
    is_flowing: AtomicBool,
    /// Whether recording that a queue has jobs with fairness keys failed for want of a right.
    may_not_record_fairness_keys: AtomicBool,
    /// The job id up to which sweeps have scanned for running jobs that belong to no claim.
    repaired_up_to: AtomicI64,
    /// Whether jobs that succeeded lately had keys.
    ends_have_keys: AtomicBool,
    /// Whether all jobs that succeeded lately left only a trace.
    ends_are_traces: AtomicBool,
    listeners: Listeners,
    myself: Weak<Store>,
}

impl PostgresEngine {
    /// Connects, and brings the schema up to date unless the options say otherwise. It may be called on any
    /// runtime.
    pub async fn connect(url: &str, options: PostgresOptions) -> Result<Self> {
        options.check()?;
        let (pooled, periods) = (options.pooled, options.periods.clone());
        let work = open::address(url, pooled)?;
        let heart = open::heartbeat_address(url, pooled)?;
        let listen_url = options.listen_url.as_deref().or((!options.pooled).then_some(url));
        let listener = match listen_url.filter(|_| options.listen) {
            Some(url) => Some(Listener::at(&open::address(url, false)?)?),
            None => None,
        };
        let (lock_calls, locks_called) = tokio::sync::mpsc::channel(LOCK_REQUESTS_MAX);
        let duty_modes = DutyModes { advisory_lock: listener.is_some(), work_stealing: true };
        let work = Connections::new(&work, options.connections, pooled, periods.answer_within)?;
        let heart = Connections::new(&heart, 1, pooled, periods.heartbeat_within)?;
        let io_thread = IoThread::start("windlass-postgres")?;
        let store = Arc::new_cyclic(|myself| Store {
            work,
            heart,
            sql: Statements::for_schema(&options.schema),
            channels: Channels::for_schema(&options.schema, fastrand::u64(..)),
            listens: listener.is_some(),
            lock_calls: listener.is_some().then_some(lock_calls),
            clock: options.clock.clone(),
            time: Mutex::new((Timestamp::EPOCH, Moment::now())),
            catalogue: RwLock::default(),
            catalogue_reads: AtomicU64::new(1),
            claim_cursors: Mutex::default(),
            gate_cursors: Mutex::default(),
            idle_registry: Mutex::default(),
            depths_seen: Mutex::default(),
            scan_micros: AtomicU64::new(0),
            is_flowing: AtomicBool::new(false),
            may_not_record_fairness_keys: AtomicBool::new(false),
            repaired_up_to: AtomicI64::new(0),
            ends_have_keys: AtomicBool::new(false),
            ends_are_traces: AtomicBool::new(false),
            ctid_cache: Mutex::default(),
            idle_writes: tokio::sync::Mutex::default(),
            looks_after_mark: periods.looks_after_mark.clone(),
            listeners: Listeners::default(),
            myself: myself.clone(),
        });
        let opening = store.clone();
        let durability = io_thread.run(async move { opening.open(&options).await }).await?;
        io_thread.spawn(Store::keep_scanning(Arc::downgrade(&store), periods.look_every));
        if let Some(listener) = listener {
            io_thread.spawn(listen::keep_listening(Arc::downgrade(&store), listener, periods, locks_called));
        }
        Ok(Self { store, io_thread, info: EngineInfo { name: "postgres", durability, duty_modes } })
    }

    async fn run<T, F, W>(&self, work: W) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + Send + 'static,
        W: FnOnce(Arc<Store>) -> F,
    {
        self.io_thread.run(work(self.store.clone())).await
    }
}

impl fmt::Debug for PostgresEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresEngine").finish_non_exhaustive()
    }
}

/// The state that this process remembers.
impl Store {
    async fn open(&self, options: &PostgresOptions) -> StoreResult<Durability> {
        let conn = self.work.get().await?;
        if options.migrate {
            migrate::apply_all(&conn, &options.schema).await?;
        } else {
            migrate::check_applied(&conn, &options.schema).await?;
        }
        let rows = conn.query(&self.sql.load_version, &[instant(&self.now_param())]).await?;
        drop(conn);
        self.reload().await?;
        let Some(row) = rows.first() else { return Ok(Durability::Crash) };
        self.learn_time(row.try_get::<_, Instant>(1)?.0);
        Ok(open::durability(row.try_get(2)?, row.try_get(3)?))
    }

    /// Reads queues and types again.
    async fn reload(&self) -> StoreResult<()> {
        let conn = self.work.get().await?;
        let turn = self.catalogue_reads.fetch_add(1, Ordering::Relaxed);
        let rows = conn.query(&self.sql.load_version, &[instant(&self.now_param())]).await?;
        let Some(row) = rows.first() else { return Ok(()) };
        let version: i64 = row.try_get(0)?;
        self.learn_time(row.try_get::<_, Instant>(1)?.0);
        if version == self.catalogue().version {
            return Ok(());
        }
        // The version is read first. Queues that are read after it may be newer, and are then read once more.
        let queues = conn.query(&self.sql.load_queues, &[]).await?;
        let types = conn.query(&self.sql.load_types, &[]).await?;
        let read = Catalogue::read(version, &queues, &types)?.of_turn(turn);
        if self.keep(read) {
            // The scopes of claims change with it: waiting workers claim anew, and the scan uses their new
            // scopes.
            self.claim_cursors().forget_uses();
            self.listeners.tell(&Hint::Any);
        }
        Ok(())
    }

    /// Keeps a catalogue, unless another call of this process began to read later. Returns whether other
    /// types are in the queues now. The store's number does not say which is newer: a standby that took
    /// over, or a restored store, may be behind.
    fn keep(&self, read: Catalogue) -> bool {
        let mut kept = self.catalogue.write().unwrap_or_else(PoisonError::into_inner);
        if read.turn < kept.turn {
            return false;
        }
        let has_others = kept.has_other_types_than(&read);
        *kept = Arc::new(read);
        has_others
    }

    fn catalogue(&self) -> Arc<Catalogue> {
        self.catalogue.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn gate_cursors(&self) -> MutexGuard<'_, GateCursors> {
        self.gate_cursors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn claim_cursors(&self) -> MutexGuard<'_, ClaimCursors> {
        self.claim_cursors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ctid_cache(&self) -> MutexGuard<'_, CtidCache> {
        self.ctid_cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn idle_registry(&self) -> MutexGuard<'_, IdleRegistry> {
        self.idle_registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The now that statements take: nothing, unless a test moves the clock.
    fn now_param(&self) -> Option<Instant> {
        self.clock.as_ref().map(|clock| Instant(clock.now()))
    }

    /// The server's clock as far as this process knows it. It is good enough to refuse times ten years
    /// ahead, or to see that a pause has ended. No written time comes from it.
    fn estimated_now(&self) -> Timestamp {
        if let Some(clock) = &self.clock {
            return clock.now();
        }
        let (read, at) = *self.time.lock().unwrap_or_else(PoisonError::into_inner);
        read.plus(at.elapsed())
    }

    /// How long a call has taken that began then. Under a clock that tests move, no time passes meanwhile:
    /// a busy machine changes no decision.
    fn took(&self, began: Moment) -> Duration {
        if self.clock.is_some() { Duration::ZERO } else { began.elapsed() }
    }

    fn learn_time(&self, now: Timestamp) {
        *self.time.lock().unwrap_or_else(PoisonError::into_inner) = (now, Moment::now());
    }
}

#[async_trait]
impl Engine for PostgresEngine {
    fn info(&self) -> EngineInfo {
        self.info
    }

    async fn now(&self) -> Result<Timestamp> {
        self.run(|store| async move { store.read_time().await }).await
    }

    async fn declare(&self, declaration: Declaration) -> Result<()> {
        self.run(|store| async move { store.declare(declaration).await }).await
    }

    async fn enqueue(&self, request: EnqueueRequest) -> Result<Vec<EnqueueAnswer>> {
        self.run(|store| async move { store.enqueue(request).await }).await
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
impl Admin for PostgresEngine {
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

    /// Returns the cached specs without a query: each claim and each scan reports if the cache is out of
    /// date.
    async fn queue_specs(&self) -> Result<Vec<QueueSpec>> {
        Ok(self.store.catalogue().queue_specs()?)
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
        let (job_type, ordering_key) = (job_type.clone(), ordering_key.clone());
        self.run(|store| async move { store.head_of(job_type, ordering_key).await }).await
    }

    async fn open_gate(&self, gate: &Gate, limit: u32) -> Result<BatchDone> {
        let gate = gate.clone();
        self.run(|store| async move { store.open_gate(gate, limit).await }).await
    }
}

#[async_trait]
impl Policies for PostgresEngine {
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
        self.run(|store| async move { store.waiting_behind(gate, limit).await }).await
    }
}

#[async_trait]
impl Leases for PostgresEngine {
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

    async fn lock_duties(&self, request: &LockRequest) -> Result<Vec<bool>> {
        request.check()?;
        let request = request.clone();
        self.run(|store| async move { store.lock_duties(request).await }).await
    }

    async fn unlock_duties(&self, worker: WorkerId, duties: &[DutyName]) -> Result<()> {
        let duties = duties.to_vec();
        self.run(|store| async move { store.unlock_duties(worker, duties).await }).await
    }
}

#[async_trait]
impl Schedules for PostgresEngine {
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
