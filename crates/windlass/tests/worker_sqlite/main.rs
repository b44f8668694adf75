//! The tests of a worker again, on SQLite.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use windlass::sqlite::{SqliteEngine, SqliteOptions};
use windlass::types::engine::Engine;

#[path = "../worker/rollups.rs"]
mod rollups;
#[path = "../worker/bench.rs"]
mod bench;
#[path = "../worker/cancelling.rs"]
mod cancelling;
#[path = "../worker/triggers.rs"]
mod triggers;
#[path = "../worker/duties.rs"]
mod duties;
#[path = "../worker/ending.rs"]
mod ending;
#[path = "../worker/enqueueing.rs"]
mod enqueueing;
#[path = "../worker/full_store.rs"]
mod full_store;
#[path = "../worker/handlers.rs"]
mod handlers;
#[path = "../worker/limits.rs"]
mod limits;
#[path = "../worker/many_probers.rs"]
mod many_probers;
#[path = "../worker/running.rs"]
mod running;
#[path = "../worker/schedules.rs"]
mod schedules;
mod other_processes;
mod full_disk;
mod damaged_schedules;
mod damaged_triggers;

/// Creates an engine for one test, on a separate file.
fn fresh_engine() -> Arc<dyn Engine> {
    open(&fresh_file())
}

/// Opens an engine on a file, which other engines may use, too.
fn open(file: &Path) -> Arc<dyn Engine> {
    Arc::new(SqliteEngine::open(file, SqliteOptions::default()).expect("the file opens"))
}

/// Creates the path of a file for one test, below the build's directory.
fn fresh_file() -> PathBuf {
    static FILES: AtomicU32 = AtomicU32::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let dir =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("worker-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("the build's directory is writable");
    dir.join("jobs.db")
}
