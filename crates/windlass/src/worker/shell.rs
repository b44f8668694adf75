//! The shell around a pool: it performs effects and reports their results as events. All decisions are in
//! [`pool`](super::pool).

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::mpsc;
use windlass_core::claim::{Claimed, Fence};
use windlass_core::engine::Engine;
use windlass_core::error::EngineError;
use windlass_core::names::QueueName;
use windlass_core::outcome::{AttemptOutcome, ErrorKind, JobError};
use windlass_core::settle::AttemptReport;

use super::controls::Controls;
use super::execute::{execute, time_out};
use super::heartbeat::HeartHandle;
use super::hints::HintFlag;
use super::last_errors::LastErrors;
use super::pool::{CallFailure, Effect, Event, Pool};
use super::{Moment, Parts};
use crate::client::Client;
use crate::handler::Table;
use crate::rollups::recorder::Recorder;
use crate::store;

/// The number of events taken in before effects are computed: attempts that end together are settled
/// together.
const EVENTS_PER_STEP: usize = 512;

/// The capacity of a pool's inbox: one event of each running job, the answers of the store, and events from
/// outside. So a running job can always report its end without waiting.
pub(crate) fn inbox_size(concurrency: u32) -> usize {
    concurrency as usize + 64
}

pub(super) struct PoolShell {
    pool: Pool,
    engine: Arc<dyn Engine>,
    client: Client,
    table: Arc<Table>,
    controls: Arc<Controls>,
    errors: Arc<LastErrors>,
    recorder: Arc<Recorder>,
    events: mpsc::Receiver<Event>,
    inbox: mpsc::Sender<Event>,
    flag: Arc<HintFlag>,
    heart: Option<HeartHandle>,
    started: Instant,
}

impl PoolShell {
    pub(super) fn new(
        pool: Pool,
        queues: Vec<QueueName>,
        parts: &Parts,
        events: mpsc::Receiver<Event>,
        inbox: mpsc::Sender<Event>,
    ) -> Self {
        Self {
            pool,
            engine: Arc::clone(&parts.engine),
            client: parts.client.clone(),
            table: Arc::new(parts.table.clone()),
            controls: Arc::clone(&parts.controls),
            errors: Arc::clone(&parts.common.errors),
            recorder: Arc::clone(&parts.recorder),
            events,
            inbox,
            flag: HintFlag::new(queues),
            heart: None,
            started: parts.started,
        }
    }

    pub(super) fn hint_flag(&self) -> Arc<HintFlag> {
        Arc::clone(&self.flag)
    }

    pub(super) fn watch_heart(&mut self, heart: HeartHandle) {
        self.heart = Some(heart);
    }

    /// Runs until the pool has ended.
    pub(super) async fn run(mut self) {
        let mut inbox = Vec::with_capacity(EVENTS_PER_STEP);
        loop {
            for effect in self.pool.effects(self.now()) {
                self.perform(effect);
            }
            if self.pool.has_ended() {
                return;
            }
            let wake_at = self.pool.wake_at();
            tokio::select! {
                biased;
                _ = self.events.recv_many(&mut inbox, EVENTS_PER_STEP) => {}
                event = self.flag.raised() => inbox.push(event),
                () = sleep_until(self.started, wake_at) => {}
            }
            let now = self.now();
            for event in inbox.drain(..) {
                self.pool.on(event, now);
            }
        }
    }

    fn now(&self) -> Moment {
        self.started.elapsed()
    }

    fn perform(&self, effect: Effect) {
        match effect {
            Effect::Claim(request) => {
                let token = request.token;
                let event = move |answer| Event::ClaimAnswered(token, answer);
                self.ask(|engine| async move { engine.claim(request).await }, event)
            }
            Effect::Settle(number, batch) => {
                let event = move |answer| Event::SettleAnswered(number, answer);
                self.ask(|engine| async move { engine.settle(batch).await }, event)
            }
            Effect::Start(claimed) => self.start(claimed),
            Effect::Abort(fence) => self.controls.abort(fence),
            Effect::ClaimLost(fence) => {
                tracing::warn!(
                    job.id = fence.job.0,
                    "another worker owns this job now; the end of its handler in this worker was refused"
                );
            }
            Effect::GaveUp(settlement) => {
                tracing::error!(
                    job.id = settlement.fence.job.0,
                    "the store refuses the end of this job; it stays running until this worker ends"
                );
            }
            Effect::Died => {
                if let Some(heart) = &self.heart {
                    heart.beat_soon();
                }
            }
        }
    }

    /// Calls the store in a task of its own; the answer arrives as an event.
    fn ask<T, F, Fut>(&self, make: F, event: impl FnOnce(Result<T, CallFailure>) -> Event + Send + 'static)
    where
        T: Send + 'static,
        F: FnOnce(Arc<dyn Engine>) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, EngineError>> + Send + 'static,
    {
        let (engine, inbox) = (Arc::clone(&self.engine), self.inbox.clone());
        // No task waits for this call here: it completes by itself, and reports its answer as an event.
        drop(store::begin(async move {
            let answer = store::call(&engine, make).await.map_err(|error| failure(&error));
            let _ = inbox.send(event(answer)).await;
        }));
    }

    fn start(&self, claimed: Arc<Claimed>) {
        let registered = self.table.handlers.get(&claimed.job.job_type);
        let timeout =
            registered.map_or(std::time::Duration::MAX, |registered| time_out(&claimed, registered));
        let control = self.controls.start(&claimed, self.pool.policy(&claimed).clone(), timeout);
        let report = EndReport {
            fence: claimed.fence(),
            inbox: self.inbox.clone(),
            controls: Arc::clone(&self.controls),
            end: None,
        };
        let (table, client, errors) =
            (Arc::clone(&self.table), self.client.clone(), Arc::clone(&self.errors));
        let recorder = Arc::clone(&self.recorder);
        tokio::spawn(async move {
            let (outcome, attempt) = execute(&table, &client, Arc::clone(&claimed), control, &recorder).await;
            note_failure(&claimed, &outcome, &errors);
            report.ended(outcome, attempt);
        });
    }
}

/// Reports the end of a handler when it is dropped, so that not even a panic while a handler's state is
/// dropped leaves a slot taken for ever.
struct EndReport {
    fence: Fence,
    inbox: mpsc::Sender<Event>,
    controls: Arc<Controls>,
    end: Option<(AttemptOutcome, AttemptReport)>,
}

impl EndReport {
    fn ended(mut self, outcome: AttemptOutcome, report: AttemptReport) {
        self.end = Some((outcome, report));
    }
}

impl Drop for EndReport {
    fn drop(&mut self) {
        self.controls.end(self.fence);
        let (outcome, report) = self.end.take().unwrap_or_else(|| {
            let error = JobError::new(ErrorKind::Panicked, "the handler panicked while it was being dropped");
            (AttemptOutcome::Failed(error), AttemptReport::default())
        });
        // The inbox has room for the end of every running job; if it is closed, the pool no longer waits
        // for ends.
        let _ = self.inbox.try_send(Event::Ended { fence: self.fence, outcome, report });
    }
}

/// Logs the error of a failed attempt and keeps it among the newest errors.
pub(crate) fn note_failure(claimed: &Claimed, outcome: &AttemptOutcome, errors: &LastErrors) {
    let Some(error) = outcome.error() else { return };
    let job = &claimed.job;
    errors.push(job, error);
    tracing::warn!(
        job.id = job.id.0,
        job.type = %job.job_type,
        job.queue = %job.queue,
        job.attempt = job.counters.attempts,
        job.key = job.key.as_ref().map(|key| key.key.as_str()),
        correlation = job.correlation.as_ref().map(|id| id.as_str()),
        error.kind = %error.kind,
        error.type = error.type_name.as_deref(),
        error = %error.text,
        "a job failed",
    );
}

/// Logs a failed call, and classifies the failure for a pool.
pub(crate) fn failure(error: &EngineError) -> CallFailure {
    tracing::warn!(%error, "a call to the store failed");
    match error {
        error if error.is_unknown() => CallFailure::Unknown,
        error if error.is_passing() => CallFailure::NotDone,
        EngineError::Unusable { .. } => CallFailure::NotDone,
        _ => CallFailure::Refused,
    }
}

/// Sleeps until a moment of a pool, or for ever.
pub(crate) async fn sleep_until(started: Instant, moment: Moment) {
    match started.checked_add(moment) {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
