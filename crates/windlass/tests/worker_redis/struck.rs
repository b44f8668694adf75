//! The server of the fault tests: a separate one, which syncs each write before it answers.

use std::sync::Arc;

use windlass::redis::{RedisEngine, RedisOptions};
use windlass::types::engine::Engine;
use windlass_servers::redis::Options;
pub(crate) use windlass_servers::redis::Server;

pub(crate) fn start() -> Server {
    let settings = vec![("appendfsync".to_owned(), "always".to_owned())];
    Server::start(&Options { settings, ..Options::default() }).expect("the server starts")
}

pub(crate) async fn open(url: &str) -> Arc<dyn Engine> {
    Arc::new(RedisEngine::connect(url, RedisOptions::default()).await.expect("the server is up"))
}
