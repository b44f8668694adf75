//! Requests to stop that came from another process. A hint says only that somebody wrote; which of our jobs were
//! asked to stop, the store says. On the heart's thread, so that a handler that blocks the runtime does not keep
//! the others from hearing of it.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::engine::Engine;
use windlass_core::worker::WorkerId;

use super::controls::Controls;
use super::heartbeat::HeartHandle;
use crate::store;

/// Between two questions there is at least this time, however many hints come.
const ASK_EVERY: Duration = Duration::from_millis(250);

/// Asks the store after each hint, and hands on what it says. Whatever comes while a question is under way, or too
/// soon after it, leads to one more. What a failed question would have brought, the next heartbeat brings.
pub(super) async fn hand_on(
    engine: Arc<dyn Engine>,
    worker: WorkerId,
    controls: Arc<Controls>,
    handle: HeartHandle,
) {
    loop {
        handle.hinted().await;
        match store::call(&engine, |engine| async move { engine.asked_to_stop(worker).await }).await {
            Ok(fences) => fences.into_iter().for_each(|fence| controls.cancel(fence)),
            Err(error) => tracing::warn!(%error, "the store does not say which jobs were asked to stop"),
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}
