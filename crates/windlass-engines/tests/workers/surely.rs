//! Calls that trust an error that says *nothing was written*, and query again if it says *unknown*.

use std::time::{Duration, Instant};

use windlass_core::claim::{ClaimAnswer, ClaimRequest};
use windlass_core::engine::Engine;
use windlass_core::enqueue::{EnqueueAnswer, EnqueueRequest};
use windlass_core::error::EngineError;
use windlass_core::settle::{Settled, Settlement};

/// The delay before a failed call is repeated.
pub(crate) const AGAIN: Duration = Duration::from_millis(10);

/// The longest duration of a passing fault, on however busy a machine.
const LASTS_MAX: Duration = Duration::from_secs(180);

/// Waits a little. An error that no waiting fixes is a fault of the engine.
pub(crate) async fn after(error: &EngineError) {
    assert!(error.is_passing(), "expected an error that passes, got {error:?}");
    // may sleep: a failed call is not repeated at once.
    tokio::time::sleep(AGAIN).await;
}

/// Enqueues until there is an answer. An error here means that nothing was written.
pub(crate) async fn enqueue_surely(
    engine: &dyn Engine,
    request: EnqueueRequest,
) -> Result<Vec<EnqueueAnswer>, EngineError> {
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

/// Claims until there is an answer. An error here means that nothing was claimed.
pub(crate) async fn claim_surely(
    engine: &dyn Engine,
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

/// Settles until there is an answer, whichever error occurs.
pub(crate) async fn settle_surely(engine: &dyn Engine, batch: Vec<Settlement>) -> Vec<Settled> {
    at_last(|| engine.settle(batch.clone())).await
}

/// Returns the answer to a call that may be repeated, whichever error occurred before it.
pub(crate) async fn at_last<T, F>(call: impl Fn() -> F) -> T
where
    F: Future<Output = Result<T, EngineError>>,
{
    let start = Instant::now();
    loop {
        match call().await {
            Ok(answer) => return answer,
            Err(error) => {
                assert!(
                    start.elapsed() < LASTS_MAX,
                    "expected an answer within {LASTS_MAX:?}, got {error:?}"
                );
                after(&error).await;
            }
        }
    }
}
