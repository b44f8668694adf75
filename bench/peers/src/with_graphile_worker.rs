//! `graphile_worker`, set up as its guide says for throughput. The README says why these settings.

use std::sync::Arc;
use std::time::Duration;

use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, TaskHandler, WorkerContext, WorkerOptions, WorkerUtils,
};
use sqlx::PgPool;

use crate::database::Database;
use crate::job::Job;
use crate::peer::{Aim, Peer, Prepared, Settings};
use crate::tally::Tally;

const SCHEMA: &str = "graphile_worker";
/// The number of concurrent handlers.
const CONCURRENCY: usize = 24;
/// How long finished jobs are collected before they are deleted together.
const COMPLETION_DELAY: Duration = Duration::from_millis(5);

pub(crate) struct GraphileWorker {
    pool: PgPool,
    utils: WorkerUtils,
    settings: Settings,
}

impl TaskHandler for Job {
    const IDENTIFIER: &'static str = "bench";

    async fn run(self, context: WorkerContext) -> impl IntoTaskHandlerResult {
        let tally = context.get_ext::<Arc<Tally>>().expect("every worker is given the tally");
        tally.ran(self.number);
    }
}

impl Peer for GraphileWorker {
    const CRATE: &'static str = "graphile_worker";
    const BULK_BATCH: u64 = 1_000;
    /// `batch` is the size of a local queue, `parallel` the number of local queues that fetch concurrently.
    const BEST: Settings = Settings { batch: 2_000, parallel: 2 };

    async fn open(database: &Database, settings: Settings) -> anyhow::Result<Self> {
        let pool = database.pool().await?;
        let utils = WorkerUtils::new(pool.clone(), SCHEMA);
        utils.migrate().await?;
        Ok(Self { pool, utils, settings })
    }

    async fn enqueue(&self, job: Job) -> anyhow::Result<()> {
        self.utils.add_job(job, JobSpec::default()).await?;
        Ok(())
    }

    async fn enqueue_many(&self, jobs: Vec<Job>) -> anyhow::Result<()> {
        let spec = JobSpec::default();
        let jobs: Vec<_> = jobs.into_iter().map(|job| (job, &spec)).collect();
        self.utils.add_jobs(&jobs).await?;
        Ok(())
    }

    /// Prepares one set-up for both goals: with a local queue, an idle worker picks up a job no slower than
    /// without.
    async fn prepare(&self, tally: Arc<Tally>, _: Aim) -> anyhow::Result<Prepared> {
        let Settings { batch, parallel } = self.settings;
        let worker = WorkerOptions::default()
            .pg_pool(self.pool.clone())
            .schema(SCHEMA)
            .concurrency(CONCURRENCY)
            .local_queue(LocalQueueConfig::default().with_size(batch).with_queue_count(parallel))
            .complete_job_batch_delay(COMPLETION_DELAY)
            .listen_os_shutdown_signals(false)
            .add_extension(tally)
            .define_job::<Job>()
            .init()
            .await?;
        let worker = Arc::new(worker);
        let stopped = Arc::clone(&worker);
        Ok(Prepared {
            run: Box::pin(async move { Ok(worker.run().await?) }),
            stop: Box::new(move || {
                stopped.request_shutdown();
                Ok(())
            }),
        })
    }

    async fn unsettled(&self) -> anyhow::Result<i64> {
        // Finished jobs are deleted.
        let left = "SELECT count(*) FROM graphile_worker._private_jobs";
        Ok(sqlx::query_scalar(left).fetch_one(&self.pool).await?)
    }
}
