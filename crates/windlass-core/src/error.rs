//! The errors that an engine may return.

use crate::job_type::TypeSpecError;
use crate::queue::QueueSpecError;
use crate::stored::Unreadable;

/// Why a call to an engine failed. Each error says whether something may have been written, because that
/// decides what a caller may do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// Nothing was written; a retry may help.
    #[error("the store cannot be reached or is busy: {why}")]
    Unavailable {
        /// What happened.
        why: String,
    },
    /// Nothing was written: another process or transaction holds what the call needs. The store works; a
    /// later retry helps.
    #[error("another process or transaction holds it: {why}")]
    Busy {
        /// The holder, and until when.
        why: String,
    },
    /// It may or may not have been written. Query with the token or the request id before a retry.
    #[error("the store did not answer, so it may or may not have happened: {why}")]
    Unknown {
        /// What happened.
        why: String,
    },
    /// Nothing was written, and nothing will be until a person acts.
    #[error("the store cannot be used: {why}")]
    Unusable {
        /// Why it cannot be used and what to do.
        why: String,
    },
    /// Nothing was written: the store has no room.
    #[error("there is no room: {why}")]
    Full {
        /// Where, and what to do.
        why: String,
    },
    /// The request itself is invalid. Nothing was written.
    #[error("{0}")]
    Refused(String),
    /// A declared queue is invalid. Nothing was written.
    #[error(transparent)]
    Queue(#[from] QueueSpecError),
    /// A registered type is invalid. Nothing was written.
    #[error(transparent)]
    Type(#[from] TypeSpecError),
    /// A stored text cannot be read by this version. Nothing was written, so that nothing of it is lost.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

impl EngineError {
    /// Whether the store may have applied the call all the same.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown { .. })
    }

    /// Whether the error says that the store cannot be used now, for whatever reason, rather than that
    /// the request is invalid or that the store is full.
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Unknown { .. } | Self::Unusable { .. })
    }

    /// Whether a later retry of the same call makes sense.
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Unavailable { .. } | Self::Busy { .. } | Self::Unknown { .. } | Self::Full { .. }
        )
    }
}
