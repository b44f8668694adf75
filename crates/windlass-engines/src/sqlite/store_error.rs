//! Errors of SQLite, converted to those of the engine interface.

use rusqlite::{ErrorCode, ffi};
use windlass_core::error::EngineError;

/// The result of a step inside a transaction.
pub(super) type StoreResult<T> = Result<T, StoreError>;

/// Why a step failed. Its operation is rolled back, so nothing of it was written.
#[derive(Debug)]
pub(super) enum StoreError {
    /// SQLite returned an error.
    Sqlite(rusqlite::Error),
    /// The request or the store is wrong.
    Engine(EngineError),
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<EngineError> for StoreError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

impl From<StoreError> for EngineError {
    fn from(fault: StoreError) -> Self {
        match fault {
            StoreError::Sqlite(error) => Failure::of(&error).into(),
            StoreError::Engine(error) => error,
        }
    }
}

/// A failure that several callers get, since they shared a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// Nothing was written; a retry may succeed.
    Unavailable(String),
    /// It may have been written.
    Unknown(String),
    /// Nothing was written, and an operator must act.
    Unusable(String),
    /// Nothing was written: the disk is full.
    Full(String),
}

impl Failure {
    /// Classifies an error before the commit: the transaction is rolled back, so nothing was written.
    pub(super) fn of(error: &rusqlite::Error) -> Self {
        let why = error.to_string();
        // The shared index of the log cannot grow: this is SQLite's error for a full disk there.
        let is_index_full =
            error.sqlite_error().is_some_and(|error| error.extended_code == ffi::SQLITE_IOERR_SHMSIZE);
        match error.sqlite_error_code() {
            Some(ErrorCode::SystemIoFailure) if is_index_full => Self::full(&why),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::Unavailable(format!("another process holds the file's write lock for too long ({why})"))
            }
            Some(ErrorCode::DiskFull) => Self::full(&why),
            Some(ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory | ErrorCode::OperationInterrupted) => {
                Self::Unavailable(why)
            }
            Some(ErrorCode::DatabaseCorrupt) => Self::Unusable(format!(
                "the database file is damaged ({why}); stop all processes and restore it from a backup, or save what `sqlite3 FILE .recover` finds"
            )),
            Some(ErrorCode::NotADatabase) => Self::Unusable(format!(
                "expected an SQLite database, got another kind of file ({why}); name another path"
            )),
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Self::Unusable(format!(
                "the file or its directory cannot be written to ({why}); give this user the right to write to both"
            )),
            Some(ErrorCode::CannotOpen) => Self::Unusable(format!(
                "the file cannot be opened ({why}); check that its directory exists and can be written to"
            )),
            _ => Self::Unusable(why),
        }
    }

    fn full(why: &str) -> Self {
        Self::Full(format!("free some space on its disk; work continues by itself then ({why})"))
    }

    /// Classifies an error of the commit itself. After a failed write or sync the pages may or may not be
    /// on the disk, so the outcome is unknown. A full disk and a lock are reported before the commit record
    /// is written.
    pub(super) fn of_commit(error: &rusqlite::Error) -> Self {
        match (error.sqlite_error_code(), Self::of(error)) {
            (Some(ErrorCode::SystemIoFailure), Self::Unavailable(why)) => Self::Unknown(why),
            (_, failure) => failure,
        }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Full { why } => Self::Full(why),
            EngineError::Unavailable { why } | EngineError::Busy { why } => Self::Unavailable(why),
            EngineError::Unusable { why } => Self::Unusable(why),
            other => Self::Unusable(other.to_string()),
        }
    }
}

impl From<Failure> for EngineError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unavailable(why) => Self::Unavailable { why },
            Failure::Unknown(why) => Self::Unknown { why },
            Failure::Unusable(why) => Self::Unusable { why },
            Failure::Full(why) => Self::Full { why },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn a_failed_sync_at_commit_leaves_open_whether_it_happened() {
        let io = error(ffi::SQLITE_IOERR_FSYNC);
        assert!(matches!(Failure::of_commit(&io), Failure::Unknown(_)));
        assert!(matches!(Failure::of(&io), Failure::Unavailable(_)));
    }

    #[test]
    fn an_index_that_cannot_grow_is_a_full_disk() {
        assert!(matches!(Failure::of(&error(ffi::SQLITE_IOERR_SHMSIZE)), Failure::Full(_)));
    }

    #[test]
    fn a_full_disk_and_a_lock_wrote_nothing_even_at_commit() {
        assert!(matches!(Failure::of_commit(&error(ffi::SQLITE_FULL)), Failure::Full(_)));
        assert!(matches!(Failure::of_commit(&error(ffi::SQLITE_BUSY)), Failure::Unavailable(_)));
    }

    #[test]
    fn what_needs_a_person_says_what_to_do() {
        for (code, word) in [
            (ffi::SQLITE_CORRUPT, "backup"),
            (ffi::SQLITE_NOTADB, "another path"),
            (ffi::SQLITE_READONLY, "right to write"),
            (ffi::SQLITE_CANTOPEN, "directory exists"),
        ] {
            let Failure::Unusable(why) = Failure::of(&error(code)) else { panic!("{code}") };
            assert!(why.contains(word), "{why}");
        }
    }
}
