//! Repeating an enqueue whose answer was lost creates no second job.

#![allow(missing_docs, reason = "the name of a behaviour is its sentence")]

use windlass_core::enqueue::{EnqueueAnswer, EnqueueRequest, NewJob, Refusal, RequestId};
use windlass_core::key::KeyClaim;
use windlass_core::limits::RECEIPT_TTL;

use crate::harness::*;

pub async fn a_repeated_request_gives_the_same_answers_and_no_second_job(h: &Harness) {
    let request = h.request(vec![work(), job_of("not.registered"), work()]);
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
    assert!(!h.exists(id).await, "its type has no retention");
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
    assert_eq!(h.engine.enqueue(request.clone()).await.expect(UP), [EnqueueAnswer::Duplicate(holder)]);
    h.engine.cancel(holder, "not needed").await.expect(UP);
    assert_eq!(h.engine.enqueue(request).await.expect(UP), [EnqueueAnswer::Duplicate(holder)]);
}

pub async fn a_receipt_can_be_read(h: &Harness) {
    let request = h.request(vec![work(), job_of("not.registered")]);
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

/// Queries a request that has not arrived, which closes it.
async fn closed(h: &Harness, jobs: Vec<NewJob>) -> EnqueueRequest {
    let request = h.request(jobs);
    assert_eq!(h.engine.ask(request.request).await.expect(UP), None);
    request
}

fn told_so(jobs: usize) -> Vec<EnqueueAnswer> {
    vec![EnqueueAnswer::Refused(Refusal::RequestClosed); jobs]
}

pub async fn a_request_that_arrives_after_it_was_asked_about_stores_nothing_and_is_told_so(h: &Harness) {
    let request = closed(h, vec![work()]).await;
    assert_eq!(h.engine.enqueue(request.clone()).await.expect(UP), told_so(1));
    assert_eq!(h.engine.enqueue(request).await.expect(UP), told_so(1), "also for a repeat");
    assert_eq!(h.totals().await.enqueued, 0);
}

pub async fn each_job_of_a_batch_is_told_that_its_request_was_closed(h: &Harness) {
    let keyed = || NewJob { key: Some(KeyClaim::new(key("k"))), ..work() };
    for jobs in [vec![work(), job_of("not.registered"), work()], vec![keyed(), work()]] {
        let count = jobs.len();
        let request = closed(h, jobs).await;
        assert_eq!(h.engine.enqueue(request).await.expect(UP), told_so(count));
    }
    assert_eq!(h.totals().await.enqueued, 0);
    let answers = h.engine.enqueue(h.request(vec![keyed()])).await.expect(UP);
    assert!(matches!(answers[..], [EnqueueAnswer::New(_)]), "the key is free: {answers:?}");
}

pub async fn a_request_may_be_asked_about_twice(h: &Harness) {
    let request = closed(h, vec![work()]).await;
    assert_eq!(h.engine.ask(request.request).await.expect(UP), None);
    assert_eq!(h.engine.receipt(request.request).await.expect(UP), None);
    assert_eq!(h.engine.enqueue(request.clone()).await.expect(UP), told_so(1));
    assert_eq!(h.engine.ask(request.request).await.expect(UP), None, "its late arrival changes nothing");
}

pub async fn a_stored_request_that_is_asked_about_keeps_its_answers(h: &Harness) {
    let request = h.request(vec![work(), job_of("not.registered")]);
    let answers = h.engine.enqueue(request.clone()).await.expect(UP);
    for _ in 0..2 {
        assert_eq!(h.engine.ask(request.request).await.expect(UP), Some(answers.clone()));
    }
    assert_eq!(h.engine.enqueue(request).await.expect(UP), answers);
    assert_eq!(h.totals().await.enqueued, 1);
}

pub async fn a_request_that_was_closed_stays_closed_for_an_hour_through_prunes(h: &Harness) {
    let request = closed(h, vec![work()]).await;
    h.advance(RECEIPT_TTL - secs(1));
    assert_eq!(h.engine.ask(request.request).await.expect(UP), None);
    h.prune().await;
    assert_eq!(h.engine.enqueue(request).await.expect(UP), told_so(1));
}

pub async fn a_request_that_is_asked_about_again_stays_closed_for_an_hour_from_then(h: &Harness) {
    let request = closed(h, vec![work()]).await;
    h.advance(secs(50 * 60));
    assert_eq!(h.engine.ask(request.request).await.expect(UP), None);
    h.advance(RECEIPT_TTL - secs(1));
    h.prune().await;
    assert_eq!(h.engine.enqueue(request).await.expect(UP), told_so(1));
}

pub async fn a_receipt_with_answers_lasts_no_longer_for_being_asked_about(h: &Harness) {
    let request = h.request(vec![work(), job_of("not.registered")]);
    let answers = h.engine.enqueue(request.clone()).await.expect(UP);
    h.advance(RECEIPT_TTL - secs(1));
    assert_eq!(h.engine.ask(request.request).await.expect(UP), Some(answers));
    h.advance(secs(2));
    assert_eq!(h.engine.receipt(request.request).await.expect(UP), None);
}

pub async fn an_old_tombstone_of_a_request_is_pruned(h: &Harness) {
    let request = closed(h, vec![work()]).await;
    h.advance(RECEIPT_TTL - secs(1));
    // The late arrival does not extend its receipt.
    assert_eq!(h.engine.enqueue(request.clone()).await.expect(UP), told_so(1));
    h.advance(secs(2));
    assert!(h.engine.prune(10).await.expect(UP).changed > 0);
    let answers = h.engine.enqueue(request).await.expect(UP);
    assert!(matches!(answers[..], [EnqueueAnswer::New(_)]), "{answers:?}");
}

pub async fn a_receipt_that_has_lapsed_is_replaced_by_a_tombstone(h: &Harness) {
    let request = h.request(vec![work()]);
    h.engine.enqueue(request.clone()).await.expect(UP);
    h.advance(RECEIPT_TTL + secs(1));
    assert_eq!(h.engine.ask(request.request).await.expect(UP), None);
    assert_eq!(h.engine.enqueue(request).await.expect(UP), told_so(1));
    assert_eq!(h.totals().await.enqueued, 1);
}

pub async fn a_request_and_a_question_about_it_at_once_agree(h: &Harness) {
    for round in 0..8 {
        let key = (round % 4 >= 2).then(|| KeyClaim::new(key("k")));
        let request = h.request(vec![NewJob { key, ..work() }]);
        let calls = (0..2).map(|call| {
            let (engine, request) = (h.engine.clone(), request.clone());
            async move {
                if call == round % 2 {
                    return engine.ask(request.request).await.expect(UP).unwrap_or_else(|| told_so(1));
                }
                engine.enqueue(request).await.expect(UP)
            }
        });
        let answers = h.at_once(calls.collect()).await;
        assert_eq!(answers[0], answers[1]);
    }
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
