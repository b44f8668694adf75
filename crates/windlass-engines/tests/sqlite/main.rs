//! The behaviour that is specific to SQLite: its files, other processes on them, and the user's own
//! transactions.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, reason = "all of this is a test, also what tests share")]

#[path = "../workers/words.rs"]
mod words;
#[path = "../workers/rollup_rounds.rs"]
mod rollup_rounds;
mod files;
mod users_transaction;
mod other_processes;
mod damaged_rows;
mod ordering_keys;
mod fairness_keys;
mod rollups;
mod growth;
mod disk_and_locks;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;
use windlass_core::admin::QueueStatus;
use windlass_core::claim::{ClaimAnswer, Claimed};
use windlass_core::engine::{Admin, Engine, Hint, HintListener};
use windlass_core::enqueue::{EnqueueAnswer, NewJob};
use windlass_core::job::JobId;
use windlass_core::payload::Payload;
use windlass_core::worker::WorkerId;
use windlass_engines::sqlite::{SqliteEngine, SqliteOptions};

use words::{card, claim_request, declaration, kind, queue, request};

const WORKER: WorkerId = WorkerId::from_random(0xfeed);

/// A folder with a database that is not created yet.
struct TestStore {
    folder: TempDir,
}

impl TestStore {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary directory") }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("jobs.db")
    }

    fn open(&self) -> SqliteEngine {
        SqliteEngine::open(self.path(), SqliteOptions::default()).expect("the file can be opened")
    }

    /// Opens another program's connection to the same file.
    fn connect(&self) -> Connection {
        let conn = Connection::open(self.path()).expect("the file can be opened");
        conn.busy_timeout(Duration::from_secs(5)).expect("a timeout can be set");
        conn
    }
}

fn new_job() -> NewJob {
    NewJob::new(kind(), Payload::default())
}

async fn declare(engine: &SqliteEngine) {
    engine.declare(declaration()).await.unwrap();
}

/// Opens an engine with a queue, a type and a worker.
async fn ready_engine(place: &TestStore) -> SqliteEngine {
    let engine = place.open();
    declare(&engine).await;
    engine.register(card(WORKER)).await.unwrap();
    engine
}

async fn enqueue(engine: &SqliteEngine, count: usize) -> Vec<JobId> {
    stored(&engine.enqueue(request(vec![new_job(); count])).await.unwrap())
}

fn stored(answers: &[EnqueueAnswer]) -> Vec<JobId> {
    answers.iter().map(|answer| answer.job().expect("plain jobs are accepted")).collect()
}

async fn claim(engine: &SqliteEngine, limit: u32) -> Vec<Claimed> {
    match engine.claim(claim_request(WORKER, limit)).await.unwrap() {
        ClaimAnswer::Claimed { jobs, .. } => jobs,
        ClaimAnswer::WorkerDead => panic!("the worker is live"),
    }
}

async fn status(engine: &SqliteEngine) -> QueueStatus {
    engine.queues().await.unwrap().into_iter().next().expect("one queue is declared")
}

/// Receives hints in the order of their arrival.
struct Hints {
    from: Receiver<Hint>,
    _kept: Arc<Listener>,
}

impl Hints {
    fn of(engine: &SqliteEngine) -> Self {
        let (to, from) = channel();
        let listener = Arc::new(Listener { to });
        engine.on_hint(Arc::<Listener>::downgrade(&listener));
        Self { from, _kept: listener }
    }

    fn within(&self, patience: Duration) -> Result<Hint, RecvTimeoutError> {
        self.from.recv_timeout(patience)
    }
}

struct Listener {
    to: Sender<Hint>,
}

impl HintListener for Listener {
    fn hint(&self, hint: Hint) {
        let _ = self.to.send(hint);
    }
}
