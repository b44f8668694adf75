//! A server of a test's own, and engines on it.

use std::sync::Arc;

use windlass::core::engine::Engine;
use windlass::postgres::{PostgresEngine, PostgresOptions};
use windlass::redis::{RedisEngine, RedisOptions};
use windlass_servers::{postgres, redis};

/// A running server. Dropping it ends it.
pub(super) enum Place {
    Postgres(postgres::Server),
    Redis(redis::Server),
}

impl Place {
    pub(super) fn postgres() -> Self {
        Self::postgres_with(Vec::new())
    }

    pub(super) fn postgres_with(settings: Vec<(String, String)>) -> Self {
        let options = postgres::Options { settings, ..postgres::Options::default() };
        Self::Postgres(postgres::Server::start(&options).expect("it starts"))
    }

    pub(super) fn redis() -> Self {
        Self::Redis(redis::Server::start(&redis::Options::default()).expect("it starts"))
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Postgres(_) => "postgres",
            Self::Redis(_) => "redis",
        }
    }

    pub(super) fn url(&self) -> String {
        match self {
            Self::Postgres(server) => server.url(),
            Self::Redis(server) => server.url(),
        }
    }
}

/// An engine on the server at this address.
pub(super) async fn open(url: &str) -> Arc<dyn Engine> {
    if url.starts_with("redis") {
        return Arc::new(RedisEngine::connect(url, RedisOptions::default()).await.expect("the server is up"));
    }
    Arc::new(PostgresEngine::connect(url, PostgresOptions::default()).await.expect("the server is up"))
}
