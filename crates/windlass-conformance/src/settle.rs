//! The state to which each transition takes a job, and what is stored of the attempt.

#![allow(missing_docs, reason = "the name of a behaviour is its sentence")]

use windlass_core::admin::AttemptEnding;
use windlass_core::error::EngineError;
use windlass_core::gate::Gate;
use windlass_core::job::{Counters, JobState, Progress, StoredState};
use windlass_core::limits::{OUTPUT_BYTES_MAX, RESULT_BYTES_MAX, SETTLE_BATCH_MAX};
use windlass_core::settle::{AttemptReport, Settled, Transition};

use crate::harness::*;

fn counted(attempts: u32, failures: u32, holds: u32) -> Counters {
    Counters { attempts, failures, crashes: 0, holds }
}

pub async fn success_ends_a_job(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    h.advance(secs(3));
    let id = h.succeed(&claimed).await;
    assert_eq!(h.state_of(id).await, StoredState::Succeeded { at: h.now(), result: None });
    assert_eq!(h.counters_of(id).await, counted(1, 0, 0));
}

pub async fn a_result_is_kept_if_its_type_says_so(h: &Harness) {
    h.enqueue(job_of(KEPT)).await;
    let claimed = h.claim_one().await;
    let result = Some(r#"{"sum": 7}"#.to_owned());
    let id = h.end(&claimed, Transition::Succeed { result: result.clone() }).await;
    assert_eq!(h.state_of(id).await, StoredState::Succeeded { at: h.now(), result });
}

pub async fn a_result_is_not_kept_by_default(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    let id = h.end(&claimed, Transition::Succeed { result: Some("7".to_owned()) }).await;
    assert_eq!(h.state_of(id).await, StoredState::Succeeded { at: h.now(), result: None });
}

pub async fn a_retry_waits_for_its_delay_and_counts_a_failure(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    h.advance(secs(3));
    let id = h.fail(&claimed, secs(20)).await;
    let record = h.record(id).await;
    assert_eq!((record.job_state(), record.job.due), (JobState::Scheduled, h.now().plus(secs(20))));
    assert_eq!(record.job.counters, counted(1, 1, 0));
    assert_eq!(record.last_error, Some(oops()));
}

pub async fn a_snooze_costs_a_hold_and_no_failure(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    let id = h.end(&claimed, Transition::Snooze { after: secs(20) }).await;
    let record = h.record(id).await;
    assert_eq!((record.job_state(), record.job.due), (JobState::Scheduled, h.now().plus(secs(20))));
    assert_eq!(record.job.counters, counted(1, 0, 1));
}

pub async fn parking_takes_the_attempt_back_and_keeps_the_due_time(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    h.advance(secs(3));
    let id = h.park(&claimed, "semaphore:screenshot").await;
    let record = h.record(id).await;
    assert_eq!(record.state, StoredState::Waiting { gate: Some(Gate::named("semaphore:screenshot")) });
    assert_eq!((record.job_state(), record.job.due), (JobState::Parked, claimed.job.due));
    assert_eq!(record.job.counters, counted(0, 0, 1));
}

pub async fn burial_makes_a_dead_letter_with_its_error(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    let id = h.bury(&claimed).await;
    assert_eq!(h.state_of(id).await, StoredState::Dead { at: h.now(), error: oops() });
    assert_eq!(h.counters_of(id).await, counted(1, 1, 0));
    assert_eq!(h.record(id).await.last_error, Some(oops()));
}

pub async fn a_handler_may_end_its_job_as_cancelled(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    let why = "no longer wanted".to_owned();
    let id = h.end(&claimed, Transition::Cancel { why: why.clone() }).await;
    assert_eq!(h.state_of(id).await, StoredState::Cancelled { at: h.now(), why });
}

pub async fn a_job_given_back_is_ready_at_once_with_its_age(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    h.advance(secs(3));
    let id = h.release(&claimed).await;
    assert_eq!((h.job_state_of(id).await, h.record(id).await.job.due), (JobState::Ready, claimed.job.due));
    assert_eq!(h.claim_one().await.waited, secs(3));
}

pub async fn giving_back_what_had_started_costs_an_attempt_and_nothing_else(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    let id = h.end(&claimed, Transition::Release { started: true }).await;
    assert_eq!(h.counters_of(id).await, counted(1, 0, 0));
}

pub async fn giving_back_what_never_started_costs_nothing(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    let id = h.end(&claimed, Transition::Release { started: false }).await;
    assert_eq!(h.counters_of(id).await, counted(0, 0, 0));
    assert_eq!(h.attempts_of(id).await, []);
}

pub async fn a_running_attempt_is_shown(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    let attempt = h.attempt_of(claimed.job.id).await;
    assert_eq!((attempt.number, attempt.worker), (1, h.worker));
    assert_eq!((attempt.started_at, attempt.ended_at), (h.now(), None));
    assert_eq!((attempt.ending, attempt.error, attempt.output), (AttemptEnding::Running, None, None));
}

pub async fn a_finished_attempt_remembers_worker_times_error_and_output(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    h.advance(secs(4));
    let report = AttemptReport {
        ran_for: secs(4),
        output: Some("line 1\nline 2".to_owned()),
        ..AttemptReport::default()
    };
    let transition = Transition::Retry { after: secs(20), error: oops() };
    assert_applied(h.settle_with(claimed.clone().settled(transition, report)).await);
    let attempt = h.attempt_of(claimed.job.id).await;
    assert_eq!((attempt.number, attempt.worker), (1, h.worker));
    assert_eq!((attempt.started_at, attempt.ended_at), (claimed.job.enqueued_at, Some(h.now())));
    assert_eq!((attempt.ending, attempt.error), (AttemptEnding::Failed, Some(oops())));
    assert_eq!(attempt.output.as_deref(), Some("line 1\nline 2"));
}

pub async fn a_result_over_the_limit_is_not_kept_and_the_output_says_so(h: &Harness) {
    for written in [None, Some("line 1".to_owned()), Some("x".repeat(OUTPUT_BYTES_MAX))] {
        h.enqueue(job_of(KEPT)).await;
        let claimed = h.claim_one().await;
        let result = Some(format!("\"{}\"", "y".repeat(RESULT_BYTES_MAX)));
        let report = AttemptReport { output: written.clone(), ..AttemptReport::default() };
        let settlement = claimed.clone().settled(Transition::Succeed { result }, report);
        assert_applied(h.settle_with(settlement).await);
        let StoredState::Succeeded { result, .. } = h.state_of(claimed.job.id).await else {
            panic!("expected the job to have succeeded all the same");
        };
        assert_eq!(result, None);
        let output = h.attempt_of(claimed.job.id).await.output.expect("a line about the result");
        let (first, last) = (written.unwrap_or_default(), output.lines().last().unwrap_or_default());
        assert!(output.starts_with(&first[..first.len().min(6)]) && output.len() <= OUTPUT_BYTES_MAX);
        assert!(last.contains(&(RESULT_BYTES_MAX + 2).to_string()) && last.contains("not kept"), "{last}");
    }
}

pub async fn a_result_that_is_not_kept_may_be_of_any_size(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    let result = Some("y".repeat(RESULT_BYTES_MAX + 1));
    let id = h.end(&claimed, Transition::Succeed { result }).await;
    assert_eq!(h.attempt_of(id).await.output, None);
}

pub async fn every_way_to_end_an_attempt_is_remembered_as_itself(h: &Harness) {
    let endings = [
        (Transition::Succeed { result: None }, AttemptEnding::Succeeded),
        (Transition::Retry { after: minutes(9), error: oops() }, AttemptEnding::Failed),
        (Transition::Bury { error: oops() }, AttemptEnding::Dead),
        (Transition::Snooze { after: minutes(9) }, AttemptEnding::Snoozed),
        (Transition::Cancel { why: "enough".to_owned() }, AttemptEnding::Cancelled),
        (Transition::Release { started: true }, AttemptEnding::Released),
    ];
    for (transition, ending) in endings {
        let claimed = h.enqueue_and_claim_one().await;
        let id = h.end(&claimed, transition).await;
        assert_eq!(h.attempt_of(id).await.ending, ending);
    }
}

pub async fn parking_leaves_no_attempt(h: &Harness) {
    let id = h.parked_job("semaphore:screenshot").await;
    assert_eq!(h.attempts_of(id).await, []);
}

pub async fn attempts_are_numbered_and_listed_oldest_first(h: &Harness) {
    let id = h.enqueue(work()).await;
    for _ in 0..3 {
        let claimed = h.claim_one().await;
        h.fail(&claimed, secs(1)).await;
        h.advance(secs(1));
    }
    let attempts = h.attempts_of(id).await;
    assert_eq!(attempts.iter().map(|attempt| attempt.number).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(attempts.is_sorted_by_key(|attempt| attempt.started_at));
}

pub async fn the_last_error_stays_after_a_later_success(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    h.fail(&claimed, secs(1)).await;
    h.advance(secs(1));
    let again = h.claim_one().await;
    let id = h.succeed(&again).await;
    assert_eq!(h.record(id).await.last_error, Some(oops()));
}

pub async fn nothing_is_kept_of_a_finished_job_without_retention(h: &Harness) {
    h.enqueue(job_of(FLEETING)).await;
    let claimed = h.claim_one().await;
    let id = h.succeed(&claimed).await;
    assert!(!h.exists(id).await);
    assert_eq!(h.attempts_of(id).await, []);
    assert_eq!(h.totals().await.succeeded, 1);
}

pub async fn a_dead_letter_is_kept_whatever_the_retention(h: &Harness) {
    h.enqueue(job_of(FLEETING)).await;
    let claimed = h.claim_one().await;
    let id = h.bury(&claimed).await;
    assert_eq!(h.job_state_of(id).await, JobState::Dead);
}

pub async fn a_whole_batch_is_settled_in_its_order(h: &Harness) {
    h.enqueue_many(3).await;
    let claimed = h.claim(3).await;
    let transitions = [
        Transition::Succeed { result: None },
        Transition::Bury { error: oops() },
        Transition::Snooze { after: secs(1) },
    ];
    let batch = claimed.iter().cloned().zip(transitions);
    let batch = batch.map(|(claimed, end)| claimed.settled(end, AttemptReport::default())).collect();
    assert_eq!(h.engine.settle(batch).await.expect(UP), [Settled::Applied; 3]);
    let job_states = [JobState::Succeeded, JobState::Dead, JobState::Scheduled];
    for (claimed, job_state) in claimed.iter().zip(job_states) {
        assert_eq!(h.job_state_of(claimed.job.id).await, job_state);
    }
}

pub async fn an_empty_batch_settles_nothing(h: &Harness) {
    assert_eq!(h.engine.settle(vec![]).await.expect(UP), []);
}

pub async fn a_batch_of_ends_over_the_limit_is_refused_whole(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    let end = claimed.clone().settled(Transition::Succeed { result: None }, AttemptReport::default());
    let answer = h.engine.settle(vec![end; SETTLE_BATCH_MAX + 1]).await;
    assert!(matches!(answer, Err(EngineError::Refused(_))), "{answer:?}");
    assert_eq!(h.job_state_of(claimed.job.id).await, JobState::Running);
}

pub async fn progress_is_shown(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    let progress = Progress { percent: 40, note: Some("four of ten".to_owned()) };
    let answer = h.engine.report(vec![(claimed.fence(), progress.clone())]).await.expect(UP);
    assert_eq!(answer, [Settled::Applied]);
    assert_eq!(h.record(claimed.job.id).await.job.progress, Some(progress));
}

pub async fn progress_does_not_end_the_attempt(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    let progress = Progress { percent: 100, note: None };
    h.engine.report(vec![(claimed.fence(), progress)]).await.expect(UP);
    let id = h.succeed(&claimed).await;
    assert_eq!(h.job_state_of(id).await, JobState::Succeeded);
}

pub async fn a_job_that_fails_is_ready_again_exactly_after_its_delay(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    h.fail(&claimed, secs(20)).await;
    h.advance(secs(20) - std::time::Duration::from_micros(1));
    assert_eq!(h.claim(1).await, []);
    h.advance(std::time::Duration::from_micros(1));
    assert_eq!(h.claim_one().await.job.counters, counted(2, 1, 0));
}

pub async fn an_attempt_without_an_error_is_not_left_behind_by_a_type_that_keeps_nothing(h: &Harness) {
    for cancelled in [false, true] {
        h.enqueue(job_of(FLEETING)).await;
        let first = h.claim_one().await;
        let id = h.end(&first, Transition::Snooze { after: secs(0) }).await;
        assert_eq!(h.attempts_of(id).await.len(), 1);
        let second = h.claim_one().await;
        if cancelled {
            h.engine.cancel(id, "not needed").await.expect(UP);
        }
        h.succeed(&second).await;
        assert_eq!(h.attempts_of(id).await, []);
    }
}
