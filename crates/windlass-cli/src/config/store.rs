//! `[store]`: where jobs are kept.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::database_url::DatabaseUrl;
use super::postgres::{self, PostgresSettings};
use super::redis::{self, RedisSettings, RedisUrl};
use super::section::{Section, span, text, word};
use crate::exit::{Code, Failure};

/// The settings of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoreSettings {
    /// The engine that keeps the jobs.
    pub(crate) engine: EngineChoice,
    /// The SQLite file, relative to the working directory.
    pub(crate) path: PathBuf,
    /// What an acknowledged job survives.
    pub(crate) synchronous: Synchronous,
    /// How long to wait for another process that writes to the file.
    pub(crate) busy_timeout: Duration,
    /// The settings for PostgreSQL.
    pub(crate) postgres: PostgresSettings,
    /// The settings for Redis.
    pub(crate) redis: RedisSettings,
}

/// The engine that keeps the jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EngineChoice {
    /// An SQLite file.
    Sqlite,
    /// A PostgreSQL server.
    Postgres,
    /// A Redis server.
    Redis,
    /// Memory only: jobs are lost with the process.
    Memory,
}

impl EngineChoice {
    /// Whether the engine is a server, which may be unavailable.
    pub(crate) fn is_server(self) -> bool {
        matches!(self, Self::Postgres | Self::Redis)
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Redis => "redis",
            Self::Memory => "memory",
        }
    }
}

/// What an acknowledged job survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Synchronous {
    /// A power cut.
    Full,
    /// The death of the process; a power cut may lose the last moments.
    Normal,
}

impl Synchronous {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Normal => "normal",
        }
    }
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            engine: EngineChoice::Sqlite,
            path: PathBuf::from("windlass.db"),
            synchronous: Synchronous::Full,
            busy_timeout: Duration::from_secs(5),
            postgres: PostgresSettings::default(),
            redis: RedisSettings::default(),
        }
    }
}

impl StoreSettings {
    /// Selects a store that is named in one word: the URL of a PostgreSQL or Redis server, or else an
    /// SQLite file.
    pub(crate) fn choose(&mut self, named: &Path) -> Result<(), String> {
        if let Some(url) = named.to_str().filter(|text| RedisUrl::is_meant_by(text)) {
            self.redis.url = Some(RedisUrl::parse(url)?);
            self.engine = EngineChoice::Redis;
            return Ok(());
        }
        match named.to_str().filter(|text| DatabaseUrl::is_meant_by(text)) {
            Some(url) => {
                self.postgres.url = Some(DatabaseUrl::parse(url)?);
                self.engine = EngineChoice::Postgres;
            }
            None => {
                self.path = named.to_owned();
                self.engine = EngineChoice::Sqlite;
            }
        }
        Ok(())
    }

    /// The address of the Redis server.
    pub(crate) fn redis_url(&self) -> Result<&RedisUrl, Failure> {
        self.redis.url.as_ref().ok_or_else(|| {
            Failure::new(Code::Configuration, "expected the URL of a Redis server, got none")
                .hint("set REDIS_URL, `url` in [store] or --db to one such as redis://localhost:6379")
        })
    }

    /// The address of the PostgreSQL server.
    pub(crate) fn database_url(&self) -> Result<&DatabaseUrl, Failure> {
        self.postgres.url.as_ref().ok_or_else(|| {
            Failure::new(Code::Configuration, "expected the URL of a PostgreSQL database, got none").hint(
                "set DATABASE_URL, `url` in [store] or --db to one such as postgres://user@host:5432/database",
            )
        })
    }
}

const ENGINES: &[(&str, EngineChoice)] = &[
    ("sqlite", EngineChoice::Sqlite),
    ("postgres", EngineChoice::Postgres),
    ("redis", EngineChoice::Redis),
    ("memory", EngineChoice::Memory),
];
const SYNCHRONOUS: &[(&str, Synchronous)] = &[("full", Synchronous::Full), ("normal", Synchronous::Normal)];

pub(crate) fn read(mut section: Section<'_, '_>) -> StoreSettings {
    let default = StoreSettings::default();
    let engine = section.get("engine", engine);
    let path = section.get("path", text).map(PathBuf::from);
    let mut settings = StoreSettings {
        engine: default.engine,
        path: default.path,
        synchronous: section.get("synchronous", word(SYNCHRONOUS)).unwrap_or(default.synchronous),
        busy_timeout: section
            .get("busy_timeout", span(Duration::from_millis(1), Duration::from_secs(600)))
            .unwrap_or(default.busy_timeout),
        postgres: postgres::read(&mut section),
        redis: redis::read(&mut section),
    };
    if let Some(path) = path {
        section.get("path", |_| settings.choose(&path));
    }
    // A configuration with an address and no engine means the engine to which the address leads.
    if settings.postgres.url.is_some() {
        settings.engine = EngineChoice::Postgres;
    }
    if settings.redis.url.is_some() {
        settings.engine = EngineChoice::Redis;
    }
    settings.engine = engine.unwrap_or(settings.engine);
    section.finish();
    settings
}

fn engine(value: &super::tree::Value) -> Result<EngineChoice, String> {
    match text(value).as_deref() {
        Ok("postgresql") => Ok(EngineChoice::Postgres),
        _ => word(ENGINES)(value),
    }
}
