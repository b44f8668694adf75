//! The client, with which an application enqueues jobs and queries them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use windlass_core::admin::{QueueStatus, StoredJob};
use windlass_core::clock::Clock;
use windlass_core::engine::{Declaration, Engine};
use windlass_core::enqueue::{EnqueueAnswer, EnqueueRequest, NewJob, Refusal};
use windlass_core::error::EngineError;
use windlass_core::job::JobId;
use windlass_core::limits::ENQUEUE_BATCH_MAX;
use windlass_core::priority::PriorityLabels;
use windlass_core::queue::QueueSpec;

use crate::enqueue::{Batcher, Enqueue, EnqueueError, Enqueued, Handle, Way};
use crate::job_type::{JobType, spec_of};
use crate::limits::{LimitOptions, Limits, ProcessClock, RateLimited};
use crate::rollups::Rollups;
use crate::schedules::Schedules;
use crate::snapshot::Snapshot;
use crate::triggers::CompletionTriggers;
use crate::{random, store};

/// A hook at enqueue: may change a new job before it is sent, for example give it a priority or a delay.
pub type EnqueueHook = Arc<dyn Fn(&mut NewJob) + Send + Sync>;

/// The options of a client.
#[derive(Clone, Default)]
pub struct ClientOptions {
    /// The meaning of priority labels.
    pub labels: PriorityLabels,
    /// The hooks that are called for every new job, in this order.
    pub hooks: Vec<EnqueueHook>,
    /// Breakers and rate limits.
    pub limits: LimitOptions,
}

/// Enqueues jobs and queries them. Cheap to clone; clones share one batcher, which sends simultaneous calls
/// together.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    engine: Arc<dyn Engine>,
    options: ClientOptions,
    batcher: Arc<Batcher>,
    limits: Arc<Limits>,
    /// The limits that new jobs have to pass.
    accept_limits: Arc<Limits>,
    draining: Arc<AtomicBool>,
}

impl Client {
    /// A client of the given engine.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self::with_options(engine, ClientOptions::default())
    }

    /// A client with labels and hooks of its own.
    pub fn with_options(engine: Arc<dyn Engine>, options: ClientOptions) -> Self {
        Self::with_clock(engine, options, Arc::new(ProcessClock::default()))
    }

    /// A client whose limits use another clock than this process's.
    pub(crate) fn with_clock(engine: Arc<dyn Engine>, options: ClientOptions, clock: Arc<dyn Clock>) -> Self {
        let batcher = Arc::new(Batcher::new(Arc::clone(&engine)));
        let limits = Arc::new(Limits::new(Arc::clone(&engine), clock, &options.limits));
        let accept_limits = Arc::clone(&limits);
        Self(Arc::new(Inner { engine, options, batcher, limits, accept_limits, draining: Arc::default() }))
    }

    /// The same client for a worker on the spool. New jobs are sent to the same engine and pass the same
    /// accept step, but shared breakers and rate limits are those of the spool, whose jobs wait behind its
    /// own gates.
    pub(crate) fn on_spool(&self, spool: Arc<dyn Engine>) -> Self {
        let limits = self.0.limits.beside(spool, &self.0.options.limits);
        Self(Arc::new(Inner {
            engine: Arc::clone(&self.0.engine),
            options: self.0.options.clone(),
            batcher: Arc::clone(&self.0.batcher),
            limits: Arc::new(limits),
            accept_limits: Arc::clone(&self.0.accept_limits),
            draining: Arc::clone(&self.0.draining),
        }))
    }

    /// Declares queues, so that jobs can be enqueued before any worker starts.
    pub async fn declare(&self, queues: Vec<QueueSpec>) -> Result<(), EngineError> {
        let declaration = Declaration { queues, types: vec![] };
        store::call(&self.0.engine, |engine| async move { engine.declare(declaration).await }).await
    }

    /// Registers the type `T`, so that its jobs can be enqueued before any worker starts. Declares its
    /// queue with the defaults if it is not declared.
    pub async fn register<T: JobType>(&self) -> Result<(), RegisterError> {
        let spec = spec_of::<T>()?;
        let known = self.queues().await?;
        let missing = known.iter().all(|queue| queue.spec.name != spec.queue);
        let queues = missing.then(|| declared_as(&spec.queue)).into_iter().collect();
        let declaration = Declaration { queues, types: vec![spec] };
        Ok(store::call(&self.0.engine, |engine| async move { engine.declare(declaration).await }).await?)
    }

    /// The schedules of the store: to declare, query, pause, run and remove them.
    pub fn schedules(&self) -> Schedules {
        Schedules::new(Arc::clone(&self.0.engine))
    }

    /// The completion triggers of the store: to declare, query and remove them.
    pub fn triggers(&self) -> CompletionTriggers {
        CompletionTriggers::new(Arc::clone(&self.0.engine))
    }

    /// The rollups of each minute, for as long as they are kept.
    pub fn rollups(&self) -> Rollups {
        Rollups::new(Arc::clone(&self.0.engine))
    }

    /// Enqueues a job. The job is sent when the returned builder is awaited.
    ///
    /// ```no_run
    /// # use windlass::{Client, JobType}; use std::time::Duration;
    /// # #[derive(serde::Serialize, serde::Deserialize)] struct SendMail { to: String }
    /// # impl JobType for SendMail { const NAME: &'static str = "mail.send"; }
    /// # async fn example(client: Client) -> Result<(), windlass::EnqueueError> {
    /// client.enqueue(SendMail { to: "ada".into() }).delay(Duration::from_secs(60)).key("mail:ada").await?;
    /// # Ok(()) }
    /// ```
    pub fn enqueue<T: JobType>(&self, job: T) -> Enqueue {
        Enqueue::new(self.clone(), job, Way::Accept)
    }

    /// Enqueues many jobs, at most 1,000 in a request to the store. Each job gets its own answer; the
    /// answers are in the order of the jobs.
    pub async fn enqueue_many<T: JobType>(
        &self,
        jobs: impl IntoIterator<Item = T>,
    ) -> Result<Vec<Result<Enqueued, EnqueueError>>, EnqueueError> {
        let drafts = jobs.into_iter().map(|job| self.enqueue(job).draft()).collect::<Result<Vec<_>, _>>()?;
        self.enqueue_drafts(drafts).await
    }

    /// Enqueues jobs that the caller built as [`NewJob`]. Fails as a whole only if no job was sent;
    /// otherwise each job has its own answer, also if the store became unavailable half way.
    pub async fn enqueue_drafts(
        &self,
        drafts: Vec<NewJob>,
    ) -> Result<Vec<Result<Enqueued, EnqueueError>>, EnqueueError> {
        self.check_open()?;
        let mut answers = Vec::with_capacity(drafts.len());
        let mut rest = drafts.into_iter().map(|draft| self.hooked(draft)).peekable();
        while rest.peek().is_some() {
            let jobs = rest.by_ref().take(ENQUEUE_BATCH_MAX).collect();
            answers.append(&mut self.send_accepted(jobs).await);
        }
        Ok(answers)
    }

    /// Sends the jobs that rate limits accept. Returns an answer for each, in order.
    async fn send_accepted(&self, drafts: Vec<NewJob>) -> Vec<Result<Enqueued, EnqueueError>> {
        let (mut jobs, mut refused) = (Vec::with_capacity(drafts.len()), Vec::new());
        for (place, draft) in drafts.into_iter().enumerate() {
            match self.0.limits.accept(&draft).await {
                Ok(()) => jobs.push(draft),
                Err(why) => refused.push((place, Err(EnqueueError::RateLimited(why)))),
            }
        }
        let request = EnqueueRequest { request: random::request_id(), jobs };
        let sent = if request.jobs.is_empty() { vec![] } else { self.0.batcher.send(request).await };
        let mut answers: Vec<_> =
            sent.into_iter().map(|answer| answer.and_then(Enqueued::from_answer)).collect();
        refused.into_iter().for_each(|(place, answer)| answers.insert(place, answer));
        answers
    }

    /// Takes the tokens that a job needs at enqueue, for jobs that are enqueued in another way than by this
    /// client.
    pub async fn take_tokens(&self, job: &NewJob) -> Result<(), RateLimited> {
        self.0.limits.accept(job).await
    }

    /// Queries the result of an enqueue whose answer was lost: the job and its outcome, or none if it was
    /// not stored.
    ///
    /// After none, the job can be enqueued again, under a new request id: the query has closed the request,
    /// so if it is still on its way, it stores nothing when it arrives. The same holds for all jobs that
    /// were sent in it.
    ///
    /// [`EnqueueError::Unknown`] means that there is no answer yet, because the store is unavailable or an
    /// open transaction holds the request: query again. A request is remembered for an hour.
    pub async fn ask(&self, handle: Handle) -> Result<Option<Enqueued>, EnqueueError> {
        let asked = store::call(&self.0.engine, |engine| async move { engine.ask(handle.request).await });
        let answers = asked.await.map_err(|error| {
            tracing::warn!(%error, request = %handle.request, "querying the result of an enqueue failed; query again");
            EnqueueError::Unknown(Some(handle))
        })?;
        let Some(answers) = answers else { return Ok(None) };
        let answer = answers.into_iter().nth(handle.position);
        answer.ok_or(EnqueueError::RequestUsed(handle.request)).and_then(Enqueued::from_answer).map(Some)
    }

    /// One job, in whatever state.
    pub async fn job(&self, id: JobId) -> Result<Option<StoredJob>, EngineError> {
        store::call(&self.0.engine, |engine| async move { engine.job(id).await }).await
    }

    /// All queues with their counts: depth, ready, scheduled, parked, running, paused, shut.
    pub async fn queues(&self) -> Result<Vec<QueueStatus>, EngineError> {
        store::call(&self.0.engine, |engine| async move { engine.queues().await }).await
    }

    /// A summary: the jobs that wait and run in all queues, which engine takes new jobs, and the health of
    /// the store.
    pub async fn snapshot(&self) -> Result<Snapshot, EngineError> {
        let (queues, fallback) = store::call(&self.0.engine, |engine| async move {
            Ok((engine.queues().await?, engine.fallback().await?))
        })
        .await?;
        Ok(Snapshot::new(self.0.engine.info().name, queues, fallback))
    }

    /// The engine behind this client.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.0.engine
    }

    /// Builds a follow-up job of a running job, which is accepted even while the process drains.
    pub(crate) fn follow_up<T: JobType>(&self, job: T) -> Enqueue {
        Enqueue::new(self.clone(), job, Way::FollowUp)
    }

    pub(crate) fn labels(&self) -> &PriorityLabels {
        &self.0.options.labels
    }

    pub(crate) fn batcher(&self) -> &Arc<Batcher> {
        &self.0.batcher
    }

    pub(crate) fn limits(&self) -> &Arc<Limits> {
        &self.0.limits
    }

    pub(crate) fn accept_limits(&self) -> &Arc<Limits> {
        &self.0.accept_limits
    }

    pub(crate) fn hooked(&self, mut draft: NewJob) -> NewJob {
        for hook in &self.0.options.hooks {
            hook(&mut draft);
        }
        draft
    }

    /// Starts a drain: from now on this process accepts no new jobs but follow-ups.
    pub(crate) fn start_draining(&self) {
        self.0.draining.store(true, Ordering::SeqCst);
    }

    pub(crate) fn check_open(&self) -> Result<(), EnqueueError> {
        if self.0.draining.load(Ordering::SeqCst) { Err(EnqueueError::Draining) } else { Ok(()) }
    }
}

/// The declaration of a queue that is not configured: like the built-in queue of that name, if there is one.
pub(crate) fn declared_as(name: &windlass_core::names::QueueName) -> QueueSpec {
    QueueSpec::built_in()
        .into_iter()
        .find(|built_in| built_in.name == *name)
        .unwrap_or_else(|| QueueSpec::new(name.clone()))
}

/// The reason why a type was not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// The name of the type or of its queue is invalid.
    #[error(transparent)]
    Name(#[from] windlass_core::names::NameError),
    /// The store refused it or failed.
    #[error("the job type was not registered")]
    Store(#[from] EngineError),
}

impl Enqueued {
    pub(crate) fn from_answer(answer: EnqueueAnswer) -> Result<Self, EnqueueError> {
        use crate::enqueue::EnqueueOutcome;
        let (id, outcome) = match answer {
            EnqueueAnswer::New(id) => (id, EnqueueOutcome::New),
            EnqueueAnswer::Spooled(id) => (id, EnqueueOutcome::Spooled),
            EnqueueAnswer::Duplicate(id) => (id, EnqueueOutcome::Duplicate),
            EnqueueAnswer::Replaced(id) => (id, EnqueueOutcome::Replaced),
            EnqueueAnswer::Revived(id) => (id, EnqueueOutcome::Revived),
            EnqueueAnswer::Refused(why @ Refusal::RequestClosed) => {
                return Err(EnqueueError::NotStored(EngineError::Refused(why.to_string())));
            }
            EnqueueAnswer::Refused(why) => return Err(EnqueueError::Refused(why)),
        };
        Ok(Self { id, outcome })
    }
}
