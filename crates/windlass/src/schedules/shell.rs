//! The shell around firing: sleeps until the next tick, and looks from time to time whether somebody else has stored something. No
//! error of the store ends it.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use windlass_core::engine::Engine;
use windlass_core::limits::{SCHEDULES_LOOK_EVERY, SCHEDULES_LOOK_IDLE};
use windlass_core::schedules::{Origin, ScheduleSpec};

use super::Schedules;
use super::duty::ScheduleDuty;
use crate::random;

/// Starts firing for this process. What could not be stored before is stored as soon as it can be.
pub(crate) fn start(
    engine: Arc<dyn Engine>,
    mut undeclared: Vec<ScheduleSpec>,
    origin: Origin,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        let (duty, schedules) = (ScheduleDuty::new(Arc::clone(&engine)), Schedules::new(engine));
        loop {
            if !undeclared.is_empty() && schedules.declare(&undeclared, origin).await.is_ok() {
                undeclared.clear();
            }
            let wait = match duty.run().await {
                Ok(fired) => wait_for(fired.next),
                Err(error) => {
                    tracing::warn!(%error, "schedules could not be fired; it is tried again");
                    SCHEDULES_LOOK_EVERY
                }
            };
            tokio::time::sleep(wait).await;
        }
    })
}

/// Until the next tick, but not longer than another process may wait for what it has stored. Where there are no schedules, or none
/// for long, looks are rare, and spread so that many processes do not come at once.
fn wait_for(next: Option<Duration>) -> Duration {
    match next {
        Some(next) => next.min(SCHEDULES_LOOK_EVERY),
        None => SCHEDULES_LOOK_IDLE.mul_f64(0.75 + f64::from(random::byte()) / 512.0),
    }
}
