//! What can go wrong, with what to do about it.

use std::fmt;
use std::io;
use std::time::Duration;

/// Why a server could not be started or asked.
#[derive(Debug)]
pub enum Error {
    /// A program is not on this machine.
    MissingProgram {
        /// What was looked for.
        program: &'static str,
        /// What brings it.
        install: &'static str,
    },
    /// The system refused something.
    Io {
        /// What was being done.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// A program ended with a failure.
    Failed {
        /// What was run.
        program: String,
        /// What it wrote.
        output: String,
    },
    /// Something did not happen in time.
    TooSlow {
        /// What was waited for.
        expected: String,
        /// For how long.
        waited: Duration,
        /// The end of the server's log.
        log: String,
    },
}

impl Error {
    /// For `map_err`: what was being done when the system refused.
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
            Self::Io { doing, .. } => write!(f, "{doing} did not work"),
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
