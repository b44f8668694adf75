//! The seam between the scenarios and whoever is measured.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use tokio::task::JoinHandle;

use crate::database::Database;
use crate::job::Job;
use crate::tally::Tally;

/// A worker that does not stop within this time is given up.
const STOP_GRACE: Duration = Duration::from_secs(30);

/// A job queue on PostgreSQL, with its own tables in its own database.
pub(crate) trait Peer: Send + Sync + Sized + 'static {
    /// As it is called in the registry, for figures and for its version.
    const CRATE: &'static str;
    /// How many jobs go into one call of `enqueue_many`.
    const BULK_BATCH: u64;

    /// What measured best.
    const BEST: Settings;

    /// Connects and makes the tables.
    fn open(database: &Database, settings: Settings) -> impl Future<Output = anyhow::Result<Self>> + Send;

    /// One job, durable when this returns.
    fn enqueue(&self, job: Job) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Many jobs in the fastest documented way, durable when this returns.
    fn enqueue_many(&self, jobs: Vec<Job>) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// A worker whose handlers do nothing but tell the tally, ready to be started.
    fn prepare(&self, tally: Arc<Tally>, aim: Aim) -> impl Future<Output = anyhow::Result<Prepared>> + Send;

    /// How many jobs the store does not hold for finished.
    fn unsettled(&self) -> impl Future<Output = anyhow::Result<i64>> + Send;
}

/// What a worker is tuned with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    /// Jobs in one fetch.
    pub(crate) batch: usize,
    /// Fetches side by side.
    pub(crate) parallel: usize,
}

/// What a worker is set up for. The best settings of a peer may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aim {
    Throughput,
    Latency,
}

/// A worker whose connections and tables are there, but which has not looked for jobs yet.
pub(crate) struct Prepared {
    pub(crate) run: Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send>>,
    /// Asks the worker to stop; then `run` ends.
    pub(crate) stop: Box<dyn FnOnce() -> anyhow::Result<()> + Send>,
}

impl Prepared {
    pub(crate) fn start(self) -> Running {
        Running { task: tokio::spawn(self.run), stop: self.stop }
    }
}

/// A worker that runs in a task of its own.
pub(crate) struct Running {
    task: JoinHandle<anyhow::Result<()>>,
    stop: Box<dyn FnOnce() -> anyhow::Result<()> + Send>,
}

impl Running {
    /// Waits for the tally as [`Tally::until`] does, or for the worker to end by itself, which is a failure.
    pub(crate) async fn until(
        &mut self,
        tally: &Tally,
        so: impl Fn(&Tally) -> bool,
        cap: Duration,
    ) -> anyhow::Result<bool> {
        let early = "expected the worker to run until it is stopped, but it ended";
        tokio::select! {
            is_so = tally.until(so, cap) => Ok(is_so),
            ended = &mut self.task => Err(match ended? {
                Ok(()) => anyhow!(early),
                Err(why) => why.context(early),
            }),
        }
    }

    /// Stops the worker; what it had finished is written to the store when this returns.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        (self.stop)()?;
        let ended = tokio::time::timeout(STOP_GRACE, self.task).await;
        ended.with_context(|| format!("expected the worker to stop within {STOP_GRACE:?}"))??
    }
}
