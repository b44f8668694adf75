//! Requests to stop from other processes. A hint only says that another process wrote; the store says which
//! of our jobs were asked to stop. This runs on the heartbeat thread, so that a handler that blocks the
//! runtime does not keep the other handlers from learning of it.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::engine::Engine;
use windlass_core::worker::WorkerId;

use super::controls::Controls;
use super::heartbeat::HeartHandle;
use crate::store;

/// The shortest time between two queries, however many hints come.
const ASK_EVERY: Duration = Duration::from_millis(250);

/// Queries the store after each hint, and passes the requests to the running jobs. Hints that come while a
/// query is in flight, or too soon after it, lead to one more query. Requests that a failed query would
/// have returned come with the next heartbeat.
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
            Err(error) => {
                tracing::warn!(%error, "reading which jobs were asked to stop failed; the next heartbeat reports them")
            }
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}
