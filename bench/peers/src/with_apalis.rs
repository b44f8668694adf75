//! `apalis` with `apalis-postgres`. The README says why these settings.

use std::sync::Arc;
use std::time::Duration;

use apalis::prelude::{BackendExt as _, Data, Strategy, TaskSink as _, WorkerBuilder, WorkerContext};
use apalis_postgres::{Config, PostgresStorage};
use sqlx::PgPool;
use tokio::task::JoinSet;

use crate::database::Database;
use crate::job::Job;
use crate::peer::{Aim, Peer, Prepared, Settings};
use crate::tally::Tally;

const QUEUE: &str = "bench";
/// The interval of polling. Notifications wake a worker; polling finds the jobs of lost notifications.
const POLL_EVERY: Duration = Duration::from_secs(1);

pub(crate) struct Apalis {
    pool: PgPool,
    storage: PostgresStorage<Job>,
    workers: usize,
}

async fn count(job: Job, tally: Data<Arc<Tally>>) {
    tally.ran(job.number);
}

impl Peer for Apalis {
    const CRATE: &'static str = "apalis-postgres";
    const BULK_BATCH: u64 = 5_000;
    /// `batch` is the size of one fetch of a worker, `parallel` the number of workers in the process.
    const BEST: Settings = Settings { batch: 10_000, parallel: 4 };

    async fn open(database: &Database, settings: Settings) -> anyhow::Result<Self> {
        let pool = database.pool().await?;
        PostgresStorage::setup(&pool).await?;
        // Results must be kept: without them a finished job is never marked as done. The second write when a
        // job starts is left out: the fetch has already locked it.
        let config = Config::default().queue(QUEUE).batch_size(settings.batch).lock_tasks(false);
        let storage = PostgresStorage::new(&pool).with_config(config);
        Ok(Self { pool, storage, workers: settings.parallel })
    }

    async fn enqueue(&self, job: Job) -> anyhow::Result<()> {
        Ok(self.storage.clone().push(job).await?)
    }

    async fn enqueue_many(&self, jobs: Vec<Job>) -> anyhow::Result<()> {
        Ok(self.storage.clone().push_bulk(jobs).await?)
    }

    async fn prepare(&self, tally: Arc<Tally>, aim: Aim) -> anyhow::Result<Prepared> {
        let workers = match aim {
            Aim::Throughput => self.workers,
            // More workers would all fetch at every notification.
            Aim::Latency => 1,
        };
        let contexts: Vec<_> =
            (0..workers).map(|number| WorkerContext::new(&format!("bench-{number}"))).collect();
        let runs: Vec<_> =
            contexts.iter().map(|context| self.run_worker(context, Arc::clone(&tally))).collect();
        Ok(Prepared {
            run: Box::pin(all(runs.into_iter().collect())),
            stop: Box::new(move || contexts.iter().try_for_each(|context| Ok(context.stop()?))),
        })
    }

    async fn unsettled(&self) -> anyhow::Result<i64> {
        let left = "SELECT count(*) FROM apalis.jobs WHERE status <> 'Done'";
        Ok(sqlx::query_scalar(left).fetch_one(&self.pool).await?)
    }
}

impl Apalis {
    fn run_worker(
        &self,
        context: &WorkerContext,
        tally: Arc<Tally>,
    ) -> impl Future<Output = anyhow::Result<()>> + Send + 'static {
        let strategy = Strategy::new().interval(POLL_EVERY);
        let backend = self.storage.clone().with_pubsub().poll_with_strategy(strategy);
        let worker = WorkerBuilder::new(context).backend(backend).data(tally).build(count);
        async { Ok(worker.run().await?) }
    }
}

/// Runs all workers, each in a separate task, until all have ended or one fails.
async fn all(runs: Vec<impl Future<Output = anyhow::Result<()>> + Send + 'static>) -> anyhow::Result<()> {
    let mut workers: JoinSet<_> = runs.into_iter().collect();
    while let Some(ended) = workers.join_next().await {
        ended??;
    }
    Ok(())
}
