//! Errors of PostgreSQL, and what they mean as errors of an engine.

use std::fmt;

use deadpool_postgres::{PoolError, TimeoutType};
use tokio_postgres::error::{DbError, Severity, SqlState};
use windlass_core::error::EngineError;

use super::tls;

/// The result of one step against the server.
pub(super) type StoreResult<T> = Result<T, StoreError>;

/// How often a step is tried again because it and another transaction formed a deadlock, and the server ended
/// ours.
const DEADLOCKS_MAX: u32 = 5;

/// Repeats a step that ends in a deadlock. Our own transactions lock in one order; those of applications need
/// not. The server has rolled back the ended try, and the next one waits behind the transaction that went on.
pub(super) async fn despite_deadlocks<T, F>(what: &str, step: impl Fn() -> F) -> StoreResult<T>
where
    F: Future<Output = StoreResult<T>>,
{
    for _ in 0..DEADLOCKS_MAX {
        match step().await {
            Err(error) if error.is_deadlock() => {
                tracing::debug!(?error, "{what} ended in a deadlock; trying again")
            }
            done => return done,
        }
    }
    step().await
}

/// Why a step failed.
pub(super) enum StoreError {
    /// The server refused. All writes of the statement or its transaction are undone.
    Refused(Box<DbError>),
    /// The connection broke or never existed. A statement that was sent may have been executed all the
    /// same.
    Lost(String),
    /// Nothing could be sent.
    Unreachable(String),
    /// The request or the store is wrong, or the outcome is known to be unknown.
    Engine(EngineError),
}

/// For logs: of the server's error only its message and code. Its detail may hold a whole row, payload and
/// all.
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
        // Class 22 is about values, 23 about constraints, 54 about sizes; P0 comes from a user's own trigger.
        let Self::Refused(error) = self else { return false };
        !is_misrouted(error)
            && !is_full_of_notifications(error)
            && ["22", "23", "54", "P0"].iter().any(|class| error.code().code().starts_with(class))
    }

    /// Whether a day of the history was created while a row was on its way to the default partition, where
    /// it may not lie any more. The row itself is fine: a second try finds its day.
    pub(super) fn is_about_a_new_day(&self) -> bool {
        matches!(self, Self::Refused(error) if is_misrouted(error))
    }

    /// Whether another session holds a lock for longer than this one waits.
    pub(super) fn is_locked(&self) -> bool {
        matches!(self, Self::Refused(error) if *error.code() == SqlState::LOCK_NOT_AVAILABLE)
    }

    /// Whether the server ended this transaction in a deadlock, so that the others can go on.
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

    /// Whether the cause passes by itself. A statement that took too long would take too long again.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Refused(error) => !self.is_timed_out() && refused(error).is_passing(),
            Self::Lost(_) | Self::Unreachable(_) => true,
            Self::Engine(error) => error.is_passing(),
        }
    }

    /// The error of a statement that commits by itself, or of a commit: a lost answer leaves open whether
    /// it happened.
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
    /// The error after another part of the same call was committed: the caller must ask the store what
    /// happened.
    pub(super) fn after_write(self) -> Self {
        match EngineError::from(self) {
            error if error.is_unknown() => Self::Engine(error),
            error => Self::Engine(EngineError::Unknown { why: error.to_string() }),
        }
    }
}

/// Whether a row fell outside its partition: that check has no name, and all checks of the schema have one.
fn is_misrouted(error: &DbError) -> bool {
    *error.code() == SqlState::CHECK_VIOLATION && error.constraint().is_none()
}

/// Whether the notification queue is full. A session listens in a transaction that does not end, so
/// notifications pile up until no commit that sends one succeeds. Guarded by
/// `while_no_notification_can_be_sent_retries_fail_and_are_not_given_up`.
fn is_full_of_notifications(error: &DbError) -> bool {
    *error.code() == SqlState::PROGRAM_LIMIT_EXCEEDED && error.message().contains("NOTIFY")
}

/// Whether the server ended this session: an operator stops the server, or the session was idle for too
/// long. The server says so between statements, too, so a commit may just have been done.
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
    /// The reason why there is no connection to the server at this address.
    pub(super) fn connecting(error: PoolError, place: &str) -> Self {
        match error {
            PoolError::Backend(error) => Self::connecting_to(error, place),
            PoolError::Timeout(TimeoutType::Wait) => Self::Unreachable(
                "all connections of this process are busy; raise their limit, or make fewer calls at once"
                    .into(),
            ),
            PoolError::Timeout(_) => not_connected("it accepts a connection and does not answer", place),
            other => Self::Unreachable(other.to_string()),
        }
    }

    /// The same reason, for a connection without a pool.
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
    // The driver has no other way to tell these apart. An error before anything was sent comes back on each
    // try.
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
    server_error(error.code().code(), error.message(), error.hint(), error.constraint())
}

/// The meaning of a server's error, for each library that reads one.
pub(super) fn server_error(
    code: &str,
    said: &str,
    hint: Option<&str>,
    constraint: Option<&str>,
) -> EngineError {
    let unusable = |why: String| EngineError::Unusable { why };
    match code {
        "28000" if requires_tls(said) => unusable(format!(
            "the server refuses this user without TLS ({said}); write sslmode=require in the database URL, or \
             sslmode=verify-full with sslrootcert to verify the server, and check pg_hba.conf"
        )),
        "28P01" | "28000" => unusable(format!(
            "the server refuses this user ({said}); check user and password of the database URL, and pg_hba.conf"
        )),
        "3D000" => {
            unusable(format!("{said}; create it with `createdb`, or name another in the database URL"))
        }
        "42501" => unusable(format!(
            "this user lacks a right ({said}); grant it what docs/engines/postgres.md lists, or run `windlass migrate` once as a user who may create tables"
        )),
        "42P01" | "3F000" | "42703" | "42883" => unusable(format!(
            "the schema is missing or out of date ({said}); run `windlass migrate` with a user that may create tables"
        )),
        "25006" => EngineError::Unavailable {
            why: format!(
                "the server takes no writes, it may be a standby ({said}); connect to the primary, or name all servers \
                 in the database URL with target_session_attrs=read-write"
            ),
        },
        // This process stood still for longer than the server waits; it goes on with another session. Guarded
        // by `a_transaction_that_the_server_ended_for_its_silence_is_made_again`.
        "25P03" | "25P04" => EngineError::Unavailable { why: format!("{said} ({code})") },
        "54000" if said.contains("NOTIFY") => EngineError::Unavailable {
            why: format!(
                "{said}; a session that listens has an open transaction; find it in pg_stat_activity, and end it"
            ),
        },
        "53100" => EngineError::Full {
            why: format!("free some space on the server's disk; jobs then go on without a restart ({said})"),
        },
        // As above: a check without a name is the bounds of a partition.
        "23514" if constraint.is_none() => EngineError::Unavailable {
            why: format!("a day of the history was created just now; try again ({said})"),
        },
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

/// Whether the server refused a session for its lack of TLS. Before version 14 it says so in other words.
fn requires_tls(said: &str) -> bool {
    said.contains("pg_hba.conf") && (said.ends_with("no encryption") || said.ends_with("SSL off"))
}

/// An error and its causes, on one line: the driver keeps the interesting half in the source.
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
        assert!(format!("{error:?}").contains("my pin"), "the server does report the row: {error:?}");
        let logged = format!("{:?}", StoreError::from(error));
        assert!(logged.contains("violates check constraint") && logged.contains("23514"), "{logged}");
        assert!(!logged.contains("my pin"), "{logged}");
    }
}
