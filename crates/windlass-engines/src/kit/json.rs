//! JSON in the columns of a store.

use serde::Serialize;
use windlass_core::outcome::{ErrorKind, JobError};

/// JSON of one of our own types.
pub(crate) fn to_json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("our own types have string keys and no failing serializers")
}

/// An error as it is stored. Text that cannot be read becomes the text of a failure.
pub(crate) fn parse_error(text: &str) -> JobError {
    serde_json::from_str(text).unwrap_or_else(|_| JobError::new(ErrorKind::Failed, text))
}
