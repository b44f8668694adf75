//! Where scenarios run: a fresh store for each, which nobody else uses and which is removed afterwards.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use windlass::MemoryEngine;
use windlass::engines::sqlite::{SqliteEngine, SqliteOptions, Synchronous};
use windlass::postgres::PostgresOptions;
use windlass::redis::RedisOptions;
use windlass_core::engine::Engine;

use super::scratch::Scratch;
use super::{BenchArgs, BenchEngine, BenchSynchronous};
use crate::config::{DatabaseUrl, RedisUrl};
use crate::exit::{Code, Failure};
use crate::store::{connect, connect_redis, drop_schema, of_redis};

/// The engine, and where its stores are made.
pub(super) struct Fixture {
    kind: Kind,
    made: AtomicU64,
}

enum Kind {
    Memory,
    Sqlite { folder: Scratch, synchronous: Synchronous },
    Postgres { url: DatabaseUrl, prefix: String, schemas: Mutex<BTreeSet<String>> },
    Redis { url: RedisUrl, prefix: String, namespaces: Mutex<BTreeSet<String>> },
}

/// A fresh store.
pub(super) struct Place {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) at: At,
}

/// Where a store is.
#[derive(Debug, Clone)]
pub(super) enum At {
    Memory,
    File(PathBuf),
    Schema(DatabaseUrl, String),
    Namespace(RedisUrl, String),
}

impl Fixture {
    pub(super) fn new(args: &BenchArgs) -> Result<Self, Failure> {
        let kind = match args.engine() {
            BenchEngine::Memory => Kind::Memory,
            BenchEngine::Sqlite => {
                let synchronous = match args.synchronous {
                    BenchSynchronous::Full => Synchronous::Full,
                    BenchSynchronous::Normal => Synchronous::Normal,
                };
                Kind::Sqlite { folder: Scratch::new(&args.dir)?, synchronous }
            }
            BenchEngine::Postgres => {
                Kind::Postgres { url: url(args)?, prefix: prefix(), schemas: Mutex::default() }
            }
            BenchEngine::Redis => {
                Kind::Redis { url: redis_url(args)?, prefix: prefix(), namespaces: Mutex::default() }
            }
        };
        Ok(Self { kind, made: AtomicU64::new(0) })
    }

    pub(super) fn engine_name(&self) -> &'static str {
        match self.kind {
            Kind::Memory => "memory",
            Kind::Sqlite { .. } => "sqlite",
            Kind::Postgres { .. } => "postgres",
            Kind::Redis { .. } => "redis",
        }
    }

    /// The PostgreSQL server and what the names of our schemas begin with.
    pub(super) fn server(&self) -> Option<(&DatabaseUrl, &str)> {
        match &self.kind {
            Kind::Postgres { url, prefix, .. } => Some((url, prefix)),
            _ => None,
        }
    }

    /// The Redis server.
    pub(super) fn redis(&self) -> Option<&RedisUrl> {
        match &self.kind {
            Kind::Redis { url, .. } => Some(url),
            _ => None,
        }
    }

    /// Makes a store.
    pub(super) async fn fresh(&self) -> Result<Place, Failure> {
        let number = self.made.fetch_add(1, Ordering::SeqCst);
        match &self.kind {
            Kind::Memory => Ok(Place { engine: Arc::new(MemoryEngine::new()), at: At::Memory }),
            Kind::Sqlite { folder, synchronous } => {
                let path = folder.file(&number.to_string());
                let options = SqliteOptions { synchronous: *synchronous, ..SqliteOptions::default() };
                Ok(Place { engine: Arc::new(SqliteEngine::open(&path, options)?), at: At::File(path) })
            }
            Kind::Postgres { url, prefix, schemas } => {
                let schema = format!("{prefix}_{number}");
                schemas.lock().unwrap_or_else(PoisonError::into_inner).insert(schema.clone());
                let options = PostgresOptions { schema: schema.clone(), ..PostgresOptions::default() };
                Ok(Place { engine: connect(url, options).await?, at: At::Schema(url.clone(), schema) })
            }
            Kind::Redis { url, prefix, namespaces } => {
                let namespace = format!("{prefix}_{number}");
                namespaces.lock().unwrap_or_else(PoisonError::into_inner).insert(namespace.clone());
                let engine = connect_redis(url, in_namespace(&namespace)).await?;
                Ok(Place { engine: Arc::new(engine), at: At::Namespace(url.clone(), namespace) })
            }
        }
    }

    /// Removes a store that is no longer needed: a million rows of one scenario are a burden on the next.
    /// Its engine is gone by then.
    pub(super) async fn remove(&self, at: &At) -> Result<(), Failure> {
        match (at, &self.kind) {
            (At::File(path), Kind::Sqlite { folder, .. }) => folder.remove(path),
            (At::Schema(url, schema), Kind::Postgres { schemas, .. }) => {
                drop_schema(url, schema).await?;
                schemas.lock().unwrap_or_else(PoisonError::into_inner).remove(schema);
            }
            (At::Namespace(url, namespace), Kind::Redis { namespaces, .. }) => {
                erase(url, namespace).await?;
                namespaces.lock().unwrap_or_else(PoisonError::into_inner).remove(namespace);
            }
            _ => {}
        }
        Ok(())
    }

    /// Removes what is left after a failure or an interruption. Files go with the folder.
    pub(super) async fn clear(&self) -> Result<(), Failure> {
        match &self.kind {
            Kind::Postgres { url, schemas, .. } => {
                for schema in take(schemas) {
                    drop_schema(url, &schema).await?;
                }
            }
            Kind::Redis { url, namespaces, .. } => {
                for namespace in take(namespaces) {
                    erase(url, &namespace).await?;
                }
            }
            Kind::Memory | Kind::Sqlite { .. } => {}
        }
        Ok(())
    }
}

/// What the names of our schemas or namespaces begin with.
fn prefix() -> String {
    format!("windlass_bench_{}_{:08x}", std::process::id(), fastrand::u32(..))
}

fn take(names: &Mutex<BTreeSet<String>>) -> BTreeSet<String> {
    std::mem::take(&mut *names.lock().unwrap_or_else(PoisonError::into_inner))
}

pub(super) fn in_namespace(namespace: &str) -> RedisOptions {
    RedisOptions { namespace: namespace.to_owned(), ..RedisOptions::default() }
}

/// Removes a namespace with all that is in it.
async fn erase(url: &RedisUrl, namespace: &str) -> Result<(), Failure> {
    let engine = connect_redis(url, in_namespace(namespace)).await?;
    engine.erase().await.map(drop).map_err(|error| of_redis(error, url))
}

/// The URL of Redis that was given, else the environment's.
fn redis_url(args: &BenchArgs) -> Result<RedisUrl, Failure> {
    let by_variable = || std::env::var("REDIS_URL").ok().filter(|url| !url.is_empty());
    let Some(url) = args.url.clone().or_else(by_variable) else {
        return Err(Failure::new(Code::Usage, "expected the URL of a Redis server, got none")
            .hint("name one with --url or REDIS_URL, such as redis://localhost:6379"));
    };
    RedisUrl::parse(&url).map_err(Failure::usage)
}

/// The URL that was given, else the environment's.
fn url(args: &BenchArgs) -> Result<DatabaseUrl, Failure> {
    let by_variable = || std::env::var("DATABASE_URL").ok().filter(|url| !url.is_empty());
    let Some(url) = args.url.clone().or_else(by_variable) else {
        return Err(Failure::new(Code::Usage, "expected the URL of a PostgreSQL database, got none")
            .hint("name one with --url or DATABASE_URL, such as postgres://user@host:5432/database"));
    };
    DatabaseUrl::parse(&url).map_err(Failure::usage)
}
