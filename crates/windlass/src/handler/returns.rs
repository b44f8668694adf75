//! What a handler can return.

use std::fmt::Display;
use std::time::Duration;

use serde::Serialize;
use windlass_core::outcome::{AttemptOutcome, ErrorKind, JobError};

/// How a handler ends, if not simply done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Done,
    /// Failed; try again after this time. Counts as a failure.
    RetryIn(Duration, String),
    /// Not now; come back after this time. Counts as nothing.
    Snooze(Duration),
    /// No longer wanted; ends as cancelled, with this reason.
    Discard(String),
    /// Hopeless; goes to the dead letters without another try.
    Dead(String),
}

/// A result to be kept with the job, if its type keeps results.
#[derive(Debug, Clone)]
pub struct Json<T>(pub T);

/// What can be returned from a handler: `()`, [`Outcome`], [`Json`], or a `Result` of one of them.
pub trait IntoOutcome {
    /// Turns it into an outcome.
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
