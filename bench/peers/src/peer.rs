//! The interface between the scenarios and a measured queue.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use tokio::task::JoinHandle;

use crate::database::Database;
use crate::job::Job;
use crate::tally::Tally;

/// How long a worker may take to stop before the measurement fails.
const STOP_GRACE: Duration = Duration::from_secs(30);

/// A job queue on PostgreSQL, with its own tables in its own database.
pub(crate) trait Peer: Send + Sync + Sized + 'static {
    /// The name in the registry, for figures and for the version.
    const CRATE: &'static str;
    /// How many jobs go into one call of `enqueue_many`.
    const BULK_BATCH: u64;

    /// The settings that measured best.
    const BEST: Settings;

    /// Connects and creates the tables.
    fn open(database: &Database, settings: Settings) -> impl Future<Output = anyhow::Result<Self>> + Send;

    /// Enqueues one job, which is durable when this returns.
    fn enqueue(&self, job: Job) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Enqueues many jobs in the fastest documented way. They are durable when this returns.
    fn enqueue_many(&self, jobs: Vec<Job>) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Prepares a worker whose handlers only report to the tally.
    fn prepare(&self, tally: Arc<Tally>, aim: Aim) -> impl Future<Output = anyhow::Result<Prepared>> + Send;

    /// The number of jobs that the store has not recorded as finished.
    fn unsettled(&self) -> impl Future<Output = anyhow::Result<i64>> + Send;
}

/// The settings of a worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    /// The number of jobs in one fetch.
    pub(crate) batch: usize,
    /// The number of concurrent fetches.
    pub(crate) parallel: usize,
}

/// The goal for which a worker is set up. The best settings of a peer may differ by goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aim {
    Throughput,
    Latency,
}

/// A worker with its connections and tables, which has not fetched jobs yet.
pub(crate) struct Prepared {
    pub(crate) run: Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send>>,
    /// Requests the worker to stop; then `run` ends.
    pub(crate) stop: Box<dyn FnOnce() -> anyhow::Result<()> + Send>,
}

impl Prepared {
    pub(crate) fn start(self) -> Running {
        Running { task: tokio::spawn(self.run), stop: self.stop }
    }
}

/// A worker that runs in a separate task.
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

    /// Stops the worker. Its finished jobs are written to the store when this returns.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        (self.stop)()?;
        let ended = tokio::time::timeout(STOP_GRACE, self.task).await;
        ended.with_context(|| format!("expected the worker to stop within {STOP_GRACE:?}"))??
    }
}
