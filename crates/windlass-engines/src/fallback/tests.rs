use std::sync::Arc;
use std::time::Duration;

use windlass_core::engine::{Declaration, Engine};
use windlass_core::enqueue::{EnqueueRequest, NewJob, RequestId};
use windlass_core::job_type::TypeSpec;
use windlass_core::names::{QueueName, TypeName};
use windlass_core::payload::Payload;
use windlass_core::queue::QueueSpec;
use windlass_core::spool::Spool;

use super::{Connect, FallbackEngine, FallbackOptions};
use crate::memory::MemoryEngine;

/// Two stores in memory, between which only a test replays jobs.
async fn engine() -> FallbackEngine {
    let connect: Connect = Arc::new(|| {
        let primary = Arc::new(MemoryEngine::new());
        Box::pin(async move { Ok(primary as Arc<dyn Engine>) })
    });
    let spool: Arc<dyn Spool> = Arc::new(MemoryEngine::for_spool());
    let options = FallbackOptions { replay: false, ..FallbackOptions::default() };
    let engine = FallbackEngine::open("memory", connect, spool, options).await.unwrap();
    let (queue, kind) = (QueueName::parse("main").unwrap(), TypeName::parse("work").unwrap());
    let declaration =
        Declaration { queues: vec![QueueSpec::new(queue.clone())], types: vec![TypeSpec::new(kind, queue)] };
    engine.declare(declaration).await.unwrap();
    engine
}

fn request() -> EnqueueRequest {
    let new = NewJob::new(TypeName::parse("work").unwrap(), Payload::default());
    EnqueueRequest { request: RequestId::from_random(fastrand::u128(..)), jobs: vec![new] }
}

#[tokio::test]
async fn a_request_that_the_spool_is_closed_to_is_not_remembered_as_staged() {
    let engine = engine().await;
    let (stage, closed) = (request(), request());
    assert_eq!(engine.inner.spool.ask(closed.request).await.unwrap(), None);
    let name = stage.request;
    for request in [stage, closed] {
        engine.inner.keep_unanswered(request, Duration::ZERO).await.unwrap();
    }
    assert_eq!(*engine.inner.left_behind(), [name].into());
}

#[tokio::test]
async fn batches_of_which_nothing_is_left_are_forgotten_with_the_next_round() {
    let engine = engine().await;
    engine.inner.left_behind().insert(request().request);
    engine.inner.replay().await.unwrap();
    assert!(engine.inner.left_behind().is_empty());
}
