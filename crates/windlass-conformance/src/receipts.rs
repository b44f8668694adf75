//! Repeating an enqueue whose answer got lost makes no second job.

#![allow(missing_docs, reason = "the name of a behaviour is its sentence")]

use windlass_core::enqueue::{Enqueued, RequestId};
use windlass_core::limits::RECEIPT_TTL;

use crate::harness::*;

pub async fn a_repeated_request_gives_the_same_answers_and_no_second_job(h: &Harness) {
    let request = h.request(vec![work(), job_of("nobody.knows"), work()]);
    let first = h.engine.enqueue(request.clone()).await.expect(UP);
    let second = h.engine.enqueue(request).await.expect(UP);
    assert_eq!(first, second);
    assert_eq!(h.totals().await.enqueued, 2);
}

pub async fn a_repeat_makes_no_second_job_even_if_the_first_is_done_and_gone(h: &Harness) {
    let request = h.request(vec![job_of(FLEETING)]);
    let first = h.engine.enqueue(request.clone()).await.expect(UP);
    let claimed = h.claim_one().await;
    let id = h.succeed(&claimed).await;
    assert!(!h.exists(id).await, "its type keeps nothing");
    assert_eq!(h.engine.enqueue(request).await.expect(UP), first);
    assert_eq!(h.counts().await.unfinished(), 0);
}

pub async fn a_repeat_repeats_the_answer_about_a_key_that_is_free_again(h: &Harness) {
    let keyed = || windlass_core::enqueue::NewJob {
        key: Some(windlass_core::key::KeyClaim::new(key("k"))),
        ..work()
    };
    let holder = h.enqueue(keyed()).await;
    let request = h.request(vec![keyed()]);
    assert_eq!(h.engine.enqueue(request.clone()).await.expect(UP), [Enqueued::Kept(holder)]);
    h.engine.cancel(holder, "not needed").await.expect(UP);
    assert_eq!(h.engine.enqueue(request).await.expect(UP), [Enqueued::Kept(holder)]);
}

pub async fn a_receipt_can_be_read(h: &Harness) {
    let request = h.request(vec![work(), job_of("nobody.knows")]);
    let answers = h.engine.enqueue(request.clone()).await.expect(UP);
    assert_eq!(h.engine.receipt(request.request).await.expect(UP), Some(answers));
}

pub async fn a_request_that_never_came_has_no_receipt(h: &Harness) {
    let never = RequestId::from_random(h.fresh_bits());
    assert_eq!(h.engine.receipt(never).await.expect(UP), None);
}

pub async fn a_batch_that_was_refused_whole_has_no_receipt(h: &Harness) {
    let request = h.request(vec![work(); windlass_core::limits::ENQUEUE_BATCH_MAX + 1]);
    let id = request.request;
    assert!(h.engine.enqueue(request).await.is_err());
    assert_eq!(h.engine.receipt(id).await.expect(UP), None);
}

pub async fn a_receipt_is_kept_for_an_hour_through_prunes(h: &Harness) {
    let request = h.request(vec![work()]);
    let answers = h.engine.enqueue(request.clone()).await.expect(UP);
    h.advance(RECEIPT_TTL - secs(1));
    h.prune().await;
    assert_eq!(h.engine.receipt(request.request).await.expect(UP), Some(answers));
}

pub async fn an_old_receipt_is_pruned(h: &Harness) {
    let request = h.request(vec![work()]);
    h.engine.enqueue(request.clone()).await.expect(UP);
    h.advance(RECEIPT_TTL + secs(1));
    h.prune().await;
    assert_eq!(h.engine.receipt(request.request).await.expect(UP), None);
}

pub async fn the_same_request_twice_at_once_makes_one_job(h: &Harness) {
    let request = h.request(vec![work()]);
    let calls = (0..4).map(|_| {
        let (engine, request) = (h.engine.clone(), request.clone());
        async move { engine.enqueue(request).await.expect(UP) }
    });
    let answers = h.at_once(calls.collect()).await;
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
    assert_eq!(h.totals().await.enqueued, 1);
}

pub async fn a_request_that_comes_again_after_an_hour_is_a_new_one_though_nothing_was_pruned(h: &Harness) {
    let keyed = windlass_core::enqueue::NewJob {
        key: Some(windlass_core::key::KeyClaim::new(key("k"))),
        ..job_of(FLEETING)
    };
    for new in [work(), keyed] {
        let request = h.request(vec![new]);
        let first = h.engine.enqueue(request.clone()).await.expect(UP);
        let claimed = h.claim_one().await;
        h.succeed(&claimed).await;
        h.advance(RECEIPT_TTL);
        let second = h.engine.enqueue(request.clone()).await.expect(UP);
        assert_ne!(first, second);
        assert_eq!(h.engine.enqueue(request).await.expect(UP), second, "from now on this is its receipt");
        h.claim_one().await;
    }
}
