//! A worker: pools of slots that claim jobs, run handlers and settle them, a thread that sends heartbeats,
//! and maintenance that rescues the jobs of dead workers.
//!
//! [`claim`], `execute` and [`settle`] are the steps of a job; [`pool`] joins them. They and [`heart`] are
//! pure; `shell` and `heartbeat` are the thin layer that talks to the store and the clock.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use windlass_core::engine::{Declaration, Engine};
use windlass_core::error::EngineError;
use windlass_core::limits::CONCURRENCY_MAX;
use windlass_core::worker::WorkerId;

use crate::client::{Client, ClientOptions};
use crate::duties::mailbox::Mailbox;
use crate::duties::prepare::{EnqueuingDuties, Prepared, check_options};
use crate::duties::shell::DutiesThread;
use crate::handler::{Handlers, HandlersError, Table};
use crate::limits::GateOpener;
use crate::reconcile::Reconciler;
use crate::rollups::recorder::Recorder;
use crate::rollups::shell::{STATS_FLUSH_GRACE, StatsFlusher};
use crate::schedules::SchedulesError;
use crate::triggers::TriggersError;
use crate::triggers::shell::TriggerPoller;
use crate::{maintenance, random, store};

pub mod claim;
pub(crate) mod execute;
pub mod settle;
pub mod pool;
pub mod heart;
pub mod quarantine;
pub mod backoff;
pub(crate) mod options;
pub(crate) mod shell;
pub(crate) mod controls;
pub(crate) mod heartbeat;
mod stop_requests;
pub(crate) mod hints;
pub(crate) mod last_errors;
mod scale;

pub use last_errors::LastError;
pub use options::{SharedPool, WorkerOptions, WorkerOptionsError};

use controls::Controls;
use heartbeat::{HeartHandle, HeartThread, Identity};
use hints::Listener;
use last_errors::LastErrors;
use options::Plan;
use pool::{Event, Pool};
use quarantine::Quarantine;
use shell::PoolShell;

/// A moment on this process's monotonic clock, counted from its start. Simulations count from theirs.
pub type Moment = Duration;

/// How long the last settlements may take after the grace of a stop.
const FLUSH_GRACE: Duration = Duration::from_secs(5);

/// A running worker. End it with [`stop`](Self::stop) or [`drain`](Self::drain).
///
/// A worker that is dropped ends its handlers at once, releases their jobs and leaves the store, all in the
/// background. The caller does not learn whether this succeeded. A handler that blocks its thread is still
/// waited for.
pub struct Worker {
    client: Client,
    pools: Vec<mpsc::Sender<Event>>,
    shells: Vec<JoinHandle<()>>,
    /// Whether a pool ended without having settled everything.
    unsettled: bool,
    /// The task that watches for changed numbers of slots, the task that watches the queue depths, and the
    /// gate opener.
    watches: Vec<JoinHandle<()>>,
    /// Maintenance and other duties, if this process does them.
    duties: Option<DutiesThread>,
    /// Evaluates the completion triggers that this process marks.
    trigger_poller: Option<TriggerPoller>,
    /// Flushes the samples of attempts to the store.
    stats_flusher: Option<StatsFlusher>,
    mailbox: Mailbox,
    /// Taken only by dropping the worker.
    heart: Option<HeartThread>,
    /// Works on the spool, if the engine has one. It has slots, heartbeats and an identity of its own, so
    /// that a failure of one store does not affect the work on the other.
    on_spool: Option<Box<Self>>,
    /// Kept until the worker has ended, because a dropped listener receives no more notifications.
    listener: Option<Arc<Listener>>,
    controls: Arc<Controls>,
    errors: Arc<LastErrors>,
    stop_grace: Duration,
    runtime: Handle,
}

impl Worker {
    /// Declares the queues, registers the types, rescues the jobs of dead workers of this host, and starts.
    pub async fn start<S: Clone + Send + Sync + 'static>(
        engine: Arc<dyn Engine>,
        handlers: Handlers<S>,
        options: WorkerOptions,
    ) -> Result<Self, StartError> {
        let table = handlers.finish()?;
        let plan = options.plan(&table)?;
        let limits = options.limits_with(&table);
        check_options(&options, engine.info().duty_modes)?;
        declare(&engine, &plan, &table).await?;
        let client = Client::with_options(
            Arc::clone(&engine),
            ClientOptions { labels: options.labels.clone(), hooks: options.enqueue_hooks.clone(), limits },
        );
        let common = Common::default();
        let on_spool = match engine.spool() {
            Some(spool) => {
                let worker = Self::start_on(spool, &client, &table, &plan, &options, &common).await?;
                Some(Box::new(worker))
            }
            None => None,
        };
        sync_limits(&client).await;
        let reconcile = Reconciler::of(&engine, &options);
        let stored = reconcile.at_start().await?;
        client.schedules().log_undeclared(&options.schedules, options.schedules_origin).await;
        client.triggers().log_undeclared(&options.triggers, options.triggers_origin).await;
        let gates = Some(gate_opener(&client, &table));
        let duties = Prepared::new(&engine, &options, &options.duties, gates, EnqueuingDuties::of(&options));
        let card = plan.card(random::worker_id(), duties.led());
        let identity = Identity::register(Arc::clone(&engine), card, on_spool.is_some()).await?;
        let mut worker = Self::assemble(client, table, &plan, identity, &options, &common, duties);
        worker.on_spool = on_spool;
        worker.trigger_poller =
            options.fire_triggers.then(|| TriggerPoller::start(&engine, options.alerts()));
        worker.watches.extend(reconcile.keep(stored, worker.mailbox.clone()));
        Ok(worker)
    }

    /// Starts a second worker with the same plan on the spool of the engine.
    async fn start_on(
        spool: Arc<dyn Engine>,
        client: &Client,
        table: &Table,
        plan: &Plan,
        options: &WorkerOptions,
        common: &Common,
    ) -> Result<Self, StartError> {
        let client = client.on_spool(Arc::clone(&spool));
        sync_limits(&client).await;
        // The duties of an application run on the primary only.
        let duties =
            Prepared::new(&spool, options, &[], Some(gate_opener(&client, table)), EnqueuingDuties::NOTHING);
        let card = plan.card(random::worker_id(), duties.led());
        let identity = Identity::register(Arc::clone(&spool), card, true).await?;
        Ok(Self::assemble(client, table.clone(), plan, identity, options, common, duties))
    }

    fn assemble(
        client: Client,
        table: Table,
        plan: &Plan,
        identity: Identity,
        options: &WorkerOptions,
        common: &Common,
        duties: Prepared,
    ) -> Self {
        let engine = Arc::clone(identity.engine());
        let stats_flusher = StatsFlusher::start(&engine, duties.dirty(), options.maintenance);
        let parts = Parts {
            engine: Arc::clone(&engine),
            client: client.clone(),
            table,
            controls: Arc::new(Controls::default()),
            common: common.clone(),
            recorder: stats_flusher.recorder(),
            worker: identity.worker(),
            started: Instant::now(),
        };
        let (inboxes, mut pools): (Vec<_>, Vec<_>) =
            plan.pools.iter().map(|settings| parts.pool(settings.clone())).unzip();
        let flags: Vec<_> = pools.iter().map(|shell| shell.hint_flag()).collect();
        let mailbox = duties.mailbox();
        let heart = HeartThread::start(
            identity,
            Arc::clone(&parts.controls),
            inboxes.clone(),
            options,
            mailbox.clone(),
        );
        let listener =
            Listener::start(&engine, flags, Arc::clone(&parts.controls), heart.handle(), mailbox.clone());
        for shell in &mut pools {
            shell.watch_heart(heart.handle());
        }
        let pool_panic = PoolPanic {
            pools: inboxes.clone(),
            controls: Arc::clone(&parts.controls),
            heart: heart.handle(),
            runtime: Handle::current(),
        };
        let scaling = scale::watch(
            Arc::clone(&engine),
            options.sweep_every,
            plan.pools.iter().zip(inboxes.iter().cloned()),
        );
        let depth = options
            .maintenance
            .then(|| tokio::spawn(maintenance::depth::watch_depth(engine, mailbox.clone())));
        let gate_opener = gate_opener(&client, &parts.table);
        let gate_opener =
            if options.maintenance { gate_opener.beside_duty(mailbox.clone()) } else { gate_opener };
        let watches = depth.into_iter().chain([scaling, tokio::spawn(gate_opener.run())]).collect();
        let watched = |shell: PoolShell| tokio::spawn(watch(shell.run(), pool_panic.clone()));
        Self {
            client: client.clone(),
            pools: inboxes,
            shells: pools.into_iter().map(watched).collect(),
            unsettled: false,
            watches,
            duties: duties.start(client.clone()),
            trigger_poller: None,
            stats_flusher: Some(stats_flusher),
            mailbox,
            heart: Some(heart),
            on_spool: None,
            listener: Some(listener),
            controls: parts.controls,
            errors: parts.common.errors,
            stop_grace: options.stop_grace,
            runtime: Handle::current(),
        }
    }

    /// A client that shares this worker's labels and hooks, and that refuses new jobs once it drains.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The newest errors of handlers in this process, newest last.
    pub fn last_errors(&self) -> Vec<LastError> {
        self.errors.snapshot()
    }

    /// A handle with which other code can stop this worker while a caller waits for its end.
    pub fn stopper(&self) -> Stopper {
        let of_spool = self.on_spool.iter().map(|worker| worker.mailbox.clone());
        Stopper {
            pools: self.all_pools(),
            duties: [self.mailbox.clone()].into_iter().chain(of_spool).collect(),
            grace: self.stop_grace,
            runtime: self.runtime.clone(),
        }
    }

    /// Stops and waits until everything is settled, or until the grace and a few seconds have passed.
    pub async fn stop(&mut self) -> Stopped {
        self.stopper().stop();
        self.ended(Some(self.stop_grace.saturating_add(FLUSH_GRACE))).await
    }

    /// Accepts no new jobs, works until nothing is due, then ends. Future and parked jobs stay.
    pub async fn drain(&mut self) -> Stopped {
        self.client.start_draining();
        if self.pools.is_empty() {
            self.stopper().stop();
        }
        send_to_pools(&self.all_pools(), &self.runtime, || Event::Drain);
        self.ended(None).await
    }

    /// The pools on both stores.
    fn all_pools(&self) -> Vec<mpsc::Sender<Event>> {
        let of_spool = self.on_spool.iter().flat_map(|worker| worker.pools.iter());
        self.pools.iter().chain(of_spool).cloned().collect()
    }

    /// Waits for the pools, then ends maintenance and unregisters the worker from the store.
    ///
    /// The future may be dropped while it waits, and the function called again: it then waits for the pools
    /// that have not ended.
    pub async fn ended(&mut self, within: Option<Duration>) -> Stopped {
        let deadline = within.and_then(|within| tokio::time::Instant::now().checked_add(within));
        if self.pools.is_empty() {
            let left = deadline
                .map_or(Duration::MAX, |at| at.saturating_duration_since(tokio::time::Instant::now()));
            let _ = tokio::time::timeout(left, self.mailbox.stopped()).await;
        }
        // A pool is removed only after its end. Otherwise a second call would find no pool to wait for.
        while let Some(shell) = self.shells.last_mut() {
            let clean = match deadline {
                Some(deadline) => {
                    tokio::time::timeout_at(deadline, &mut *shell).await.is_ok_and(|end| end.is_ok())
                }
                None => (&mut *shell).await.is_ok(),
            };
            shell.abort();
            self.shells.pop();
            self.unsettled |= !clean;
        }
        if let Some(on_spool) = &mut self.on_spool {
            let left =
                deadline.map(|deadline| deadline.saturating_duration_since(tokio::time::Instant::now()));
            self.unsettled |= Box::pin(on_spool.ended(left)).await == Stopped::Unsettled;
        }
        // Before the gate opener is ended: breaker events that it is about to send must not be lost with it.
        let _ = tokio::time::timeout(FLUSH_GRACE, sync_limits(&self.client)).await;
        if let Some(trigger_poller) = self.trigger_poller.take() {
            let _ = tokio::time::timeout(FLUSH_GRACE, trigger_poller.end()).await;
        }
        if let Some(stats_flusher) = self.stats_flusher.take() {
            let _ = tokio::time::timeout(STATS_FLUSH_GRACE, stats_flusher.end()).await;
        }
        self.watches.drain(..).for_each(|watch| watch.abort());
        self.listener = None;
        if let Some(mut duties) = self.duties.take() {
            duties.stop().await;
        }
        if let Some(heart) = &mut self.heart {
            leave(heart, &self.controls).await;
        }
        if self.unsettled { Stopped::Unsettled } else { Stopped::Clean }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.watches.drain(..).for_each(|watch| watch.abort());
        self.duties = None;
        self.trigger_poller = None;
        self.stats_flusher = None;
        let shells = std::mem::take(&mut self.shells);
        let Some(mut heart) = self.heart.take().filter(|_| !shells.is_empty()) else { return };
        self.stopper().stop_now();
        let controls = Arc::clone(&self.controls);
        // Heartbeats go on until the last handler has ended, so that no other worker takes a job that still
        // runs. If the runtime ends first, the task is dropped, and the lease expires.
        self.runtime.spawn(async move {
            for shell in shells {
                let _ = shell.await;
            }
            leave(&mut heart, &controls).await;
        });
    }
}

/// Unregisters the worker from the store, which releases every job that the worker holds. If a handler
/// outlived its pool, the worker only stops its heartbeats instead: the lease gives that handler some more
/// time.
async fn leave(heart: &mut HeartThread, controls: &Controls) {
    match controls.is_empty() {
        true => heart.stop().await,
        false => heart.handle().fall_silent(),
    }
}

/// The reaction to a panic of a pool, which is a bug in the pool.
#[derive(Clone)]
struct PoolPanic {
    pools: Vec<mpsc::Sender<Event>>,
    controls: Arc<Controls>,
    heart: HeartHandle,
    runtime: Handle,
}

impl PoolPanic {
    /// Ends the whole worker. The record of the jobs that the pool had claimed is lost, so only rescue can
    /// find them, and rescue takes back the jobs of workers whose heartbeats stopped. A fresh pool beside
    /// heartbeats that go on would leave those jobs running for ever. Handlers are ended first, so that
    /// none runs when its job is taken.
    fn end_worker(&self) {
        tracing::error!("a pool panicked; this worker ends, and its jobs are rescued when its lease expires");
        self.heart.fall_silent();
        self.controls.abort_all();
        send_to_pools(&self.pools, &self.runtime, || Event::Stop { grace: Duration::ZERO });
    }
}

/// Runs a pool. If the pool panics, it ends the worker and resumes the panic for the task that joins the
/// pool.
async fn watch(pool: impl Future<Output = ()>, pool_panic: PoolPanic) {
    let mut pool = std::pin::pin!(pool);
    let ended = std::future::poll_fn(|cx| {
        // The future that panicked is never polled again, so it need not be unwind safe.
        match std::panic::catch_unwind(AssertUnwindSafe(|| pool.as_mut().poll(cx))) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    });
    if let Err(panic) = ended.await {
        pool_panic.end_worker();
        std::panic::resume_unwind(panic);
    }
}

/// Stops a worker. Cheap to clone.
#[derive(Clone)]
pub struct Stopper {
    pools: Vec<mpsc::Sender<Event>>,
    duties: Vec<Mailbox>,
    grace: Duration,
    runtime: Handle,
}

impl Stopper {
    /// Claims no more jobs, gives running handlers the grace, and releases unfinished jobs at no cost.
    /// Other processes take over the duties at once.
    pub fn stop(&self) {
        self.duties.iter().for_each(Mailbox::stop);
        send_to_pools(&self.pools, &self.runtime, || Event::Stop { grace: self.grace });
    }

    /// Claims no more jobs, ends running handlers at once and releases their jobs. For a second signal.
    pub fn stop_now(&self) {
        self.duties.iter().for_each(Mailbox::stop);
        send_to_pools(&self.pools, &self.runtime, || Event::Stop { grace: Duration::ZERO });
    }
}

fn send_to_pools(pools: &[mpsc::Sender<Event>], runtime: &Handle, event: impl Fn() -> Event) {
    for pool in pools {
        // A full inbox belongs to a pool that is about to read it; a closed one to a pool that has ended.
        if let Err(mpsc::error::TrySendError::Full(event)) = pool.try_send(event()) {
            let pool = pool.clone();
            runtime.spawn(async move { pool.send(event).await });
        }
    }
}

/// How a worker ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Everything was settled or given back.
    Clean,
    /// The store did not accept the last settlements in time. Nothing is lost: the jobs will be rescued and
    /// run again.
    Unsettled,
}

/// State that a worker shares with the worker on the spool. It exists once per process, whichever store a
/// job is in.
#[derive(Clone, Default)]
struct Common {
    errors: Arc<LastErrors>,
    quarantine: Quarantine,
}

/// Parts that the pools share.
struct Parts {
    engine: Arc<dyn Engine>,
    client: Client,
    table: Table,
    controls: Arc<Controls>,
    common: Common,
    recorder: Arc<Recorder>,
    worker: WorkerId,
    started: Instant,
}

impl Parts {
    fn pool(&self, settings: pool::PoolSettings) -> (mpsc::Sender<Event>, PoolShell) {
        // Capacity for the largest number of slots that the pool can be scaled to.
        let (inbox, events) = mpsc::channel(shell::inbox_size(CONCURRENCY_MAX));
        let queues = settings.scope.queues.clone();
        let pool =
            Pool::new(settings, self.worker, self.common.quarantine.shared(), Box::new(random::claim_token));
        (inbox.clone(), PoolShell::new(pool, queues, self, events, inbox))
    }
}

fn gate_opener(client: &Client, table: &Table) -> GateOpener {
    GateOpener::new(Arc::clone(client.limits()), table.handlers.keys().cloned().collect())
}

async fn declare(engine: &Arc<dyn Engine>, plan: &Plan, table: &Table) -> Result<(), EngineError> {
    let types = table.handlers.values().map(|registered| registered.spec.clone()).collect();
    let declaration = Declaration { queues: plan.queues.clone(), types };
    store::call(engine, |engine| async move { engine.declare(declaration).await }).await
}

/// Exchanges breaker states with the store. A worker that starts learns which platforms other processes
/// found broken; a worker that ends stores what it has learned. Without an answer from the store the worker
/// goes on with its own state.
async fn sync_limits(client: &Client) {
    if let Err(error) = client.limits().breakers.sync().await {
        tracing::warn!(%error, "sharing breaker states with the store failed; this process uses its own until the next round");
    }
}

/// Why a worker did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The handlers are invalid.
    #[error(transparent)]
    Handlers(#[from] HandlersError),
    /// The options are invalid.
    #[error(transparent)]
    Options(#[from] WorkerOptionsError),
    /// The schedules are invalid, or could not be stored.
    #[error("the schedules of the worker could not be stored")]
    Schedules(#[from] SchedulesError),
    /// The completion triggers are invalid, or could not be stored.
    #[error("the completion triggers of the worker could not be stored")]
    CompletionTriggers(#[from] TriggersError),
    /// The store refused or failed.
    #[error("the worker could not register with the store")]
    Store(#[from] EngineError),
}

#[cfg(test)]
mod tests;
