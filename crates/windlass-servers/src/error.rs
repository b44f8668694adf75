//! The errors of this crate, each with the action that fixes it.

use std::fmt;
use std::io;
use std::time::Duration;

/// Why a server could not be started or queried.
#[derive(Debug)]
pub enum Error {
    /// A program is not installed on this machine.
    MissingProgram {
        /// The program that was searched for.
        program: &'static str,
        /// The command that installs it.
        install: &'static str,
    },
    /// The operating system refused a call.
    Io {
        /// The action that failed.
        doing: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A program ended with a failure.
    Failed {
        /// The program that ran.
        program: String,
        /// The output of the program.
        output: String,
    },
    /// An expected event did not happen in time.
    TooSlow {
        /// The expected event.
        expected: String,
        /// How long it was waited for.
        waited: Duration,
        /// The end of the server's log.
        log: String,
    },
}

impl Error {
    /// For `map_err`: adds the action that failed to an error of the operating system.
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingProgram { program, install } => {
                write!(f, "expected the program `{program}`, found none; install it ({install})")
            }
            Self::Io { doing, .. } => write!(f, "{doing} failed"),
            Self::Failed { program, output } => write!(f, "`{program}` failed; it wrote:\n{output}"),
            Self::TooSlow { expected, waited, log } => {
                write!(f, "expected {expected} within {waited:?}; the end of the log:\n{log}")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
