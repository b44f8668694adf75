//! The shell around upkeep: a loop that no error of the store ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use windlass_core::engine::{Engine, Rescued};
use windlass_core::error::EngineError;
use windlass_core::limits::UPKEEP_BATCH_MAX;

use super::depth::DepthWatch;
use super::{Duty, Upkeep};
use crate::store;

/// Starts upkeep for this process.
pub(crate) fn start(engine: Arc<dyn Engine>, sweep_every: Duration, crashes_max: u32) -> JoinHandle<()> {
    tokio::spawn(async move {
        let started = Instant::now();
        let mut upkeep = Upkeep::new(sweep_every, crashes_max, Duration::ZERO);
        let mut depth = DepthWatch::default();
        loop {
            while let Some(duty) = upkeep.next(started.elapsed()) {
                if let Err(error) = perform(&engine, &mut upkeep, duty, started).await {
                    tracing::warn!(%error, "upkeep failed; it is tried again at the next round");
                }
            }
            depth.look(&engine).await;
            let wait = upkeep.wake_at().saturating_sub(started.elapsed());
            tokio::time::sleep(wait).await;
        }
    })
}

async fn perform(
    engine: &Arc<dyn Engine>,
    upkeep: &mut Upkeep,
    duty: Duty,
    started: Instant,
) -> Result<(), EngineError> {
    match duty {
        Duty::Look => {
            let workers = store::call(engine, |engine| async move { engine.workers().await }).await?;
            upkeep.sighted(&workers, started.elapsed());
        }
        Duty::Rescue(request) => {
            let rescued = store::call(engine, |engine| async move { engine.rescue(request).await }).await?;
            report(&rescued);
            upkeep.rescued(&rescued);
        }
        Duty::Sweep => {
            let swept = |engine: Arc<dyn Engine>| async move { engine.sweep(UPKEEP_BATCH_MAX).await };
            upkeep.done(duty, store::call(engine, swept).await?);
        }
        Duty::Prune => {
            let pruned = |engine: Arc<dyn Engine>| async move { engine.prune(UPKEEP_BATCH_MAX).await };
            upkeep.done(duty, store::call(engine, pruned).await?);
        }
    }
    Ok(())
}

fn report(rescued: &Rescued) {
    if !rescued.returned.is_empty() {
        tracing::warn!(jobs = rescued.returned.len(), "took back the jobs of a dead worker");
    }
    for job in &rescued.buried {
        tracing::error!(job.id = job.0, "gave up a job that was held by too many dying workers");
    }
}
