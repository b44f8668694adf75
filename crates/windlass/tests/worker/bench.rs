//! The fixture of the tests of a worker: jobs that report their attempts, and ways to wait for them.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use windlass::types::admin::StoredJob;
use windlass::types::engine::Engine;
use windlass::types::job::JobState;
use windlass::{
    Client, Context, Handlers, JobId, JobType, Outcome, RetryPolicy, State, TypeSpec, Worker, WorkerOptions,
};

/// A limit that no test reaches; a test that does fails instead of hanging.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The job of these tests: its payload says what its handler does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Act {
    Succeed,
    Fail,
    FailTimes(u32),
    Panic,
    Sleep { millis: u64 },
    WaitForCancel,
    IgnoreEverything,
    Snooze,
    Discard,
    Die,
    Log(String),
    Progress(u8),
    FollowUp,
}

impl JobType for Act {
    const NAME: &'static str = "act";
    fn defaults(spec: TypeSpec) -> TypeSpec {
        let retry = RetryPolicy::Fixed { every: Duration::from_millis(1), attempts: 3 };
        TypeSpec { retry, ..spec }
    }
}

/// The report of a handler to its test: the job, and the number of the attempt.
pub(crate) type Report = (JobId, u32);

#[derive(Clone)]
pub(crate) struct Reporter(mpsc::UnboundedSender<Report>);

async fn act(job: Act, ctx: Context, State(reporter): State<Reporter>) -> Result<Outcome, std::io::Error> {
    let attempt = ctx.job().counters.attempts;
    reporter.0.send((ctx.job().id, attempt)).expect("the test listens to its end");
    match job {
        Act::Succeed => {}
        Act::Fail => return Err(std::io::Error::other("always fails")),
        Act::FailTimes(times) if attempt <= times => return Err(std::io::Error::other("not yet")),
        Act::FailTimes(_) => {}
        Act::Panic => panic!("on purpose"),
        // may sleep: the test has requested a handler that takes this time.
        Act::Sleep { millis } => tokio::time::sleep(Duration::from_millis(millis)).await,
        Act::WaitForCancel => return Err(std::io::Error::other(ctx.cancelled().await)),
        Act::IgnoreEverything => std::future::pending().await,
        Act::Snooze if attempt == 1 => return Ok(Outcome::Snooze(Duration::from_millis(1))),
        Act::Snooze => {}
        Act::Discard => return Ok(Outcome::Discard("no longer wanted".to_owned())),
        Act::Die => return Ok(Outcome::Dead("hopeless".to_owned())),
        Act::Log(line) => ctx.log(line),
        Act::Progress(percent) => {
            ctx.progress(percent, Some("on it")).await.map_err(std::io::Error::other)?
        }
        Act::FollowUp => {
            ctx.enqueue(Act::Succeed).await.map_err(std::io::Error::other)?;
        }
    }
    Ok(Outcome::Done)
}

/// A worker on an engine, and what a test needs to observe it.
pub(crate) struct Bench {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) worker: Worker,
    pub(crate) client: Client,
    pub(crate) reports: mpsc::UnboundedReceiver<Report>,
}

impl Bench {
    pub(crate) async fn start() -> Self {
        Self::with(WorkerOptions::default()).await
    }

    pub(crate) async fn with(options: WorkerOptions) -> Self {
        Self::on(crate::fresh_engine(), options).await
    }

    pub(crate) async fn on(engine: Arc<dyn Engine>, options: WorkerOptions) -> Self {
        let (sender, reports) = mpsc::unbounded_channel();
        let handlers = Handlers::new(Reporter(sender)).handle(act);
        let worker = Worker::start(Arc::clone(&engine), handlers, options).await.expect("the worker starts");
        let client = worker.client().clone();
        Self { engine, worker, client, reports }
    }

    pub(crate) async fn put(&self, job: Act) -> JobId {
        self.client.enqueue(job).await.expect("the job is accepted").id
    }

    /// Waits until a handler starts.
    pub(crate) async fn started(&mut self) -> Report {
        tokio::time::timeout(PATIENCE, self.reports.recv())
            .await
            .expect("a handler starts")
            .expect("the worker still has its handlers")
    }

    /// Waits until a job has reached a state.
    pub(crate) async fn until(&self, id: JobId, job_state: JobState) -> StoredJob {
        let look = async {
            loop {
                let record =
                    self.client.job(id).await.expect("the engine answers").expect("the job is known");
                if record.job_state() == job_state {
                    return record;
                }
                // may sleep: it polls until the job has the state, and the test fails after a limit.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(PATIENCE, look)
            .await
            .unwrap_or_else(|_| panic!("job {id} should be {job_state}"))
    }
}
