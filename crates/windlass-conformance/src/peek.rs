//! What the store returns about the next due job, so that a worker sleeps exactly as long as it may.

#![allow(missing_docs, reason = "the name of a behaviour is its sentence")]

use windlass_core::claim::{ClaimRequest, NextDue};
use windlass_core::enqueue::NewJob;

use crate::harness::*;

async fn next_due_of(h: &Harness, name: &str) -> NextDue {
    let peeks = h.engine.peek(&[queue(name)], &all_types()).await.expect(UP);
    let (named, peek) = only(peeks);
    assert_eq!(named, queue(name));
    peek
}

async fn after_claim(h: &Harness, limit: u32) -> NextDue {
    h.claim_and_peek(h.claim_request(limit)).await.1
}

pub async fn an_empty_queue_has_nothing_ahead(h: &Harness) {
    assert_eq!(after_claim(h, 1).await, NextDue::default());
    assert_eq!(next_due_of(h, MAIN).await, NextDue::default());
}

pub async fn a_claim_that_leaves_some_says_that_more_is_due(h: &Harness) {
    h.enqueue_many(3).await;
    assert!(after_claim(h, 2).await.more_due);
}

pub async fn a_claim_that_takes_all_says_that_no_more_is_due(h: &Harness) {
    h.enqueue_many(2).await;
    assert!(!after_claim(h, 2).await.more_due);
}

pub async fn more_may_be_due_in_another_queue(h: &Harness) {
    h.enqueue(work()).await;
    h.enqueue(job_of(OTHER_WORK)).await;
    assert!(after_claim(h, 1).await.more_due);
}

pub async fn types_not_asked_for_are_not_ahead(h: &Harness) {
    h.enqueue(work()).await;
    h.enqueue(due_in(secs(5))).await;
    let request = ClaimRequest { types: vec![type_name(KEPT)], ..h.claim_request(1) };
    assert_eq!(h.claim_and_peek(request).await.1, NextDue::default());
}

pub async fn a_claim_says_when_the_next_job_falls_due(h: &Harness) {
    h.enqueue(due_in(secs(30))).await;
    h.enqueue(due_in(secs(10))).await;
    assert_eq!(after_claim(h, 1).await.next_due_in, Some(secs(10)));
    h.advance(secs(4));
    assert_eq!(after_claim(h, 1).await.next_due_in, Some(secs(6)));
}

pub async fn the_next_due_time_is_the_nearest_of_all_priorities(h: &Harness) {
    h.enqueue(NewJob { when: windlass_core::enqueue::When::In(secs(30)), ..urgent(0) }).await;
    h.enqueue(NewJob { when: windlass_core::enqueue::When::In(secs(10)), ..urgent(10) }).await;
    assert_eq!(after_claim(h, 1).await.next_due_in, Some(secs(10)));
}

pub async fn a_retry_is_ahead_at_its_time(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    h.fail(&claimed, secs(45)).await;
    assert_eq!(after_claim(h, 1).await.next_due_in, Some(secs(45)));
}

pub async fn a_suspect_that_is_due_is_announced(h: &Harness) {
    h.enqueue(work()).await;
    h.crash_once().await;
    let peek = after_claim(h, 1).await;
    assert!(peek.suspect_due && !peek.more_due, "{peek:?}");
}

pub async fn a_suspect_that_waits_is_not_announced_as_due(h: &Harness) {
    h.enqueue(work()).await;
    h.crash_once().await;
    let suspect = h.claim_suspect().await.expect("one suspect is due");
    h.fail(&suspect, minutes(1)).await;
    assert!(!after_claim(h, 1).await.suspect_due);
}

pub async fn a_parked_job_is_not_ahead(h: &Harness) {
    h.parked_job("semaphore:screenshot").await;
    assert_eq!(after_claim(h, 1).await, NextDue::default());
}

pub async fn a_paused_queue_has_nothing_due(h: &Harness) {
    h.enqueue(work()).await;
    h.engine.pause(&queue(MAIN), None, None).await.expect(UP);
    assert!(!after_claim(h, 1).await.more_due, "a worker would spin");
    assert!(!next_due_of(h, MAIN).await.more_due, "a worker would spin");
}

pub async fn the_end_of_a_pause_lies_ahead(h: &Harness) {
    h.enqueue(work()).await;
    h.enqueue(NewJob { when: windlass_core::enqueue::When::In(minutes(2)), ..job_of(OTHER_WORK) }).await;
    h.engine.pause(&queue(MAIN), None, Some(minutes(1))).await.expect(UP);
    assert_eq!(after_claim(h, 1).await.next_due_in, Some(minutes(1)), "nothing else would wake a worker");
    assert_eq!(next_due_of(h, MAIN).await.next_due_in, Some(minutes(1)));
    assert_eq!(next_due_of(h, OTHER).await.next_due_in, Some(minutes(2)), "the pause of another queue");
    h.advance(minutes(1));
    let (claimed, peek) = h.claim_and_peek(h.claim_request(5)).await;
    assert_eq!((claimed.len(), peek.next_due_in), (1, Some(minutes(1))), "the pause is over");
}

pub async fn a_peek_answers_for_each_queue_apart(h: &Harness) {
    h.enqueue(work()).await;
    h.enqueue(NewJob { when: windlass_core::enqueue::When::In(secs(9)), ..job_of(OTHER_WORK) }).await;
    let peeks = h.engine.peek(&[queue(OTHER), queue(MAIN)], &all_types()).await.expect(UP);
    let of = |name| peeks.iter().find(|(found, _)| *found == queue(name)).expect("the queue was requested").1;
    assert_eq!((of(MAIN).more_due, of(OTHER).more_due), (true, false));
    assert_eq!(of(OTHER).next_due_in, Some(secs(9)));
}

pub async fn a_peek_claims_nothing(h: &Harness) {
    h.enqueue(work()).await;
    next_due_of(h, MAIN).await;
    h.claim_one().await;
}
