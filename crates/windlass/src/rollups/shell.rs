//! The shell around the recorder: what was seen is appended to the store about every ten seconds, and when the process ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use windlass_core::engine::Engine;
use windlass_core::error::EngineError;
use windlass_core::limits::{DELTA_EVERY, SAMPLES_PER_CALL_MAX};
use windlass_core::rollups::Sample;

use super::duty::RollupDuty;
use super::recorder::Recorder;
use crate::store;

/// A process that ends waits so long for a store to take what it has seen.
pub(crate) const TELL_GRACE: Duration = Duration::from_secs(2);

/// Says to the duty of this process that something was appended, so that it need not wait as if nothing happened.
#[derive(Debug, Clone, Default)]
pub(crate) struct DirtyFlag(Arc<AtomicBool>);

impl DirtyFlag {
    pub(crate) fn tell(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(crate) fn take(&self) -> bool {
        self.0.swap(false, Ordering::SeqCst)
    }
}

/// Tells the store what this process has seen, for as long as it is kept.
pub(crate) struct StatsFlusher {
    recorder: Arc<Recorder>,
    ending: Arc<Notify>,
    task: Option<JoinHandle<()>>,
    /// Folds a last time, if this process does maintenance.
    last_rollup: Option<RollupDuty>,
}

impl StatsFlusher {
    pub(crate) fn start(engine: &Arc<dyn Engine>, dirty: DirtyFlag, rolls_up: bool) -> Self {
        let (recorder, ending) = (Arc::new(Recorder::default()), Arc::new(Notify::new()));
        let told = Told {
            engine: Arc::clone(engine),
            recorder: Arc::clone(&recorder),
            dirty,
            started: Instant::now(),
            is_refused: AtomicBool::new(false),
        };
        let task = Some(tokio::spawn(told.keep_telling(Arc::clone(&ending))));
        let last_rollup = rolls_up.then(|| RollupDuty::new(Arc::clone(engine), DirtyFlag::default()));
        Self { recorder, ending, task, last_rollup }
    }

    pub(crate) fn recorder(&self) -> Arc<Recorder> {
        Arc::clone(&self.recorder)
    }

    /// Tells the rest, and rolls up it: perhaps no other process is there that would, and what is folded later is booked later. That is
    /// right whoever leads.
    pub(crate) async fn end(mut self) {
        self.ending.notify_one();
        if let Some(task) = self.task.take() {
            let _ = task.await;
        }
        if let Some(duty) = &self.last_rollup
            && let Err(error) = duty.roll_up().await
        {
            tracing::debug!(%error, "minutes are folded by whoever does it next");
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

struct Told {
    engine: Arc<dyn Engine>,
    recorder: Arc<Recorder>,
    dirty: DirtyFlag,
    started: Instant,
    /// A refusal that does not pass was told to people: once is enough.
    is_refused: AtomicBool,
}

impl Told {
    async fn keep_telling(self, ending: Arc<Notify>) {
        loop {
            let is_over = tokio::time::timeout(DELTA_EVERY, ending.notified()).await.is_ok();
            self.tell().await;
            if is_over {
                return;
            }
        }
    }

    /// What the store does not take is told the next time. What may have been taken is not: told twice, it would be counted twice.
    async fn tell(&self) {
        let now = self.started.elapsed();
        let mut parts = self.recorder.take(now);
        while let Some(part) = parts.front() {
            let samples = Sample::parts(now.saturating_sub(part.at), &part.seen);
            match self.append(samples).await {
                Ok(()) => self.dirty.tell(),
                Err(error) if error.is_unknown() => {
                    tracing::debug!(%error, "it is not known whether what was seen of attempts was kept");
                    // Only this one: a store that does not answer would swallow all the others in turn.
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
            tracing::debug!(%error, "what was seen of attempts is told later");
        } else {
            tracing::warn!(%error, "the store does not take what was seen of attempts: `windlass stats` lacks it until this is mended");
        }
    }

    async fn append(&self, samples: Vec<Sample>) -> Result<(), EngineError> {
        for (nth, part) in samples.chunks(SAMPLES_PER_CALL_MAX).enumerate() {
            let part = part.to_vec();
            let appended =
                store::call(&self.engine, |engine| async move { engine.append_samples(&part).await }).await;
            // Of what goes in several calls some is there: the whole must not be told again.
            appended.map_err(|error| match nth {
                0 => error,
                _ => EngineError::Unknown { why: error.to_string() },
            })?;
        }
        Ok(())
    }
}
