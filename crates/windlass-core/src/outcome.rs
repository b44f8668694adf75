//! How an attempt ended, as the handler or the runtime saw it.

use std::fmt;
use std::time::Duration;

use crate::gate::Gate;
use crate::limits::ERROR_BYTES_MAX;

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// Success, with a result as JSON if the handler returned one.
    Done(Option<String>),
    /// An error, a panic or a time-out: the retry policy decides.
    Failed(JobError),
    /// An error with a retry time chosen by the handler. The policy still decides when the job is dead.
    RetryIn(Duration, JobError),
    /// The handler snoozed the job until later. Costs nothing.
    Snooze(Duration),
    /// The job is no longer wanted.
    Discard(String),
    /// The job is dead: no retry.
    Dead(JobError),
    /// The job was asked to stop, and stopped.
    Cancelled(String),
    /// A policy held the job back before the handler started.
    Held(Gate),
    /// The worker is stopping. `started` says whether the handler had been called.
    Released {
        /// Whether the handler had been called.
        started: bool,
    },
}

impl AttemptOutcome {
    /// Returns the error that this outcome carries.
    pub fn error(&self) -> Option<&JobError> {
        match self {
            Self::Failed(error) | Self::RetryIn(_, error) | Self::Dead(error) => Some(error),
            _ => None,
        }
    }
}

/// The error of an attempt, bounded, for people and for the store.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct JobError {
    /// The kind of error.
    pub kind: ErrorKind,
    /// The error's type as the program names it.
    pub type_name: Option<String>,
    /// The error text.
    pub text: String,
}

impl JobError {
    /// Creates an error of the given kind. Long texts are truncated.
    pub fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Self { kind, type_name: None, text: bounded(text.into(), ERROR_BYTES_MAX) }
    }

    /// Adds the name of the error's type.
    #[must_use]
    pub fn of_type(mut self, type_name: &str) -> Self {
        self.type_name = Some(bounded(type_name.to_owned(), 256));
        self
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Kinds of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// The handler returned an error.
    Failed,
    /// The handler panicked.
    Panicked,
    /// The handler ran past its time-out.
    TimedOut,
    /// The payload could not be decoded.
    Undecodable,
    /// The worker died while it held the job.
    Crashed,
}

impl ErrorKind {
    /// Returns the kind as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Panicked => "panicked",
            Self::TimedOut => "timed-out",
            Self::Undecodable => "undecodable",
            Self::Crashed => "crashed",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Truncates a text at a character boundary and appends a note.
pub fn bounded(mut text: String, bytes_max: usize) -> String {
    const MARK: &str = "… (cut)";
    if text.len() <= bytes_max {
        return text;
    }
    let mut cut = bytes_max.saturating_sub(MARK.len());
    while !text.is_char_boundary(cut) {
        cut -= 1;
    }
    text.truncate(cut);
    text + MARK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_errors_are_cut_at_a_character_with_a_mark() {
        let error = JobError::new(ErrorKind::Failed, "ä".repeat(ERROR_BYTES_MAX));
        assert!(error.text.len() <= ERROR_BYTES_MAX);
        assert!(error.text.ends_with("(cut)"));
    }
}
