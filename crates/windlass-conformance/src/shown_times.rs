//! Times for operators: when attempts ran, and how long jobs waited.

#![allow(missing_docs, reason = "the name of a behaviour is its sentence")]

use windlass_core::admin::RetryAnswer;
use windlass_core::enqueue::{NewJob, When};
use windlass_core::job::StoredState;
use windlass_core::settle::{AttemptReport, Transition};

use crate::harness::*;

/// The seconds that a handler ran, and the seconds after its end at which the end was reported.
const RAN_FOR: u64 = 4;
const ENDED_AGO: u64 = 600;

fn late() -> AttemptReport {
    AttemptReport { ran_for: secs(RAN_FOR), ended_ago: secs(ENDED_AGO), output: None }
}

pub async fn an_attempt_that_is_reported_late_ended_when_its_handler_did(h: &Harness) {
    for end in [
        Transition::Succeed { result: None },
        Transition::Succeed { result: Some("1".to_owned()) },
        Transition::Retry { after: days(1), error: oops() },
        Transition::Snooze { after: days(1) },
        Transition::Bury { error: oops() },
        Transition::Cancel { why: "not needed".to_owned() },
    ] {
        let claimed = h.enqueue_and_claim_one().await;
        let (id, start) = (claimed.job.id, h.now());
        h.advance(secs(RAN_FOR + ENDED_AGO));
        assert_applied(h.settle_with(claimed.settled(end.clone(), late())).await);
        let (attempt, ended_at) = (h.attempt_of(id).await, start.plus(secs(RAN_FOR)));
        assert_eq!((attempt.started_at, attempt.ended_at), (start, Some(ended_at)), "{end:?}");
        match h.state_of(id).await {
            StoredState::Succeeded { at, .. }
            | StoredState::Dead { at, .. }
            | StoredState::Cancelled { at, .. } => {
                assert_eq!(at, ended_at, "{end:?}");
            }
            StoredState::Waiting { .. } | StoredState::Running { .. } => {}
        }
    }
}

pub async fn a_job_that_was_asked_to_stop_ended_with_its_attempt_and_now_if_there_was_none(h: &Harness) {
    let gate = windlass_core::gate::Gate::named("manual");
    for (end, ended_with_its_attempt) in [
        (Transition::Park { gate }, false),
        (Transition::Release { started: false }, false),
        (Transition::Release { started: true }, true),
        (Transition::Snooze { after: days(1) }, true),
    ] {
        let claimed = h.enqueue_and_claim_one().await;
        let (id, start) = (claimed.job.id, h.now());
        h.advance(secs(RAN_FOR + ENDED_AGO));
        h.engine.cancel(id, "not needed").await.expect(UP);
        assert_applied(h.settle_with(claimed.settled(end.clone(), late())).await);
        let at = if ended_with_its_attempt { start.plus(secs(RAN_FOR)) } else { h.now() };
        let state = StoredState::Cancelled { at, why: "not needed".to_owned() };
        assert_eq!(h.state_of(id).await, state, "{end:?}");
    }
}

pub async fn a_late_end_under_a_key_and_one_that_leaves_no_history_are_written(h: &Harness) {
    let keyed = NewJob { key: Some(windlass_core::key::KeyClaim::new(key("k"))), ..work() };
    for job in [keyed, job_of(FLEETING)] {
        h.enqueue(job).await;
        let claimed = h.claim_one().await;
        h.advance(secs(RAN_FOR + ENDED_AGO));
        let end = Transition::Succeed { result: None };
        assert_applied(h.settle_with(claimed.settled(end, late())).await);
    }
    assert_eq!(h.totals().await.succeeded, 2);
}

pub async fn a_dead_letter_that_is_started_over_keeps_the_times_of_its_attempts(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    let id = claimed.job.id;
    h.advance(secs(RAN_FOR + ENDED_AGO));
    assert_applied(h.settle_with(claimed.settled(Transition::Bury { error: oops() }, late())).await);
    let before = h.attempts_of(id).await;
    assert_eq!(h.engine.retry(id).await.expect(UP), RetryAnswer::Retried);
    assert_eq!(h.attempts_of(id).await, before);
}

pub async fn a_late_report_delays_a_retry_from_the_stores_now(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    let id = claimed.job.id;
    h.advance(secs(RAN_FOR + ENDED_AGO));
    let retry = Transition::Retry { after: secs(30), error: oops() };
    assert_applied(h.settle_with(claimed.settled(retry, late())).await);
    assert_eq!(h.record(id).await.job.due, h.now().plus(secs(30)));
}

pub async fn a_job_for_an_instant_in_the_past_waits_only_since_it_was_enqueued(h: &Harness) {
    h.enqueue(NewJob { when: When::At(h.now().minus(days(365))), ..work() }).await;
    h.advance(secs(5));
    let claimed = h.claim_one().await;
    assert_eq!((claimed.waited, claimed.age), (secs(5), secs(5)));
}

pub async fn a_delayed_job_waits_only_since_it_is_due(h: &Harness) {
    h.enqueue(due_in(minutes(10))).await;
    h.advance(minutes(10) + secs(3));
    let claimed = h.claim_one().await;
    assert_eq!((claimed.waited, claimed.age), (secs(3), minutes(10) + secs(3)));
}

pub async fn the_longest_wait_of_a_queue_counts_from_the_later_of_due_and_enqueued(h: &Harness) {
    let oldest = async || h.status_of(MAIN).await.oldest_ready;
    assert_eq!(oldest().await, None);
    h.enqueue(due_in(minutes(60))).await;
    assert_eq!(oldest().await, None, "a job that is not due does not wait");
    h.enqueue(NewJob { when: When::At(h.now().minus(days(365))), ..work() }).await;
    h.advance(secs(5));
    assert_eq!(oldest().await, Some(secs(5)));
    h.enqueue(NewJob { when: When::At(h.now().minus(days(365 * 2))), ..work() }).await;
    h.enqueue(NewJob { when: When::At(h.now().minus(days(365 * 2))), ..urgent(0) }).await;
    assert_eq!(oldest().await, Some(secs(5)), "a job that has waited longer is behind them");
    h.enqueue(urgent(9)).await;
    h.advance(minutes(60));
    assert_eq!(oldest().await, Some(minutes(60) + secs(5)));
}
