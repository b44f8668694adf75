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

use windlass_core::clock::{Clock, Timestamp};
use windlass_core::duty::DutyModes;
use windlass_core::engine::{Durability, EngineInfo, Hint, Result};
use windlass_core::enqueue::EnqueueRequest;
use windlass_core::lease::LockRequest;
use windlass_core::names::{OrderingKey, TypeName};
use windlass_core::queue::QueueSpec;
use windlass_core::worker::WorkerId;

use crate::io_thread::IoThread;
use crate::kit::on_store;
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
    scans_after_idle: Vec<Duration>,
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
            scans_after_idle: periods.scans_after_idle.clone(),
            listeners: Listeners::default(),
            myself: myself.clone(),
        });
        let opening = store.clone();
        let durability = io_thread.run(async move { opening.open(&options).await }).await?;
        io_thread.spawn(Store::keep_scanning(Arc::downgrade(&store), periods.scan_every));
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

on_store!(Engine for PostgresEngine {
    fn info(&self) -> EngineInfo {
        self.info
    }

    async fn enqueue(&self, request: EnqueueRequest) -> Result<Vec<EnqueueAnswer>> {
        self.run(|store| async move { store.enqueue(request).await }).await
    }
});

on_store!(Admin for PostgresEngine {
    /// Returns the cached specs without a query: each claim and each scan reports if the cache is out of
    /// date.
    async fn queue_specs(&self) -> Result<Vec<QueueSpec>> {
        Ok(self.store.catalogue().queue_specs())
    }

    async fn head_of(&self, job_type: &TypeName, ordering_key: &OrderingKey) -> Result<Option<JobId>> {
        let (job_type, ordering_key) = (job_type.clone(), ordering_key.clone());
        self.run(|store| async move { store.head_of(job_type, ordering_key).await }).await
    }
});

on_store!(Policies for PostgresEngine {});

on_store!(Leases for PostgresEngine {
    async fn lock_duties(&self, request: &LockRequest) -> Result<Vec<bool>> {
        request.check()?;
        let request = request.clone();
        self.run(|store| async move { store.lock_duties(request).await }).await
    }

    async fn unlock_duties(&self, worker: WorkerId, duties: &[DutyName]) -> Result<()> {
        let duties = duties.to_vec();
        self.run(|store| async move { store.unlock_duties(worker, duties).await }).await
    }
});

on_store!(Schedules for PostgresEngine {});
