//! Opens the store that was configured.

use std::sync::Arc;

use windlass_core::engine::Engine;
use windlass_engines::sqlite::{self, SqliteEngine, SqliteOptions};

use crate::config::{Config, EngineChoice, StoreSettings, Synchronous};
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
        EngineChoice::Sqlite => Ok(Arc::new(SqliteEngine::open(path, sqlite_options(&config.store))?)),
    }
}

/// How the SQLite file is used.
pub(crate) fn sqlite_options(store: &StoreSettings) -> SqliteOptions {
    SqliteOptions {
        synchronous: match store.synchronous {
            Synchronous::Full => sqlite::Synchronous::Full,
            Synchronous::Normal => sqlite::Synchronous::Normal,
        },
        busy_timeout: store.busy_timeout,
        ..SqliteOptions::default()
    }
}

/// Each process has a memory of its own, so a command would look into one that is always empty.
pub(crate) fn memory_is_private() -> Failure {
    Failure::new(Code::Configuration, "expected a store that processes share, got the memory engine")
        .hint("jobs in memory are seen only by the process that holds them; set `engine = \"sqlite\"` in [store] or use --db")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use windlass_core::engine::Durability;

    use super::*;

    #[test]
    fn the_settings_of_the_store_reach_the_engine() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = crate::config::load(None, &[]).unwrap();
        config.store.path = dir.path().join("a.db");
        for (synchronous, durability) in
            [(Synchronous::Full, Durability::PowerCut), (Synchronous::Normal, Durability::Crash)]
        {
            config.store.synchronous = synchronous;
            let engine = open(&config, IfMissing::Create).unwrap();
            assert_eq!((engine.info().name, engine.info().durability), ("sqlite", durability));
        }
        config.store.busy_timeout = Duration::from_millis(7);
        assert_eq!(sqlite_options(&config.store).busy_timeout, Duration::from_millis(7));
    }

    #[test]
    fn memory_is_refused_where_another_process_would_have_to_see_it() {
        let mut config = crate::config::load(None, &[]).unwrap();
        config.store.engine = EngineChoice::Memory;
        assert_eq!(
            open(&config, IfMissing::Create).err().map(|failure| failure.code),
            Some(Code::Configuration)
        );
    }
}
