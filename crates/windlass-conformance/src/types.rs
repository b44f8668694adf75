//! Job types: registered, listed, and bound to one queue for good.

#![allow(missing_docs, reason = "the name of a behaviour is its sentence")]

use windlass_core::admin::TypeStatus;
use windlass_core::engine::Declaration;
use windlass_core::error::EngineError;
use windlass_core::job_type::{TypeSpec, TypeSpecError};
use windlass_core::queue::QueueSpec;
use windlass_core::retry::RetryPolicy;
use windlass_core::worker::WorkerCard;

use crate::harness::*;

async fn declare(h: &Harness, types: Vec<TypeSpec>) -> Result<(), EngineError> {
    h.engine.declare(Declaration { queues: vec![], types }).await
}

async fn status_of(h: &Harness, name: &str) -> TypeStatus {
    let types = h.engine.types().await.expect(UP);
    types.into_iter().find(|status| status.spec.name == type_name(name)).expect("the type is registered")
}

pub async fn types_are_listed_by_name(h: &Harness) {
    let types = h.engine.types().await.expect(UP);
    let names: Vec<_> = types.iter().map(|status| status.spec.name.as_str()).collect();
    assert_eq!(names, [FLEETING, KEPT, OTHER_WORK, SMALL_WORK, WORK]);
}

pub async fn a_type_is_kept_as_it_was_registered(h: &Harness) {
    let spec = TypeSpec {
        retry: RetryPolicy::progressive(),
        timeout: secs(77),
        priority: Some(level(3)),
        retention_days: 12,
        keep_result: true,
        ..type_spec("full", MAIN)
    };
    declare(h, vec![spec.clone()]).await.expect(UP);
    assert_eq!(status_of(h, "full").await.spec, spec);
}

pub async fn registering_a_type_again_updates_it(h: &Harness) {
    let spec = TypeSpec { timeout: secs(5), ..type_spec(WORK, MAIN) };
    declare(h, vec![spec.clone()]).await.expect(UP);
    assert_eq!(status_of(h, WORK).await.spec, spec);
}

pub async fn a_type_never_moves_to_another_queue(h: &Harness) {
    let answer = declare(h, vec![type_spec(WORK, OTHER)]).await;
    let moved = matches!(&answer, Err(EngineError::Type(TypeSpecError::OtherQueue { .. })));
    assert!(moved, "{answer:?}");
    assert_eq!(status_of(h, WORK).await.spec.queue, queue(MAIN));
}

pub async fn a_type_of_an_undeclared_queue_is_refused(h: &Harness) {
    let answer = declare(h, vec![type_spec("lost", "nowhere")]).await;
    assert!(matches!(&answer, Err(EngineError::Type(TypeSpecError::UnknownQueue { .. }))), "{answer:?}");
}

pub async fn a_type_may_come_with_its_queue(h: &Harness) {
    let (queues, types) = (vec![QueueSpec::new(queue("fresh"))], vec![type_spec("fresh.work", "fresh")]);
    h.engine.declare(Declaration { queues, types }).await.expect(UP);
    h.enqueue(job_of("fresh.work")).await;
}

pub async fn a_wrong_type_is_refused_with_the_whole_declaration(h: &Harness) {
    let wrong = TypeSpec { timeout: secs(0), ..type_spec("wrong", MAIN) };
    let queues = vec![QueueSpec::new(queue("fresh"))];
    let types = vec![type_spec("right", MAIN), wrong];
    let answer = h.engine.declare(Declaration { queues, types }).await;
    assert!(matches!(answer, Err(EngineError::Type(TypeSpecError::Timeout { .. }))), "{answer:?}");
    assert_eq!(h.engine.types().await.expect(UP).len(), 5);
    assert_eq!(h.engine.queues().await.expect(UP).len(), 3);
}

pub async fn a_type_counts_the_live_workers_that_handle_it(h: &Harness) {
    assert_eq!(status_of(h, WORK).await.workers, 1);
    let second = h.register(WorkerCard { types: vec![type_name(WORK)], ..h.card() }).await;
    assert_eq!((status_of(h, WORK).await.workers, status_of(h, KEPT).await.workers), (2, 1));
    h.engine.retire(second).await.expect(UP);
    assert_eq!(status_of(h, WORK).await.workers, 1);
}

pub async fn a_dead_worker_handles_nothing(h: &Harness) {
    let victim = h.register_worker().await;
    h.kill(victim).await;
    h.beat(h.worker).await;
    assert_eq!(status_of(h, WORK).await.workers, 1);
}

pub async fn a_type_counts_its_unfinished_jobs(h: &Harness) {
    h.enqueue_many(3).await;
    h.enqueue(due_in(minutes(5))).await;
    h.enqueue(job_of(KEPT)).await;
    let claimed = h.claim(2).await;
    h.succeed(&claimed[0]).await;
    assert_eq!((status_of(h, WORK).await.unfinished, status_of(h, KEPT).await.unfinished), (3, 1));
}

pub async fn a_dead_letter_is_not_unfinished(h: &Harness) {
    h.dead_letter().await;
    assert_eq!(status_of(h, WORK).await.unfinished, 0);
}
