//! Lock files of workers, beside the database. A process holds its file's lock as long as it lives, so a
//! free lock proves that the process is gone, at once and whatever the clocks say.
//!
//! The lock is taken before the worker's row exists: a process that sees the row and finds the lock free
//! knows that the worker's process had it and has it no more. A missing file proves nothing.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use windlass_core::error::EngineError;
use windlass_core::worker::{ProofOfLife, WorkerId};

/// The lock files of one database.
#[derive(Debug)]
pub(super) struct Locks {
    folder: PathBuf,
    /// The lock files of workers that live in this process, through this engine.
    held: Mutex<HashMap<WorkerId, File>>,
}

impl Locks {
    /// Returns the lock files of the database at this path.
    pub(super) fn beside(database: &Path) -> Self {
        let mut folder = OsString::from(database);
        folder.push(".workers");
        Self { folder: folder.into(), held: Mutex::default() }
    }

    /// Takes the lock of a worker that is about to register.
    pub(super) fn take(&self, worker: WorkerId) -> Result<(), EngineError> {
        let file = match self.open_new(worker) {
            Ok(file) => file,
            Err(error) => return Err(cannot_lock(&self.folder, &error)),
        };
        match file.try_lock() {
            Ok(()) => {
                self.held().insert(worker, file);
                Ok(())
            }
            Err(TryLockError::WouldBlock) => Err(EngineError::Refused(
                "expected a new worker id, got one that is known already; make a random one for each start"
                    .to_owned(),
            )),
            // On a file system without locks, the lease alone decides, as on other engines.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                let _ = fs::remove_file(self.path(worker));
                Ok(())
            }
            Err(TryLockError::Error(error)) => Err(cannot_lock(&self.folder, &error)),
        }
    }

    /// Releases the lock and removes its file; for workers that have left or were declared dead.
    pub(super) fn remove(&self, worker: WorkerId) {
        // The file is removed before it is unlocked, so that no process finds a free lock of a worker that
        // is not dead.
        let _ = fs::remove_file(self.path(worker));
        self.held().remove(&worker);
    }

    /// Returns what the lock proves about a worker that has a row.
    pub(super) fn proof(&self, worker: WorkerId) -> ProofOfLife {
        if self.held().contains_key(&worker) {
            return ProofOfLife::Exists;
        }
        let Ok(file) = File::open(self.path(worker)) else { return ProofOfLife::None };
        // A shared lock, so that two observers at once do not take each other for the worker.
        match file.try_lock_shared() {
            Ok(()) => ProofOfLife::Gone,
            Err(TryLockError::WouldBlock) => ProofOfLife::Exists,
            Err(TryLockError::Error(_)) => ProofOfLife::None,
        }
    }

    fn open_new(&self, worker: WorkerId) -> io::Result<File> {
        fs::create_dir_all(&self.folder)?;
        File::options().create(true).truncate(false).read(true).write(true).open(self.path(worker))
    }

    fn path(&self, worker: WorkerId) -> PathBuf {
        let hex: String = worker.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(hex + ".lock")
    }

    fn held(&self) -> MutexGuard<'_, HashMap<WorkerId, File>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn cannot_lock(folder: &Path, error: &io::Error) -> EngineError {
    if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
        let why = format!(
            "expected room on the disk of {}, got none; free some space there ({error})",
            folder.display()
        );
        return EngineError::Full { why };
    }
    EngineError::Unusable {
        why: format!(
            "a worker's lock file cannot be created in {} ({error}); give this user the right to write beside the database",
            folder.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKER: WorkerId = WorkerId::from_random(7);

    #[test]
    fn a_held_lock_says_exists_to_every_observer_and_a_free_one_gone() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("jobs.db");
        let (own, other) = (Locks::beside(&database), Locks::beside(&database));
        assert_eq!(other.proof(WORKER), ProofOfLife::None, "no file");
        own.take(WORKER).unwrap();
        assert_eq!(own.proof(WORKER), ProofOfLife::Exists);
        assert_eq!(other.proof(WORKER), ProofOfLife::Exists);
        drop(own);
        assert_eq!(other.proof(WORKER), ProofOfLife::Gone);
        other.remove(WORKER);
        assert_eq!(other.proof(WORKER), ProofOfLife::None);
    }

    #[test]
    fn a_second_worker_of_the_same_id_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("jobs.db");
        let own = Locks::beside(&database);
        own.take(WORKER).unwrap();
        assert!(matches!(Locks::beside(&database).take(WORKER), Err(EngineError::Refused(_))));
    }
}
