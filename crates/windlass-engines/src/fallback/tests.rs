use std::sync::Arc;
use std::time::Duration;

use windlass_core::engine::{Declaration, Engine};
use windlass_core::enqueue::{EnqueueRequest, NewJob, RequestId};
use windlass_core::job_type::TypeSpec;
use windlass_core::names::{QueueName, TypeName};
use windlass_core::payload::Payload;
use windlass_core::queue::QueueSpec;
use windlass_core::spill::Spill;

use super::{Connect, FallbackEngine, FallbackOptions};
use crate::memory::MemoryEngine;

/// Two stores in memory, between which only a test brings jobs home.
async fn engine() -> FallbackEngine {
    let connect: Connect = Arc::new(|| {
        let primary = Arc::new(MemoryEngine::new());
        Box::pin(async move { Ok(primary as Arc<dyn Engine>) })
    });
    let spill: Arc<dyn Spill> = Arc::new(MemoryEngine::for_spill());
    let options = FallbackOptions { bring_home: false, ..FallbackOptions::default() };
    let engine = FallbackEngine::open("memory", connect, spill, options).await.unwrap();
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
async fn a_request_that_the_spill_is_closed_to_is_not_remembered_as_set_aside() {
    let engine = engine().await;
    let (set_aside, closed) = (request(), request());
    assert_eq!(engine.inner.spill.ask(closed.request).await.unwrap(), None);
    let name = set_aside.request;
    for request in [set_aside, closed] {
        engine.inner.keep_unanswered(request, Duration::ZERO).await.unwrap();
    }
    assert_eq!(*engine.inner.left_behind(), [name].into());
}

#[tokio::test]
async fn batches_of_which_nothing_is_left_are_forgotten_with_the_next_round() {
    let engine = engine().await;
    engine.inner.left_behind().insert(request().request);
    engine.inner.bring_home().await.unwrap();
    assert!(engine.inner.left_behind().is_empty());
}
