//! The store of `dev`: a separate file, a separate schema on a PostgreSQL server, or a separate namespace
//! on a Redis server, each server with a separate spool. `dev` never touches the jobs of the configured
//! store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass::engines::sqlite::{SqliteEngine, SqliteOptions};
use windlass_core::engine::Engine;

use super::ledger;
use crate::config::{Config, DatabaseUrl, EngineChoice, FallbackChoice, RedisUrl};
use crate::exit::{Code, Failure};
use crate::store::{connect_redis, drop_schema, of_redis, open_to_serve, redis_options};

const DEFAULT_FILE: &str = "windlass-dev.db";

/// The store of `dev`.
pub(super) struct DevStore {
    at: At,
    /// The configuration with the schema or namespace of `dev`.
    config: Config,
}

enum At {
    File(PathBuf),
    Schema(DatabaseUrl),
    Namespace(RedisUrl),
}

impl DevStore {
    /// Selects PostgreSQL or Redis if it is configured; else the named file, or the default file.
    pub(super) fn of(db: Option<&PathBuf>, config: &Config) -> Result<Self, Failure> {
        let mut config = config.clone();
        let at = match config.store.engine {
            EngineChoice::Redis => {
                let settings = &mut config.store.redis;
                settings.namespace.push_str("_dev");
                // Configured key prefixes belong to the configured namespace, so they are left out here.
                (settings.ready_key, settings.scheduled_key) = (None, None);
                At::Namespace(config.store.redis_url()?.clone())
            }
            EngineChoice::Postgres => {
                config.store.postgres.schema.push_str("_dev");
                At::Schema(config.store.database_url()?.clone())
            }
            _ => At::File(db.cloned().unwrap_or_else(|| PathBuf::from(DEFAULT_FILE))),
        };
        Ok(Self { at, config })
    }

    pub(super) async fn open(&self) -> Result<Arc<dyn Engine>, Failure> {
        match &self.at {
            At::File(path) => Ok(Arc::new(SqliteEngine::open(path, SqliteOptions::default())?)),
            At::Schema(_) | At::Namespace(_) => open_to_serve(&self.config).await,
        }
    }

    /// Removes what earlier runs stored.
    pub(super) async fn start_over(&self) -> Result<(), Failure> {
        match &self.at {
            At::File(path) => remove_database(path)?,
            At::Schema(url) => drop_schema(url, &self.config.store.postgres.schema).await?,
            At::Namespace(url) => {
                let engine = connect_redis(url, redis_options(&self.config.store.redis)).await?;
                engine.erase().await.map_err(|error| of_redis(error, url))?;
            }
        }
        if self.has_spool_file() {
            remove_database(&self.config.fallback.path)?;
        }
        remove(&self.ledger())
    }

    fn has_spool_file(&self) -> bool {
        let is_file = self.config.fallback.engine == Some(FallbackChoice::Sqlite);
        is_file && self.config.store.engine.is_server()
    }

    /// The path of the ledger: beside the file, or in the working directory under the name of the database.
    pub(super) fn ledger(&self) -> PathBuf {
        match &self.at {
            At::File(path) => ledger::beside(path),
            At::Schema(url) => ledger_of(&format!("{url}/{}", self.config.store.postgres.schema)),
            At::Namespace(url) => ledger_of(&format!("{url}/{}", self.config.store.redis.namespace)),
        }
    }

    pub(super) fn describe(&self) -> String {
        let place = match &self.at {
            At::File(path) => path.display().to_string(),
            At::Schema(url) => format!("{url}, schema {}", self.config.store.postgres.schema),
            At::Namespace(url) => format!("{url}, namespace {}", self.config.store.redis.namespace),
        };
        match self.config.fallback.engine {
            _ if !self.config.store.engine.is_server() => place,
            Some(FallbackChoice::Memory) => format!("{place}, or in memory while the server is unavailable"),
            Some(FallbackChoice::Sqlite) => {
                format!(
                    "{place}, or in {} while the server is unavailable",
                    self.config.fallback.path.display()
                )
            }
            _ => place,
        }
    }
}

fn ledger_of(name: &str) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    PathBuf::from(format!("windlass-dev-{}.ledger", name.chars().map(plain).collect::<String>()))
}

fn remove_database(path: &Path) -> Result<(), Failure> {
    for suffix in ["", "-wal", "-shm"] {
        remove(&PathBuf::from(format!("{}{suffix}", path.display())))?;
    }
    Ok(())
}

fn remove(file: &Path) -> Result<(), Failure> {
    match std::fs::remove_file(file) {
        Err(why) if why.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::new(Code::Store, format!("removing {} failed: {why}", file.display())))
        }
        _ => Ok(()),
    }
}
