//! Looking at drains: all that have a mark and may be looked at. It is right if many do it at once.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::clock::Timestamp;
use windlass_core::drains::acts;
use windlass_core::drains::{DrainFired, DrainFiring, WhichDrains};
use windlass_core::engine::Engine;
use windlass_core::enqueue::Enqueued;
use windlass_core::error::EngineError;
use windlass_core::limits::DRAINS_PER_CALL_MAX;

use super::{change, fire, read};

/// How often one run looks again, because somebody was faster or more came in. What is left then waits for the next.
const ROUNDS_MAX: u32 = 5;

/// Looks at drains.
pub(crate) struct DrainDuty {
    engine: Arc<dyn Engine>,
}

/// What a run did, and when the next should be.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Looked {
    /// Jobs that were made.
    pub(crate) jobs: usize,
    /// In which time a drain that has a mark may be looked at; nothing if none has one.
    pub(crate) next: Option<Duration>,
    /// Whether there are drains at all.
    pub(crate) any: bool,
}

impl DrainDuty {
    pub(crate) fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine }
    }

    /// Looks at all that is marked and may be looked at now.
    pub(crate) async fn run(&self) -> Result<Looked, EngineError> {
        let mut looked = Looked::default();
        for _ in 0..ROUNDS_MAX {
            let marked = read(&self.engine, WhichDrains::Marked(DRAINS_PER_CALL_MAX as u32)).await?;
            looked.any = marked.any;
            looked.next = marked.next.map(|next| next.since(marked.now));
            for (name, _) in &marked.damaged {
                tracing::error!(drain = %name, "a drain cannot be read, and so it does not fire");
            }
            if marked.drains.is_empty() {
                return Ok(looked);
            }
            let firings: Vec<_> = marked.drains.iter().map(|drain| acts::fire(drain, marked.now)).collect();
            looked.jobs += self.fire(firings, marked.now).await?;
        }
        looked.next.get_or_insert(Duration::ZERO);
        Ok(looked)
    }

    async fn fire(&self, firings: Vec<DrainFiring>, now: Timestamp) -> Result<usize, EngineError> {
        let answers = fire(&self.engine, firings.clone()).await?;
        let reports: Vec<_> =
            firings.iter().zip(&answers).filter_map(|(firing, fired)| firing.refused(fired, now)).collect();
        let jobs = firings.iter().zip(&answers).filter(|(firing, fired)| tell(firing, fired)).count();
        if !reports.is_empty() {
            // Whoever was faster has decided about a later drain, and tells of that.
            change(&self.engine, reports).await?;
        }
        Ok(jobs)
    }
}

/// Tells of what was done, and whether a job was made.
fn tell(firing: &DrainFiring, fired: &DrainFired) -> bool {
    let drain = &firing.name;
    match fired {
        DrainFired::Fired { job: Enqueued::Refused(why), .. } => {
            tracing::warn!(%drain, %why, "a drain fired, and its job was refused");
            false
        }
        DrainFired::Fired { job, .. } => {
            let job = job.job().map_or(0, |id| id.0);
            tracing::debug!(%drain, job.id = job, "a drain made its job");
            true
        }
        DrainFired::Held | DrainFired::Unmarked | DrainFired::Later | DrainFired::Changed => false,
    }
}
