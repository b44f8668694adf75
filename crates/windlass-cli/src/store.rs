//! Opens the store that was configured.

use std::sync::Arc;

use windlass_core::engine::Engine;

use crate::config::{Config, EngineChoice};
use crate::exit::{Code, Failure};

/// Whether a command may make a new store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfMissing {
    /// A command that only looks or acts on what is there must not: a slip in `--db` would make an empty file
    /// and answer that there are no jobs.
    Refuse,
    /// A command that puts something in may.
    Create,
}

/// Opens it.
pub(crate) fn open(config: &Config, if_missing: IfMissing) -> Result<Arc<dyn Engine>, Failure> {
    let path = &config.store.path;
    match config.store.engine {
        EngineChoice::Memory => Err(memory_is_private()),
        EngineChoice::Sqlite if if_missing == IfMissing::Refuse && !path.exists() => {
            Err(Failure::new(Code::Store, format!("expected an SQLite file at {}, got none", path.display()))
                .hint("name another one with --db, or make it with `windlass migrate`"))
        }
        EngineChoice::Sqlite => Err(Failure::new(Code::Store, "SQLite is not in this build")),
    }
}

/// Each process has a memory of its own, so a command would look into one that is always empty.
fn memory_is_private() -> Failure {
    Failure::new(Code::Configuration, "expected a store that processes share, got the memory engine")
        .hint("jobs in memory are seen only by the process that holds them; set `engine = \"sqlite\"` in [store] or use --db")
}
