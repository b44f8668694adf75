//! SQLite against the model.

use std::any::Any;
use std::sync::Arc;

use proptest_state_machine::prop_state_machine;

use windlass_core::clock::ManualClock;
use windlass_core::engine::Engine;
use windlass_engines::sqlite::{SqliteEngine, SqliteOptions, Synchronous};

use crate::config;
use crate::pair::{Subject, Test};

/// The SQLite engine on a fresh file. Whether a commit waits for the disk does not change any answer, so it
/// does not wait.
struct Sqlite;

impl Subject for Sqlite {
    fn open(clock: Arc<ManualClock>) -> (Arc<dyn Engine>, Box<dyn Any>) {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let options = SqliteOptions { clock, synchronous: Synchronous::Normal, ..SqliteOptions::default() };
        let engine = SqliteEngine::open(folder.path().join("jobs.db"), options).expect("a fresh file");
        (Arc::new(engine), Box::new(folder))
    }
}

type SqliteAndModel = Test<Sqlite>;

prop_state_machine! {
    #![proptest_config(config(48))]

    #[test]
    fn sqlite_answers_as_the_model_does(sequential 1..80 => SqliteAndModel);
}
