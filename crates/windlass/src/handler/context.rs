//! The context of a handler: what it knows of the job it runs, and what it can do meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use windlass_core::claim::{Claimed, Fence};
use windlass_core::engine::Engine;
use windlass_core::error::EngineError;
use windlass_core::job::{Job, Progress};
use windlass_core::limits::{OUTPUT_BYTES_MAX, PROGRESS_BYTES_MAX};
use windlass_core::outcome::bounded;
use windlass_core::settle::Settled;

use super::platform::PlatformCall;
use super::progress::{Lost, ProgressNotes};
use crate::client::Client;
use crate::enqueue::Enqueue;
use crate::job_type::JobType;
use crate::limits::{Limits, Notes};
use crate::store;

/// The context of one attempt. Fresh for each; clones share it.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    claimed: Arc<Claimed>,
    client: Client,
    control: Arc<JobControl>,
    output: Mutex<String>,
    progress: Arc<ProgressNotes>,
    /// The handler's calls to platforms, if it made any.
    notes: Mutex<Option<Box<Notes>>>,
}

impl Context {
    pub(crate) fn new(claimed: Arc<Claimed>, client: Client, control: Arc<JobControl>) -> Self {
        let (output, progress, notes) = (Mutex::default(), Arc::default(), Mutex::default());
        Self(Arc::new(Inner { claimed, client, control, output, progress, notes }))
    }

    /// The job.
    pub fn job(&self) -> &Job {
        &self.0.claimed.job
    }

    /// The fence of the claim. Pass it on to every system that you write to, so that it can refuse a worker
    /// that was presumed dead and came back.
    pub fn fence(&self) -> Fence {
        self.0.claimed.fence()
    }

    /// How long the job had been due when it was claimed.
    pub(crate) fn waited(&self) -> std::time::Duration {
        self.0.claimed.waited
    }

    /// Writes a line that is kept with the attempt. Text past the limit is dropped, with a mark.
    pub fn log(&self, line: impl AsRef<str>) {
        let mut output = self.0.output.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if output.len() < OUTPUT_BYTES_MAX {
            output.push_str(line.as_ref());
            output.push('\n');
            if output.len() > OUTPUT_BYTES_MAX {
                *output = bounded(std::mem::take(&mut output), OUTPUT_BYTES_MAX);
            }
        }
    }

    /// Stores the progress of the job. Fails only if the job no longer belongs to this handler; then stop.
    ///
    /// An unavailable store costs nothing: the handler goes on, and the newest note is stored once the
    /// store is back, or dropped if the handler has ended by then.
    pub async fn progress(&self, percent: u8, note: Option<&str>) -> Result<(), ProgressError> {
        let note = note.map(|note| bounded(note.to_owned(), PROGRESS_BYTES_MAX));
        let progress = Progress { percent: percent.min(100), note };
        let (fence, engine) = (self.fence(), Arc::clone(self.0.client.engine()));
        let report = move |progress| {
            let engine = Arc::clone(&engine);
            async move { report(&engine, fence, progress).await }
        };
        self.0.progress.note(progress, report).await.map_err(|Lost| ProgressError::ClaimLost)
    }

    /// Enqueues a follow-up job, which carries this job's correlation id and provenance. Works while the
    /// process drains.
    pub fn enqueue<T: JobType>(&self, job: T) -> Enqueue {
        let follow_up = self.0.client.follow_up(job).provenance(self.job().provenance.clone());
        match &self.job().correlation {
            Some(correlation) => follow_up.correlation(correlation.as_str()),
            None => follow_up,
        }
    }

    /// A call to an external platform, with its circuit breaker in front: `ctx.breaker("shop").call(async {
    /// … }).await`.
    pub fn breaker(&self, platform: &str) -> PlatformCall<'_> {
        PlatformCall::new(self, platform)
    }

    pub(super) fn limits(&self) -> &Arc<Limits> {
        self.0.client.limits()
    }

    /// Notes a call to a platform.
    pub(super) fn note(&self, change: impl FnOnce(&mut Notes)) {
        let mut notes = self.0.notes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        change(notes.get_or_insert_default());
    }

    /// Takes the notes about platforms, if there are any.
    pub(crate) fn take_notes(&self) -> Option<Notes> {
        let mut notes = self.0.notes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        notes.take().map(|notes| *notes)
    }

    /// Whether this job was asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.control.is_cancelled()
    }

    /// Waits until this job is asked to stop.
    pub async fn cancelled(&self) -> JobCancelled {
        self.0.control.cancelled().await;
        JobCancelled
    }

    /// The text that the handler wrote so far.
    pub fn output(&self) -> Option<String> {
        let output = self.0.output.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        (!output.is_empty()).then(|| output.clone())
    }
}

/// The job was asked to stop. Return it as an error, or just return: either way the job ends as cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the job was asked to stop")]
pub struct JobCancelled;

async fn report(engine: &Arc<dyn Engine>, fence: Fence, progress: Progress) -> Result<Settled, EngineError> {
    let report = vec![(fence, progress)];
    let answers = store::call(engine, |engine| async move { engine.report(report).await }).await?;
    Ok(answers.first().copied().unwrap_or(Settled::Applied))
}

/// The reason why progress was not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgressError {
    /// Another worker owns the job now. Every write of this handler about the job will be refused.
    #[error("the claim is lost: another worker owns this job now")]
    ClaimLost,
}

/// The signals that stop a running handler.
#[derive(Debug, Default)]
pub(crate) struct JobControl {
    cancelled: AtomicBool,
    aborted: AtomicBool,
    changed: Notify,
}

impl JobControl {
    /// Asks the handler to stop.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// Ends the handler at its next await.
    pub(crate) fn abort(&self) {
        self.aborted.store(true, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }

    pub(crate) async fn cancelled(&self) {
        self.until(&self.cancelled).await;
    }

    pub(crate) async fn aborted(&self) {
        self.until(&self.aborted).await;
    }

    async fn until(&self, flag: &AtomicBool) {
        loop {
            // The listener is enabled before the flag is read, so that a change in between is not missed.
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if flag.load(Ordering::SeqCst) {
                return;
            }
            changed.await;
        }
    }
}
