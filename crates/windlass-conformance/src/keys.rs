//! Keys: one live job for each work item, and the key is free again after every kind of end.

#![allow(missing_docs, reason = "the name of a behaviour is its sentence")]

use std::time::Duration;

use windlass_core::admin::RetryAnswer;
use windlass_core::enqueue::{EnqueueAnswer, NewJob, Refusal, When};
use windlass_core::job::{Counters, JobId, JobState};
use windlass_core::key::{KeyClaim, KeyScope, OnConflict};
use windlass_core::settle::Transition;

use crate::harness::*;

fn keyed() -> NewJob {
    keyed_with(KeyScope::WhileLive, OnConflict::Keep)
}

fn keyed_with(scope: KeyScope, on_conflict: OnConflict) -> NewJob {
    NewJob { key: Some(KeyClaim { key: key("wallet:1"), scope, on_conflict }), ..work() }
}

fn keyed_for(period: Duration) -> NewJob {
    keyed_with(KeyScope::For(period), OnConflict::Keep)
}

fn backfill() -> NewJob {
    keyed_with(KeyScope::WhileLiveOrDead, OnConflict::Revive)
}

async fn assert_free(h: &Harness) {
    let answer = h.offer(keyed()).await;
    assert!(matches!(answer, EnqueueAnswer::New(_)), "expected the key to be free, got {answer:?}");
}

async fn assert_held_by(h: &Harness, holder: JobId) {
    assert_eq!(h.offer(keyed()).await, EnqueueAnswer::Duplicate(holder));
}

pub async fn a_waiting_job_holds_its_key(h: &Harness) {
    let holder = h.enqueue(keyed()).await;
    assert_held_by(h, holder).await;
    assert_eq!(h.totals().await.enqueued, 1);
}

pub async fn a_scheduled_job_holds_its_key(h: &Harness) {
    let holder = h.enqueue(NewJob { when: When::In(minutes(5)), ..keyed() }).await;
    assert_held_by(h, holder).await;
}

pub async fn a_running_job_holds_its_key(h: &Harness) {
    let holder = h.enqueue(keyed()).await;
    h.claim_one().await;
    assert_held_by(h, holder).await;
}

pub async fn a_parked_job_holds_its_key(h: &Harness) {
    h.enqueue(keyed()).await;
    let claimed = h.claim_one().await;
    let holder = h.park(&claimed, "semaphore:screenshot").await;
    assert_held_by(h, holder).await;
}

pub async fn a_job_that_waits_for_its_retry_holds_its_key(h: &Harness) {
    h.enqueue(keyed()).await;
    let claimed = h.claim_one().await;
    let holder = h.fail(&claimed, minutes(1)).await;
    assert_held_by(h, holder).await;
}

pub async fn a_key_counts_within_its_type_only(h: &Harness) {
    h.enqueue(keyed()).await;
    h.enqueue(NewJob { job_type: type_name(KEPT), ..keyed() }).await;
}

pub async fn two_jobs_of_one_batch_with_one_key_are_one_job(h: &Harness) {
    let answers = h.enqueue_all(vec![keyed(), keyed()]).await;
    let first = answers[0].job().expect("the first job is accepted");
    assert_eq!(answers, [EnqueueAnswer::New(first), EnqueueAnswer::Duplicate(first)]);
}

pub async fn the_kept_job_is_left_as_it_is(h: &Harness) {
    let holder = h.enqueue(NewJob { payload: payload("first"), ..keyed() }).await;
    let before = h.record(holder).await;
    h.offer(NewJob { payload: payload("second"), when: When::In(secs(9)), ..keyed() }).await;
    assert_eq!(h.record(holder).await, before);
}

pub async fn success_frees_the_key(h: &Harness) {
    h.enqueue(keyed()).await;
    let claimed = h.claim_one().await;
    h.succeed(&claimed).await;
    assert_free(h).await;
}

pub async fn success_of_a_type_that_keeps_nothing_frees_the_key(h: &Harness) {
    let fleeting = || NewJob { job_type: type_name(FLEETING), ..keyed() };
    h.enqueue(fleeting()).await;
    let claimed = h.claim_one().await;
    h.succeed(&claimed).await;
    h.enqueue(fleeting()).await;
}

pub async fn cancelling_a_waiting_job_frees_the_key(h: &Harness) {
    let holder = h.enqueue(keyed()).await;
    h.engine.cancel(holder, "not needed").await.expect(UP);
    assert_free(h).await;
}

pub async fn a_handler_that_cancels_frees_the_key(h: &Harness) {
    h.enqueue(keyed()).await;
    let claimed = h.claim_one().await;
    h.end(&claimed, Transition::Cancel { why: "no longer wanted".to_owned() }).await;
    assert_free(h).await;
}

pub async fn a_purge_frees_the_key(h: &Harness) {
    h.enqueue(keyed()).await;
    h.engine.purge(&queue(MAIN), 100).await.expect(UP);
    assert_free(h).await;
}

pub async fn expiry_by_a_sweep_frees_the_key(h: &Harness) {
    h.enqueue(NewJob { expires: Some(When::In(secs(5))), ..keyed() }).await;
    h.advance(secs(6));
    h.sweep().await;
    assert_free(h).await;
}

pub async fn expiry_found_by_a_claim_frees_the_key(h: &Harness) {
    h.enqueue(NewJob { expires: Some(When::In(secs(5))), ..keyed() }).await;
    h.advance(secs(6));
    assert_eq!(h.claim(1).await, []);
    assert_free(h).await;
}

pub async fn burial_frees_the_key_of_a_job_that_holds_it_while_live(h: &Harness) {
    h.enqueue(keyed()).await;
    let claimed = h.claim_one().await;
    h.bury(&claimed).await;
    assert_free(h).await;
}

pub async fn burial_by_crashes_frees_the_key(h: &Harness) {
    h.enqueue(keyed()).await;
    h.crash_once().await;
    h.crash_suspect().await;
    assert_eq!(h.crash_suspect().await.buried.len(), 1);
    assert_free(h).await;
}

pub async fn a_rescued_job_still_holds_its_key(h: &Harness) {
    let holder = h.enqueue(keyed()).await;
    h.crash_once().await;
    assert_held_by(h, holder).await;
}

pub async fn a_dead_letter_holds_its_key_if_its_scope_says_so(h: &Harness) {
    h.enqueue(backfill()).await;
    let claimed = h.claim_one().await;
    let holder = h.bury(&claimed).await;
    assert_held_by(h, holder).await;
}

pub async fn discarding_a_dead_letter_frees_the_key(h: &Harness) {
    h.enqueue(backfill()).await;
    let claimed = h.claim_one().await;
    let holder = h.bury(&claimed).await;
    h.engine.discard(holder).await.expect(UP);
    assert_free(h).await;
}

pub async fn success_frees_the_key_of_a_backfill(h: &Harness) {
    h.enqueue(backfill()).await;
    let claimed = h.claim_one().await;
    h.succeed(&claimed).await;
    assert_free(h).await;
}

pub async fn a_newcomer_replaces_the_payload_and_time_of_a_waiting_job(h: &Harness) {
    let holder = h.enqueue(NewJob { payload: payload("first"), ..keyed() }).await;
    let newcomer = NewJob {
        payload: payload("second"),
        when: When::In(secs(30)),
        ..keyed_with(KeyScope::WhileLive, OnConflict::Replace)
    };
    assert_eq!(h.offer(newcomer).await, EnqueueAnswer::Replaced(holder));
    let job = h.record(holder).await.job;
    assert_eq!((job.payload, job.due), (payload("second"), h.now().plus(secs(30))));
    assert_eq!(h.totals().await.enqueued, 1);
}

pub async fn a_replaced_job_is_claimed_at_its_new_time_only(h: &Harness) {
    h.enqueue(keyed()).await;
    let later = NewJob { when: When::In(secs(30)), ..keyed_with(KeyScope::WhileLive, OnConflict::Replace) };
    h.offer(later).await;
    assert_eq!(h.claim(1).await, []);
    h.advance(secs(30));
    h.claim_one().await;
}

pub async fn a_running_job_is_not_replaced(h: &Harness) {
    let holder = h.enqueue(keyed()).await;
    h.claim_one().await;
    let before = h.record(holder).await;
    let newcomer =
        NewJob { payload: payload("second"), ..keyed_with(KeyScope::WhileLive, OnConflict::Replace) };
    assert_eq!(h.offer(newcomer).await, EnqueueAnswer::Duplicate(holder));
    assert_eq!(h.record(holder).await, before);
}

pub async fn a_dead_backfill_is_revived_with_fresh_counters_and_the_new_payload(h: &Harness) {
    h.enqueue(NewJob { payload: payload("first"), ..backfill() }).await;
    let claimed = h.claim_one().await;
    let holder = h.bury(&claimed).await;
    let answer = h.offer(NewJob { payload: payload("second"), ..backfill() }).await;
    assert_eq!(answer, EnqueueAnswer::Revived(holder));
    let record = h.record(holder).await;
    assert_eq!((record.job_state(), record.job.counters), (JobState::Ready, Counters::default()));
    assert_eq!(record.job.payload, payload("second"));
}

pub async fn a_revived_job_runs_again(h: &Harness) {
    h.enqueue(backfill()).await;
    let claimed = h.claim_one().await;
    let holder = h.bury(&claimed).await;
    h.offer(backfill()).await;
    let again = h.claim_one().await;
    assert_eq!((again.job.id, again.job.counters.attempts), (holder, 1));
    h.succeed(&again).await;
    assert_eq!(h.job_state_of(holder).await, JobState::Succeeded);
}

pub async fn a_waiting_backfill_is_kept_not_revived(h: &Harness) {
    let holder = h.enqueue(backfill()).await;
    assert_eq!(h.offer(backfill()).await, EnqueueAnswer::Duplicate(holder));
}

pub async fn a_period_holds_the_key_past_the_end_of_the_job(h: &Harness) {
    h.enqueue(keyed_for(minutes(60))).await;
    let claimed = h.claim_one().await;
    let holder = h.succeed(&claimed).await;
    h.advance(minutes(60) - secs(1));
    assert_held_by(h, holder).await;
    h.advance(secs(1));
    assert_free(h).await;
}

pub async fn a_period_holds_the_key_even_if_nothing_is_kept_of_the_job(h: &Harness) {
    let fleeting = || NewJob { job_type: type_name(FLEETING), ..keyed_for(minutes(60)) };
    h.enqueue(fleeting()).await;
    let claimed = h.claim_one().await;
    let holder = h.succeed(&claimed).await;
    h.prune().await;
    assert_eq!(h.offer(fleeting()).await, EnqueueAnswer::Duplicate(holder));
    h.advance(minutes(60));
    h.enqueue(fleeting()).await;
}

pub async fn a_period_that_is_over_does_not_free_the_key_of_a_live_job(h: &Harness) {
    let holder = h.enqueue(keyed_for(secs(1))).await;
    h.advance(minutes(5));
    assert_held_by(h, holder).await;
}

pub async fn a_dead_letter_whose_key_has_a_new_holder_is_not_retried(h: &Harness) {
    h.enqueue(keyed()).await;
    let claimed = h.claim_one().await;
    let dead = h.bury(&claimed).await;
    let holder = h.enqueue(keyed()).await;
    assert_eq!(h.engine.retry(dead).await.expect(UP), RetryAnswer::KeyHeld(holder));
    assert_eq!(h.job_state_of(dead).await, JobState::Dead);
}

pub async fn a_retried_dead_letter_takes_its_key_back(h: &Harness) {
    h.enqueue(keyed()).await;
    let claimed = h.claim_one().await;
    let dead = h.bury(&claimed).await;
    assert_eq!(h.engine.retry(dead).await.expect(UP), RetryAnswer::Retried);
    assert_held_by(h, dead).await;
}

pub async fn two_callers_at_once_with_one_key_make_one_job(h: &Harness) {
    let calls = (0..8).map(|_| {
        let (engine, request) = (h.engine.clone(), h.request(vec![keyed()]));
        async move { only(engine.enqueue(request).await.expect(UP)) }
    });
    let answers = h.at_once(calls.collect()).await;
    let new = answers.iter().filter(|answer| matches!(answer, EnqueueAnswer::New(_))).count();
    let kept = answers.iter().filter(|answer| matches!(answer, EnqueueAnswer::Duplicate(_))).count();
    assert_eq!((new, kept), (1, 7), "{answers:?}");
}

pub async fn a_full_queue_still_answers_who_holds_a_key(h: &Harness) {
    let small = |on_conflict| NewJob {
        job_type: type_name(SMALL_WORK),
        ..keyed_with(KeyScope::WhileLive, on_conflict)
    };
    let holder = h.enqueue(small(OnConflict::Keep)).await;
    h.enqueue_all(vec![job_of(SMALL_WORK); 2]).await;
    assert!(matches!(h.refusal(job_of(SMALL_WORK)).await, Refusal::QueueFull { .. }));
    assert_eq!(h.offer(small(OnConflict::Keep)).await, EnqueueAnswer::Duplicate(holder));
    assert_eq!(h.offer(small(OnConflict::Replace)).await, EnqueueAnswer::Replaced(holder));
}

pub async fn a_held_key_opens_no_shut_queue_and_excuses_no_wrong_option(h: &Harness) {
    h.enqueue(keyed()).await;
    let timeout = Some(secs(0));
    assert_eq!(h.refusal(NewJob { timeout, ..keyed() }).await, Refusal::Timeout);
    h.engine.set_shut(&queue(MAIN), true).await.expect(UP);
    assert_eq!(h.refusal(keyed()).await, Refusal::QueueShut { queue: queue(MAIN) });
}

pub async fn discarding_a_dead_letter_leaves_its_key_to_the_job_that_took_it_since(h: &Harness) {
    h.enqueue(keyed()).await;
    let claimed = h.claim_one().await;
    let dead = h.bury(&claimed).await;
    let holder = h.enqueue(keyed()).await;
    h.engine.discard(dead).await.expect(UP);
    assert_held_by(h, holder).await;
}

pub async fn a_period_counts_from_the_enqueue_of_a_dead_letter_that_is_started_over(h: &Harness) {
    for by_its_key in [false, true] {
        h.enqueue(keyed_for(minutes(60))).await;
        let claimed = h.claim_one().await;
        let dead = h.bury(&claimed).await;
        h.advance(minutes(30));
        if by_its_key {
            let newcomer = keyed_with(KeyScope::For(minutes(60)), OnConflict::Revive);
            assert_eq!(h.offer(newcomer).await, EnqueueAnswer::Revived(dead));
        } else {
            assert_eq!(h.engine.retry(dead).await.expect(UP), RetryAnswer::Retried);
        }
        let again = h.claim_one().await;
        h.succeed(&again).await;
        h.advance(minutes(30) - secs(1));
        assert_held_by(h, dead).await;
        h.advance(secs(1));
    }
    assert_free(h).await;
}

pub async fn a_prune_leaves_a_key_to_the_job_that_took_it_when_its_period_was_over(h: &Harness) {
    h.enqueue(keyed_for(minutes(1))).await;
    let claimed = h.claim_one().await;
    h.succeed(&claimed).await;
    h.advance(minutes(1));
    let holder = h.enqueue(keyed_for(minutes(1))).await;
    h.prune().await;
    assert_held_by(h, holder).await;
    h.advance(minutes(2));
    h.prune().await;
    assert_held_by(h, holder).await;
}

pub async fn a_replaced_job_keeps_its_own_options(h: &Harness) {
    let first = NewJob { timeout: Some(secs(77)), ..keyed() };
    let holder = h.enqueue(first).await;
    let second = NewJob { timeout: Some(secs(5)), ..keyed_with(KeyScope::WhileLive, OnConflict::Replace) };
    assert_eq!(h.offer(second).await, EnqueueAnswer::Replaced(holder));
    assert_eq!(h.record(holder).await.job.timeout, Some(secs(77)));
}

pub async fn a_newcomer_that_does_not_expire_takes_the_expiry_from_the_job_that_it_replaces(h: &Harness) {
    let holder = h.enqueue(NewJob { expires: Some(When::In(secs(5))), ..keyed() }).await;
    let newcomer = keyed_with(KeyScope::WhileLive, OnConflict::Replace);
    assert_eq!(h.offer(newcomer).await, EnqueueAnswer::Replaced(holder));
    assert_eq!(h.record(holder).await.job.expires_at, None);
    h.advance(secs(6));
    h.sweep().await;
    assert_eq!(h.claim_one().await.job.id, holder);
}

pub async fn a_revived_job_takes_a_place_in_a_queue_with_a_limit(h: &Harness) {
    let small = || NewJob { job_type: type_name(SMALL_WORK), ..backfill() };
    h.enqueue(small()).await;
    let claimed = h.claim_one().await;
    let dead = h.bury(&claimed).await;
    let answers =
        h.enqueue_all(vec![small(), job_of(SMALL_WORK), job_of(SMALL_WORK), job_of(SMALL_WORK)]).await;
    assert_eq!(answers[0], EnqueueAnswer::Revived(dead));
    assert!(matches!(answers[3], EnqueueAnswer::Refused(Refusal::QueueFull { .. })), "{answers:?}");
}
