//! A handler ends its job in its own transaction, together with its writes: `complete_in` under a running
//! worker.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, mpsc};
use windlass::postgres::tokio_postgres::Client as Session;
use windlass::postgres::{Address, complete_in, enqueue_in};
use windlass::types::admin::AttemptEnding;
use windlass::types::claim::Fence;
use windlass::types::engine::Engine;
use windlass::types::job::JobState;
use windlass::types::settle::Settled;
use windlass::{
    Client, Context, Handlers, JobId, JobType, QueueSpec, RetryPolicy, State, TypeSpec, Worker, WorkerOptions,
};

use crate::bench::PATIENCE;
use crate::other_programs::{silent_engine, silent_options};

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// What a handler does with its transaction, and how it returns afterwards.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Charge {
    Commit,
    CommitAndFail,
    CommitAndPanic,
    RollBack,
    RollBackAndFailOnce,
    CommitWithFollowUp,
    /// Waits for a permit of the test before it ends the job.
    CommitWhenAllowed,
}

impl JobType for Charge {
    const NAME: &'static str = "charge";
    fn defaults(spec: TypeSpec) -> TypeSpec {
        let retry = RetryPolicy::Fixed { every: Duration::from_millis(1), attempts: 3 };
        TypeSpec { retry, ..spec }
    }
}

/// What handlers need, and what they report to the test: the fence of each attempt, and the answer to its
/// end in a transaction.
#[derive(Clone)]
struct Shop {
    schema: String,
    started: mpsc::UnboundedSender<Fence>,
    completed: mpsc::UnboundedSender<Settled>,
    permits: Arc<Semaphore>,
}

async fn charge(job: Charge, ctx: Context, State(shop): State<Shop>) -> Result<(), AnyError> {
    shop.started.send(ctx.fence())?;
    if matches!(job, Charge::CommitWhenAllowed) {
        shop.permits.acquire().await?.forget();
    }
    let mut session = session().await;
    let tx = session.transaction().await?;
    tx.execute(&format!("INSERT INTO {}.charges VALUES ($1)", shop.schema), &[&ctx.job().id.0]).await?;
    if matches!(job, Charge::CommitWithFollowUp) {
        let next = ctx.enqueue(Charge::Commit).key("next").draft()?;
        enqueue_in(&tx, &shop.schema, vec![next]).await?;
    }
    let settled = complete_in(&tx, &shop.schema, ctx.fence()).await?;
    let is_first = ctx.job().counters.attempts == 1;
    let rolls_back = match job {
        Charge::RollBack => true,
        Charge::RollBackAndFailOnce => is_first,
        _ => settled == Settled::ClaimLost,
    };
    if rolls_back {
        tx.rollback().await?
    } else {
        tx.commit().await?
    }
    shop.completed.send(settled)?;
    match job {
        Charge::CommitAndFail => Err("after the commit".into()),
        Charge::RollBackAndFailOnce if is_first => Err("after the rollback".into()),
        Charge::CommitAndPanic => panic!("after the commit, on purpose"),
        _ => Ok(()),
    }
}

async fn session() -> Session {
    Address::parse(&crate::url()).expect("a valid address").connect().await.expect("the server is up")
}

/// The fixture: a worker on a schema, and the reports of its handlers.
struct Till {
    schema: String,
    engine: Arc<dyn Engine>,
    worker: Worker,
    client: Client,
    started: mpsc::UnboundedReceiver<Fence>,
    completed: mpsc::UnboundedReceiver<Settled>,
    permits: Arc<Semaphore>,
}

impl Till {
    async fn new() -> Self {
        let schema = crate::fresh_schema();
        let engine = crate::open(&schema);
        let make = format!("CREATE TABLE {schema}.charges (job bigint)");
        session().await.batch_execute(&make).await.expect("the table is created");
        Self::on(&schema, engine, WorkerOptions::default()).await
    }

    async fn on(schema: &str, engine: Arc<dyn Engine>, options: WorkerOptions) -> Self {
        let ((starts, started), (ends, completed)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
        let (schema, permits) = (schema.to_owned(), Arc::new(Semaphore::new(0)));
        let shop =
            Shop { schema: schema.clone(), started: starts, completed: ends, permits: Arc::clone(&permits) };
        let handlers = Handlers::new(shop).handle(charge);
        let worker = Worker::start(Arc::clone(&engine), handlers, options).await.expect("the worker starts");
        let client = worker.client().clone();
        Self { schema, engine, worker, client, started, completed, permits }
    }

    async fn put(&self, job: Charge) -> JobId {
        self.client.enqueue(job).await.expect("the job is accepted").id
    }

    async fn started(&mut self) -> Fence {
        let report = tokio::time::timeout(PATIENCE, self.started.recv()).await;
        report.expect("a handler starts").expect("the worker still has its handlers")
    }

    async fn completed(&mut self) -> Settled {
        let report = tokio::time::timeout(PATIENCE, self.completed.recv()).await;
        report.expect("a handler ends").expect("the worker still has its handlers")
    }

    /// Runs one job to its end, in the given number of attempts. Returns its state once the worker has
    /// settled everything.
    async fn run(&mut self, job: Charge, attempts: usize) -> (JobId, JobState) {
        let id = self.put(job).await;
        for _ in 0..attempts {
            self.started().await;
            assert_eq!(self.completed().await, Settled::Applied);
        }
        self.worker.drain().await;
        assert!(self.started.try_recv().is_err(), "the job did not run again");
        (id, self.job_state(id).await)
    }

    async fn job_state(&self, id: JobId) -> JobState {
        self.engine.job(id).await.expect("the server is up").expect("the job is known").job_state()
    }

    /// The jobs that have written a charge.
    async fn charges(&self) -> Vec<i64> {
        let text = format!("SELECT job FROM {}.charges ORDER BY job", self.schema);
        let rows = session().await.query(&text, &[]).await.expect("the table exists");
        rows.iter().map(|row| row.get(0)).collect()
    }

    async fn endings(&self, id: JobId) -> Vec<AttemptEnding> {
        let attempts = self.engine.attempts(id).await.expect("the server is up");
        attempts.into_iter().map(|attempt| attempt.ending).collect()
    }

    /// The running jobs, and the totals of succeeded, retried and dead jobs, of the one queue.
    async fn counts(&self) -> (u64, u64, u64, u64) {
        let queues = self.engine.queues().await.expect("the server is up");
        let used = queues
            .into_iter()
            .find(|status| status.spec.name.as_str() == "default")
            .expect("the queue exists");
        (used.counts.running, used.totals.succeeded, used.totals.retried, used.totals.dead)
    }
}

#[tokio::test]
async fn a_job_that_its_handler_ends_in_its_own_transaction_is_done_once() {
    let mut till = Till::new().await;
    let (id, job_state) = till.run(Charge::Commit, 1).await;
    assert_eq!(job_state, JobState::Succeeded);
    assert_eq!(till.charges().await, [id.0]);
    assert_eq!(till.endings(id).await, [AttemptEnding::Succeeded]);
    assert_eq!(till.counts().await, (0, 1, 0, 0));
}

#[tokio::test]
async fn what_a_handler_says_after_it_has_ended_its_job_changes_nothing() {
    for job in [Charge::CommitAndFail, Charge::CommitAndPanic] {
        let mut till = Till::new().await;
        let (id, job_state) = till.run(job, 1).await;
        assert_eq!(job_state, JobState::Succeeded, "{job:?}");
        assert_eq!(till.charges().await, [id.0]);
        assert_eq!(till.endings(id).await, [AttemptEnding::Succeeded]);
        assert_eq!(till.counts().await, (0, 1, 0, 0), "{job:?}");
    }
}

#[tokio::test]
async fn if_the_handler_rolls_back_the_worker_settles_by_what_it_returns() {
    let mut till = Till::new().await;
    let (id, job_state) = till.run(Charge::RollBack, 1).await;
    assert_eq!((job_state, till.endings(id).await), (JobState::Succeeded, vec![AttemptEnding::Succeeded]));
    assert!(till.charges().await.is_empty(), "the writes of the handler are rolled back");
    assert_eq!(till.counts().await, (0, 1, 0, 0));
    let mut till = Till::new().await;
    let (id, job_state) = till.run(Charge::RollBackAndFailOnce, 2).await;
    assert_eq!(job_state, JobState::Succeeded);
    assert_eq!(till.endings(id).await, [AttemptEnding::Failed, AttemptEnding::Succeeded]);
    assert_eq!(till.charges().await, [id.0], "the writes of the second attempt are committed");
    assert_eq!(till.counts().await, (0, 1, 1, 0));
}

#[tokio::test]
async fn a_follow_up_that_is_put_in_by_the_transaction_that_ends_a_job_runs_after_it() {
    let mut till = Till::new().await;
    let first = till.put(Charge::CommitWithFollowUp).await;
    assert_eq!(till.started().await.job, first);
    let next = till.started().await.job;
    assert_eq!((till.completed().await, till.completed().await), (Settled::Applied, Settled::Applied));
    till.worker.drain().await;
    assert_eq!(till.charges().await, [first.0, next.0]);
    assert_eq!(till.counts().await, (0, 2, 0, 0));
}

/// A worker that sends nothing to the store while its one slot is taken, so that it does not learn that its
/// claim is lost.
async fn unaware(schema: &str) -> Till {
    let queues = QueueSpec::built_in().into_iter();
    let narrow = queues.map(|queue| QueueSpec { concurrency: 1, ..queue }).collect();
    Till::on(schema, silent_engine(schema).await, silent_options(narrow)).await
}

#[tokio::test]
async fn a_handler_whose_claim_was_lost_meanwhile_is_told_so_and_ends_nothing() {
    let mut other = Till::new().await;
    let schema = other.schema.clone();
    other.worker.stop().await;
    let mut slow = unaware(&schema).await;
    let id = slow.put(Charge::CommitWhenAllowed).await;
    let lost = slow.started().await;
    let [worker] = &slow.engine.workers().await.expect("the server is up")[..] else {
        panic!("expected one worker")
    };
    // As when its missing heartbeats are noticed: its job waits again, and another worker claims it.
    let elsewhere = crate::open(&schema);
    elsewhere.retire(worker.card.id).await.expect("the server is up");
    let mut quick = Till::on(&schema, elsewhere, WorkerOptions::default()).await;
    let held = quick.started().await;
    assert_eq!(held.job, id);
    assert_ne!(held.token, lost.token);
    slow.permits.add_permits(1);
    assert_eq!(slow.completed().await, Settled::ClaimLost);
    assert_eq!(slow.job_state(id).await, JobState::Running, "the other worker runs it");
    assert!(slow.charges().await.is_empty());
    quick.permits.add_permits(1);
    assert_eq!(quick.completed().await, Settled::Applied);
    slow.worker.drain().await;
    quick.worker.drain().await;
    assert_eq!(quick.job_state(id).await, JobState::Succeeded);
    assert_eq!(quick.charges().await, [id.0]);
    assert_eq!(quick.counts().await, (0, 1, 0, 0), "the job ended once");
}
