//! Opens the configured store.

use std::sync::Arc;

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use windlass_core::engine::Engine;
use windlass_core::error::EngineError;
use windlass_core::spool::Spool;
use windlass_engines::fallback::{Connect, FallbackEngine, FallbackOptions};
use windlass_engines::memory::MemoryEngine;
use windlass_engines::postgres::{Address, PostgresEngine, PostgresOptions};
use windlass_engines::redis::{RedisEngine, RedisOptions};
use windlass_engines::sqlite::{self, SqliteEngine, SqliteOptions};

use crate::config::{
    Config, DatabaseUrl, EngineChoice, FallbackChoice, PostgresSettings, RedisSettings, RedisUrl,
    StoreSettings, Synchronous,
};
use crate::exit::{Code, Failure, with_causes};

/// Whether a command may create a new store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfMissing {
    /// Fails. A command that only reads or changes existing jobs must not create a store: a typing error in
    /// `--db` would create an empty file and answer that there are no jobs.
    Refuse,
    /// Creates the store, for commands that add something.
    Create,
}

/// Opens the store for a command that runs for a moment. What cannot be stored on the server goes into the
/// spool, if that is a file. A spool in memory would be lost with the command.
pub(crate) async fn open(config: &Config, if_missing: IfMissing) -> Result<Arc<dyn Engine>, Failure> {
    let is_kept = if_missing == IfMissing::Create || config.fallback.path.exists();
    if config.fallback.engine != Some(FallbackChoice::Sqlite) || !is_kept || !config.store.engine.is_server()
    {
        return open_alone(config, if_missing).await;
    }
    let options = FallbackOptions { replay: false, ..config.fallback.options() };
    open_joined(config, options, if_missing).await
}

/// Opens the store for a process that works, with a spool if one is configured.
pub(crate) async fn open_to_serve(config: &Config) -> Result<Arc<dyn Engine>, Failure> {
    match config.fallback.engine {
        Some(FallbackChoice::Memory | FallbackChoice::Sqlite) if config.store.engine.is_server() => {
            open_joined(config, config.fallback.options(), IfMissing::Create).await
        }
        _ => open_alone(config, IfMissing::Create).await,
    }
}

/// Opens the server together with a spool.
async fn open_joined(
    config: &Config,
    options: FallbackOptions,
    if_missing: IfMissing,
) -> Result<Arc<dyn Engine>, Failure> {
    let spool: Arc<dyn Spool> = match config.fallback.engine {
        Some(FallbackChoice::Memory) => Arc::new(MemoryEngine::for_spool()),
        _ => Arc::new(SqliteEngine::open_spool(&config.fallback.path, SqliteOptions::for_spool())?),
    };
    let connect: Connect = match config.store.engine {
        EngineChoice::Postgres => {
            let url = config.store.database_url()?.clone();
            // As without a spool: a command that only reads must not change the tables.
            let migrate = if_missing == IfMissing::Create;
            let options = PostgresOptions { migrate, ..postgres_options(&config.store.postgres) };
            Arc::new(move || {
                let (url, options) = (url.clone(), options.clone());
                Box::pin(
                    async move { Ok(Arc::new(PostgresEngine::connect(url.secret(), options).await?) as _) },
                )
            })
        }
        _ => {
            let (url, options) = (config.store.redis_url()?.clone(), redis_options(&config.store.redis));
            Arc::new(move || {
                let (url, options) = (url.clone(), options.clone());
                Box::pin(async move { Ok(Arc::new(RedisEngine::connect(url.secret(), options).await?) as _) })
            })
        }
    };
    let name = config.store.engine.as_str();
    Ok(Arc::new(FallbackEngine::open(name, connect, spool, options).await?))
}

/// Opens the store without a spool.
pub(crate) async fn open_alone(config: &Config, if_missing: IfMissing) -> Result<Arc<dyn Engine>, Failure> {
    let path = &config.store.path;
    match config.store.engine {
        EngineChoice::Memory => Err(memory_is_private()),
        EngineChoice::Sqlite if if_missing == IfMissing::Refuse && !path.exists() => {
            Err(Failure::new(Code::Store, format!("expected an SQLite file at {}, got none", path.display()))
                .hint("name another file with --db, or create this one with `windlass migrate`"))
        }
        EngineChoice::Sqlite => Ok(Arc::new(SqliteEngine::open(path, sqlite_options(&config.store))?)),
        EngineChoice::Postgres => {
            // A command that only reads a shared database must not change its tables either.
            let migrate = if_missing == IfMissing::Create;
            let options = PostgresOptions { migrate, ..postgres_options(&config.store.postgres) };
            connect(config.store.database_url()?, options).await
        }
        EngineChoice::Redis => {
            let engine = connect_redis(config.store.redis_url()?, redis_options(&config.store.redis)).await?;
            Ok(Arc::new(engine))
        }
    }
}

/// Connects to PostgreSQL.
pub(crate) async fn connect(url: &DatabaseUrl, options: PostgresOptions) -> Result<Arc<dyn Engine>, Failure> {
    match PostgresEngine::connect(url.secret(), options).await {
        Ok(engine) => Ok(Arc::new(engine)),
        Err(error) => Err(of_postgres(error, url)),
    }
}

/// The failure of PostgreSQL, with the address that was used.
pub(crate) fn of_postgres(error: EngineError, url: &DatabaseUrl) -> Failure {
    let passing = error.is_passing();
    let failure = Failure::from(error);
    if !passing {
        return failure;
    }
    failure.hint(format!(
        "no server could be used at {url}; start it, or name another server with --db or DATABASE_URL"
    ))
}

/// Connects to Redis.
pub(crate) async fn connect_redis(url: &RedisUrl, options: RedisOptions) -> Result<RedisEngine, Failure> {
    RedisEngine::connect(url.secret(), options).await.map_err(|error| of_redis(error, url))
}

/// The failure of Redis, with the address that was used.
pub(crate) fn of_redis(error: EngineError, url: &RedisUrl) -> Failure {
    let passing = error.is_passing();
    let failure = Failure::from(error);
    if !passing {
        return failure;
    }
    failure.hint(format!(
        "no server could be used at {url}; start it, or name another server with --db or REDIS_URL"
    ))
}

/// The engine's options for a Redis server.
pub(crate) fn redis_options(settings: &RedisSettings) -> RedisOptions {
    RedisOptions {
        namespace: settings.namespace.clone(),
        ready_key: settings.ready_key.clone(),
        scheduled_key: settings.scheduled_key.clone(),
        ca_file: settings.ca_file.clone(),
        allow_eviction: settings.allow_eviction,
        ..RedisOptions::default()
    }
}

/// Opens a separate session, beside those of the engine. Its connection ends with the value.
pub(crate) async fn session(url: &DatabaseUrl) -> Result<Client, Failure> {
    let address = Address::parse(url.secret()).map_err(|error| of_postgres(error, url))?;
    address.connect().await.map_err(|error| of_postgres(error, url))
}

/// Drops a schema with everything in it, if it exists.
pub(crate) async fn drop_schema(url: &DatabaseUrl, schema: &str) -> Result<(), Failure> {
    let unreachable =
        |why: tokio_postgres::Error| of_postgres(EngineError::Unavailable { why: with_causes(&why) }, url);
    let client = session(url).await?;
    let drop = format!("DROP SCHEMA IF EXISTS {schema} CASCADE");
    // The last statement of another session may lock the same tables in another order, which is a deadlock.
    const TRIES: usize = 5;
    for _ in 1..TRIES {
        match client.batch_execute(&drop).await {
            Err(why) if why.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED) => {}
            done => return done.map_err(unreachable),
        }
    }
    client.batch_execute(&drop).await.map_err(unreachable)
}

/// The engine's options for a PostgreSQL server.
pub(crate) fn postgres_options(settings: &PostgresSettings) -> PostgresOptions {
    PostgresOptions {
        schema: settings.schema.clone(),
        pooled: settings.pooled,
        listen: settings.listen,
        listen_url: settings.listen_url.as_ref().map(|url| url.secret().to_owned()),
        connections: settings.connections,
        ..PostgresOptions::default()
    }
}

/// The engine's options for an SQLite file.
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

/// The failure of a command on the memory engine. Each process has a separate memory, so a command would
/// read an empty one.
pub(crate) fn memory_is_private() -> Failure {
    Failure::new(Code::Configuration, "expected a store that processes share, got the memory engine")
        .hint("jobs in memory are visible only to their own process; set `engine` in [store] to \"sqlite\", \"postgres\" or \"redis\", or use --db")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use windlass_core::engine::Durability;

    use super::*;

    #[tokio::test]
    async fn the_settings_of_the_store_reach_the_engine() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = crate::config::load(None, &[]).unwrap();
        config.store.path = dir.path().join("a.db");
        for (synchronous, durability) in
            [(Synchronous::Full, Durability::PowerCut), (Synchronous::Normal, Durability::Crash)]
        {
            config.store.synchronous = synchronous;
            let engine = open(&config, IfMissing::Create).await.unwrap();
            assert_eq!((engine.info().name, engine.info().durability), ("sqlite", durability));
        }
        config.store.busy_timeout = Duration::from_millis(7);
        assert_eq!(sqlite_options(&config.store).busy_timeout, Duration::from_millis(7));
    }

    #[tokio::test]
    async fn memory_is_refused_where_another_process_would_have_to_see_it() {
        let mut config = crate::config::load(None, &[]).unwrap();
        config.store.engine = EngineChoice::Memory;
        assert_eq!(
            open(&config, IfMissing::Create).await.err().map(|failure| failure.code),
            Some(Code::Configuration)
        );
    }
}
