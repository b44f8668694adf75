//! The server's memory is full.

use windlass_core::engine::{Admin, Engine};
use windlass_core::error::EngineError;
use windlass_core::settle::Settled;
use windlass_servers::redis::Server;

use crate::test_store::{TestStore, ask, claim, enqueue, generation, request, server, success};

/// From this version on, a script may continue while memory is full.
const GOES_ON_FROM: u32 = 7;

fn set_memory(server: &Server, most: &str) {
    ask::<()>(&server.url(), &["CONFIG", "SET", "maxmemory", most]);
}

fn assert_full<T: std::fmt::Debug>(answer: Result<T, EngineError>) {
    let error = answer.unwrap_err();
    assert!(matches!(&error, EngineError::Full { why } if why.contains("maxmemory")), "{error:?}");
}

#[tokio::test]
async fn a_full_memory_refuses_new_jobs_and_lets_those_that_are_there_end() {
    let server = server(&[]);
    let place = TestStore::on(server.url());
    let engine = place.ready().await;
    enqueue(&engine, 100).await;
    let mut ends: Vec<_> = claim(&engine, 50).await.into_iter().map(success).collect();
    set_memory(&server, "100kb");
    let refused = request(1);
    assert_full(engine.enqueue(refused.clone()).await);
    if generation(&server.url()) < GOES_ON_FROM {
        // Ends are refused, too, and nothing of them is stored; they are sent again.
        assert_full(engine.settle(ends.clone()).await);
        assert_eq!(engine.queues().await.unwrap()[0].counts.running, 50);
        set_memory(&server, "0");
    }
    ends.extend(claim(&engine, 50).await.into_iter().map(success));
    assert_eq!(engine.settle(ends).await.unwrap(), [Settled::Applied; 100]);
    assert_eq!(
        engine.queues().await.unwrap()[0].totals.enqueued,
        100,
        "nothing of the refused job is stored"
    );
    set_memory(&server, "0");
    assert!(engine.enqueue(refused).await.unwrap()[0].job().is_ok(), "the engine recovers by itself");
}
