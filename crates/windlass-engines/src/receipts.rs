//! Error messages about receipts, for all stores.

use std::fmt::Display;

use windlass_core::error::EngineError;

/// Returns the error for a request that was answered, but whose answers cannot be read. Its jobs may exist,
/// so this is neither a refusal nor a reason to store them elsewhere.
pub(crate) fn unreadable(cause: &dyn Display) -> EngineError {
    let why = format!(
        "the receipt of this request cannot be read ({cause}); it was answered before, so search for its jobs, and \
         enqueue those that are missing under a new request id"
    );
    EngineError::Unknown { why }
}
