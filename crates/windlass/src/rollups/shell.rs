//! The shell around the recorder: appends the samples to the store about every ten seconds, and when the
//! process ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use windlass_core::engine::Engine;
use windlass_core::error::EngineError;
use windlass_core::limits::{SAMPLES_EVERY, SAMPLES_PER_CALL_MAX};
use windlass_core::rollups::Sample;

use super::duty::RollupDuty;
use super::recorder::Recorder;
use crate::store;

/// How long a process that ends waits for a store to accept its samples.
pub(crate) const STATS_FLUSH_GRACE: Duration = Duration::from_secs(2);

/// Tells the rollup duty of this process that samples were appended, so that it need not wait as if nothing
/// happened.
#[derive(Debug, Clone, Default)]
pub(crate) struct DirtyFlag(Arc<AtomicBool>);

impl DirtyFlag {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(crate) fn take(&self) -> bool {
        self.0.swap(false, Ordering::SeqCst)
    }
}

/// Flushes this process's samples to the store, for as long as it is kept.
pub(crate) struct StatsFlusher {
    recorder: Arc<Recorder>,
    ending: Arc<Notify>,
    task: Option<JoinHandle<()>>,
    /// Rolls up a last time, if this process does maintenance.
    last_rollup: Option<RollupDuty>,
}

impl StatsFlusher {
    pub(crate) fn start(engine: &Arc<dyn Engine>, dirty: DirtyFlag, rolls_up: bool) -> Self {
        let (recorder, ending) = (Arc::new(Recorder::default()), Arc::new(Notify::new()));
        let flusher = Flusher {
            engine: Arc::clone(engine),
            recorder: Arc::clone(&recorder),
            dirty,
            started: Instant::now(),
            is_refused: AtomicBool::new(false),
        };
        let task = Some(tokio::spawn(flusher.run(Arc::clone(&ending))));
        let last_rollup = rolls_up.then(|| RollupDuty::new(Arc::clone(engine), DirtyFlag::default()));
        Self { recorder, ending, task, last_rollup }
    }

    pub(crate) fn recorder(&self) -> Arc<Recorder> {
        Arc::clone(&self.recorder)
    }

    /// Flushes the rest, and rolls it up: perhaps no other process is running that would, and samples that
    /// are rolled up later are counted later. That is right whichever process leads.
    pub(crate) async fn end(mut self) {
        self.ending.notify_one();
        if let Some(task) = self.task.take() {
            let _ = task.await;
        }
        if let Some(duty) = &self.last_rollup
            && let Err(error) = duty.roll_up().await
        {
            tracing::debug!(%error, "the last rollup failed; the next leader of the duty rolls up");
        }
    }
}

impl Drop for StatsFlusher {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

struct Flusher {
    engine: Arc<dyn Engine>,
    recorder: Arc<Recorder>,
    dirty: DirtyFlag,
    started: Instant,
    /// Whether a lasting refusal was logged as a warning: one warning is enough.
    is_refused: AtomicBool,
}

impl Flusher {
    async fn run(self, ending: Arc<Notify>) {
        loop {
            let is_over = tokio::time::timeout(SAMPLES_EVERY, ending.notified()).await.is_ok();
            self.flush().await;
            if is_over {
                return;
            }
        }
    }

    /// Flushes the recorded parts. A part that the store does not accept is kept for the next flush. A part
    /// that may have been accepted is not: sent twice, it would be counted twice.
    async fn flush(&self) {
        let now = self.started.elapsed();
        let mut parts = self.recorder.take(now);
        while let Some(part) = parts.front() {
            let samples = Sample::parts(now.saturating_sub(part.at), &part.seen);
            match self.append(samples).await {
                Ok(()) => self.dirty.set(),
                Err(error) if error.is_unknown() => {
                    tracing::debug!(%error, "flushing statistics had no answer; dropping the samples, which may be stored");
                    // Only this part: a store that does not answer would swallow all the others in turn.
                    parts.pop_front();
                    return self.recorder.give_back(parts);
                }
                Err(error) => {
                    self.warn_if_refused(&error);
                    return self.recorder.give_back(parts);
                }
            }
            parts.pop_front();
        }
    }

    fn warn_if_refused(&self, error: &EngineError) {
        if error.is_passing() || self.is_refused.swap(true, Ordering::SeqCst) {
            tracing::debug!(%error, "flushing statistics failed; the samples are kept for the next flush");
        } else {
            tracing::warn!(%error, "the store refuses statistics; `windlass stats` lacks them until that is fixed");
        }
    }

    async fn append(&self, samples: Vec<Sample>) -> Result<(), EngineError> {
        for (nth, part) in samples.chunks(SAMPLES_PER_CALL_MAX).enumerate() {
            let part = part.to_vec();
            let appended =
                store::call(&self.engine, |engine| async move { engine.append_samples(&part).await }).await;
            // Of a part that is sent in several calls some samples are stored: the whole part must not be
            // sent again.
            appended.map_err(|error| match nth {
                0 => error,
                _ => EngineError::Unknown { why: error.to_string() },
            })?;
        }
        Ok(())
    }
}
