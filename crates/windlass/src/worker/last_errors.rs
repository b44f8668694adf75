//! The newest errors of this process, readable without a store.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use windlass_core::job::{Job, JobId};
use windlass_core::names::{Key, TypeName};
use windlass_core::outcome::JobError;

/// The number of errors kept.
const KEPT: usize = 100;

/// An error of a handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastError {
    /// The job.
    pub job: JobId,
    /// Its type.
    pub job_type: TypeName,
    /// Its key.
    pub key: Option<Key>,
    /// The error.
    pub error: JobError,
}

#[derive(Default)]
pub(crate) struct LastErrors(Mutex<VecDeque<LastError>>);

impl LastErrors {
    pub(crate) fn push(&self, job: &Job, error: &JobError) {
        let mut errors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if errors.len() == KEPT {
            errors.pop_front();
        }
        errors.push_back(LastError {
            job: job.id,
            job_type: job.job_type.clone(),
            key: job.key.as_ref().map(|key| key.key.clone()),
            error: error.clone(),
        });
    }

    pub(crate) fn snapshot(&self) -> Vec<LastError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}
