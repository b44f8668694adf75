//! Listeners are notified soon when a job may have become claimable or was requested to stop.

#![allow(missing_docs, reason = "the name of a behaviour is its sentence")]

use windlass_core::engine::Hint;
use windlass_core::enqueue::NewJob;
use windlass_core::key::{KeyClaim, OnConflict};
use windlass_core::settle::Transition;
use windlass_core::worker::WorkerCard;

use crate::harness::*;

fn in_main() -> Hint {
    Hint::Queue(queue(MAIN))
}

pub async fn a_new_job_is_hinted(h: &Harness) {
    let log = h.listen();
    h.enqueue(work()).await;
    log.wait_for(&in_main());
}

pub async fn a_new_job_for_later_is_hinted(h: &Harness) {
    let log = h.listen();
    h.enqueue(due_in(minutes(5))).await;
    log.wait_for(&in_main());
}

pub async fn every_queue_of_a_batch_is_hinted(h: &Harness) {
    let log = h.listen();
    h.enqueue_all(vec![work(), job_of(OTHER_WORK)]).await;
    log.wait_for(&in_main());
    log.wait_for(&Hint::Queue(queue(OTHER)));
}

pub async fn a_job_given_back_is_hinted(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    let log = h.listen();
    h.release(&claimed).await;
    log.wait_for(&in_main());
}

pub async fn a_retry_is_hinted(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    let log = h.listen();
    h.fail(&claimed, secs(1)).await;
    log.wait_for(&in_main());
}

pub async fn a_snooze_is_hinted(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    let log = h.listen();
    h.end(&claimed, Transition::Snooze { after: secs(1) }).await;
    log.wait_for(&in_main());
}

pub async fn a_rescue_is_hinted(h: &Harness) {
    let victim = h.register_worker().await;
    h.enqueue(work()).await;
    h.claim_one_as(victim).await;
    let log = h.listen();
    h.kill(victim).await;
    log.wait_for(&in_main());
}

pub async fn a_worker_that_leaves_with_jobs_is_hinted(h: &Harness) {
    let leaver = h.register_worker().await;
    h.enqueue(work()).await;
    h.claim_one_as(leaver).await;
    let log = h.listen();
    h.engine.retire(leaver).await.expect(UP);
    log.wait_for(&in_main());
}

pub async fn a_dead_letter_started_over_is_hinted(h: &Harness) {
    let id = h.dead_letter().await;
    let log = h.listen();
    h.engine.retry(id).await.expect(UP);
    log.wait_for(&in_main());
}

pub async fn an_opened_gate_is_hinted(h: &Harness) {
    h.parked_job("semaphore:screenshot").await;
    let log = h.listen();
    let gate = windlass_core::gate::Gate::named("semaphore:screenshot");
    h.engine.open_gate(&gate, 10).await.expect(UP);
    log.wait_for(&in_main());
}

pub async fn a_resumed_queue_is_hinted(h: &Harness) {
    h.enqueue(work()).await;
    h.engine.pause(&queue(MAIN), None, None).await.expect(UP);
    let log = h.listen();
    h.engine.resume(&queue(MAIN)).await.expect(UP);
    log.wait_for(&in_main());
}

pub async fn a_replaced_job_is_hinted(h: &Harness) {
    let claim = KeyClaim { on_conflict: OnConflict::Replace, ..KeyClaim::new(key("k")) };
    let keyed = || NewJob { key: Some(claim.clone()), ..due_in(minutes(5)) };
    h.enqueue(keyed()).await;
    let log = h.listen();
    h.offer(NewJob { when: windlass_core::enqueue::When::Now, ..keyed() }).await;
    log.wait_for(&in_main());
}

pub async fn a_worker_that_brings_a_missing_handler_is_hinted(h: &Harness) {
    let types = vec![type_spec("orphan", MAIN)];
    let declaration = windlass_core::engine::Declaration { queues: vec![], types };
    h.engine.declare(declaration).await.expect(UP);
    h.enqueue(job_of("orphan")).await;
    h.sweep().await;
    let log = h.listen();
    h.register(WorkerCard { types: vec![type_name("orphan")], ..h.card() }).await;
    log.wait_for(&in_main());
}

pub async fn a_request_to_stop_is_hinted_with_its_claim(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    let log = h.listen();
    h.engine.cancel(claimed.job.id, "not needed").await.expect(UP);
    log.wait_for(&Hint::Cancel(claimed.fence()));
}

pub async fn every_listener_is_told(h: &Harness) {
    let logs = [h.listen(), h.listen()];
    h.enqueue(work()).await;
    for log in logs {
        log.wait_for(&in_main());
    }
}

pub async fn a_listener_without_an_owner_is_let_go(h: &Harness) {
    let (kept, dropped) = (h.listen(), h.listen());
    let trace = std::sync::Arc::downgrade(&dropped);
    h.enqueue(work()).await;
    kept.wait_for(&in_main());
    dropped.wait_for(&in_main());
    drop(dropped);
    kept.forget();
    h.enqueue(work()).await;
    kept.wait_for(&in_main());
    assert!(trace.upgrade().is_none(), "the engine keeps a listener that was dropped");
}
