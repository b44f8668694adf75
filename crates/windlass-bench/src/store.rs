//! Where scenarios run: a fresh store for each, which belongs to the measurement and is removed after it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use windlass::MemoryEngine;
use windlass::postgres::{self, PostgresEngine, PostgresOptions};
use windlass::redis::{self, RedisEngine, RedisOptions};
use windlass::sqlite::{SqliteEngine, SqliteOptions, Synchronous};
use windlass::types::engine::Engine;

use crate::{EngineKind, Options, SyncMode, session, usage};

/// How long the last calls of an interrupted worker may take.
const LAST_CALLS: Duration = Duration::from_secs(15);

/// Creates stores and removes them.
pub(crate) struct Stores {
    kind: Kind,
    /// What the names of schemas and namespaces begin with.
    prefix: String,
    created: AtomicU64,
    /// What is still to be removed.
    left: Mutex<BTreeSet<Location>>,
    opened: Mutex<Vec<Weak<dyn Engine>>>,
}

enum Kind {
    Memory,
    Sqlite { folder: ScratchFolder, synchronous: Synchronous },
    Postgres { url: String },
    Redis { url: String },
}

/// A fresh store.
pub(crate) struct Store {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) location: Location,
}

/// Where a store is. A URL may hold a password, so no message shows it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Location {
    Memory,
    File(PathBuf),
    Schema { url: String, schema: String },
    Namespace { url: String, namespace: String },
}

impl Stores {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let kind = match options.engine() {
            EngineKind::Memory => Kind::Memory,
            EngineKind::Sqlite => {
                let synchronous = match options.synchronous {
                    SyncMode::Full => Synchronous::Full,
                    SyncMode::Normal => Synchronous::Normal,
                };
                Kind::Sqlite { folder: ScratchFolder::new(&options.dir)?, synchronous }
            }
            EngineKind::Postgres => {
                let url = url(options, "DATABASE_URL", "postgres://user@host:5432/database")?;
                postgres::Address::parse(&url).map_err(usage)?;
                Kind::Postgres { url }
            }
            EngineKind::Redis => {
                let url = url(options, "REDIS_URL", "redis://localhost:6379")?;
                redis::Address::parse(&url).map_err(usage)?;
                Kind::Redis { url }
            }
        };
        let prefix = format!("windlass_bench_{}_{:08x}", std::process::id(), fastrand::u32(..));
        Ok(Self {
            kind,
            prefix,
            created: AtomicU64::new(0),
            left: Mutex::default(),
            opened: Mutex::default(),
        })
    }

    /// What the names of schemas and namespaces begin with.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The server, if there is one.
    pub(crate) fn url(&self) -> Option<&str> {
        match &self.kind {
            Kind::Memory | Kind::Sqlite { .. } => None,
            Kind::Postgres { url } | Kind::Redis { url } => Some(url),
        }
    }

    /// Creates a store.
    pub(crate) async fn create(&self) -> Result<Store> {
        let location = self.new_location();
        let engine = self.open(&location).await?;
        self.opened().push(Arc::downgrade(&engine));
        Ok(Store { engine, location })
    }

    /// A location for a store. It is remembered before the store exists: an interruption meanwhile must not
    /// leave it behind.
    pub(crate) fn new_location(&self) -> Location {
        let name = format!("{}_{}", self.prefix, self.created.fetch_add(1, Ordering::SeqCst));
        let location = match &self.kind {
            Kind::Memory => Location::Memory,
            Kind::Sqlite { folder, .. } => Location::File(folder.0.join(format!("{name}.db"))),
            Kind::Postgres { url } => Location::Schema { url: url.clone(), schema: name },
            Kind::Redis { url } => Location::Namespace { url: url.clone(), namespace: name },
        };
        self.left().insert(location.clone());
        location
    }

    async fn open(&self, location: &Location) -> Result<Arc<dyn Engine>> {
        Ok(match location {
            Location::Memory => Arc::new(MemoryEngine::new()),
            Location::File(path) => {
                let synchronous = match self.kind {
                    Kind::Sqlite { synchronous, .. } => synchronous,
                    _ => Synchronous::default(),
                };
                let options = SqliteOptions { synchronous, ..SqliteOptions::default() };
                Arc::new(SqliteEngine::open(path, options)?)
            }
            Location::Schema { url, schema } => {
                let options = PostgresOptions { schema: schema.clone(), ..PostgresOptions::default() };
                Arc::new(PostgresEngine::connect(url, options).await?)
            }
            Location::Namespace { url, namespace } => Arc::new(connect_redis(url, namespace).await?),
        })
    }

    /// Removes a store whose engine is gone: the rows of one scenario would slow down the next.
    pub(crate) async fn remove(&self, location: &Location) -> Result<()> {
        match location {
            Location::Memory => {}
            Location::File(path) => {
                for suffix in ["", "-wal", "-shm"] {
                    // What stays is removed with the folder.
                    let _ = std::fs::remove_file(format!("{}{suffix}", path.display()));
                }
            }
            Location::Schema { url, schema } => session::drop_schema(url, schema).await?,
            Location::Namespace { url, namespace } => {
                connect_redis(url, namespace).await?.erase().await?;
            }
        }
        self.left().remove(location);
        Ok(())
    }

    /// Removes what a failure or an interruption left. One that cannot be removed does
    /// not keep the others.
    pub(crate) async fn remove_all(&self) -> Result<()> {
        let left = self.left().clone();
        if !left.is_empty() {
            self.wait_for_last_calls().await;
        }
        let mut removed = Ok(());
        for location in left {
            removed = removed.and(self.remove(&location).await);
        }
        removed
    }

    /// The tasks of an interrupted worker end a little later. What they wrote after the removal would stay.
    async fn wait_for_last_calls(&self) {
        let started = Instant::now();
        let in_use = || self.opened().iter().any(|engine| engine.strong_count() > 0);
        while in_use() && started.elapsed() < LAST_CALLS {
            // may sleep: a dropped worker sends no signal when its last task has ended.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn opened(&self) -> std::sync::MutexGuard<'_, Vec<Weak<dyn Engine>>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn left(&self) -> std::sync::MutexGuard<'_, BTreeSet<Location>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Connects to a namespace.
pub(crate) async fn connect_redis(url: &str, namespace: &str) -> Result<RedisEngine> {
    let options = RedisOptions { namespace: namespace.to_owned(), ..RedisOptions::default() };
    Ok(RedisEngine::connect(url, options).await?)
}

/// The URL of the command line, else that of the environment.
fn url(options: &Options, variable: &str, example: &str) -> Result<String> {
    let from_env = || std::env::var(variable).ok().filter(|url| !url.is_empty());
    let missing =
        || usage(format!("expected a server in --url or {variable}, got none; name one such as {example}"));
    options.url.clone().or_else(from_env).ok_or_else(missing)
}

/// A folder for the files of a measurement, removed at the end.
struct ScratchFolder(PathBuf);

impl ScratchFolder {
    fn new(parent: &Path) -> Result<Self> {
        let path = parent.join(format!("windlass-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path).with_context(|| {
            format!("{} could not be created; name a writable folder with --dir", path.display())
        })?;
        Ok(Self(path))
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // Nothing depends on it: a folder that stays is only untidy.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
