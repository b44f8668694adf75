//! What an engine may answer instead of a result.

use crate::job_type::TypeSpecError;
use crate::queue::QueueSpecError;
use crate::stored::Unreadable;

/// Why a call to an engine failed. Each says whether something may have been written, because that decides
/// what a caller may do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// Nothing was written; trying again may help.
    #[error("the store cannot be reached or is busy: {why}")]
    Unavailable {
        /// What happened.
        why: String,
    },
    /// Nothing was written: somebody else holds what it needs. The store is well; trying again later helps.
    #[error("somebody else holds it: {why}")]
    Busy {
        /// Who, and until when.
        why: String,
    },
    /// It may or may not have been written. Ask with the token or the request id before doing it again.
    #[error("the store did not answer, so it may or may not have happened: {why}")]
    Unknown {
        /// What happened.
        why: String,
    },
    /// Nothing was written, and nothing will be until somebody acts.
    #[error("the store cannot be used: {why}")]
    Unusable {
        /// What is wrong and what to do.
        why: String,
    },
    /// Nothing was written: there is no room for it.
    #[error("there is no room: {why}")]
    Full {
        /// Where, and what to do.
        why: String,
    },
    /// The request itself is wrong. Nothing was written.
    #[error("{0}")]
    Refused(String),
    /// A declared queue is wrong. Nothing was written.
    #[error(transparent)]
    Queue(#[from] QueueSpecError),
    /// A registered type is wrong. Nothing was written.
    #[error(transparent)]
    Type(#[from] TypeSpecError),
    /// What is stored cannot be read by this version. Nothing was written, so that nothing of it is lost.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

impl EngineError {
    /// Whether it may have happened all the same.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown { .. })
    }

    /// Whether it says that the store cannot be used now, for whatever reason, rather than that something is wrong with the request or
    /// that the store is full.
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Unknown { .. } | Self::Unusable { .. })
    }

    /// Whether trying the same again later makes sense.
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Unavailable { .. } | Self::Busy { .. } | Self::Unknown { .. } | Self::Full { .. }
        )
    }
}
