//! Callers who take an error at its word if it says that *nothing was written*, and ask again if it says *unknown*.

use std::time::Duration;

use windlass_core::claim::{ClaimAnswer, ClaimRequest};
use windlass_core::engine::Engine;
use windlass_core::enqueue::{EnqueueRequest, Enqueued};
use windlass_core::error::EngineError;
use windlass_core::settle::{Settled, Settlement};
use windlass_engines::postgres::PostgresEngine;

/// After a failure a call is made again so much later.
pub(crate) const AGAIN: Duration = Duration::from_millis(10);

/// Waits a little. An error that no waiting mends is a fault of the engine.
pub(crate) async fn after(error: &EngineError) {
    assert!(error.is_passing(), "expected an error that passes, got {error:?}");
    // may sleep: whoever failed does not try again at once.
    tokio::time::sleep(AGAIN).await;
}

/// An error here means that nothing was written.
pub(crate) async fn enqueue_surely(
    engine: &PostgresEngine,
    request: EnqueueRequest,
) -> Result<Vec<Enqueued>, EngineError> {
    let mut in_doubt = false;
    loop {
        match engine.enqueue(request.clone()).await {
            Err(error) if error.is_unknown() || in_doubt => {
                in_doubt = true;
                after(&error).await;
            }
            answer => return answer,
        }
    }
}

/// An error here means that nothing was claimed.
pub(crate) async fn claim_surely(
    engine: &PostgresEngine,
    mut request: ClaimRequest,
) -> Result<ClaimAnswer, EngineError> {
    loop {
        match engine.claim(request.clone()).await {
            Err(error) if error.is_unknown() || request.repeat => {
                request.repeat = true;
                after(&error).await;
            }
            answer => return answer,
        }
    }
}

/// A settle is asked again until it is answered, whatever went wrong.
pub(crate) async fn settle_surely(engine: &PostgresEngine, batch: Vec<Settlement>) -> Vec<Settled> {
    loop {
        match engine.settle(batch.clone()).await {
            Ok(answers) => return answers,
            Err(error) => after(&error).await,
        }
    }
}
