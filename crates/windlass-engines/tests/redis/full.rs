//! The server's memory is full.

use windlass_core::engine::{Admin, Engine};
use windlass_core::error::EngineError;
use windlass_core::settle::Settled;

use crate::place::{Place, ask, claim, enqueue, request, server, success};

#[tokio::test]
async fn a_full_memory_refuses_new_jobs_and_lets_those_that_are_there_end() {
    let server = server(&[]);
    let place = Place::on(server.url());
    let engine = place.ready().await;
    enqueue(&engine, 100).await;
    ask::<()>(&server.url(), &["CONFIG", "SET", "maxmemory", "1mb"]);
    let refused = request(1);
    let error = engine.enqueue(refused.clone()).await.unwrap_err();
    assert!(matches!(&error, EngineError::Full { why } if why.contains("maxmemory")), "{error:?}");
    let ends: Vec<_> = claim(&engine, 100).await.into_iter().map(success).collect();
    assert_eq!(engine.settle(ends).await.unwrap(), [Settled::Applied; 100]);
    assert_eq!(engine.queues().await.unwrap()[0].totals.enqueued, 100, "nothing of the refused one is there");
    ask::<()>(&server.url(), &["CONFIG", "SET", "maxmemory", "0"]);
    assert!(engine.enqueue(refused).await.unwrap()[0].job().is_ok(), "it goes on by itself");
}
