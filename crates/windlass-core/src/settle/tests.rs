use super::*;
use crate::job::JobId;
use crate::names::{QueueName, TypeName};
use crate::payload::Payload;
use crate::priority::Priority;

const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);
const DUE: Timestamp = Timestamp::from_micros(500_000_000);
const MINUTE: Duration = Duration::from_secs(60);

fn job(failures: u32) -> Job {
    Job {
        id: JobId(1),
        job_type: TypeName::parse("test").unwrap(),
        queue: QueueName::parse("default").unwrap(),
        payload: Payload::default(),
        priority: Priority::NORMAL,
        label: None,
        enqueued_at: DUE,
        due: DUE,
        expires_at: None,
        key: None,
        ordering_key: None,
        fairness_key: None,
        correlation: None,
        tags: vec![],
        group: None,
        retry: None,
        provenance: Default::default(),
        timeout: None,
        counters: counted(failures + 1, failures, 0, 0),
        progress: None,
    }
}

fn counted(attempts: u32, failures: u32, crashes: u32, holds: u32) -> Counters {
    Counters { attempts, failures, crashes, holds }
}

fn oops() -> JobError {
    JobError::new(ErrorKind::Failed, "oops")
}

fn decide(failures: u32, outcome: AttemptOutcome) -> Transition {
    settle(&job(failures), outcome, &RetryPolicy::Fixed { every: MINUTE, attempts: 3 }, Duration::ZERO)
}

#[test]
fn success_ends_a_job() {
    assert_eq!(decide(0, AttemptOutcome::Done(None)), Transition::Succeed { result: None });
}

#[test]
fn a_failure_is_retried_until_the_policy_gives_up() {
    for failures in [0, 1] {
        let again = Transition::Retry { after: MINUTE, error: oops() };
        assert_eq!(decide(failures, AttemptOutcome::Failed(oops())), again);
    }
    assert_eq!(decide(2, AttemptOutcome::Failed(oops())), Transition::Bury { error: oops() });
}

#[test]
fn a_handler_may_choose_when_but_not_how_often() {
    let hour = Duration::from_secs(3600);
    assert_eq!(
        decide(0, AttemptOutcome::RetryIn(hour, oops())),
        Transition::Retry { after: hour, error: oops() }
    );
    assert_eq!(decide(2, AttemptOutcome::RetryIn(hour, oops())), Transition::Bury { error: oops() });
}

#[test]
fn an_absurd_delay_of_a_handler_is_capped() {
    let Transition::Snooze { after } = decide(0, AttemptOutcome::Snooze(Duration::MAX)) else {
        panic!("snoozes")
    };
    assert_eq!(after, DELAY_MAX);
}

#[test]
fn an_undecodable_payload_is_buried_at_once() {
    let error = JobError::new(ErrorKind::Undecodable, "missing field");
    assert_eq!(decide(0, AttemptOutcome::Failed(error.clone())), Transition::Bury { error });
}

#[test]
fn a_retry_counts_a_failure_and_moves_the_due_time() {
    let applied =
        Transition::Retry { after: MINUTE, error: oops() }.apply(NOW, DUE, counted(1, 0, 0, 0), None);
    assert_eq!(applied.counters, counted(1, 1, 0, 0));
    assert_eq!(applied.state, NewState::Waiting { due: NOW.plus(MINUTE), gate: None });
}

#[test]
fn a_snooze_costs_a_hold_and_no_failure() {
    let applied = Transition::Snooze { after: MINUTE }.apply(NOW, DUE, counted(1, 0, 0, 0), None);
    assert_eq!(applied.counters, counted(1, 0, 0, 1));
}

#[test]
fn parking_takes_the_attempt_back_and_keeps_the_due_time() {
    let gate = Gate::named("semaphore:screenshot");
    let applied = Transition::Park { gate: gate.clone() }.apply(NOW, DUE, counted(1, 0, 0, 0), None);
    assert_eq!(applied.counters, counted(0, 0, 0, 1));
    assert_eq!(applied.state, NewState::Waiting { due: DUE, gate: Some(gate) });
}

#[test]
fn giving_back_costs_an_attempt_only_if_the_handler_started() {
    for (started, attempts) in [(true, 1), (false, 0)] {
        let applied = Transition::Release { started }.apply(NOW, DUE, counted(1, 0, 0, 0), None);
        assert_eq!(applied.counters, counted(attempts, 0, 0, 0));
        assert_eq!(applied.state, NewState::Waiting { due: DUE, gate: None });
    }
}

#[test]
fn whatever_the_handler_returned_a_requested_cancel_wins() {
    let transitions = [
        Transition::Succeed { result: None },
        Transition::Retry { after: MINUTE, error: oops() },
        Transition::Bury { error: oops() },
        Transition::Release { started: true },
    ];
    for transition in transitions {
        let applied = transition.apply(NOW, DUE, Counters::default(), Some("not needed"));
        assert_eq!(applied.state, NewState::Cancelled { why: "not needed".to_owned() });
    }
}

#[test]
fn a_job_that_ever_crashed_waits_as_a_suspect() {
    for transition in
        [Transition::Retry { after: MINUTE, error: oops() }, Transition::Release { started: true }]
    {
        let applied = transition.apply(NOW, DUE, counted(2, 0, 1, 0), None);
        let NewState::Waiting { gate, .. } = applied.state else { panic!("waits") };
        assert_eq!(gate, Some(Gate::suspect()));
    }
}

#[test]
fn the_third_crash_buries_whatever_the_attempts() {
    for crashes in [0, 1] {
        let applied = after_crash(counted(1, 0, crashes, 0), DUE, 3, &[]);
        assert_eq!(applied.state, NewState::Waiting { due: DUE, gate: Some(Gate::suspect()) });
        assert_eq!(applied.counters.crashes, crashes + 1);
        assert_eq!(applied.counters.failures, 0, "a crash is no failure");
    }
    let NewState::Dead { error } = after_crash(counted(1, 0, 2, 0), DUE, 3, &[JobId(8)]).state else {
        panic!("dies")
    };
    assert_eq!(error.kind, ErrorKind::Crashed);
    assert!(error.text.contains("jobs 8 too"), "{}", error.text);
}

#[test]
fn a_requested_cancel_wins_over_a_crash_too() {
    let applied = after_crash(counted(1, 0, 0, 0), DUE, 3, &[]);
    assert_eq!(applied.clone().or_cancelled(None), applied);
    let cancelled = applied.or_cancelled(Some("not needed"));
    assert_eq!(cancelled.state, NewState::Cancelled { why: "not needed".to_owned() });
    assert_eq!(cancelled.counters.crashes, 1, "the crash still counts");
}

#[test]
fn an_attempt_that_is_reported_late_ended_before_the_report() {
    let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
    let seconds = Duration::from_secs;
    let report = AttemptReport { ran_for: seconds(4), ended_ago: seconds(10), output: None };
    assert_eq!(report.span(at(100)), (at(86), at(90)));
    assert_eq!(AttemptReport { ended_ago: seconds(0), ..report }.span(at(100)), (at(96), at(100)));
}
