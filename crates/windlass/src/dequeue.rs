//! Pulling jobs without handlers: the caller requests the next job, does the work, and reports how it ended.
//!
//! To the store a consumer is a worker like any other: it registers, sends heartbeats, and loses its jobs
//! if it dies. It claims a job only when a caller requests one.
//!
//! ```
//! use std::sync::Arc;
//! use windlass::dequeue::{Consumer, Next};
//! use windlass::{JobType, MemoryEngine, WorkerOptions, spec_of};
//! # use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Resize { image: u64 }
//! impl JobType for Resize { const NAME: &'static str = "image.resize"; }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Arc::new(MemoryEngine::new());
//! let consumer = Consumer::start(engine, vec![spec_of::<Resize>()?], WorkerOptions::default()).await?;
//! consumer.client().enqueue(Resize { image: 7 }).await?;
//!
//! consumer.request_drain();
//! loop {
//!     match consumer.next().await {
//!         Next::Job(held) => match held.payload::<Resize>() {
//!             Ok(job) => { println!("image {}", job.image); held.succeed().await?; }
//!             Err(why) => { held.end(windlass::Outcome::Dead(why.to_string())).await?; }
//!         },
//!         Next::TimedOut => println!("nothing to do for five seconds"),
//!         Next::Drained => break,
//!     }
//! }
//! # Ok(()) }
//! ```

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use windlass_core::claim::Fence;
use windlass_core::engine::{Declaration, Engine};
use windlass_core::job::Job;
use windlass_core::job_type::TypeSpec;
use windlass_core::limits::CONCURRENCY_MAX;
use windlass_core::outcome::AttemptOutcome;
use windlass_core::settle::{AttemptReport, Settled};

use crate::client::{Client, ClientOptions};
use crate::duties::mailbox::Mailbox;
use crate::duties::prepare::{EnqueuingDuties, Prepared, check_options};
use crate::handler::{Context, IntoOutcome, Outcome};
use crate::reconcile::Reconciler;
use crate::rollups::recorder::Recorder;
use crate::triggers::shell::TriggerPoller;
use crate::worker::controls::{Controls, timed_out_from_outside};
use crate::worker::heartbeat::Identity;
use crate::worker::options::card;
use crate::worker::pool::{Event, PoolSettings};
use crate::worker::quarantine::Quarantine;
use crate::worker::{StartError, Stopped, WorkerOptions, WorkerOptionsError};
use crate::{random, store};

mod shell;

/// How long [`Consumer::next`] waits for a job.
pub const NEXT_TIMEOUT: Duration = Duration::from_secs(5);
/// The most jobs that one consumer holds; at this number, `next` waits.
pub const HELD_MAX: u32 = CONCURRENCY_MAX;
/// The most callers of `next` that may wait at once.
const WAITERS_MAX: usize = 1_000;
/// How long the last ends may take to reach the store after the grace of a stop.
const FLUSH_GRACE: Duration = Duration::from_secs(5);

/// The result of [`Consumer::next`].
#[derive(Debug)]
pub enum Next {
    /// A job. It is yours until you end it.
    Job(HeldJob),
    /// No job fell due in time.
    TimedOut,
    /// The consumer has ended: it was drained and no job is left, or it was stopped.
    Drained,
}

/// Pulls jobs. Share it by reference: several tasks may request jobs at the same time.
pub struct Consumer {
    client: Client,
    waiters: mpsc::Sender<Waiter>,
    inbox: mpsc::Sender<Event>,
    shell: Option<JoinHandle<()>>,
    /// Pulls from the spool, if the engine has one.
    on_spool: Option<Box<Self>>,
    stop_grace: Duration,
    /// Evaluates the completion triggers that the ends of held jobs marked, if this process may fire
    /// triggers.
    trigger_poller: Option<TriggerPoller>,
    /// Stores completion triggers that could not be stored at the start, or that the store has lost.
    reconcile: Option<JoinHandle<()>>,
    /// The mailbox through which the heartbeat thread reports that the store no longer knows this consumer.
    mailbox: Mailbox,
}

/// A caller that waits for a job.
type Waiter = oneshot::Sender<HeldJob>;

impl Consumer {
    /// Registers the types, stores the completion triggers and starts. Of the options,
    /// [`shared`](WorkerOptions::shared) and the queues' concurrency have no meaning here: a consumer runs
    /// no handlers.
    pub async fn start(
        engine: Arc<dyn Engine>,
        types: Vec<TypeSpec>,
        options: WorkerOptions,
    ) -> Result<Self, StartError> {
        options.check()?;
        check_options(&options, engine.info().duty_modes)?;
        let queues = options.all_queues(types.iter());
        let settings = options.one_pool(&queues, &types.iter().collect::<Vec<_>>());
        if settings.scope.types.is_empty() || settings.scope.queues.is_empty() {
            return Err(StartError::Options(WorkerOptionsError::NothingToDo));
        }
        let declaration = Declaration { queues, types: types.clone() };
        store::call(&engine, |engine| async move { engine.declare(declaration).await }).await?;
        let labels_and_hooks = ClientOptions {
            labels: options.labels.clone(),
            hooks: options.enqueue_hooks.clone(),
            limits: options.limits.clone(),
        };
        let client = Client::with_options(Arc::clone(&engine), labels_and_hooks);
        let reconcile = Reconciler::of_triggers(&engine, &options);
        let stored = reconcile.at_start().await?;
        client.triggers().log_undeclared(&options.triggers, options.triggers_origin).await;
        let alone = Quarantine::default();
        let on_spool = match engine.spool() {
            Some(spool) => {
                let client = client.on_spool(Arc::clone(&spool));
                let (types, settings, alone) = (types.clone(), settings.clone(), alone.shared());
                let on_spool = WorkerOptions { duties: Vec::new(), ..options.clone() };
                Some(Box::new(Self::start_on(spool, client, types, settings, &on_spool, alone, true).await?))
            }
            None => None,
        };
        let primary = Arc::clone(&engine);
        let mut consumer =
            Self::start_on(engine, client, types, settings, &options, alone, on_spool.is_some()).await?;
        consumer.on_spool = on_spool;
        consumer.trigger_poller =
            options.fire_triggers.then(|| TriggerPoller::start(&primary, options.alerts()));
        consumer.reconcile = reconcile.keep(stored, consumer.mailbox.clone());
        Ok(consumer)
    }

    async fn start_on(
        engine: Arc<dyn Engine>,
        client: Client,
        types: Vec<TypeSpec>,
        settings: PoolSettings,
        options: &WorkerOptions,
        quarantine: Quarantine,
        may_come_later: bool,
    ) -> Result<Self, StartError> {
        // A consumer has no gate opener that would release jobs from gates.
        let duties = Prepared::new(&engine, options, &options.duties, None, EnqueuingDuties::of(options));
        let card = card(random::worker_id(), std::slice::from_ref(&settings), duties.led(), options.lease);
        let identity = Identity::register(Arc::clone(&engine), card, may_come_later).await?;
        let (waiters, newcomers) = mpsc::channel(WAITERS_MAX);
        let mailbox = duties.mailbox();
        let parts = shell::Parts {
            engine,
            client: client.clone(),
            types,
            settings,
            identity,
            newcomers,
            quarantine,
            duties,
        };
        let (inbox, shell) = shell::start(parts, options);
        let stop_grace = options.stop_grace;
        let shell = Some(shell);
        Ok(Self {
            client,
            waiters,
            inbox,
            shell,
            on_spool: None,
            stop_grace,
            trigger_poller: None,
            reconcile: None,
            mailbox,
        })
    }

    /// A client that shares this consumer's labels and hooks, and that refuses new jobs once it drains.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Waits up to five seconds for a job.
    pub async fn next(&self) -> Next {
        self.next_within(NEXT_TIMEOUT).await
    }

    /// Waits for a job, at most for `timeout`. Wakes at once for a new job and exactly when the next job
    /// falls due.
    ///
    /// The future may be dropped while it waits: a job that was on its way is released at no cost.
    pub async fn next_within(&self, timeout: Duration) -> Next {
        match &self.on_spool {
            None => self.next_here(timeout).await,
            Some(on_spool) => first_job(self.next_here(timeout), on_spool.next_here(timeout)).await,
        }
    }

    async fn next_here(&self, timeout: Duration) -> Next {
        let (waiter, handed) = oneshot::channel();
        let wait = async {
            if self.waiters.send(waiter).await.is_err() {
                return Next::Drained;
            }
            handed.await.map_or(Next::Drained, |held| Next::Job(held.delivered()))
        };
        tokio::time::timeout(timeout, wait).await.unwrap_or(Next::TimedOut)
    }

    /// Starts a drain: this process accepts no new jobs, and `next` returns the due jobs and then
    /// [`Next::Drained`]. Jobs that are due later or parked stay.
    pub fn request_drain(&self) {
        self.client.start_draining();
        self.send_to_all(|| Event::Drain);
    }

    /// Starts a stop: `next` returns no more jobs. Held jobs may be ended within the grace of the options;
    /// after that they are released.
    pub fn request_stop(&self) {
        self.send_to_all(|| Event::Stop { grace: self.stop_grace });
    }

    /// Stops, and waits until every held job has been ended or released.
    pub async fn stop(mut self) -> Stopped {
        self.request_stop();
        let shells = [self.shell.take(), self.on_spool.as_mut().and_then(|on_spool| on_spool.shell.take())];
        let deadline = tokio::time::Instant::now() + self.stop_grace.saturating_add(FLUSH_GRACE);
        let mut stopped = Stopped::Clean;
        for shell in shells.into_iter().flatten() {
            if !matches!(tokio::time::timeout_at(deadline, shell).await, Ok(Ok(()))) {
                stopped = Stopped::Unsettled;
            }
        }
        if let Some(trigger_poller) = self.trigger_poller.take() {
            let _ = tokio::time::timeout(FLUSH_GRACE, trigger_poller.end()).await;
        }
        stopped
    }

    fn send_to_all(&self, event: impl Fn() -> Event) {
        self.send_event(event());
        self.on_spool.iter().for_each(|on_spool| on_spool.send_event(event()));
    }

    fn send_event(&self, event: Event) {
        // A full inbox belongs to a shell that is about to read it; a closed one to a shell that has ended.
        if let Err(mpsc::error::TrySendError::Full(event)) = self.inbox.try_send(event) {
            let inbox = self.inbox.clone();
            tokio::spawn(async move { inbox.send(event).await });
        }
    }
}

impl Drop for Consumer {
    /// Starts a stop. Held jobs may still be ended; then the consumer unregisters by itself.
    fn drop(&mut self) {
        let _ = self.inbox.try_send(Event::Stop { grace: self.stop_grace });
        self.reconcile.iter().for_each(JoinHandle::abort);
    }
}

/// The first job that either of two futures returns. The other's job, if one was on its way, is released at
/// no cost.
async fn first_job(here: impl Future<Output = Next>, there: impl Future<Output = Next>) -> Next {
    let (mut here, mut there) = (std::pin::pin!(here), std::pin::pin!(there));
    tokio::select! {
        next = &mut here => if matches!(next, Next::Drained) { there.await } else { next },
        next = &mut there => if matches!(next, Next::Drained) { here.await } else { next },
    }
}

/// A job that this process holds. End it with one of the methods that consume it.
///
/// A job that is dropped without an end is released, and counts as an attempt but not as a failure. A job
/// that is held for longer than the time-out of its type and ten seconds is settled as timed out, and its
/// own end comes too late.
#[must_use = "a job that is dropped is released"]
pub struct HeldJob {
    ctx: Context,
    since: Instant,
    ends: EndSender,
    delivered: bool,
    ended: bool,
}

/// The channel on which the end of a held job reaches the store.
#[derive(Clone)]
struct EndSender {
    inbox: mpsc::Sender<Event>,
    controls: Arc<Controls>,
    answers: Arc<Answers>,
    recorder: Arc<Recorder>,
}

impl HeldJob {
    /// The job.
    pub fn job(&self) -> &Job {
        self.ctx.job()
    }

    /// Decodes the payload. If it does not decode now, it will not decode the next time either: end the job
    /// as [`Outcome::Dead`].
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        self.job().payload.decode()
    }

    /// The fence of the claim. Pass it on to every system that the work writes to.
    pub fn fence(&self) -> Fence {
        self.ctx.fence()
    }

    /// The context that a handler would have: log lines, progress, follow-up jobs, requests to stop.
    pub fn context(&self) -> &Context {
        &self.ctx
    }

    /// Ends the job as succeeded.
    pub async fn succeed(self) -> Result<Settled, EndError> {
        self.end(()).await
    }

    /// Ends the job as failed: the retry policy decides when it is retried, and whether at all.
    pub async fn fail(self, error: impl Display) -> Result<Settled, EndError> {
        self.end(Err::<(), _>(error)).await
    }

    /// Makes the job due again after this time, at no cost.
    pub async fn snooze(self, after: Duration) -> Result<Settled, EndError> {
        self.end(Outcome::Snooze(after)).await
    }

    /// Releases the job unchanged, for another worker. Counts as an attempt but not as a failure.
    pub async fn give_back(self) -> Result<Settled, EndError> {
        self.finish(AttemptOutcome::Released { started: true }).await
    }

    /// Ends the job with any outcome that a handler could return. Waits for the store;
    /// [`Settled::ClaimLost`] means that this end was not written: the job was released or timed out
    /// before, or another worker owns it now.
    ///
    /// The future may be dropped while it waits: the end is on its way, and is sent until the store accepts
    /// it.
    pub async fn end(self, how: impl IntoOutcome) -> Result<Settled, EndError> {
        self.finish(how.into_outcome()).await
    }

    async fn finish(mut self, outcome: AttemptOutcome) -> Result<Settled, EndError> {
        let answer = self.ends.answers.expect(self.fence());
        self.send_end(outcome);
        drop(self);
        answer.await.unwrap_or(Err(EndError::ConsumerEnded))
    }

    fn delivered(mut self) -> Self {
        self.delivered = true;
        self.ends.recorder.started(self.job(), self.ctx.waited());
        self
    }

    fn send_end(&mut self, outcome: AttemptOutcome) {
        self.ended = true;
        let fence = self.fence();
        let too_late = self.ends.controls.end(fence);
        // The end from outside may have been stored or not. Sending the same end again makes sure of it.
        // The store could not tell a different end, which has the same token, from a repeat.
        let outcome = if too_late { timed_out_from_outside() } else { outcome };
        let report = AttemptReport {
            ran_for: self.since.elapsed(),
            output: self.ctx.output(),
            ..AttemptReport::default()
        };
        if self.delivered {
            self.ends.recorder.ran(self.job(), report.ran_for);
        }
        if too_late {
            self.ends.answers.answer(fence, Ok(Settled::ClaimLost));
        }
        // The inbox has room for the end of every held job; if it is closed, the consumer has ended.
        if self.ends.inbox.try_send(Event::Ended { fence, outcome, report }).is_err() {
            self.ends.answers.answer(fence, Err(EndError::ConsumerEnded));
        }
    }
}

impl Drop for HeldJob {
    fn drop(&mut self) {
        if !self.ended {
            self.send_end(AttemptOutcome::Released { started: self.delivered });
        }
    }
}

impl std::fmt::Debug for HeldJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeldJob").field("job", self.job()).finish_non_exhaustive()
    }
}

/// Why an end was not stored, or why it is unknown whether it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EndError {
    /// The store refuses this end as invalid.
    #[error("the store refuses the end of this job; the job stays running until this consumer ends")]
    Refused,
    /// The consumer ended before the store confirmed. If the end was not stored, the job will be run again.
    #[error("the consumer ended before the store confirmed; if the end was not stored, the job runs again")]
    ConsumerEnded,
}

type Answer = Result<Settled, EndError>;

/// The holders that wait for the store's answer to an end, by fence.
#[derive(Default)]
struct Answers(Mutex<HashMap<Fence, Waiting>>);

struct Waiting {
    sender: oneshot::Sender<Answer>,
    /// Whether the pool accepted this end as the end of the job. Before that, the store's answers about the
    /// job are about another end, such as the end after the grace of a stop.
    taken: bool,
}

impl Answers {
    fn expect(&self, fence: Fence) -> oneshot::Receiver<Answer> {
        let (sender, receiver) = oneshot::channel();
        self.lock().insert(fence, Waiting { sender, taken: false });
        receiver
    }

    /// Notes that the pool accepted the holder's end.
    fn taken(&self, fence: Fence) {
        if let Some(waiting) = self.lock().get_mut(&fence) {
            waiting.taken = true;
        }
    }

    /// Passes on the store's answer for a job. It is an answer to the holder only if the end was the
    /// holder's.
    fn stored(&self, fence: Fence, answer: Answer) {
        if self.lock().get(&fence).is_some_and(|waiting| waiting.taken) {
            self.answer(fence, answer);
        }
    }

    fn answer(&self, fence: Fence, answer: Answer) {
        let waits = self.lock().remove(&fence);
        if let Some(waiting) = waits {
            // A caller that stopped waiting needs no answer.
            let _ = waiting.sender.send(answer);
        }
    }

    /// Drops all senders, because no answer will come any more.
    fn close(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Fence, Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
