//! What operators do with jobs that wait for a retry, and with dead letters.

#![allow(missing_docs, reason = "the name of a behaviour is its sentence")]

use windlass_core::admin::{Changed, RetryAnswer};
use windlass_core::job::{Counters, JobId, JobState, StoredState};

use crate::harness::*;

const MISSING: JobId = JobId(987_654_321);

async fn retry(h: &Harness, id: JobId) -> RetryAnswer {
    h.engine.retry(id).await.expect(UP)
}

async fn discard(h: &Harness, id: JobId) -> Changed {
    h.engine.discard(id).await.expect(UP)
}

pub async fn a_dead_letter_is_started_over_with_fresh_counters(h: &Harness) {
    let id = h.dead_letter().await;
    assert_eq!(retry(h, id).await, RetryAnswer::Retried);
    let record = h.record(id).await;
    assert_eq!((record.job_state(), record.job.counters), (JobState::Ready, Counters::default()));
}

pub async fn a_dead_letter_started_over_can_be_claimed_and_done(h: &Harness) {
    let id = h.dead_letter().await;
    h.advance(minutes(5));
    retry(h, id).await;
    let again = h.claim_one().await;
    h.succeed(&again).await;
    assert_eq!(h.job_state_of(id).await, JobState::Succeeded);
}

pub async fn a_crashed_dead_letter_started_over_is_no_suspect(h: &Harness) {
    h.enqueue(work()).await;
    h.crash_once().await;
    h.crash_suspect().await;
    let id = only(h.crash_suspect().await.buried);
    retry(h, id).await;
    assert_eq!(h.state_of(id).await, StoredState::Waiting { gate: None });
    assert_eq!(h.claim_one().await.job.id, id);
}

pub async fn the_attempts_of_a_dead_letter_started_over_are_still_shown(h: &Harness) {
    let id = h.dead_letter().await;
    retry(h, id).await;
    assert_eq!(h.attempts_of(id).await.len(), 1);
}

pub async fn a_scheduled_job_is_made_due_at_once(h: &Harness) {
    let id = h.enqueue(due_in(minutes(5))).await;
    assert_eq!(retry(h, id).await, RetryAnswer::Retried);
    assert_eq!(h.job_state_of(id).await, JobState::Ready);
    assert_eq!(h.claim_one().await.job.id, id);
}

pub async fn a_job_that_waits_for_its_retry_is_made_due_and_keeps_its_counters(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    let id = h.fail(&claimed, minutes(5)).await;
    assert_eq!(retry(h, id).await, RetryAnswer::Retried);
    assert_eq!(h.claim_one().await.job.counters.failures, 1);
}

pub async fn a_parked_job_is_let_through(h: &Harness) {
    let id = h.parked_job("semaphore:screenshot").await;
    assert_eq!(retry(h, id).await, RetryAnswer::Retried);
    assert_eq!(h.claim_one().await.job.id, id);
}

pub async fn a_ready_job_needs_no_retry(h: &Harness) {
    let id = h.enqueue(work()).await;
    assert_eq!(retry(h, id).await, RetryAnswer::NotRetryable(JobState::Ready));
}

pub async fn a_running_job_is_not_retried(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    assert_eq!(retry(h, claimed.job.id).await, RetryAnswer::NotRetryable(JobState::Running));
    assert_eq!(h.job_state_of(claimed.job.id).await, JobState::Running);
}

pub async fn what_has_succeeded_is_not_retried(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    let id = h.succeed(&claimed).await;
    assert_eq!(retry(h, id).await, RetryAnswer::NotRetryable(JobState::Succeeded));
}

pub async fn what_was_cancelled_is_not_retried(h: &Harness) {
    let id = h.enqueue(work()).await;
    h.engine.cancel(id, "not needed").await.expect(UP);
    assert_eq!(retry(h, id).await, RetryAnswer::NotRetryable(JobState::Cancelled));
}

pub async fn a_retry_of_nothing_is_not_found(h: &Harness) {
    assert_eq!(retry(h, MISSING).await, RetryAnswer::NotFound);
}

pub async fn a_discarded_dead_letter_is_gone(h: &Harness) {
    let id = h.dead_letter().await;
    assert_eq!(discard(h, id).await, Changed::Done);
    assert!(!h.exists(id).await);
    assert_eq!(discard(h, id).await, Changed::NotFound);
}

pub async fn only_dead_letters_are_discarded(h: &Harness) {
    let waiting = h.enqueue(work()).await;
    assert_eq!(discard(h, waiting).await, Changed::Unchanged);
    let claimed = h.claim_one().await;
    assert_eq!(discard(h, waiting).await, Changed::Unchanged);
    h.succeed(&claimed).await;
    assert_eq!(discard(h, waiting).await, Changed::Unchanged);
    assert_eq!(h.job_state_of(waiting).await, JobState::Succeeded);
}

pub async fn a_discard_of_nothing_is_not_found(h: &Harness) {
    assert_eq!(discard(h, MISSING).await, Changed::NotFound);
}

pub async fn a_new_priority_changes_the_order(h: &Harness) {
    let first = h.enqueue(work()).await;
    let second = h.enqueue(work()).await;
    assert_eq!(h.engine.set_priority(second, level(0)).await.expect(UP), Changed::Done);
    assert_eq!(h.record(second).await.job.priority, level(0));
    assert_eq!(ids(&h.claim(2).await), [second, first]);
}

pub async fn the_same_priority_changes_nothing(h: &Harness) {
    let id = h.enqueue(urgent(4)).await;
    assert_eq!(h.engine.set_priority(id, level(4)).await.expect(UP), Changed::Unchanged);
}

pub async fn only_a_waiting_job_gets_another_priority(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    assert_eq!(h.engine.set_priority(claimed.job.id, level(0)).await.expect(UP), Changed::Unchanged);
    let id = h.succeed(&claimed).await;
    assert_eq!(h.engine.set_priority(id, level(0)).await.expect(UP), Changed::Unchanged);
}

pub async fn a_priority_for_nothing_is_not_found(h: &Harness) {
    assert_eq!(h.engine.set_priority(MISSING, level(0)).await.expect(UP), Changed::NotFound);
}

pub async fn a_dead_letter_started_over_does_not_expire(h: &Harness) {
    let expires = Some(windlass_core::enqueue::When::In(minutes(5)));
    h.enqueue(windlass_core::enqueue::NewJob { expires, ..work() }).await;
    let claimed = h.claim_one().await;
    let id = h.bury(&claimed).await;
    h.advance(minutes(6));
    assert_eq!(retry(h, id).await, RetryAnswer::Retried);
    h.sweep().await;
    assert_eq!(h.claim_one().await.job.id, id);
}
