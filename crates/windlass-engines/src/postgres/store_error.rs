//! What PostgreSQL may answer instead of a result, in the words of the engine seam.

use std::fmt;

use deadpool_postgres::{PoolError, TimeoutType};
use tokio_postgres::error::{DbError, Severity, SqlState};
use windlass_core::error::EngineError;

use super::tls;

/// What a step gives.
pub(super) type StoreResult<T> = Result<T, StoreError>;

/// Why a step failed.
pub(super) enum StoreError {
    /// The server said no. Whatever the statement or its transaction had written is undone.
    Refused(Box<DbError>),
    /// The connection broke or was never there. A statement that was sent may have been done all the same.
    Lost(String),
    /// Nothing could be sent.
    Unreachable(String),
    /// The request or the store is wrong, or the outcome is known to be unknown.
    Engine(EngineError),
}

/// For logs: of what the server said only its message and code. Its detail may hold a whole row, payload and all.
impl fmt::Debug for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => write!(f, "Refused({:?})", said(error)),
            Self::Lost(why) => write!(f, "Lost({why:?})"),
            Self::Unreachable(why) => write!(f, "Unreachable({why:?})"),
            Self::Engine(error) => write!(f, "Engine({error:?})"),
        }
    }
}

fn said(error: &DbError) -> String {
    format!("{} ({})", error.message(), error.code().code())
}

impl StoreError {
    /// Whether one row of a batch may be the cause, so that the others should be tried without it.
    pub(super) fn is_about_data(&self) -> bool {
        // Class 22 is about values, 23 about constraints, 54 about sizes, P0 is what a user's own trigger says.
        let Self::Refused(error) = self else { return false };
        !is_misrouted(error)
            && !is_full_of_notifications(error)
            && ["22", "23", "54", "P0"].iter().any(|class| error.code().code().starts_with(class))
    }

    /// Whether a day of the history was made while a row was on its way to the default part, where it may not lie any
    /// more. Nothing is wrong with the row: done again, it finds its day.
    pub(super) fn is_about_a_new_day(&self) -> bool {
        matches!(self, Self::Refused(error) if is_misrouted(error))
    }

    /// Whether somebody holds a lock for longer than we wait.
    pub(super) fn is_locked(&self) -> bool {
        matches!(self, Self::Refused(error) if *error.code() == SqlState::LOCK_NOT_AVAILABLE)
    }

    /// Whether the server ended this one of several who waited for each other, so that the others can go on.
    pub(super) fn is_deadlock(&self) -> bool {
        matches!(self, Self::Refused(error) if *error.code() == SqlState::T_R_DEADLOCK_DETECTED)
    }

    /// Whether the role lacks a right.
    pub(super) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused(error) if *error.code() == SqlState::INSUFFICIENT_PRIVILEGE)
    }

    /// Whether the server broke a statement off because it took too long.
    pub(super) fn is_timed_out(&self) -> bool {
        matches!(self, Self::Refused(error) if *error.code() == SqlState::QUERY_CANCELED)
    }

    /// Whether what is in the way passes by itself. What took too long would take too long again.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Refused(error) => !self.is_timed_out() && refused(error).is_passing(),
            Self::Lost(_) | Self::Unreachable(_) => true,
            Self::Engine(error) => error.is_passing(),
        }
    }

    /// The same for a statement that commits by itself, or for a commit: a lost answer leaves open whether it
    /// happened.
    pub(super) fn of_commit(self) -> Self {
        match self {
            Self::Lost(why) => Self::Engine(EngineError::Unknown { why }),
            Self::Refused(error) if ends_session(&error) => {
                Self::Engine(EngineError::Unknown { why: said(&error) })
            }
            other => other,
        }
    }
}

impl StoreError {
    /// The same after another part of the same call was committed: whoever called must ask what it holds.
    pub(super) fn after_write(self) -> Self {
        match EngineError::from(self) {
            error if error.is_unknown() => Self::Engine(error),
            error => Self::Engine(EngineError::Unknown { why: error.to_string() }),
        }
    }
}

/// A check that has no name is the bounds of a part; all of ours have one.
fn is_misrouted(error: &DbError) -> bool {
    *error.code() == SqlState::CHECK_VIOLATION && error.constraint().is_none()
}

/// Somebody listens in a transaction that does not end, so notifications pile up until no commit that sends one succeeds.
/// Guarded by `while_no_notification_can_be_sent_retries_fail_and_are_not_given_up`.
fn is_full_of_notifications(error: &DbError) -> bool {
    *error.code() == SqlState::PROGRAM_LIMIT_EXCEEDED && error.message().contains("NOTIFY")
}

/// The server ends this session: somebody stops it, or it was idle for too long. It says so between statements, too, so
/// a commit may just have been done.
fn ends_session(error: &DbError) -> bool {
    matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
}

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(said) => Self::Refused(Box::new(said.clone())),
            None => Self::Lost(with_sources(&error)),
        }
    }
}

impl StoreError {
    /// Why there is no connection to the server at this place.
    pub(super) fn connecting(error: PoolError, place: &str) -> Self {
        match error {
            PoolError::Backend(error) => Self::connecting_to(error, place),
            PoolError::Timeout(TimeoutType::Wait) => Self::Unreachable(
                "all connections of this process are busy; allow it more of them, or ask for less at once"
                    .into(),
            ),
            PoolError::Timeout(_) => not_connected("it takes a connection and does not answer", place),
            other => Self::Unreachable(other.to_string()),
        }
    }

    /// The same, without a pool.
    pub(super) fn connecting_to(error: tokio_postgres::Error, place: &str) -> Self {
        if let Some(advice) = tls::advice(&error, place) {
            return Self::Engine(advice);
        }
        match Self::from(error) {
            Self::Lost(why) => not_connected(&why, place),
            other => other,
        }
    }
}

fn not_connected(why: &str, place: &str) -> StoreError {
    // The driver has no other way to tell these apart. What it cannot send at all helps nobody to try again.
    if why.starts_with("invalid configuration") || why.starts_with("authentication error") {
        let why = format!("no login at {place} ({why}); check user and password of the database URL");
        return StoreError::Engine(EngineError::Unusable { why });
    }
    StoreError::Unreachable(format!(
        "no server at {place} ({why}); check that the server runs and that host and port of the database URL are right"
    ))
}

impl From<EngineError> for StoreError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

impl From<StoreError> for EngineError {
    fn from(fault: StoreError) -> Self {
        match fault {
            StoreError::Refused(error) => refused(&error),
            StoreError::Lost(why) | StoreError::Unreachable(why) => Self::Unavailable { why },
            StoreError::Engine(error) => error,
        }
    }
}

fn refused(error: &DbError) -> EngineError {
    said_no(error.code().code(), error.message(), error.hint(), error.constraint())
}

/// What the server's no means, whichever library has heard it.
pub(super) fn said_no(code: &str, said: &str, hint: Option<&str>, constraint: Option<&str>) -> EngineError {
    let unusable = |why: String| EngineError::Unusable { why };
    match code {
        "28000" if asks_for_tls(said) => unusable(format!(
            "the server does not let this user in without TLS ({said}); write sslmode=require in the database URL, or \
             sslmode=verify-full with sslrootcert to be sure who answers, and check pg_hba.conf"
        )),
        "28P01" | "28000" => unusable(format!(
            "the server does not let this user in ({said}); check user and password of the database URL, and pg_hba.conf"
        )),
        "3D000" => unusable(format!("{said}; make it with `createdb`, or name another in the database URL")),
        "42501" => unusable(format!(
            "this user lacks a right ({said}); grant it what docs/engines/postgres.md lists, or run `windlass migrate` once as a user who may create tables"
        )),
        "42P01" | "3F000" | "42703" | "42883" => unusable(format!(
            "the schema is not there or not up to date ({said}); run `windlass migrate` with a user that may create tables"
        )),
        "25006" => EngineError::Unavailable {
            why: format!(
                "the server takes no writes, it may be a standby ({said}); connect to the primary, or name all servers \
                 in the database URL with target_session_attrs=read-write"
            ),
        },
        // This process stood still for longer than the server waits; it goes on with another session. Guarded by
        // `a_transaction_that_the_server_ended_for_its_silence_is_made_again`.
        "25P03" | "25P04" => EngineError::Unavailable { why: format!("{said} ({code})") },
        "54000" if said.contains("NOTIFY") => EngineError::Unavailable {
            why: format!(
                "{said}; a session listens in an open transaction: find it in pg_stat_activity, and end it"
            ),
        },
        "53100" => EngineError::Full {
            why: format!("free some space on the server's disk; it goes on by itself then ({said})"),
        },
        // As above: a check without a name is the bounds of a part.
        "23514" if constraint.is_none() => {
            EngineError::Unavailable { why: format!("a day of the history was made just now ({said})") }
        }
        other if other.starts_with("WL") => EngineError::Refused(match hint {
            Some(hint) => format!("{said}; {hint}"),
            None => said.to_owned(),
        }),
        other if ["08", "40", "53", "55", "57", "58"].iter().any(|class| other.starts_with(class)) => {
            EngineError::Unavailable { why: format!("{said} ({other})") }
        }
        other => unusable(format!("{said} ({other})")),
    }
}

/// The server says how the session came that it does not let in; before version 14 in other words.
fn asks_for_tls(said: &str) -> bool {
    said.contains("pg_hba.conf") && (said.ends_with("no encryption") || said.ends_with("SSL off"))
}

/// An error and what caused it, in one line: the driver keeps the interesting half in the source.
fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_logged_of_a_refusal_holds_no_row() {
        let url = windlass_servers::shared::postgres_url().expect("a PostgreSQL server");
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let refused = "CREATE TEMP TABLE wallets (payload text CHECK (payload = '')); INSERT INTO wallets VALUES ('my pin')";
        let error = client.batch_execute(refused).await.unwrap_err();
        assert!(format!("{error:?}").contains("my pin"), "the server does tell the row: {error:?}");
        let logged = format!("{:?}", StoreError::from(error));
        assert!(logged.contains("violates check constraint") && logged.contains("23514"), "{logged}");
        assert!(!logged.contains("my pin"), "{logged}");
    }
}
