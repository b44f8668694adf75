//! The test worker: a whole queue in the calling task, on a clock that the test moves.

use std::sync::Arc;
use std::time::Duration;

use windlass::testing::TestWorker;
use windlass::types::admin::AttemptEnding;
use windlass::types::enqueue::{NewJob, When};
use windlass::types::job::JobState;
use windlass::types::names::CorrelationId;
use windlass::types::priority::Priority;
use windlass::{EnqueueError, Handlers, RetryPolicy, WorkerOptions};

use crate::jobs::{Mail, Work, mail, work};

const MINUTE: Duration = Duration::from_secs(60);

fn worker() -> TestWorker {
    TestWorker::new(Handlers::new("hello").handle(work).handle(mail))
}

fn named(name: &str) -> Work {
    Work::Name(name.to_owned())
}

#[tokio::test]
async fn jobs_run_in_the_order_of_a_worker_with_one_slot() {
    let mut worker = worker();
    for (name, priority) in [("c", 9), ("a", 0), ("b", 5), ("d", 9)] {
        worker.client().enqueue(named(name)).priority(priority).await.unwrap();
    }
    let outputs: Vec<_> = worker.run().await.iter().map(|ran| ran.output().to_owned()).collect();
    assert_eq!(outputs, ["hello a\n", "hello b\n", "hello c\n", "hello d\n"]);
    assert!(worker.run().await.is_empty(), "nothing is due any more");
}

#[tokio::test]
async fn follow_up_jobs_run_too_in_their_turn() {
    let mut worker = worker();
    worker.client().enqueue(Work::PutInMail { user: 7 }).correlation("order 12").await.unwrap();
    let ran = worker.run().await;
    assert_eq!(ran[0].follow_ups_of::<Mail>(), [Mail { user: 7 }]);
    assert_eq!(ran[1].output(), "to 7\n");
    assert_eq!(ran[1].job.correlation, CorrelationId::parse("order 12").ok());
}

#[tokio::test]
async fn nothing_runs_before_it_is_due_and_the_clock_is_the_tests() {
    let mut worker = worker();
    let id = worker.client().enqueue(named("later")).delay(MINUTE * 60).await.unwrap().id;
    assert!(worker.run().await.is_empty());
    assert_eq!(worker.job(id).job_state(), JobState::Scheduled);
    worker.advance(MINUTE * 59);
    assert!(worker.run().await.is_empty());
    worker.advance(MINUTE);
    assert_eq!(worker.run().await.len(), 1);
    assert_eq!(worker.job(id).job_state(), JobState::Succeeded);
}

#[tokio::test]
async fn retries_of_hours_are_over_in_an_instant() {
    let mut worker = worker();
    let id = worker.client().enqueue(Work::FailUntil(3)).await.unwrap().id;
    let ran = worker.run_for(MINUTE * 60).await;
    assert_eq!(ran.iter().map(|ran| ran.job.counters.attempts).collect::<Vec<_>>(), [1, 2, 3]);
    let endings: Vec<_> = worker.attempts(id).iter().map(|attempt| attempt.ending).collect();
    assert_eq!(endings, [AttemptEnding::Failed, AttemptEnding::Failed, AttemptEnding::Succeeded]);
    let between = worker.attempts(id)[1].started_at.since(worker.attempts(id)[0].started_at);
    assert_eq!(between, MINUTE);
}

#[tokio::test]
async fn run_for_ends_with_the_clock_at_the_end_of_the_span() {
    let mut worker = worker();
    let start = windlass::types::clock::Clock::now(worker.clock());
    worker.client().enqueue(named("too late")).delay(MINUTE * 61).await.unwrap();
    assert!(worker.run_for(MINUTE * 60).await.is_empty());
    assert_eq!(windlass::types::clock::Clock::now(worker.clock()).since(start), MINUTE * 60);
}

#[tokio::test]
async fn the_last_errors_can_be_read() {
    let mut worker = worker();
    let enqueue = worker.client().enqueue(Work::FailUntil(9)).key("k").retry(RetryPolicy::Never);
    let id = enqueue.await.unwrap().id;
    worker.run().await;
    let errors = worker.last_errors();
    assert_eq!((errors[0].job, errors[0].error.text.as_str()), (id, "attempt 1"));
    assert_eq!(errors[0].key.as_ref().map(|key| key.as_str()), Some("k"));
    assert_eq!(worker.job(id).job_state(), JobState::Dead);
}

#[tokio::test]
async fn what_expired_is_cancelled_and_what_is_past_its_retention_is_gone() {
    let mut worker = worker();
    let id = worker.client().enqueue(named("x")).delay(MINUTE * 2).expires_in(MINUTE).await.unwrap().id;
    assert!(worker.run_for(MINUTE * 5).await.is_empty());
    assert_eq!(worker.job(id).job_state(), JobState::Cancelled);
    worker.run_for(MINUTE * 60 * 24 * 8).await;
    assert_eq!(worker.client().job(id).await.unwrap(), None);
}

#[tokio::test]
async fn a_worker_that_was_idle_for_days_still_gets_its_jobs() {
    let mut worker = worker();
    worker.client().enqueue(named("x")).delay(MINUTE * 60 * 24 * 3).await.unwrap();
    assert_eq!(worker.run_for(MINUTE * 60 * 24 * 4).await.len(), 1);
}

#[tokio::test]
async fn what_was_enqueued_can_be_read_typed_and_asserted() {
    let mut worker = worker();
    worker.client().enqueue(Mail { user: 1 }).await.unwrap();
    worker.client().enqueue(Mail { user: 2 }).delay(MINUTE).await.unwrap();
    worker.run().await;
    assert_eq!(worker.enqueued::<Mail>(), [Mail { user: 1 }, Mail { user: 2 }]);
    assert_eq!(worker.waiting::<Mail>(), [Mail { user: 2 }]);
    assert_eq!(worker.assert_enqueued::<Mail>(|mail| mail.user > 1), Mail { user: 2 });
}

#[tokio::test]
async fn more_than_a_page_of_jobs_is_read_in_order() {
    let worker = worker();
    let jobs = (0..450).map(|user| Mail { user });
    worker.client().enqueue_many(jobs).await.unwrap();
    let users: Vec<_> = worker.enqueued::<Mail>().iter().map(|mail| mail.user).collect();
    assert_eq!(users, (0..450).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_failed_assertion_lists_what_there_is() {
    let worker = worker();
    worker.client().enqueue(Mail { user: 1 }).delay(MINUTE).key("mail:1").await.unwrap();
    worker.client().enqueue(named("other")).await.unwrap();
    let assertion = std::panic::AssertUnwindSafe(|| worker.assert_enqueued::<Mail>(|mail| mail.user == 9));
    let panic = std::panic::catch_unwind(assertion).unwrap_err();
    let text = panic.downcast_ref::<String>().unwrap();
    assert!(text.contains(r#"job 1 mail scheduled {"user":1} due in 1m key mail:1"#), "{text}");
    assert!(text.contains("Other jobs") && text.contains("job 2 work ready"), "{text}");
}

#[tokio::test]
async fn a_type_without_a_handler_is_refused_until_it_is_registered() {
    let worker = TestWorker::new(Handlers::new(()));
    let refused = worker.client().enqueue(Mail { user: 1 }).await;
    assert!(matches!(refused, Err(EnqueueError::Refused(_))), "{refused:?}");
    worker.client().register::<Mail>().await.unwrap();
    worker.client().enqueue(Mail { user: 1 }).await.unwrap();
    assert_eq!(worker.waiting::<Mail>().len(), 1);
}

/// A hook: mail to users with a number above 100 is less urgent, and mail to user 13 waits.
fn sorts_mail(job: &mut NewJob) {
    let mail: Mail = job.payload.decode().expect("only mail is enqueued");
    job.priority = Priority::new(if mail.user > 100 { 9 } else { 1 }).ok();
    if mail.user == 13 {
        job.when = When::In(MINUTE);
    }
}

#[tokio::test]
async fn a_hook_at_enqueue_computes_the_priority_and_adds_a_delay() {
    let options = WorkerOptions { enqueue_hooks: vec![Arc::new(sorts_mail)], ..WorkerOptions::default() };
    let mut worker = TestWorker::with_options(Handlers::new(()).handle(mail), options);
    for user in [101, 13, 7] {
        worker.client().enqueue(Mail { user }).await.unwrap();
    }
    let outputs: Vec<_> = worker.run().await.iter().map(|ran| ran.output().to_owned()).collect();
    assert_eq!(outputs, ["to 7\n", "to 101\n"]);
    worker.advance(MINUTE);
    assert_eq!(worker.run().await[0].output(), "to 13\n");
}

#[tokio::test]
#[should_panic(expected = "expected rest within 10000 runs")]
async fn a_job_that_puts_itself_in_for_ever_is_reported() {
    let mut worker = worker();
    worker.client().enqueue(Work::PutInItself).await.unwrap();
    worker.run().await;
}
