//! Cancelling jobs: waiting jobs at once, running jobs on request.

#![allow(missing_docs, reason = "the name of a behaviour is its sentence")]

use windlass_core::admin::{AttemptEnding, CancelAnswer};
use windlass_core::claim::{ClaimAnswer, Fence};
use windlass_core::job::{JobId, JobState, Progress, StoredState};
use windlass_core::settle::Transition;
use windlass_core::worker::{Liveness, WorkerId};

use crate::harness::*;

async fn cancel(h: &Harness, id: JobId) -> CancelAnswer {
    h.engine.cancel(id, "not needed").await.expect(UP)
}

pub async fn a_waiting_job_is_cancelled_with_its_reason(h: &Harness) {
    let id = h.enqueue(work()).await;
    assert_eq!(cancel(h, id).await, CancelAnswer::Cancelled);
    let state = StoredState::Cancelled { at: h.now(), why: "not needed".to_owned() };
    assert_eq!(h.state_of(id).await, state);
}

pub async fn a_cancelled_job_is_never_claimed(h: &Harness) {
    let ready = h.enqueue(work()).await;
    let scheduled = h.enqueue(due_in(secs(5))).await;
    for id in [ready, scheduled] {
        cancel(h, id).await;
    }
    h.advance(minutes(1));
    assert_eq!(h.claim(10).await, []);
}

pub async fn a_scheduled_job_is_cancelled(h: &Harness) {
    let id = h.enqueue(due_in(minutes(5))).await;
    assert_eq!(cancel(h, id).await, CancelAnswer::Cancelled);
    assert_eq!(h.job_state_of(id).await, JobState::Cancelled);
}

pub async fn a_parked_job_is_cancelled_and_its_gate_lets_nothing_through(h: &Harness) {
    let id = h.parked_job("semaphore:screenshot").await;
    assert_eq!(cancel(h, id).await, CancelAnswer::Cancelled);
    let gate = windlass_core::gate::Gate::named("semaphore:screenshot");
    assert_eq!(h.engine.open_gate(&gate, 10).await.expect(UP).changed, 0);
    assert_eq!(h.job_state_of(id).await, JobState::Cancelled);
}

pub async fn a_running_job_is_asked_to_stop_and_goes_on_running(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    assert_eq!(cancel(h, claimed.job.id).await, CancelAnswer::Requested);
    let cancel_requested = Some("not needed".to_owned());
    let running = StoredState::Running { worker: h.worker, since: h.now(), cancel_requested };
    assert_eq!(h.state_of(claimed.job.id).await, running);
}

pub async fn a_heartbeat_brings_the_request_to_stop(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    h.enqueue_and_claim_one().await;
    cancel(h, claimed.job.id).await;
    assert_eq!(h.beat(h.worker).await, Liveness::Alive { cancel: vec![claimed.fence()] });
}

pub async fn a_heartbeat_brings_no_request_to_another_worker(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    cancel(h, claimed.job.id).await;
    let bystander = h.register_worker().await;
    assert_eq!(h.beat(bystander).await, Liveness::Alive { cancel: vec![] });
}

pub async fn a_heartbeat_brings_no_request_for_what_has_ended(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    cancel(h, claimed.job.id).await;
    h.succeed(&claimed).await;
    assert_eq!(h.beat(h.worker).await, Liveness::Alive { cancel: vec![] });
}

pub async fn a_question_brings_the_request_to_stop_like_a_heartbeat(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    h.enqueue_and_claim_one().await;
    assert_eq!(asked_to_stop(h, h.worker).await, []);
    cancel(h, claimed.job.id).await;
    assert_eq!(asked_to_stop(h, h.worker).await, [claimed.fence()]);
    assert_eq!(asked_to_stop(h, h.worker).await, [claimed.fence()], "until the job has ended");
    h.succeed(&claimed).await;
    assert_eq!(asked_to_stop(h, h.worker).await, []);
}

pub async fn a_question_brings_no_request_to_another_worker(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    cancel(h, claimed.job.id).await;
    let bystander = h.register_worker().await;
    let stranger = WorkerId::from_random(h.fresh_bits());
    assert_eq!(asked_to_stop(h, bystander).await, []);
    assert_eq!(asked_to_stop(h, stranger).await, []);
}

pub async fn a_question_is_no_sign_of_life(h: &Harness) {
    let before = h.suspect(h.worker).await.beats;
    asked_to_stop(h, h.worker).await;
    assert_eq!(h.suspect(h.worker).await.beats, before);
}

async fn asked_to_stop(h: &Harness, worker: WorkerId) -> Vec<Fence> {
    h.engine.asked_to_stop(worker).await.expect(UP)
}

pub async fn whatever_the_handler_returns_a_requested_cancel_wins(h: &Harness) {
    let transitions = [
        Transition::Succeed { result: None },
        Transition::Retry { after: secs(1), error: oops() },
        Transition::Bury { error: oops() },
        Transition::Snooze { after: secs(1) },
        Transition::Release { started: true },
        Transition::Cancel { why: "stopped".to_owned() },
    ];
    for transition in transitions {
        let claimed = h.enqueue_and_claim_one().await;
        cancel(h, claimed.job.id).await;
        let id = h.end(&claimed, transition).await;
        assert_eq!(h.why_cancelled(id).await, "not needed");
        assert_eq!(h.attempt_of(id).await.ending, AttemptEnding::Cancelled);
    }
}

/// Storing progress makes some stores read the job as it is after the request, and not as it was claimed.
pub async fn a_requested_cancel_wins_over_an_end_after_a_word_about_progress(h: &Harness) {
    let ends = [Transition::Succeed { result: None }, Transition::Retry { after: secs(1), error: oops() }];
    for (kind, end) in [WORK, FLEETING].into_iter().flat_map(|kind| ends.clone().map(|end| (kind, end))) {
        let before = h.totals().await.cancelled;
        h.enqueue(job_of(kind)).await;
        let claimed = h.claim_one().await;
        cancel(h, claimed.job.id).await;
        let progress = Progress { percent: 50, note: None };
        h.engine.report(vec![(claimed.fence(), progress)]).await.expect(UP);
        if kind == FLEETING {
            h.succeed_leaving_nothing().await;
        }
        h.end(&claimed, end.clone()).await;
        assert_eq!(h.totals().await.cancelled, before + 1, "{kind}: {end:?}");
    }
}

pub async fn a_requested_cancel_wins_over_the_death_of_the_worker(h: &Harness) {
    let victim = h.register_worker().await;
    let id = h.enqueue(work()).await;
    h.claim_one_as(victim).await;
    cancel(h, id).await;
    h.kill(victim).await;
    assert_eq!(h.why_cancelled(id).await, "not needed");
}

pub async fn a_requested_cancel_wins_over_a_worker_that_leaves(h: &Harness) {
    let leaver = h.register_worker().await;
    let id = h.enqueue(work()).await;
    h.claim_one_as(leaver).await;
    cancel(h, id).await;
    h.engine.retire(leaver).await.expect(UP);
    assert_eq!(h.why_cancelled(id).await, "not needed");
}

pub async fn a_second_request_to_stop_changes_nothing(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    cancel(h, claimed.job.id).await;
    assert_eq!(cancel(h, claimed.job.id).await, CancelAnswer::Requested);
}

pub async fn what_has_ended_is_not_cancelled_and_the_answer_says_how_it_ended(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    let succeeded = h.succeed(&claimed).await;
    let dead = h.dead_letter().await;
    let cancelled = h.enqueue(work()).await;
    cancel(h, cancelled).await;
    for (id, job_state) in
        [(succeeded, JobState::Succeeded), (dead, JobState::Dead), (cancelled, JobState::Cancelled)]
    {
        assert_eq!(cancel(h, id).await, CancelAnswer::AlreadyEnded(job_state));
        assert_eq!(h.job_state_of(id).await, job_state);
    }
}

pub async fn a_cancel_of_nothing_is_not_found(h: &Harness) {
    assert_eq!(cancel(h, JobId(987_654_321)).await, CancelAnswer::NotFound);
}

pub async fn nothing_is_kept_of_a_cancelled_job_without_retention(h: &Harness) {
    let id = h.enqueue(job_of(FLEETING)).await;
    cancel(h, id).await;
    assert!(!h.exists(id).await);
    assert_eq!(h.totals().await.cancelled, 1);
}

pub async fn a_cancel_and_a_claim_at_once_never_both_win(h: &Harness) {
    for _ in 0..20 {
        let id = h.enqueue(work()).await;
        let calls = [Some(h.claim_request(1)), None].map(|request| {
            let engine = h.engine.clone();
            async move {
                match request {
                    Some(request) => !nothing_in(engine.claim(request).await.expect(UP)),
                    None => engine.cancel(id, "not needed").await.expect(UP) == CancelAnswer::Cancelled,
                }
            }
        });
        let won = h.at_once(calls.into()).await;
        assert!(won[0] != won[1], "claimed: {}, cancelled while it waited: {}", won[0], won[1]);
    }
}

fn nothing_in(answer: ClaimAnswer) -> bool {
    matches!(answer, ClaimAnswer::Claimed { jobs, .. } if jobs.is_empty())
}
