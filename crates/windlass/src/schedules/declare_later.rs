//! Schedules of a worker that started while its store was away.

use std::sync::Arc;

use tokio::task::JoinHandle;
use windlass_core::engine::Engine;
use windlass_core::limits::SCHEDULES_LOOK_EVERY;
use windlass_core::schedules::{Origin, ScheduleSpec};

use super::{Schedules, SchedulesError};

/// Stores what could not be stored when its worker started, as soon as it can be. Nothing if there is nothing.
pub(crate) fn declare_later(
    engine: Arc<dyn Engine>,
    undeclared: Vec<ScheduleSpec>,
    origin: Origin,
) -> Option<JoinHandle<()>> {
    if undeclared.is_empty() {
        return None;
    }
    Some(tokio::spawn(async move {
        let schedules = Schedules::new(engine);
        while let Err(error) = schedules.declare_what_can_be(&undeclared, origin).await {
            if !matches!(&error, SchedulesError::Engine(error) if error.is_passing()) {
                tracing::error!(%error, "schedules were not stored, and will not be until this is mended");
                return;
            }
            tracing::warn!(%error, "schedules could not be stored yet; it is tried again");
            // may sleep: the store is away, and nobody tells when it is back.
            tokio::time::sleep(SCHEDULES_LOOK_EVERY).await;
        }
    }))
}
