//! How a command ends: an exit code that scripts can rely on, and an error that says what to do.

use std::fmt;

use windlass_core::enqueue::Refusal;
use windlass_core::error::EngineError;
use windlass_core::job_type::TypeSpecError;

use crate::config::ConfigError;

/// The exit codes. They are part of the contract: `--help` and `docs/cli.md` list them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// Done.
    Ok = 0,
    /// The command was executed and failed.
    Failed = 1,
    /// The command line or the input is wrong.
    Usage = 2,
    /// No such job, queue or type.
    NotFound = 3,
    /// Refused: wrong state, locked, or not confirmed.
    Refused = 4,
    /// Only a part was done.
    Partly = 5,
    /// The timeout expired.
    TimedOut = 6,
    /// The store cannot be reached or used.
    Store = 69,
    /// The configuration is invalid.
    Configuration = 78,
    /// Ctrl-C.
    Interrupted = 130,
}

impl Code {
    /// The name of the code in `--json` errors.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::NotFound => "not-found",
            Self::Refused => "refused",
            Self::Partly => "partly-done",
            Self::TimedOut => "timed-out",
            Self::Store => "store",
            Self::Configuration => "configuration",
            Self::Interrupted => "interrupted",
        }
    }
}

impl From<Code> for std::process::ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}

/// The list of exit codes at the end of `--help`.
pub(crate) const CODES_HELP: &str = "\
Exit codes:
  0    done
  1    the command was executed and failed
  2    the command line or the input is wrong
  3    no such job, queue or type
  4    refused: wrong state, locked, or not confirmed
  5    only a part was done
  6    the timeout expired
  69   the store cannot be reached or used
  78   the configuration is invalid
  130  interrupted by Ctrl-C";

/// The reason why a command failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// The errors of the configuration, if they are the reason.
    pub(crate) errors: Vec<ConfigError>,
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, errors: Vec::new() }
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Code::Usage, message)
    }

    pub(crate) fn not_found(what: impl fmt::Display) -> Self {
        Self::new(Code::NotFound, format!("there is no {what}"))
    }

    pub(crate) fn configuration(errors: Vec<ConfigError>) -> Self {
        let message = match errors.len() {
            1 => "the configuration has an error".to_owned(),
            several => format!("the configuration has {several} errors"),
        };
        Self { errors, ..Self::new(Code::Configuration, message) }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let code = match &error {
            EngineError::Refused(_) | EngineError::Busy { .. } => Code::Refused,
            EngineError::Type(TypeSpecError::OtherQueue { .. }) => Code::Refused,
            EngineError::Type(TypeSpecError::UnknownQueue { .. }) => Code::NotFound,
            EngineError::Type(_) | EngineError::Queue(_) => Code::Usage,
            _ => Code::Store,
        };
        Self::new(code, error.to_string())
    }
}

impl From<&Refusal> for Failure {
    fn from(refusal: &Refusal) -> Self {
        let code = match refusal {
            Refusal::UnknownType { .. } | Refusal::UnknownQueue { .. } => Code::NotFound,
            Refusal::OtherQueue { .. } | Refusal::QueueFull { .. } | Refusal::QueueShut { .. } => {
                Code::Refused
            }
            Refusal::Unreadable(_) => Code::Store,
            _ => Code::Usage,
        };
        Self::new(code, refusal.to_string())
    }
}

impl From<std::io::Error> for Failure {
    /// The failure of writing output. A reader that left early, as `head` does, is no failure.
    fn from(error: std::io::Error) -> Self {
        let code = match error.kind() {
            std::io::ErrorKind::BrokenPipe => Code::Ok,
            _ => Code::Failed,
        };
        Self::new(code, format!("writing the output failed: {error}"))
    }
}

/// An error and its causes, in one line.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
