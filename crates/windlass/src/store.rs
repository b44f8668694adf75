//! Calls to an engine that are never dropped half way. Each runs in a task of its own, to its end; the caller
//! waits for it only until a deadline, and then knows that it does not know.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::error::EngineError;

/// After this time a caller stops waiting for the store.
const CALL_DEADLINE: Duration = Duration::from_secs(10);

/// Runs one call to the engine, or to a part of it, in a task of its own.
pub(crate) async fn call<E, T, F, Fut>(engine: &Arc<E>, make: F) -> Result<T, EngineError>
where
    E: ?Sized,
    T: Send + 'static,
    F: FnOnce(Arc<E>) -> Fut,
    Fut: Future<Output = Result<T, EngineError>> + Send + 'static,
{
    let task = tokio::spawn(make(Arc::clone(engine)));
    match tokio::time::timeout(CALL_DEADLINE, task).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(ended)) => Err(EngineError::Unknown { why: format!("the call ended early: {ended}") }),
        Err(_) => Err(EngineError::Unknown { why: format!("no answer within {CALL_DEADLINE:?}") }),
    }
}
