//! What a scenario uses: a fresh store, and a client and workers on it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use windlass::types::engine::{Declaration, Engine};
use windlass::{Client, Handlers, LimitOptions, QueueSpec, TypeSpec, Worker, WorkerOptions, spec_of};

use crate::handled::Handled;
use crate::store::{Location, Store};
use crate::workload::{Work, queue_name};
use crate::{History, Options, quiesce};

/// The default of job types.
const RETENTION_DAYS: u32 = 7;

/// What a scenario uses.
pub(crate) struct Env<'a> {
    pub(crate) options: &'a Options,
    pub(crate) store: &'a Store,
    pub(crate) history: History,
    /// The limits that workers keep.
    limits: LimitOptions,
    /// The start of the clock whose time jobs carry.
    pub(crate) epoch: Instant,
}

impl<'a> Env<'a> {
    pub(crate) fn new(options: &'a Options, store: &'a Store) -> Self {
        let (history, limits) = (options.history, LimitOptions::default());
        Self { options, store, history, limits, epoch: Instant::now() }
    }

    /// The same, and finished jobs are not kept.
    pub(crate) fn without_history(&self) -> Self {
        Self { history: History::Off, limits: self.limits.clone(), ..*self }
    }

    /// The same, and workers keep these limits.
    pub(crate) fn with_limits(&self, limits: LimitOptions) -> Self {
        Self { limits, ..*self }
    }

    /// A client. The store knows queue and type afterwards.
    pub(crate) async fn client(&self) -> Result<Client> {
        let spec = with_history(spec_of::<Work>()?, self.history);
        self.store.engine.declare(Declaration { queues: vec![self.queue()], types: vec![spec] }).await?;
        Ok(Client::new(self.engine()))
    }

    /// Waits until the server has finished the work that the preparation caused.
    pub(crate) async fn quiesce(&self) -> Result<()> {
        match &self.store.location {
            Location::Namespace { url, .. } => quiesce::redis(url).await,
            Location::Schema { url, .. } => quiesce::postgres(url, &*self.store.engine).await,
            Location::Memory | Location::File(_) => Ok(()),
        }
    }

    /// A worker whose handlers only count.
    pub(crate) async fn counting_worker(&self, handled: &Arc<Handled>) -> Result<Worker> {
        let handled = Arc::clone(handled);
        self.worker(Handlers::new(()).handle(move |_: Work| {
            let handled = Arc::clone(&handled);
            async move { handled.add_one() }
        }))
        .await
    }

    pub(crate) async fn worker<S: Clone + Send + Sync + 'static>(
        &self,
        handlers: Handlers<S>,
    ) -> Result<Worker> {
        let history = self.history;
        let handlers = handlers.configure(|spec| with_history(spec, history));
        let (queues, limits) = (vec![self.queue()], self.limits.clone());
        let options = WorkerOptions { queues, limits, ..WorkerOptions::default() };
        Ok(Worker::start(self.engine(), handlers, options).await?)
    }

    fn engine(&self) -> Arc<dyn Engine> {
        Arc::clone(&self.store.engine)
    }

    fn queue(&self) -> QueueSpec {
        QueueSpec { concurrency: self.options.concurrency, ..QueueSpec::new(queue_name()) }
    }

    /// What a job carries that is enqueued now.
    pub(crate) fn nanos(&self) -> u64 {
        nanos_since(self.epoch)
    }

    /// Compares the store's own count of succeeded jobs. A rate of work that was not done would be worth
    /// nothing.
    pub(crate) async fn check_succeeded(&self, expected: u64) -> Result<()> {
        let queues = self.store.engine.queues().await?;
        let succeeded: u64 = queues.iter().map(|queue| queue.totals.succeeded).sum();
        ensure!(succeeded == expected, "expected {expected} jobs done, got {succeeded}");
        Ok(())
    }
}

pub(crate) fn nanos_since(epoch: Instant) -> u64 {
    u64::try_from(epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// How long ago the job was enqueued that carries this.
pub(crate) fn since(epoch: Instant, nanos: u64) -> Duration {
    epoch.elapsed().saturating_sub(Duration::from_nanos(nanos))
}

fn with_history(spec: TypeSpec, history: History) -> TypeSpec {
    let retention_days = if history == History::On { RETENTION_DAYS } else { 0 };
    TypeSpec { retention_days, ..spec }
}
