//! Jobs in Redis: fast, for any number of processes. The server's settings decide how durable jobs are.
//!
//! Every call is one script ([`script`]; the files in `lua/`), which the server runs as a whole ([`call`]).
//! Read the rest in the order of a job's life: [`enqueue`], [`claim`], [`settle`]; [`apply`] turns a
//! transition into changes of a job, [`rescue`] takes back the jobs of dead workers. [`hints`] lets processes
//! wake each other, and [`scan`] finds due jobs that no notification announced. `lua/parts/` describes what
//! is stored: the state of a job in `state.lua`, the sets of waiting jobs in `waiting.lua`, what remains of
//! ended jobs in `ending.lua`.

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
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use windlass_core::clock::{Clock, Timestamp};
use windlass_core::duty::DutyModes;
use windlass_core::engine::{Declaration, EngineInfo, Replaced, Result};
use windlass_core::enqueue::{EnqueueAnswer, EnqueueRequest};
use windlass_core::names::{OrderingKey, TypeName};

use crate::io_thread::IoThread;
use crate::kit::on_store;
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

/// While at most this many calls are under way, each is sent in the order in which it began: the connection
/// has room for all of them, and for the engine's own queries beside them.
const CALLS_IN_ORDER_MAX: usize = conn::PIPELINE_MAX / 2;

/// Jobs in Redis. Dropping the engine closes its connections.
pub struct RedisEngine {
    // Before the thread, so that tasks on the thread find the store gone.
    store: Arc<Store>,
    io_thread: IoThread,
    /// The number of calls that have not ended.
    under_way: Arc<AtomicUsize>,
}

/// Counts one call as under way for as long as the value lives.
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
    /// The name under which other processes wake this engine.
    engine: String,
    listens: bool,
    /// A clock in place of the server's, for tests that move it.
    clock: Option<Arc<dyn Clock>>,
    /// The server's clock as it was last read, and when it was read.
    time: Mutex<(Timestamp, Instant)>,
    /// The facts about the server, and the scripts for it. `None` until the server has been queried.
    server: RwLock<Option<Arc<KnownServer>>>,
    /// The number of the connection that queried them.
    facts_read_by: AtomicU64,
    allow_eviction: bool,
    /// The major version whose form of scripts is used, if not the server's own.
    scripts_of: Option<u32>,
    /// The store that was opened, and its catalogue. A store that comes back empty is another store.
    opened: RwLock<Arc<Opened>>,
    /// How many replacements of the store are known.
    replaced: AtomicU64,
    /// Held by the task that opens another store.
    opening: tokio::sync::Mutex<()>,
    /// All declarations of this process, for a store that comes back empty.
    declared: Mutex<Declaration>,
    listeners: Listeners,
    /// The queues and types that workers of this process claim from, for scans.
    in_use: Mutex<InUse>,
    /// What tests do to arguments before they are sent.
    #[cfg(test)]
    damage: damage::Damage,
}

impl RedisEngine {
    /// Connects, checks the server's settings, and creates the namespace if it does not exist. May be called
    /// on any runtime.
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
            facts_read_by: AtomicU64::new(0),
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
        io_thread.spawn(Store::keep_scanning(Arc::downgrade(&store), options.periods.scan_every));
        if options.listen {
            io_thread.spawn(hints::keep_listening(Arc::downgrade(&store), options.periods));
        }
        Ok(Self { store, io_thread, under_way: Arc::default() })
    }

    /// Deletes every key of this engine's namespace, and returns the number of keys. No process may use the
    /// namespace meanwhile.
    pub async fn erase(self) -> Result<u64> {
        self.run(|store| async move { store.erase().await }).await
    }

    /// The facts about the server as of the last connection.
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

    /// Starts a call, which is on its way when this returns: calls that begin later are sent behind it.
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

    /// Enqueues jobs. Workers of this process that wait for such jobs are notified at once, and not by the
    /// answer: a claim then follows on the same connection, and both reach the server together. They are not
    /// notified early if the number of calls under way is so high that the claim might overtake. Should the
    /// claim reach another server all the same, it marks its worker as waiting, and a scan finds the jobs
    /// that it missed.
    async fn enqueue_jobs(&self, request: EnqueueRequest) -> Result<Vec<EnqueueAnswer>> {
        let is_first_in_first_out = self.under_way.load(Ordering::SeqCst) < CALLS_IN_ORDER_MAX;
        let notified = if is_first_in_first_out { self.store.claimable(&request.jobs) } else { Vec::new() };
        let queues = notified.clone();
        let answer = self.begin(|store| async move { store.enqueue(request, notified).await });
        self.store.notify_waiting(&queues);
        answer.await
    }
}

impl fmt::Debug for RedisEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisEngine").finish_non_exhaustive()
    }
}

/// What this process remembers of the store.
impl Store {
    /// Remembers a declaration: the last one of each queue and type counts.
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

    /// Reads the server's clock.
    async fn read_time(&self) -> StoreResult<Timestamp> {
        Ok(self.call(&self.scripts().now, Args::new()).await?.now)
    }

    /// Estimates the server's clock. The estimate is good enough to refuse times ten years ahead; no value
    /// that is written comes from it.
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

on_store!(Engine for RedisEngine {
    fn info(&self) -> EngineInfo {
        let duty_modes = DutyModes::default();
        EngineInfo { name: "redis", durability: self.store.server().facts.durability(), duty_modes }
    }

    async fn replaced(&self) -> Result<Option<Replaced>> {
        self.run(|store| async move { store.read_replaced().await }).await
    }

    async fn enqueue(&self, request: EnqueueRequest) -> Result<Vec<EnqueueAnswer>> {
        self.enqueue_jobs(request).await
    }
});

on_store!(Admin for RedisEngine {
    async fn head_of(&self, job_type: &TypeName, ordering_key: &OrderingKey) -> Result<Option<JobId>> {
        let gate = Gate::ordering_key(job_type, ordering_key);
        self.run(|store| async move { store.head_of(gate).await }).await
    }
});

on_store!(Policies for RedisEngine {});

on_store!(Leases for RedisEngine {});

on_store!(Schedules for RedisEngine {});
