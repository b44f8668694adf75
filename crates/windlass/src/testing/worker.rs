//! A worker for tests: the same pool as in production, with one slot, driven by the test in the calling task.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use windlass_core::claim::{ClaimAnswer, Claimed};
use windlass_core::clock::{Clock, ManualClock, Timestamp};
use windlass_core::engine::{Admin, Declaration, Engine};
use windlass_core::enqueue::NewJob;
use windlass_core::job::Job;
use windlass_core::limits::{MAINTENANCE_BATCH_MAX, QUEUES_PER_CLAIM_MAX, WORKER_LEASE};
use windlass_core::retry::RetryPolicy;
use windlass_core::settle::{AttemptReport, Settlement};
use windlass_core::worker::{Heartbeat, WorkerId};
use windlass_engines::memory::MemoryEngine;

use super::ran::{Ended, Ran};
use crate::client::{Client, ClientOptions, EnqueueHook};
use crate::duties::mailbox::Mailbox;
use crate::handler::{Handlers, Table};
use crate::limits::GateOpener;
use crate::random;
use crate::rollups::recorder::Recorder;
use crate::worker::controls::Controls;
use crate::worker::execute::execute;
use crate::worker::hints::Listener;
use crate::worker::last_errors::LastErrors;
use crate::worker::options::card;
use crate::worker::pool::{Effect, Event, Pool, PoolSettings};
use crate::worker::quarantine::Quarantine;
use crate::worker::settle::BatchNumber;
use crate::worker::shell::note_failure;
use crate::worker::{LastError, Moment, WorkerOptions, heartbeat};

/// The number of runs after which [`TestWorker::run`] no longer expects the queues to come to rest.
const RUNS_MAX: usize = 10_000;

/// A whole Windlass in one test: jobs in memory, a clock that you control, handlers that run in the calling
/// task.
///
/// Nothing happens by itself: jobs run when you call [`run`](Self::run), time passes when you call
/// [`advance`](Self::advance).
pub struct TestWorker {
    pub(super) engine: Arc<MemoryEngine>,
    pub(super) settings: PoolSettings,
    clock: Arc<ManualClock>,
    started: Timestamp,
    worker: WorkerId,
    client: Client,
    table: Table,
    pool: Pool,
    gate_opener: GateOpener,
    controls: Arc<Controls>,
    /// Notifies running jobs that they were cancelled, for as long as it is kept.
    _listener: Arc<Listener>,
    errors: LastErrors,
    /// Required by `execute`; its samples are never flushed.
    recorder: Recorder,
    noted_jobs: Arc<Mutex<Vec<NewJob>>>,
    /// Whether the next job is asked to stop as soon as it runs.
    pub(super) cancel_next: bool,
}

impl TestWorker {
    /// A worker with these handlers, the five built-in queues, and an empty store.
    ///
    /// # Panics
    /// If the handlers are invalid, for example two for one type.
    pub fn new<S: Clone + Send + Sync + 'static>(handlers: Handlers<S>) -> Self {
        Self::with_options(handlers, WorkerOptions::default())
    }

    /// Creates a worker with queues, labels and enqueue hooks of your own. The other options are about
    /// processes and time, and have no meaning here.
    ///
    /// # Panics
    /// If the handlers or the options are invalid.
    pub fn with_options<S: Clone + Send + Sync + 'static>(
        handlers: Handlers<S>,
        options: WorkerOptions,
    ) -> Self {
        let table = handlers.finish().unwrap_or_else(|wrong| panic!("the handlers are invalid: {wrong}"));
        let clock = Arc::new(ManualClock::default());
        let engine = Arc::new(MemoryEngine::with_clock(Arc::<ManualClock>::clone(&clock)));
        let worker = random::worker_id();
        let settings = declare_all(&engine, &table, &options);
        let card = card(worker, std::slice::from_ref(&settings), Vec::new(), WORKER_LEASE);
        at_once(engine.register(card)).expect("the id is new");
        let noted_jobs = Arc::default();
        let limits = options.limits_with(&table);
        let client = client_that_notes(&engine, &clock, WorkerOptions { limits, ..options }, &noted_jobs);
        let gate_opener =
            GateOpener::new(Arc::clone(client.limits()), table.handlers.keys().cloned().collect());
        let pool = Pool::new(settings.clone(), worker, Quarantine::default(), Box::new(random::claim_token));
        let controls = Arc::new(Controls::default());
        let shared: Arc<dyn Engine> = Arc::<MemoryEngine>::clone(&engine);
        let listener = Listener::start(
            &shared,
            vec![],
            Arc::clone(&controls),
            heartbeat::HeartHandle::default(),
            Mailbox::default(),
        );
        Self {
            started: clock.now(),
            engine,
            settings,
            clock,
            worker,
            client,
            table,
            pool: pool.without_prefetch(),
            gate_opener,
            controls,
            _listener: listener,
            errors: LastErrors::default(),
            recorder: Recorder::default(),
            noted_jobs,
            cancel_next: false,
        }
    }

    /// A client of this worker's store. Give it to the code under test.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The store, for all other queries and acts: cancel, retry, pause.
    pub fn engine(&self) -> Arc<dyn Engine> {
        Arc::<MemoryEngine>::clone(&self.engine)
    }

    /// The clock of the store. It starts at the beginning of 2026 and stands still until it is moved.
    pub fn clock(&self) -> &ManualClock {
        &self.clock
    }

    /// Moves the clock. Jobs that fall due run with the next [`run`](Self::run).
    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// Runs all due jobs, follow-up jobs included, until none is due. Returns the runs in order.
    ///
    /// # Panics
    /// If the queues do not come to rest within 10,000 runs, for example because a job enqueues itself again.
    pub async fn run(&mut self) -> Vec<Ran> {
        let mut all = Vec::new();
        while let Some(ran) = self.run_one().await {
            all.push(ran);
            assert!(
                all.len() < RUNS_MAX,
                "expected rest within {RUNS_MAX} runs; the last was {:?}",
                all.last()
            );
        }
        all
    }

    /// Runs all jobs that fall due within `span`, moving the clock from one due time to the next and in the
    /// end to the end of the span. So a job that is retried for days is over in an instant.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use windlass::testing::TestWorker; use windlass::{Handlers, JobType};
    /// # #[derive(serde::Serialize, serde::Deserialize)] struct Fetch;
    /// # impl JobType for Fetch { const NAME: &'static str = "fetch"; }
    /// async fn fetch(_job: Fetch) -> Result<(), std::io::Error> { Err(std::io::Error::other("down")) }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut worker = TestWorker::new(Handlers::new(()).handle(fetch));
    /// worker.client().enqueue(Fetch).await.unwrap();
    /// assert_eq!(worker.run_for(Duration::from_secs(24 * 3600)).await.len(), 5, "five attempts by default");
    /// # }
    /// ```
    ///
    /// # Panics
    /// If more than 10,000 runs fall into the span.
    pub async fn run_for(&mut self, span: Duration) -> Vec<Ran> {
        let end = self.clock.now().plus(span);
        let mut all = self.run().await;
        while let Some(due_in) = self.next_due_in().filter(|due_in| self.clock.now().plus(*due_in) <= end) {
            self.clock.advance(due_in);
            all.append(&mut self.run().await);
            assert!(all.len() < RUNS_MAX, "expected at most {RUNS_MAX} runs; the last was {:?}", all.last());
        }
        self.clock.set(end);
        all.append(&mut self.run().await);
        all
    }

    /// Runs the next job, if one is due.
    pub async fn run_one(&mut self) -> Option<Ran> {
        self.run_changed(|_| ()).await
    }

    /// The newest errors of handlers, newest last.
    pub fn last_errors(&self) -> Vec<LastError> {
        self.errors.snapshot()
    }

    /// After how long the next job falls due.
    fn next_due_in(&self) -> Option<Duration> {
        let scope = &self.settings.scope;
        let peeks = at_once(self.engine.peek(&scope.queues, &scope.types)).expect("memory answers");
        peeks.into_iter().filter_map(|(_, peek)| peek.next_due_in).min()
    }

    /// Runs the next job, changed before its handler sees it. The pool decides; its effects are performed
    /// at once instead of in tasks.
    pub(super) async fn run_changed(&mut self, change: impl FnOnce(&mut Job)) -> Option<Ran> {
        self.do_maintenance();
        self.gate_opener.round().await;
        self.pool.set_concurrency(1);
        self.pool.on(Event::Hint, self.now());
        let (mut change, mut ended, mut ran) = (Some(change), None, None);
        loop {
            let effects = self.pool.effects(self.now());
            if effects.is_empty() {
                return ran;
            }
            for effect in effects {
                match effect {
                    Effect::Claim(request) => {
                        let token = request.token;
                        let mut answer = at_once(self.engine.claim(request)).expect("memory answers");
                        change_first(&mut answer, &mut change);
                        self.pool.on(Event::ClaimAnswered(token, Ok(answer)), self.now());
                    }
                    Effect::Start(claimed) => {
                        // One job is enough; so its end is stored before another job is claimed.
                        self.pool.set_concurrency(0);
                        ended = Some(self.execute(claimed).await);
                    }
                    Effect::Settle(number, batch) => ran = self.settle(number, batch, ended.take()).or(ran),
                    other => unreachable!("memory never fails and no test stops this pool: {other:?}"),
                }
            }
        }
    }

    async fn execute(&mut self, claimed: Arc<Claimed>) -> Ended {
        self.noted_jobs().clear();
        let fence = claimed.fence();
        let control = self.controls.start(&claimed, RetryPolicy::Never, Duration::MAX);
        if std::mem::take(&mut self.cancel_next) {
            at_once(self.engine.cancel(fence.job, "the test asked it to stop")).expect("memory answers");
        }
        let before = self.clock.now();
        let (outcome, report) =
            execute(&self.table, &self.client, Arc::clone(&claimed), control, &self.recorder).await;
        // By the clock of the test, so that the stored attempt is the same in every run.
        let report = AttemptReport { ran_for: self.clock.now().since(before), ..report };
        self.controls.end(fence);
        note_failure(&claimed, &outcome, &self.errors);
        let progress = at_once(self.engine.job(fence.job)).expect("memory answers");
        let ended = Ended {
            claimed,
            outcome: outcome.clone(),
            progress: progress.and_then(|record| record.job.progress),
            follow_ups: std::mem::take(&mut *self.noted_jobs()),
        };
        self.pool.on(Event::Ended { fence, outcome, report }, self.now());
        ended
    }

    fn settle(&mut self, number: BatchNumber, batch: Vec<Settlement>, ended: Option<Ended>) -> Option<Ran> {
        let answers = at_once(self.engine.settle(batch.clone())).expect("memory answers");
        let first = batch.into_iter().zip(&answers).next();
        let ran = ended.zip(first).map(|(ended, (settlement, settled))| {
            ended.settled(settlement.transition, settlement.report, *settled)
        });
        self.pool.on(Event::SettleAnswered(number, Ok(answers)), self.now());
        ran
    }

    /// Does what the heartbeat thread and the maintenance of a real worker do as time passes.
    fn do_maintenance(&self) {
        let heartbeat = Heartbeat { worker: self.worker, lease: WORKER_LEASE, idle: false };
        at_once(self.engine.extend(heartbeat)).expect("memory answers");
        while at_once(self.engine.sweep(MAINTENANCE_BATCH_MAX)).expect("memory answers").more {}
        while at_once(self.engine.prune(MAINTENANCE_BATCH_MAX)).expect("memory answers").more {}
    }

    fn now(&self) -> Moment {
        self.clock.now().since(self.started)
    }

    fn noted_jobs(&self) -> std::sync::MutexGuard<'_, Vec<NewJob>> {
        self.noted_jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Declares the queues and types, and returns the one pool that serves them all.
fn declare_all(engine: &MemoryEngine, table: &Table, options: &WorkerOptions) -> PoolSettings {
    let queues = options.all_queues(table.specs());
    assert!(queues.len() <= QUEUES_PER_CLAIM_MAX, "expected at most {QUEUES_PER_CLAIM_MAX} queues");
    let settings = options.one_pool(&queues, &table.specs().collect::<Vec<_>>());
    let types = table.specs().cloned().collect();
    at_once(engine.declare(Declaration { queues, types }))
        .unwrap_or_else(|wrong| panic!("the queues or types are invalid: {wrong}"));
    settings
}

/// A client whose last hook notes each enqueued job, as the other hooks left it.
fn client_that_notes(
    engine: &Arc<MemoryEngine>,
    clock: &Arc<ManualClock>,
    options: WorkerOptions,
    noted_jobs: &Arc<Mutex<Vec<NewJob>>>,
) -> Client {
    let noted_jobs = Arc::clone(noted_jobs);
    let note: EnqueueHook = Arc::new(move |job: &mut NewJob| {
        noted_jobs.lock().unwrap_or_else(PoisonError::into_inner).push(job.clone());
    });
    let mut hooks = options.enqueue_hooks;
    hooks.push(note);
    let options = ClientOptions { labels: options.labels, hooks, limits: options.limits };
    Client::with_clock(Arc::<MemoryEngine>::clone(engine), options, Arc::<ManualClock>::clone(clock))
}

fn change_first<F: FnOnce(&mut Job)>(answer: &mut ClaimAnswer, change: &mut Option<F>) {
    if let ClaimAnswer::Claimed { jobs, .. } = answer
        && let Some(first) = jobs.first_mut()
        && let Some(change) = change.take()
    {
        change(&mut first.job);
    }
}

/// The answer of the memory engine, whose calls never wait.
pub(super) fn at_once<T>(call: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(Waker::noop());
    match std::pin::pin!(call).poll(&mut context) {
        Poll::Ready(answer) => answer,
        Poll::Pending => unreachable!("no call to the memory engine waits"),
    }
}
