//! An engine made of two: a primary, and a spool beside it that keeps jobs while the primary is away.
//!
//! New jobs go to the primary while it answers, and otherwise into the spool ([`enqueue`]). [`health`]
//! watches the primary and decides by core's switch. Jobs that no worker has claimed yet go to the primary
//! when it is back ([`replay`]). Ids of jobs in the spool begin at
//! [`SPOOL_IDS_FROM`](windlass_core::limits::SPOOL_IDS_FROM), so the id of a job says which store has it. A
//! worker works on both stores, each with slots of its own (see [`Engine::spool`]), so a job is always
//! settled in the store in which it was claimed.

mod primary;
mod enqueue;
mod health;
mod spool;
mod replay;
mod admin;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use windlass_core::admin::{BatchDone, QueueStatus};
use windlass_core::claim::{ClaimAnswer, ClaimRequest, Fence, NextDue};
use windlass_core::clock::Timestamp;
use windlass_core::duty::DutyModes;
use windlass_core::engine::{
    Declaration, Engine, EngineInfo, HintListener, Replaced, RescueRequest, Rescued, Result,
};
use windlass_core::enqueue::{EnqueueAnswer, EnqueueRequest, RequestId};
use windlass_core::error::EngineError;
use windlass_core::fallback::{FallbackStatus, Side, Switch, SwitchRules};
use windlass_core::job::{JobId, Progress};
use windlass_core::names::{QueueName, TypeName};
use windlass_core::settle::{Settled, Settlement};
use windlass_core::spool::Spool;
use windlass_core::worker::{Heartbeat, HeartbeatAnswer, Liveness, WorkerCard, WorkerId, WorkerSighting};

use enqueue::Unanswered;
pub use primary::{Connect, Connecting};
use primary::{Primary, within};

/// The options of a fallback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FallbackOptions {
    /// The time limit of a check or an enqueue: without an answer by then it counts as failed.
    pub check_timeout: Duration,
    /// The interval between checks of the primary.
    pub check_every: Duration,
    /// The rules for when the primary counts as away and when as back.
    pub rules: SwitchRules,
    /// The treatment of new jobs with keys while the primary is away.
    pub keys: KeysWhileAway,
    /// The maximum number of unfinished jobs in the spool.
    pub spool_max: u64,
    /// The age from which a batch on its way from the spool to the primary is taken over from the process
    /// that staged it.
    pub adopt_after: Duration,
    /// Whether this process replays the spool. A short-lived process leaves it to others.
    pub replay: bool,
}

impl Default for FallbackOptions {
    fn default() -> Self {
        Self {
            check_timeout: Duration::from_secs(2),
            check_every: Duration::from_secs(1),
            rules: SwitchRules::default(),
            keys: KeysWhileAway::default(),
            spool_max: 100_000,
            adopt_after: Duration::from_secs(30),
            replay: true,
        }
    }
}

/// The treatment of new jobs with keys while the primary is away, which alone knows the holders of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeysWhileAway {
    /// They are refused.
    #[default]
    Refuse,
    /// They are accepted. A job whose key turns out to be held ends as cancelled, if it was not run before.
    Accept,
}

/// An engine made of a primary and a spool.
pub struct FallbackEngine {
    inner: Arc<Inner>,
    duties: Vec<JoinHandle<()>>,
}

struct Inner {
    primary: Primary,
    spool: Arc<dyn Spool>,
    options: FallbackOptions,
    switch: Mutex<Switch>,
    /// All declarations of this process.
    declared: Mutex<Declaration>,
    /// Whether the primary knows all declarations of this process.
    is_declared: AtomicBool,
    /// Whether it was logged that the primary is reachable and cannot be used.
    is_refused: AtomicBool,
    /// When a job was last spooled, as far as this process knows.
    last_spooled: Mutex<Option<Instant>>,
    /// Unfinished jobs in the spool when it was last counted, and those spooled since.
    in_spool: AtomicU64,
    /// Why the spool lacks declarations, if it does.
    spool_trouble: Mutex<Option<String>>,
    unanswered: Mutex<Unanswered>,
    /// Batches that this process has staged, and that no other process sends before they are old. They are
    /// replayed before all others.
    left_behind: Mutex<HashSet<RequestId>>,
    counts: Counts,
    returned: Arc<Notify>,
    /// Goes up after each check of the primary and each replay.
    heard: watch::Sender<u64>,
    started: Instant,
}

#[derive(Debug, Default)]
struct Counts {
    switches: AtomicU64,
    spooled: AtomicU64,
    returned: AtomicU64,
}

impl FallbackEngine {
    /// Joins a primary and a spool, which must give ids from
    /// [`SPOOL_IDS_FROM`](windlass_core::limits::SPOOL_IDS_FROM) on. If the primary is away, it starts with
    /// the spool and logs a warning. If the spool has a transient error, such as a full disk, it starts
    /// with the primary and logs a warning. Both together are an error, and so is any other error: an
    /// operator must act.
    pub async fn open(
        name: &'static str,
        connect: Connect,
        spool: Arc<dyn Spool>,
        options: FallbackOptions,
    ) -> Result<Self> {
        let inner = Arc::new(Inner {
            primary: Primary::new(name, connect),
            spool,
            options,
            switch: Mutex::new(Switch::new(options.rules, Side::Primary, Duration::ZERO)),
            declared: Mutex::default(),
            is_declared: AtomicBool::new(false),
            is_refused: AtomicBool::new(false),
            last_spooled: Mutex::default(),
            in_spool: AtomicU64::default(),
            spool_trouble: Mutex::default(),
            unanswered: Mutex::default(),
            left_behind: Mutex::default(),
            counts: Counts::default(),
            returned: Arc::default(),
            heard: watch::Sender::new(0),
            started: Instant::now(),
        });
        inner.open_spool().await?;
        inner.reach_primary().await?;
        let mut duties = vec![tokio::spawn(health::watch(Arc::downgrade(&inner)))];
        if options.replay {
            let (myself, returned) = (Arc::downgrade(&inner), Arc::clone(&inner.returned));
            let replaying = health::replay(myself, returned, options.adopt_after);
            duties.push(tokio::spawn(replaying));
        }
        Ok(Self { inner, duties })
    }
}

impl FallbackEngine {
    /// Goes up after each check of the primary and each round of replay, for callers that wait for their
    /// results.
    pub fn heard(&self) -> watch::Receiver<u64> {
        self.inner.heard.subscribe()
    }
}

impl Drop for FallbackEngine {
    fn drop(&mut self) {
        self.duties.iter().for_each(JoinHandle::abort);
    }
}

impl fmt::Debug for FallbackEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FallbackEngine").field("primary", &self.inner.primary.name).finish_non_exhaustive()
    }
}

impl Inner {
    /// Tries the primary once, at the start.
    async fn reach_primary(self: &Arc<Self>) -> Result<()> {
        let inner = Arc::clone(self);
        let opening = async move { inner.primary.open().await.map(drop) };
        let reached = match within(self.options.check_timeout, opening).await {
            Ok(()) => self.declare_to_primary().await,
            failed => failed,
        };
        match reached {
            Err(error @ (EngineError::Unavailable { .. } | EngineError::Unknown { .. })) => {
                if let Some(trouble) = self.spool_trouble().clone() {
                    let (primary, spool) = (self.primary.name, self.spool.info().name);
                    let why =
                        format!("neither {primary} nor the spool ({spool}) can be used: {error}; {trouble}");
                    return Err(EngineError::Unavailable { why });
                }
                let (primary, spool) = (self.primary.name, self.spool.info().name);
                tracing::warn!(%error, primary, spool, "the store is away; starting with the spool");
                *self.switch() = Switch::new(self.options.rules, Side::Spool, Duration::ZERO);
                Ok(())
            }
            answered => answered,
        }
    }

    fn side(&self) -> Side {
        self.switch().side()
    }

    fn switch(&self) -> MutexGuard<'_, Switch> {
        self.switch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unanswered(&self) -> MutexGuard<'_, Unanswered> {
        self.unanswered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn declared(&self) -> MutexGuard<'_, Declaration> {
        self.declared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the jobs in the spool that have not ended.
    async fn spool_size(&self) -> Result<u64> {
        let size = unfinished(&self.spool.queues().await?);
        self.in_spool.store(size, Ordering::Relaxed);
        Ok(size)
    }

    async fn status(&self) -> Result<FallbackStatus> {
        let spool = self.spool.info().name;
        let (side, primary_healthy) = {
            let switch = self.switch();
            (switch.side(), switch.is_healthy())
        };
        let (spool_size, uncertain, spool_trouble) = match self.read_spool().await {
            Ok((size, uncertain)) => (size, uncertain, self.spool_trouble().clone()),
            Err(error) if error.is_passing() => {
                (self.in_spool.load(Ordering::Relaxed), 0, Some(error.to_string()))
            }
            Err(error) => return Err(error),
        };
        Ok(FallbackStatus {
            active: if side == Side::Primary { self.primary.name } else { spool },
            primary: self.primary.name,
            spool,
            primary_healthy,
            switches: self.counts.switches.load(Ordering::Relaxed),
            spooled: self.counts.spooled.load(Ordering::Relaxed),
            returned: self.counts.returned.load(Ordering::Relaxed),
            spool_size,
            uncertain,
            spool_trouble,
        })
    }

    /// Counts the jobs in the spool, and those of them that an operator must decide on.
    async fn read_spool(&self) -> Result<(u64, u64)> {
        Ok((self.spool_size().await?, self.uncertain().await?))
    }

    /// Declares in both stores; a declaration that the primary refuses is not declared at all. A primary
    /// that is away learns it when it is back.
    async fn declare(&self, declaration: Declaration) -> Result<()> {
        let copy = declaration.clone();
        match self.on_primary(|primary| async move { primary.declare(copy).await }).await {
            Ok(()) => {
                let declared = self.declare_in_spool(declaration.clone()).await;
                self.unless_passing(declared)?;
                remember(&mut self.declared(), declaration);
            }
            // A short-lived process cannot repeat it later.
            Err(error) if error.is_away() && self.options.replay => {
                tracing::warn!(%error, "the store is away; queues and types are declared again when it answers");
                self.spool.declare(declaration.clone()).await?;
                remember(&mut self.declared(), declaration);
                self.is_declared.store(false, Ordering::Release);
            }
            refused => return refused,
        }
        Ok(())
    }
}

/// Sends each part of a batch to the store that has its jobs.
impl Inner {
    /// Returns the answers of both stores in the order of the batch.
    async fn by_side<T, A, Fut>(
        &self,
        batch: Vec<T>,
        job_of: impl Fn(&T) -> JobId + Send,
        call: impl Fn(Arc<dyn Engine>, Vec<T>) -> Fut + Send,
    ) -> Result<Vec<A>>
    where
        T: Send,
        A: Send,
        Fut: Future<Output = Result<Vec<A>>> + Send,
    {
        let sides: Vec<_> = batch.iter().map(|item| Side::of(job_of(item))).collect();
        if sides.iter().all(|side| *side == Side::Primary) {
            return call(self.primary.engine()?, batch).await;
        }
        let (there, here): (Vec<_>, Vec<_>) =
            batch.into_iter().partition(|item| Side::of(job_of(item)) == Side::Primary);
        let mut here = call(Arc::<dyn Spool>::clone(&self.spool), here).await?.into_iter();
        let mut there = match there.is_empty() {
            true => Vec::new().into_iter(),
            false => call(self.primary.engine()?, there).await?.into_iter(),
        };
        let next = |side: &Side| if *side == Side::Primary { there.next() } else { here.next() };
        Ok(sides.iter().filter_map(next).collect())
    }
}

fn unfinished(queues: &[QueueStatus]) -> u64 {
    queues.iter().map(|queue| queue.counts.unfinished()).sum()
}

/// Adds a declaration to the known ones; the newer one replaces the older.
fn remember(known: &mut Declaration, new: Declaration) {
    known.queues.retain(|old| new.queues.iter().all(|queue| queue.name != old.name));
    known.types.retain(|old| new.types.iter().all(|kind| kind.name != old.name));
    known.queues.extend(new.queues);
    known.types.extend(new.types);
}

/// A worker of this engine works on the primary; on the spool it works through [`Engine::spool`].
#[async_trait]
impl Engine for FallbackEngine {
    fn info(&self) -> EngineInfo {
        let spool = self.inner.spool.info().durability;
        let primary = self.inner.primary.engine().map(|engine| engine.info()).ok();
        let durability = primary.map_or(spool, |primary| primary.durability.min(spool));
        // The modes of a primary that this process has not reached yet are unknown. A worker must start all
        // the same: that is the purpose of a spool.
        let duty_modes = primary.map_or(DutyModes::ALL, |primary| primary.duty_modes);
        EngineInfo { name: self.inner.primary.name, durability, duty_modes }
    }

    fn spool(&self) -> Option<Arc<dyn Engine>> {
        Some(Arc::<dyn Spool>::clone(&self.inner.spool))
    }

    async fn now(&self) -> Result<Timestamp> {
        match self.inner.side() {
            Side::Primary => self.inner.primary.engine()?.now().await,
            Side::Spool => self.inner.spool.now().await,
        }
    }

    async fn replaced(&self) -> Result<Option<Replaced>> {
        match self.inner.side() {
            Side::Primary => self.inner.primary.engine()?.replaced().await,
            Side::Spool => Ok(None),
        }
    }

    async fn declare(&self, declaration: Declaration) -> Result<()> {
        self.inner.declare(declaration).await
    }

    async fn enqueue(&self, request: EnqueueRequest) -> Result<Vec<EnqueueAnswer>> {
        self.inner.enqueue(request).await
    }

    async fn receipt(&self, request: RequestId) -> Result<Option<Vec<EnqueueAnswer>>> {
        self.inner.receipt(request).await
    }

    async fn ask(&self, request: RequestId) -> Result<Option<Vec<EnqueueAnswer>>> {
        self.inner.ask_both(request).await
    }

    async fn claim(&self, request: ClaimRequest) -> Result<ClaimAnswer> {
        let began = self.inner.started.elapsed();
        self.inner.note(began, self.inner.primary.engine()?.claim(request).await)
    }

    async fn peek(&self, queues: &[QueueName], types: &[TypeName]) -> Result<Vec<(QueueName, NextDue)>> {
        self.inner.primary.engine()?.peek(queues, types).await
    }

    async fn settle(&self, batch: Vec<Settlement>) -> Result<Vec<Settled>> {
        let settle = |engine: Arc<dyn Engine>, part| async move { engine.settle(part).await };
        let began = self.inner.started.elapsed();
        self.inner.note(began, self.inner.by_side(batch, |settlement| settlement.fence.job, settle).await)
    }

    async fn report(&self, batch: Vec<(Fence, Progress)>) -> Result<Vec<Settled>> {
        let report = |engine: Arc<dyn Engine>, part| async move { engine.report(part).await };
        self.inner.by_side(batch, |(fence, _)| fence.job, report).await
    }

    async fn register(&self, card: WorkerCard) -> Result<()> {
        self.inner.primary.engine()?.register(card).await
    }

    async fn extend(&self, heartbeat: Heartbeat) -> Result<Liveness> {
        self.inner.primary.engine()?.extend(heartbeat).await
    }

    async fn heartbeat_with_members(
        &self,
        heartbeat: Heartbeat,
        clock: Timestamp,
    ) -> Result<HeartbeatAnswer> {
        self.inner.primary.engine()?.heartbeat_with_members(heartbeat, clock).await
    }

    async fn asked_to_stop(&self, worker: WorkerId) -> Result<Vec<Fence>> {
        self.inner.primary.engine()?.asked_to_stop(worker).await
    }

    async fn retire(&self, worker: WorkerId) -> Result<()> {
        self.inner.primary.engine()?.retire(worker).await
    }

    async fn workers(&self) -> Result<Vec<WorkerSighting>> {
        self.inner.primary.engine()?.workers().await
    }

    async fn rescue(&self, request: RescueRequest) -> Result<Rescued> {
        self.inner.primary.engine()?.rescue(request).await
    }

    async fn sweep(&self, limit: u32) -> Result<BatchDone> {
        self.inner.primary.engine()?.sweep(limit).await
    }

    async fn prune(&self, limit: u32) -> Result<BatchDone> {
        self.inner.primary.engine()?.prune(limit).await
    }

    fn on_hint(&self, listener: Weak<dyn HintListener>) {
        self.inner.spool.on_hint(listener.clone());
        self.inner.primary.on_hint(listener);
    }
}
