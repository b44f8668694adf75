//! The server of the fault tests: a separate one, with fsync on.

use std::sync::Arc;

use windlass::postgres::{PostgresEngine, PostgresOptions};
use windlass::types::engine::Engine;
use windlass_servers::postgres::Options;
pub(crate) use windlass_servers::postgres::Server;

pub(crate) fn start() -> Server {
    Server::start(&Options::default()).expect("the server starts")
}

pub(crate) async fn open(url: &str) -> Arc<dyn Engine> {
    Arc::new(PostgresEngine::connect(url, PostgresOptions::default()).await.expect("the server is up"))
}
