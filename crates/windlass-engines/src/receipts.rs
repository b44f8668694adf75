//! What all stores say of a receipt.

use std::fmt::Display;

use windlass_core::error::EngineError;

/// Says that a request was answered, and that its answers cannot be read. Its jobs may be there, so this is
/// neither a no nor a reason to store them elsewhere.
pub(crate) fn unreadable(cause: &dyn Display) -> EngineError {
    let why = format!(
        "the receipt of this request cannot be read ({cause}); it was answered before, so look for its jobs, and \
         enqueue those that are missing under a new request id"
    );
    EngineError::Unknown { why }
}
