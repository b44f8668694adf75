//! How many items one request may have.

use windlass_core::error::EngineError;

/// Refuses a request with more items than the limit.
pub(crate) fn check_batch_size(max: usize, what: &str, got: usize) -> Result<(), EngineError> {
    if got <= max {
        return Ok(());
    }
    Err(EngineError::Refused(format!(
        "expected at most {max} {what} in one request, got {got}; send them in parts"
    )))
}
