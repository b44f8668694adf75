//! Where `dev` keeps its jobs: in a file of its own, in a schema of its own on a PostgreSQL server, or in a namespace of
//! its own on a Redis server. Never among the jobs of the configured store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass::engines::sqlite::{SqliteEngine, SqliteOptions};
use windlass_core::engine::Engine;

use super::ledger;
use crate::config::{Config, DatabaseUrl, EngineChoice, PostgresSettings, RedisSettings, RedisUrl};
use crate::exit::{Code, Failure};
use crate::store::{connect, connect_redis, drop_schema, of_redis, postgres_options, redis_options};

const DEFAULT_FILE: &str = "windlass-dev.db";

/// Where the jobs are.
pub(super) enum Place {
    File(PathBuf),
    Schema { url: DatabaseUrl, settings: PostgresSettings },
    Namespace { url: RedisUrl, settings: RedisSettings },
}

impl Place {
    /// PostgreSQL or Redis if it is configured; else the file that was named, or one of our own.
    pub(super) fn of(db: Option<&PathBuf>, config: &Config) -> Result<Self, Failure> {
        if config.store.engine == EngineChoice::Redis {
            let mut settings = config.store.redis.clone();
            settings.namespace.push_str("_dev");
            // Other names of lanes belong to the other namespace.
            (settings.ready_key, settings.scheduled_key) = (None, None);
            return Ok(Self::Namespace { url: config.store.redis_url()?.clone(), settings });
        }
        if config.store.engine != EngineChoice::Postgres {
            return Ok(Self::File(db.cloned().unwrap_or_else(|| PathBuf::from(DEFAULT_FILE))));
        }
        let mut settings = config.store.postgres.clone();
        settings.schema.push_str("_dev");
        Ok(Self::Schema { url: config.store.database_url()?.clone(), settings })
    }

    pub(super) async fn open(&self) -> Result<Arc<dyn Engine>, Failure> {
        match self {
            Self::File(path) => Ok(Arc::new(SqliteEngine::open(path, SqliteOptions::default())?)),
            Self::Schema { url, settings } => connect(url, postgres_options(settings)).await,
            Self::Namespace { url, settings } => {
                Ok(Arc::new(connect_redis(url, redis_options(settings)).await?))
            }
        }
    }

    /// Removes what earlier runs left there.
    pub(super) async fn start_over(&self) -> Result<(), Failure> {
        match self {
            Self::File(path) => {
                for suffix in ["", "-wal", "-shm"] {
                    remove(&PathBuf::from(format!("{}{suffix}", path.display())))?;
                }
            }
            Self::Schema { url, settings } => drop_schema(url, &settings.schema).await?,
            Self::Namespace { url, settings } => {
                let engine = connect_redis(url, redis_options(settings)).await?;
                engine.erase().await.map_err(|error| of_redis(error, url))?;
            }
        }
        remove(&self.ledger())
    }

    /// The ledger lies beside the file, or in the working directory under the name of the database.
    pub(super) fn ledger(&self) -> PathBuf {
        match self {
            Self::File(path) => ledger::beside(path),
            Self::Schema { url, settings } => ledger_of(&format!("{url}/{}", settings.schema)),
            Self::Namespace { url, settings } => ledger_of(&format!("{url}/{}", settings.namespace)),
        }
    }

    pub(super) fn describe(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Schema { url, settings } => format!("{url}, schema {}", settings.schema),
            Self::Namespace { url, settings } => format!("{url}, namespace {}", settings.namespace),
        }
    }
}

fn ledger_of(name: &str) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    PathBuf::from(format!("windlass-dev-{}.ledger", name.chars().map(plain).collect::<String>()))
}

fn remove(file: &Path) -> Result<(), Failure> {
    match std::fs::remove_file(file) {
        Err(why) if why.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::new(Code::Store, format!("{} cannot be removed: {why}", file.display())))
        }
        _ => Ok(()),
    }
}
