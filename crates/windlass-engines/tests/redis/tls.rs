//! TLS on the connection to the server.

use windlass_core::engine::Engine;
use windlass_core::error::EngineError;
use windlass_engines::redis::{RedisEngine, RedisOptions};
use windlass_servers::redis::{Options, Server};

use crate::test_store::{TestStore, claim, enqueue};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_tls_is_reached_if_its_authority_is_known() {
    let server =
        tokio::task::block_in_place(|| Server::start(&Options { tls: true, ..Options::default() })).unwrap();
    let place = TestStore::on(server.tls_url());
    let known = RedisOptions { ca_file: Some(server.authority()), ..place.options() };
    let engine = place.ready_with(known).await;
    enqueue(&engine, 1).await;
    assert_eq!(claim(&engine, 5).await.len(), 1);
    assert_eq!(engine.info().name, "redis");
    let error = RedisEngine::connect(&place.url, place.options()).await.unwrap_err();
    assert!(matches!(&error, EngineError::Unusable { why } if why.contains("ca_file")), "{error:?}");
}
