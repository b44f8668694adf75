//! The ledger of all producers and workers: a file outside the store, to which other processes append as
//! well.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tempfile::TempDir;
use windlass_conformance::history::{Event, FaultKind, History, Ledger};
use windlass_core::clock::{Clock, Timestamp};
use windlass_engines::clock::SystemClock;

#[derive(Debug)]
pub(crate) struct SharedLedger {
    /// Locked while a line is written, so that the order of lines is the order of their times.
    ledger: Mutex<Ledger>,
    pub(crate) path: PathBuf,
    /// Removed with the ledger of the process that created it.
    _folder: Option<TempDir>,
}

impl SharedLedger {
    pub(crate) fn begin() -> Self {
        let folder = tempfile::tempdir().expect("the folder is ours");
        let shared_ledger = Self::open(&folder.path().join("ledger"));
        Self { _folder: Some(folder), ..shared_ledger }
    }

    /// Opens a ledger that another process has created.
    pub(crate) fn open(path: &Path) -> Self {
        Self {
            ledger: Mutex::new(Ledger::open(path).expect("the folder is ours")),
            path: path.to_owned(),
            _folder: None,
        }
    }

    /// Returns the time by the clock that all processes of this machine share.
    pub(crate) fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    pub(crate) fn note(&self, event: Event) {
        let ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        ledger.append(self.now(), event).expect("the folder is ours");
    }

    /// Injects a fault into all workers, and records how long it lasted.
    pub(crate) fn fault<T>(&self, kind: FaultKind, act: impl FnOnce() -> T) -> T {
        let from = self.now();
        let done = act();
        self.note_fault(kind, None, from);
        done
    }

    /// Records a fault of one worker, or of all workers, from then until now.
    pub(crate) fn note_fault(&self, kind: FaultKind, target: Option<String>, from: Timestamp) {
        self.note_fault_until(kind, target, from, self.now());
    }

    pub(crate) fn note_fault_until(
        &self,
        kind: FaultKind,
        target: Option<String>,
        from: Timestamp,
        until: Timestamp,
    ) {
        let ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        ledger.append(from, Event::Fault { kind, target, until: Some(until) }).expect("the folder is ours");
    }

    /// Reads all lines, of all processes.
    pub(crate) fn read(&self) -> History {
        History::read(&self.path).expect("the folder is ours")
    }
}
