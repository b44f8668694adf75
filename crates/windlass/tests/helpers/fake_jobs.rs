//! A single handler, run on a made-up job.

use std::time::Duration;

use windlass::testing::{FakeJob, run_handler};
use windlass::types::job::Counters;
use windlass::types::names::CorrelationId;
use windlass::types::outcome::{AttemptOutcome, ErrorKind};
use windlass::types::settle::Transition;

use crate::jobs::{Mail, Work, work};

#[tokio::test]
async fn a_handler_tells_its_outcome_its_output_and_its_progress() {
    let ran = run_handler(work, Work::Name("Ada".to_owned()), "hello").await;
    assert_eq!(ran.outcome, AttemptOutcome::Done(None));
    assert_eq!(ran.output(), "hello Ada\n");
    assert_eq!(ran.progress.map(|progress| progress.percent), Some(50));
}

#[tokio::test]
async fn follow_up_jobs_of_any_type_are_noted_and_not_run() {
    let job = FakeJob::new(Work::PutInMail { user: 7 })
        .change(|job| job.correlation = CorrelationId::parse("order 12").ok());
    let ran = run_handler(work, job, "").await;
    assert_eq!(ran.follow_ups_of::<Mail>(), [Mail { user: 7 }]);
    assert_eq!(ran.follow_ups[0].correlation, CorrelationId::parse("order 12").ok());
    let same_type = run_handler(work, Work::PutInItself, "").await;
    assert_eq!(same_type.follow_ups_of::<Work>(), [Work::PutInItself]);
}

#[tokio::test]
async fn the_attempt_of_a_fake_job_decides_what_the_handler_and_the_policy_see() {
    let second = run_handler(work, FakeJob::new(Work::FailUntil(9)).attempt(2), "").await;
    assert_eq!(second.error().unwrap().text, "attempt 2");
    assert!(matches!(second.transition, Transition::Retry { after, .. } if after == Duration::from_secs(60)));
    let last = run_handler(work, FakeJob::new(Work::FailUntil(9)).attempt(4), "").await;
    assert!(matches!(last.transition, Transition::Bury { .. }), "{:?}", last.transition);
}

#[tokio::test]
async fn counters_can_be_set_one_by_one() {
    let fresh_failures = |job: &mut windlass::types::job::Job| {
        job.counters = Counters { attempts: 8, ..Counters::default() };
    };
    let ran = run_handler(work, FakeJob::new(Work::FailUntil(9)).change(fresh_failures), "").await;
    assert_eq!(ran.error().unwrap().text, "attempt 8");
    assert!(matches!(ran.transition, Transition::Retry { .. }));
}

#[tokio::test]
async fn a_panic_is_an_outcome() {
    let ran = run_handler(work, Work::Panic, "").await;
    assert_eq!(ran.error().unwrap().kind, ErrorKind::Panicked);
}

#[tokio::test]
async fn a_fake_job_can_be_asked_to_stop() {
    let ran = run_handler(work, FakeJob::new(Work::WaitForCancel).cancelled(), "").await;
    assert_eq!(ran.outcome, AttemptOutcome::Discard("as you wish".to_owned()));
}
