//! The return values of handlers.

use std::fmt::Display;
use std::time::Duration;

use serde::Serialize;
use windlass_core::outcome::{AttemptOutcome, ErrorKind, JobError};

/// The end of a handler, as the handler chooses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The job succeeded.
    Done,
    /// The attempt failed; retry after this time. Counts as a failure.
    RetryIn(Duration, String),
    /// The job cannot run now; run it again after this time. Counts as nothing.
    Snooze(Duration),
    /// The job is no longer wanted; it ends as cancelled, with this reason.
    Discard(String),
    /// The job is hopeless; it goes to the dead-letter queue without a retry.
    Dead(String),
}

/// A result that is kept with the job, if its type keeps results.
#[derive(Debug, Clone)]
pub struct Json<T>(pub T);

/// The return values that a handler may have: `()`, [`Outcome`], [`Json`], or a `Result` of one of them.
pub trait IntoOutcome {
    /// Turns the value into an outcome.
    fn into_outcome(self) -> AttemptOutcome;
}

impl IntoOutcome for () {
    fn into_outcome(self) -> AttemptOutcome {
        AttemptOutcome::Done(None)
    }
}

impl IntoOutcome for Outcome {
    fn into_outcome(self) -> AttemptOutcome {
        match self {
            Self::Done => AttemptOutcome::Done(None),
            Self::RetryIn(after, why) => {
                AttemptOutcome::RetryIn(after, JobError::new(ErrorKind::Failed, why))
            }
            Self::Snooze(after) => AttemptOutcome::Snooze(after),
            Self::Discard(why) => AttemptOutcome::Discard(why),
            Self::Dead(why) => AttemptOutcome::Dead(JobError::new(ErrorKind::Failed, why)),
        }
    }
}

impl<T: Serialize> IntoOutcome for Json<T> {
    fn into_outcome(self) -> AttemptOutcome {
        match serde_json::to_string(&self.0) {
            Ok(text) => AttemptOutcome::Done(Some(text)),
            Err(error) => AttemptOutcome::Failed(JobError::new(
                ErrorKind::Failed,
                format!("the result is not JSON: {error}"),
            )),
        }
    }
}

impl<T: IntoOutcome, E: Display> IntoOutcome for Result<T, E> {
    fn into_outcome(self) -> AttemptOutcome {
        match self {
            Ok(value) => value.into_outcome(),
            // The alternate form prints the whole chain where an error type has one.
            Err(error) => {
                let error = JobError::new(ErrorKind::Failed, format!("{error:#}"));
                AttemptOutcome::Failed(error.of_type(std::any::type_name::<E>()))
            }
        }
    }
}
