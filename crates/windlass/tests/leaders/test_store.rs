//! A separate server for a test, and engines on it.

use std::sync::Arc;

use windlass::postgres::{PostgresEngine, PostgresOptions};
use windlass::redis::{RedisEngine, RedisOptions};
use windlass::types::engine::Engine;
use windlass_servers::{postgres, redis};

/// A running server. Dropping it stops it.
pub(super) enum TestStore {
    Postgres(postgres::Server),
    Redis(redis::Server),
}

/// The settings with which a PostgreSQL server counts statements.
pub(super) const STATISTICS: [(&str, &str); 2] =
    [("shared_preload_libraries", "pg_stat_statements"), ("pg_stat_statements.track", "all")];

impl TestStore {
    pub(super) fn postgres() -> Self {
        Self::postgres_with(Vec::new())
    }

    pub(super) fn postgres_with(settings: Vec<(String, String)>) -> Self {
        let options = postgres::Options { settings, ..postgres::Options::default() };
        Self::Postgres(postgres::Server::start(&options).expect("the server starts"))
    }

    pub(super) fn redis() -> Self {
        Self::Redis(redis::Server::start(&redis::Options::default()).expect("the server starts"))
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Postgres(_) => "postgres",
            Self::Redis(_) => "redis",
        }
    }

    /// The address of another database of the same server.
    pub(super) fn url_of(&self, database: &str) -> String {
        match self {
            Self::Postgres(server) => server.url_of(database),
            Self::Redis(_) => panic!("expected a PostgreSQL server"),
        }
    }

    pub(super) fn url(&self) -> String {
        match self {
            Self::Postgres(server) => server.url(),
            Self::Redis(server) => server.url(),
        }
    }
}

/// Opens an engine on the server at this address.
pub(super) async fn open(url: &str) -> Arc<dyn Engine> {
    if url.starts_with("redis") {
        return Arc::new(RedisEngine::connect(url, RedisOptions::default()).await.expect("the server is up"));
    }
    Arc::new(PostgresEngine::connect(url, PostgresOptions::default()).await.expect("the server is up"))
}
