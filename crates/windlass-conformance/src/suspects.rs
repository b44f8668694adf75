//! Jobs whose worker died are tried one by one, apart from the others.

#![allow(missing_docs, reason = "the name of a behaviour is its sentence")]

use windlass_core::claim::{ClaimRequest, Suspects};
use windlass_core::gate::Gate;
use windlass_core::job::{JobState, StoredState};

use crate::harness::*;

async fn claim_of_at_most(h: &Harness, crashes_max: u32) -> Vec<windlass_core::job::JobId> {
    let suspects = Suspects::One { crashes_max };
    ids(&h.claim_with(ClaimRequest { suspects, ..h.claim_request(10) }).await)
}

pub async fn a_crashed_job_waits_behind_the_suspects_gate(h: &Harness) {
    let id = h.enqueue(work()).await;
    h.crash_once().await;
    assert_eq!(h.state_of(id).await, StoredState::Waiting { gate: Some(Gate::suspect()) });
}

pub async fn an_ordinary_claim_leaves_suspects_alone(h: &Harness) {
    h.enqueue(work()).await;
    h.crash_once().await;
    assert_eq!(h.claim(10).await, []);
}

pub async fn a_claim_of_suspects_leaves_ordinary_jobs_alone(h: &Harness) {
    h.enqueue(work()).await;
    assert_eq!(h.claim_suspect().await, None);
}

pub async fn suspects_are_claimed_one_at_a_time(h: &Harness) {
    h.enqueue_many(3).await;
    h.crash_once().await;
    assert_eq!(claim_of_at_most(h, 3).await.len(), 1);
    assert_eq!(claim_of_at_most(h, 3).await.len(), 1);
}

pub async fn a_suspect_counts_its_attempts_and_crashes(h: &Harness) {
    h.enqueue(work()).await;
    h.crash_once().await;
    let suspect = h.claim_suspect().await.expect("one suspect is due");
    assert_eq!((suspect.job.counters.attempts, suspect.job.counters.crashes), (2, 1));
}

pub async fn a_suspect_of_too_many_crashes_is_left(h: &Harness) {
    let id = h.enqueue(work()).await;
    h.crash_once().await;
    h.crash_suspect().await;
    assert_eq!(claim_of_at_most(h, 1).await, []);
    assert_eq!(claim_of_at_most(h, 2).await, [id]);
}

pub async fn a_suspect_that_succeeds_is_done_like_any_other(h: &Harness) {
    h.enqueue(work()).await;
    h.crash_once().await;
    let suspect = h.claim_suspect().await.expect("one suspect is due");
    let id = h.succeed(&suspect).await;
    assert_eq!(h.job_state_of(id).await, JobState::Succeeded);
}

pub async fn a_suspect_that_fails_stays_a_suspect(h: &Harness) {
    h.enqueue(work()).await;
    h.crash_once().await;
    let suspect = h.claim_suspect().await.expect("one suspect is due");
    let id = h.fail(&suspect, secs(1)).await;
    assert_eq!(h.state_of(id).await, StoredState::Waiting { gate: Some(Gate::suspect()) });
}

pub async fn a_suspect_is_not_claimed_before_it_is_due(h: &Harness) {
    h.enqueue(work()).await;
    h.crash_once().await;
    let suspect = h.claim_suspect().await.expect("one suspect is due");
    h.fail(&suspect, secs(10)).await;
    assert_eq!(h.claim_suspect().await, None);
    h.advance(secs(10) - MICROSECOND);
    assert_eq!(h.claim_suspect().await, None);
    h.advance(MICROSECOND);
    assert!(h.claim_suspect().await.is_some());
}

pub async fn suspects_of_a_paused_queue_are_left(h: &Harness) {
    h.enqueue(work()).await;
    h.crash_once().await;
    h.engine.pause(&queue(MAIN), None, None).await.expect(UP);
    assert_eq!(h.claim_suspect().await, None);
}

pub async fn suspects_of_other_types_are_left(h: &Harness) {
    h.enqueue(work()).await;
    h.crash_once().await;
    let suspects = Suspects::One { crashes_max: 3 };
    let request = ClaimRequest { suspects, types: vec![type_name(KEPT)], ..h.claim_request(1) };
    assert_eq!(h.claim_with(request).await, []);
}

pub async fn the_most_urgent_suspect_comes_first(h: &Harness) {
    h.enqueue(urgent(9)).await;
    let pressing = h.enqueue(urgent(1)).await;
    h.crash_once().await;
    assert_eq!(claim_of_at_most(h, 3).await, [pressing]);
}

pub async fn a_cancelled_suspect_is_cancelled(h: &Harness) {
    let id = h.enqueue(work()).await;
    h.crash_once().await;
    h.engine.cancel(id, "not needed").await.expect(UP);
    assert_eq!(h.job_state_of(id).await, JobState::Cancelled);
    assert_eq!(h.claim_suspect().await, None);
}

pub async fn a_suspect_that_a_policy_held_back_is_a_suspect_again(h: &Harness) {
    h.enqueue(work()).await;
    h.crash_once().await;
    let gate = Gate::named("breaker:shop");
    for by_hand in [false, true] {
        let suspect = h.claim_suspect().await.expect("one suspect is due");
        let id = h.park(&suspect, gate.as_str()).await;
        assert_eq!(h.state_of(id).await, StoredState::Waiting { gate: Some(gate.clone()) });
        if by_hand {
            h.engine.retry(id).await.expect(UP);
        } else {
            h.engine.open_gate(&gate, 10).await.expect(UP);
        }
        assert_eq!(h.state_of(id).await, StoredState::Waiting { gate: Some(Gate::suspect()) });
        assert_eq!(h.claim(1).await, []);
    }
}
