//! A store beside the configured one, for one measurement: on the same server or disk, with the same
//! settings, under a name of its own.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use windlass::MemoryEngine;
use windlass_core::engine::Engine;

use crate::config::{Config, EngineChoice};
use crate::exit::{Code, Failure};
use crate::store::{IfMissing, connect_redis, drop_schema, of_redis, open_alone, redis_options};

/// How long the last calls of an interrupted worker may take.
const LAST_CALLS: Duration = Duration::from_secs(15);
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

pub(super) struct Scratch {
    /// The configuration with another file, schema and namespace.
    config: Config,
    /// Of the SQLite file, and of what the engine keeps beside it.
    folder: PathBuf,
    opened: OnceLock<Weak<dyn Engine>>,
}

impl Scratch {
    pub(super) fn beside(config: &Config) -> Self {
        let name = format!("windlass_bench_{}_{:08x}", std::process::id(), fastrand::u32(..));
        let mut config = config.clone();
        let store = &mut config.store;
        let folder = store.path.with_file_name(&name);
        store.path = folder.join("bench.db");
        store.postgres.schema.clone_from(&name);
        store.redis.namespace = name;
        // Configured names of lanes belong to the configured namespace.
        (store.redis.ready_key, store.redis.scheduled_key) = (None, None);
        Self { config, folder, opened: OnceLock::new() }
    }

    /// Creates the store. Without the spool of a fallback: the store itself is measured.
    pub(super) async fn open(&self) -> Result<Arc<dyn Engine>, Failure> {
        let engine = match self.config.store.engine {
            EngineChoice::Memory => Arc::new(MemoryEngine::new()),
            EngineChoice::Sqlite => {
                std::fs::create_dir(&self.folder).map_err(|why| self.folder_failure("created", &why))?;
                open_alone(&self.config, IfMissing::Create).await?
            }
            _ => open_alone(&self.config, IfMissing::Create).await?,
        };
        let _ = self.opened.set(Arc::downgrade(&engine));
        Ok(engine)
    }

    /// Removes the store with everything in it, if it exists.
    pub(super) async fn remove(&self) -> Result<(), Failure> {
        self.wait_for_last_calls().await;
        let store = &self.config.store;
        let (removed, place) = match store.engine {
            EngineChoice::Memory => return Ok(()),
            EngineChoice::Sqlite if !self.folder.exists() => return Ok(()),
            EngineChoice::Sqlite => {
                let removed = std::fs::remove_dir_all(&self.folder);
                return removed.map_err(|why| self.folder_failure("removed", &why));
            }
            EngineChoice::Postgres => {
                let schema = &store.postgres.schema;
                (drop_schema(store.database_url()?, schema).await, format!("schema {schema}"))
            }
            EngineChoice::Redis => (self.erase().await, format!("namespace {}", store.redis.namespace)),
        };
        removed.map_err(|failure| {
            failure.hint(format!("{place} of the measurement may be left over; if so, remove it"))
        })
    }

    fn folder_failure(&self, done: &str, why: &std::io::Error) -> Failure {
        Failure::new(Code::Store, format!("{} cannot be {done}: {why}", self.folder.display()))
    }

    async fn erase(&self) -> Result<(), Failure> {
        let url = self.config.store.redis_url()?;
        let engine = connect_redis(url, redis_options(&self.config.store.redis)).await?;
        engine.erase().await.map(drop).map_err(|error| of_redis(error, url))
    }

    /// The tasks of an interrupted worker end a little later. What they wrote after the removal would stay.
    async fn wait_for_last_calls(&self) {
        let started = Instant::now();
        let in_use = || self.opened.get().is_some_and(|engine| engine.strong_count() > 0);
        while in_use() && started.elapsed() < LAST_CALLS {
            // may sleep: a dropped worker sends no signal when its last task has ended.
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn names_of_the_configured_store_are_all_replaced() {
        let mut config = crate::config::load(None, &[]).unwrap();
        config.store.path = "/var/lib/app/jobs.db".into();
        config.store.redis.ready_key = Some("{app}:ready".to_owned());
        let own = Scratch::beside(&config).config.store;
        let folder = own.path.parent().unwrap();
        assert_eq!(folder.parent(), Some(Path::new("/var/lib/app")));
        let folder = folder.file_name().unwrap().to_str().unwrap();
        let names = [folder, &own.postgres.schema, &own.redis.namespace];
        assert!(names.iter().all(|name| name.starts_with("windlass_bench_")), "{names:?}");
        assert_eq!(own.redis.ready_key, None);
    }

    #[tokio::test]
    async fn the_file_is_gone_after_the_removal_and_removing_nothing_is_no_failure() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = crate::config::load(None, &[]).unwrap();
        config.store.path = dir.path().join("jobs.db");
        Scratch::beside(&config).remove().await.unwrap();
        let scratch = Scratch::beside(&config);
        drop(scratch.open().await.unwrap());
        assert!(scratch.config.store.path.exists());
        scratch.remove().await.unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
