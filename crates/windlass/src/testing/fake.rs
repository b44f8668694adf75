//! Runs one handler on one made-up job, without a store to set up.

use std::sync::{Arc, OnceLock, Weak};

use windlass_core::engine::{Admin, Declaration, Engine};
use windlass_core::enqueue::NewJob;
use windlass_core::job::Job;
use windlass_core::job_type::TypeSpec;
use windlass_core::names::QueueName;
use windlass_engines::memory::MemoryEngine;

use super::ran::Ran;
use super::worker::{TestWorker, at_once};
use crate::client::EnqueueHook;
use crate::handler::{Handler, Handlers};
use crate::job_type::JobType;
use crate::worker::WorkerOptions;

/// Calls one handler on a made-up job and returns how it ended.
///
/// The handler may do all that it may do in a worker: write, report progress, enqueue follow-up jobs of any
/// type, panic, run into its time-out. Follow-up jobs are noted and not run.
///
/// ```
/// use windlass::types::outcome::AttemptOutcome;
/// use windlass::testing::{FakeJob, run_handler};
/// use windlass::{Attempt, Outcome, JobType, State};
/// # use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Fetch { url: String }
/// impl JobType for Fetch { const NAME: &'static str = "fetch"; }
///
/// async fn fetch(job: Fetch, Attempt(attempt): Attempt, State(host): State<String>) -> Outcome {
///     if job.url.starts_with(&host) { Outcome::Done } else { Outcome::Dead(format!("attempt {attempt}")) }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let state = "https://example.org".to_owned();
/// let good = Fetch { url: "https://example.org/feed".into() };
/// assert_eq!(run_handler(fetch, good, state.clone()).await.outcome, AttemptOutcome::Done(None));
///
/// let bad = FakeJob::new(Fetch { url: "ftp://old".into() }).attempt(3);
/// let ran = run_handler(fetch, bad, state).await;
/// assert_eq!(ran.error().unwrap().text, "attempt 3");
/// # }
/// ```
///
/// # Panics
/// If the job cannot be encoded, or its type's name or defaults are invalid.
pub async fn run_handler<T: JobType, S: Clone + Send + Sync + 'static, Args>(
    handler: impl Handler<T, S, Args>,
    job: impl Into<FakeJob<T>>,
    state: S,
) -> Ran {
    let FakeJob { work, changes, cancelled } = job.into();
    let store = Arc::new(OnceLock::new());
    let options = WorkerOptions { enqueue_hooks: vec![registers_all(&store)], ..WorkerOptions::default() };
    let mut worker = TestWorker::with_options(Handlers::new(state).handle(handler), options);
    let _ = store.set(Arc::downgrade(&worker.engine));
    worker.client().enqueue(work).await.unwrap_or_else(|why| panic!("the job cannot be enqueued: {why}"));
    worker.cancel_next = cancelled;
    let ran = worker.run_changed(|job| changes.into_iter().for_each(|change| change(job))).await;
    ran.expect("the only job runs")
}

/// A made-up job for [`run_handler`]. A plain job suffices if the handler reads nothing else.
pub struct FakeJob<T> {
    work: T,
    changes: Vec<Change>,
    cancelled: bool,
}

type Change = Box<dyn FnOnce(&mut Job) + Send>;

impl<T: JobType> FakeJob<T> {
    /// A job in its first attempt.
    pub fn new(work: T) -> Self {
        Self { work, changes: Vec::new(), cancelled: false }
    }

    /// Pretends that this is the n-th attempt and that all before had failed.
    #[must_use]
    pub fn attempt(self, n: u32) -> Self {
        self.change(move |job| {
            job.counters.attempts = n;
            job.counters.failures = n.saturating_sub(1);
        })
    }

    /// Changes any field that a handler may read: counters, key, correlation id, tags, progress, times.
    #[must_use]
    pub fn change(mut self, change: impl FnOnce(&mut Job) + Send + 'static) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    /// Pretends that the job was asked to stop.
    #[must_use]
    pub fn cancelled(mut self) -> Self {
        self.cancelled = true;
        self
    }
}

impl<T: JobType> From<T> for FakeJob<T> {
    fn from(work: T) -> Self {
        Self::new(work)
    }
}

/// A hook that registers every type that it sees, so that follow-up jobs need no preparation.
fn registers_all(store: &Arc<OnceLock<Weak<MemoryEngine>>>) -> EnqueueHook {
    let store = Arc::clone(store);
    Arc::new(move |job: &mut NewJob| {
        if let Some(engine) = store.get().and_then(Weak::upgrade) {
            register(&engine, job);
        }
    })
}

fn register(engine: &MemoryEngine, job: &NewJob) {
    let known = at_once(engine.types()).expect("memory answers");
    if known.iter().any(|status| status.spec.name == job.job_type) {
        return;
    }
    let default = || QueueName::parse("default").expect("a built-in queue has a plain name");
    let spec = TypeSpec::new(job.job_type.clone(), job.queue.clone().unwrap_or_else(default));
    // A queue that is not declared stays unknown, and the follow-up job is refused as it would be elsewhere.
    let _ = at_once(engine.declare(Declaration { queues: vec![], types: vec![spec] }));
}
