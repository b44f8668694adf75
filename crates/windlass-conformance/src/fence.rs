//! A worker that lost its claim can change nothing, and a worker whose answer was lost can repeat its
//! request.

#![allow(missing_docs, reason = "the name of a behaviour is its sentence")]

use windlass_core::admin::StoredJob;
use windlass_core::claim::{ClaimToken, Claimed, Fence};
use windlass_core::enqueue::NewJob;
use windlass_core::job::{JobId, JobState, Progress};
use windlass_core::settle::{AttemptReport, Settled, Transition};

use crate::harness::*;

/// Returns a claim whose worker was declared dead, and the claim of the worker that holds the job now.
async fn stale_and_current(h: &Harness) -> (Claimed, Claimed) {
    stale_and_current_of(h, work()).await
}

/// Returns a stale and a current claim, like [`stale_and_current`], for a given job.
async fn stale_and_current_of(h: &Harness, job: NewJob) -> (Claimed, Claimed) {
    let victim = h.register_worker().await;
    h.enqueue(job).await;
    let stale = h.claim_one_as(victim).await;
    h.kill(victim).await;
    let current = h.claim_suspect().await.expect("the rescued job is a suspect");
    assert_eq!(stale.job.id, current.job.id);
    (stale, current)
}

fn every_transition() -> [Transition; 8] {
    [
        Transition::Succeed { result: None },
        Transition::Retry { after: secs(1), error: oops() },
        Transition::Snooze { after: secs(1) },
        Transition::Park { gate: windlass_core::gate::Gate::named("semaphore:x") },
        Transition::Bury { error: oops() },
        Transition::Cancel { why: "enough".to_owned() },
        Transition::Release { started: true },
        Transition::Release { started: false },
    ]
}

async fn seen(h: &Harness, id: JobId) -> (StoredJob, usize) {
    (h.record(id).await, h.attempts_of(id).await.len())
}

pub async fn a_stale_end_of_any_kind_changes_nothing(h: &Harness) {
    let (stale, current) = stale_and_current(h).await;
    let before = seen(h, current.job.id).await;
    for transition in every_transition() {
        assert_eq!(h.settle(&stale, transition.clone()).await, Settled::ClaimLost, "{transition:?}");
        assert_eq!(seen(h, current.job.id).await, before, "{transition:?}");
    }
}

pub async fn a_stale_end_changes_no_count(h: &Harness) {
    let (stale, _current) = stale_and_current(h).await;
    let before = h.status_of(MAIN).await;
    for transition in every_transition() {
        h.settle(&stale, transition).await;
    }
    assert_eq!(h.status_of(MAIN).await, before);
}

pub async fn a_stale_success_of_a_type_that_keeps_nothing_is_lost(h: &Harness) {
    let (stale, current) = stale_and_current_of(h, job_of(FLEETING)).await;
    h.succeed_leaving_nothing().await;
    assert_eq!(h.settle(&stale, Transition::Succeed { result: None }).await, Settled::ClaimLost);
    assert_eq!(h.job_state_of(current.job.id).await, JobState::Running);
    h.succeed(&current).await;
    assert_eq!(h.totals().await.succeeded, 2);
}

pub async fn stale_progress_changes_nothing(h: &Harness) {
    let (stale, current) = stale_and_current(h).await;
    let progress = Progress { percent: 99, note: None };
    let answer = h.engine.report(vec![(stale.fence(), progress)]).await.expect(UP);
    assert_eq!(answer, [Settled::ClaimLost]);
    assert_eq!(h.record(current.job.id).await.job.progress, None);
}

pub async fn the_current_owner_ends_the_job_after_a_stale_try(h: &Harness) {
    let (stale, current) = stale_and_current(h).await;
    h.settle(&stale, Transition::Bury { error: oops() }).await;
    let id = h.succeed(&current).await;
    assert_eq!(h.job_state_of(id).await, JobState::Succeeded);
}

pub async fn a_stale_end_after_the_owners_end_changes_nothing(h: &Harness) {
    let (stale, current) = stale_and_current(h).await;
    let id = h.succeed(&current).await;
    let before = seen(h, id).await;
    assert_eq!(h.settle(&stale, Transition::Bury { error: oops() }).await, Settled::ClaimLost);
    assert_eq!(seen(h, id).await, before);
}

pub async fn an_end_by_a_worker_declared_dead_is_lost_even_without_a_claim_since(h: &Harness) {
    let victim = h.register_worker().await;
    h.enqueue(work()).await;
    let stale = h.claim_one_as(victim).await;
    h.kill(victim).await;
    assert_eq!(h.settle(&stale, Transition::Succeed { result: None }).await, Settled::ClaimLost);
    assert_eq!(h.job_state_of(stale.job.id).await, JobState::Parked);
}

pub async fn an_end_after_the_lease_but_before_a_rescue_is_taken(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    h.let_leases_run_out();
    let id = h.succeed(&claimed).await;
    assert_eq!(h.job_state_of(id).await, JobState::Succeeded);
}

pub async fn an_end_with_an_invented_token_is_lost(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    let forged = Claimed { token: ClaimToken::from_random(h.fresh_bits()), ..claimed.clone() };
    assert_eq!(h.settle(&forged, Transition::Succeed { result: None }).await, Settled::ClaimLost);
    assert_eq!(h.job_state_of(claimed.job.id).await, JobState::Running);
}

pub async fn an_end_of_a_job_that_never_was_is_lost(h: &Harness) {
    let mut claimed = h.enqueue_and_claim_one().await;
    claimed.job.id = JobId(claimed.job.id.0 + 1_000);
    assert_eq!(h.settle(&claimed, Transition::Succeed { result: None }).await, Settled::ClaimLost);
}

pub async fn an_end_of_a_waiting_job_is_lost(h: &Harness) {
    let id = h.enqueue(work()).await;
    let fence = Fence { job: id, token: ClaimToken::from_random(h.fresh_bits()) };
    let (transition, report) = (Transition::Succeed { result: None }, AttemptReport::default());
    let settlement = windlass_core::settle::Settlement { fence, transition, report };
    assert_eq!(h.settle_with(settlement).await, Settled::ClaimLost);
    assert_eq!(h.job_state_of(id).await, JobState::Ready);
}

pub async fn the_token_of_one_claim_ends_only_its_own_jobs(h: &Harness) {
    let first = h.enqueue_and_claim_one().await;
    let second = h.enqueue_and_claim_one().await;
    let crossed = Claimed { token: first.token, ..second.clone() };
    assert_eq!(h.settle(&crossed, Transition::Succeed { result: None }).await, Settled::ClaimLost);
    assert_eq!(h.job_state_of(second.job.id).await, JobState::Running);
}

pub async fn a_repeated_end_of_any_kind_is_applied_once(h: &Harness) {
    for transition in every_transition() {
        let claimed = h.enqueue_and_claim_one().await;
        let id = h.end(&claimed, transition.clone()).await;
        let before = seen(h, id).await;
        assert_eq!(h.settle(&claimed, transition.clone()).await, Settled::Applied, "{transition:?}");
        assert_eq!(seen(h, id).await, before, "{transition:?}");
        h.engine.cancel(id, "make room for the next").await.expect(UP);
    }
}

pub async fn a_repeated_end_changes_no_count(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    h.fail(&claimed, secs(9)).await;
    let before = h.status_of(MAIN).await;
    h.fail(&claimed, secs(9)).await;
    assert_eq!(h.status_of(MAIN).await, before);
}

pub async fn a_repeated_end_is_applied_even_if_the_job_runs_again(h: &Harness) {
    let first = h.enqueue_and_claim_one().await;
    h.fail(&first, secs(1)).await;
    h.advance(secs(1));
    let second = h.claim_one().await;
    h.fail(&first, secs(1)).await;
    assert_eq!(h.job_state_of(second.job.id).await, JobState::Running, "the new attempt is not disturbed");
}

pub async fn a_repeated_success_is_applied_even_if_nothing_is_kept_of_the_job(h: &Harness) {
    h.enqueue(job_of(FLEETING)).await;
    let claimed = h.claim_one().await;
    h.succeed(&claimed).await;
    h.succeed(&claimed).await;
    assert_eq!(h.totals().await.succeeded, 1);
}

pub async fn one_stale_end_in_a_batch_spoils_no_other(h: &Harness) {
    let (stale, current) = stale_and_current(h).await;
    let fresh = h.enqueue_and_claim_one().await;
    let end =
        |claimed: Claimed| claimed.settled(Transition::Succeed { result: None }, AttemptReport::default());
    let batch = vec![end(fresh.clone()), end(stale), end(current.clone())];
    let answers = h.engine.settle(batch).await.expect(UP);
    assert_eq!(answers, [Settled::Applied, Settled::ClaimLost, Settled::Applied]);
    assert_eq!(h.job_state_of(fresh.job.id).await, JobState::Succeeded);
    assert_eq!(h.job_state_of(current.job.id).await, JobState::Succeeded);
}

pub async fn two_ends_at_once_under_one_token_are_one_end(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    let calls = (0..4).map(|_| {
        let (engine, claimed) = (h.engine.clone(), claimed.clone());
        async move {
            let end = claimed.settled(Transition::Succeed { result: None }, AttemptReport::default());
            only(engine.settle(vec![end]).await.expect(UP))
        }
    });
    assert_eq!(h.at_once(calls.collect()).await, [Settled::Applied; 4]);
    assert_eq!(h.totals().await.succeeded, 1);
}

pub async fn progress_after_the_end_is_lost(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    let id = h.release(&claimed).await;
    let progress = Progress { percent: 50, note: None };
    let answer = h.engine.report(vec![(claimed.fence(), progress)]).await.expect(UP);
    assert_eq!(answer, [Settled::ClaimLost]);
    assert_eq!(h.record(id).await.job.progress, None);
}

pub async fn an_operators_retry_does_not_bring_an_old_token_back(h: &Harness) {
    let first = h.enqueue_and_claim_one().await;
    let id = h.bury(&first).await;
    h.engine.retry(id).await.expect(UP);
    let second = h.claim_one().await;
    assert_eq!(second.job.counters.attempts, 1, "the counter value is issued again, the token is not");
    h.settle(&first, Transition::Succeed { result: None }).await;
    assert_eq!(h.job_state_of(id).await, JobState::Running);
}

pub async fn two_ends_of_one_job_in_one_batch_are_one_end(h: &Harness) {
    let before = h.counts().await.unfinished();
    for (name, first) in
        [(WORK, Transition::Succeed { result: None }), (WORK, Transition::Snooze { after: secs(9) })]
    {
        h.enqueue(job_of(name)).await;
        let claimed = h.claim_one().await;
        let end = |transition| claimed.clone().settled(transition, AttemptReport::default());
        let mut stranger = end(Transition::Bury { error: oops() });
        stranger.fence.token = ClaimToken::from_random(h.fresh_bits());
        let batch = vec![end(first), end(Transition::Bury { error: oops() }), stranger];
        let answers = h.engine.settle(batch).await.expect(UP);
        assert_eq!(answers, [Settled::Applied, Settled::Applied, Settled::ClaimLost]);
        assert_eq!(h.totals().await.dead, 0, "the second is a repeat, whatever it says");
    }
    assert_eq!((h.totals().await.succeeded, h.counts().await.unfinished()), (1, before + 1));
}

pub async fn a_repeated_end_is_applied_whatever_became_of_the_job_since(h: &Harness) {
    for name in [WORK, FLEETING] {
        h.enqueue(job_of(name)).await;
        let cancelled = h.claim_one().await;
        h.fail(&cancelled, minutes(9)).await;
        h.engine.cancel(cancelled.job.id, "not needed").await.expect(UP);
        h.fail(&cancelled, minutes(9)).await;
    }
    let started_over = h.enqueue_and_claim_one().await;
    h.bury(&started_over).await;
    h.engine.retry(started_over.job.id).await.expect(UP);
    h.bury(&started_over).await;
    assert_eq!(h.job_state_of(started_over.job.id).await, JobState::Ready, "a repeat makes no job dead");
    h.engine.cancel(started_over.job.id, "make room for the next").await.expect(UP);
}

pub async fn a_repeated_end_is_applied_even_if_the_next_worker_died_with_the_job(h: &Harness) {
    let first = h.enqueue_and_claim_one().await;
    h.fail(&first, secs(0)).await;
    h.crash_once().await;
    h.fail(&first, secs(0)).await;
    h.crash_suspect().await;
    assert_eq!(h.crash_suspect().await.buried, [first.job.id]);
    h.fail(&first, secs(0)).await;
    assert_eq!(h.job_state_of(first.job.id).await, JobState::Dead);
}

pub async fn only_the_last_end_of_a_job_is_remembered(h: &Harness) {
    let ends = [
        Transition::Succeed { result: None },
        Transition::Bury { error: oops() },
        Transition::Cancel { why: "enough".to_owned() },
        Transition::Snooze { after: secs(60) },
    ];
    for last in ends {
        let first = h.enqueue_and_claim_one().await;
        h.fail(&first, secs(0)).await;
        let second = h.claim_one().await;
        h.end(&second, last.clone()).await;
        let retry = Transition::Retry { after: secs(0), error: oops() };
        assert_eq!(h.settle(&first, retry).await, Settled::ClaimLost, "{last:?}");
        assert_eq!(h.settle(&second, last.clone()).await, Settled::Applied, "{last:?}");
    }
}
