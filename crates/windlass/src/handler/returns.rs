//! What a handler can return.

use std::fmt::Display;
use std::time::Duration;

use serde::Serialize;
use windlass_core::outcome::{ErrorKind, JobError, Outcome};

/// How a handler ends, if not simply done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
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

/// What can be returned from a handler: `()`, [`Finish`], [`Json`], or a `Result` of one of them.
pub trait IntoOutcome {
    /// Turns it into an outcome.
    fn into_outcome(self) -> Outcome;
}

impl IntoOutcome for () {
    fn into_outcome(self) -> Outcome {
        Outcome::Done(None)
    }
}

impl IntoOutcome for Finish {
    fn into_outcome(self) -> Outcome {
        match self {
            Self::Done => Outcome::Done(None),
            Self::RetryIn(after, why) => Outcome::RetryIn(after, JobError::new(ErrorKind::Failed, why)),
            Self::Snooze(after) => Outcome::Snooze(after),
            Self::Discard(why) => Outcome::Discard(why),
            Self::Dead(why) => Outcome::Dead(JobError::new(ErrorKind::Failed, why)),
        }
    }
}

impl<T: Serialize> IntoOutcome for Json<T> {
    fn into_outcome(self) -> Outcome {
        match serde_json::to_string(&self.0) {
            Ok(text) => Outcome::Done(Some(text)),
            Err(error) => {
                Outcome::Failed(JobError::new(ErrorKind::Failed, format!("the result is not JSON: {error}")))
            }
        }
    }
}

impl<T: IntoOutcome, E: Display> IntoOutcome for Result<T, E> {
    fn into_outcome(self) -> Outcome {
        match self {
            Ok(value) => value.into_outcome(),
            // The alternate form prints the whole chain where an error type has one.
            Err(error) => {
                let error = JobError::new(ErrorKind::Failed, format!("{error:#}"));
                Outcome::Failed(error.of_type(std::any::type_name::<E>()))
            }
        }
    }
}
