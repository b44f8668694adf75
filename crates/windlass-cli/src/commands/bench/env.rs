//! What a scenario stands on: a fresh store, and a client and workers on it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass::{Client, Handlers, LimitOptions, QueueSpec, TypeSpec, Worker, WorkerOptions, spec_of};
use windlass_core::engine::{Declaration, Engine};

use super::fixture::{At, Place};
use super::load::{Work, queue_name};
use super::progress::Progress;
use super::tally::Tally;
use super::{BenchArgs, History, failed, rest};
use crate::exit::Failure;

/// Seven days are the default of job types.
const RETENTION_DAYS: u32 = 7;

/// What a scenario stands on.
pub(super) struct Env<'a> {
    pub(super) args: &'a BenchArgs,
    pub(super) place: &'a Place,
    pub(super) progress: &'a Progress,
    pub(super) history: History,
    /// What workers keep.
    limits: LimitOptions,
    /// From here on the time is counted that jobs carry.
    pub(super) epoch: Instant,
}

impl<'a> Env<'a> {
    pub(super) fn new(args: &'a BenchArgs, place: &'a Place, progress: &'a Progress) -> Self {
        let (history, limits) = (args.history, LimitOptions::default());
        Self { args, place, progress, history, limits, epoch: Instant::now() }
    }

    /// The same where finished jobs are not kept.
    pub(super) fn without_history(&self) -> Self {
        Self { history: History::Off, limits: self.limits.clone(), ..*self }
    }

    /// The same where workers keep these limits.
    pub(super) fn with_limits(&self, limits: LimitOptions) -> Self {
        Self { limits, ..*self }
    }

    pub(super) fn engine(&self) -> Arc<dyn Engine> {
        Arc::clone(&self.place.engine)
    }

    /// A client, once the store knows queue and type.
    pub(super) async fn client(&self) -> Result<Client, Failure> {
        let spec = configured(spec_of::<Work>().map_err(failed)?, self.history);
        self.place.engine.declare(Declaration { queues: vec![self.queue()], types: vec![spec] }).await?;
        Ok(Client::new(self.engine()))
    }

    /// Waits until the server has ended what the preparation made it do.
    pub(super) async fn rest(&self) -> Result<(), Failure> {
        match &self.place.at {
            At::Namespace(url, _) => rest::of_redis(url).await,
            At::Schema(url, _) => rest::of_postgres(url, &*self.place.engine).await,
            At::Memory | At::File(_) => Ok(()),
        }
    }

    /// A worker that tells of each end.
    pub(super) async fn counting_worker(&self, tally: &Arc<Tally>) -> Result<Worker, Failure> {
        let tally = Arc::clone(tally);
        self.worker(Handlers::new(()).handle(move |_: Work| {
            let tally = Arc::clone(&tally);
            async move { tally.one() }
        }))
        .await
    }

    pub(super) async fn worker<S: Clone + Send + Sync + 'static>(
        &self,
        handlers: Handlers<S>,
    ) -> Result<Worker, Failure> {
        let history = self.history;
        let handlers = handlers.configure(|spec| configured(spec, history));
        let (queues, limits) = (vec![self.queue()], self.limits.clone());
        let options = WorkerOptions { queues, limits, ..WorkerOptions::default() };
        Worker::start(self.engine(), handlers, options).await.map_err(failed)
    }

    fn queue(&self) -> QueueSpec {
        QueueSpec { concurrency: self.args.concurrency, ..QueueSpec::new(queue_name()) }
    }

    /// What a job carries that is put in now.
    pub(super) fn nanos(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// How many jobs have succeeded by the store's own count. A figure for work that was not done would be worth
    /// nothing.
    pub(super) async fn check_succeeded(&self, expected: u64) -> Result<(), Failure> {
        let queues = self.place.engine.queues().await?;
        let succeeded: u64 = queues.iter().map(|queue| queue.totals.succeeded).sum();
        if succeeded == expected {
            return Ok(());
        }
        Err(failed(format!("expected {expected} jobs done, got {succeeded}")))
    }
}

/// How long ago a job was put in that carries this.
pub(super) fn since(epoch: Instant, nanos: u64) -> Duration {
    epoch.elapsed().saturating_sub(Duration::from_nanos(nanos))
}

fn configured(spec: TypeSpec, history: History) -> TypeSpec {
    let retention_days = if history == History::On { RETENTION_DAYS } else { 0 };
    TypeSpec { retention_days, ..spec }
}
