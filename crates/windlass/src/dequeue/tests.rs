use serde::{Deserialize, Serialize};
use windlass_core::admin::StoredJob;
use windlass_core::claim::ClaimToken;
use windlass_core::job::{JobId, JobState};
use windlass_core::outcome::ErrorKind;
use windlass_engines::memory::MemoryEngine;

use super::*;
use crate::job_type::{JobType, spec_of};

#[derive(Serialize, Deserialize)]
struct Mail;

impl JobType for Mail {
    const NAME: &'static str = "mail";
}

const TIMEOUT: Duration = Duration::from_secs(120);

async fn consumer_with_a_job() -> (Consumer, HeldJob) {
    let options = WorkerOptions { stop_grace: Duration::ZERO, ..WorkerOptions::default() };
    let engine = Arc::new(MemoryEngine::new());
    let consumer = Consumer::start(engine, vec![spec_of::<Mail>().unwrap()], options).await.unwrap();
    consumer.client().enqueue(Mail).await.unwrap();
    match consumer.next_within(TIMEOUT).await {
        Next::Job(held) => (consumer, held),
        other => panic!("expected a job, got {other:?}"),
    }
}

async fn record(consumer: &Consumer, id: JobId) -> StoredJob {
    consumer.client().job(id).await.unwrap().unwrap()
}

/// Polls until the job no longer runs.
async fn settled(consumer: &Consumer, id: JobId) -> StoredJob {
    let look = async {
        while record(consumer, id).await.job_state() == JobState::Running {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TIMEOUT, look).await.expect("the job is settled");
    record(consumer, id).await
}

/// The settlements of the heartbeat thread for a job that has been held for far too long.
fn overdue(held: &HeldJob) -> Vec<windlass_core::settle::Settlement> {
    let overdue = held.ends.controls.overdue(Instant::now() + Duration::from_secs(1_000_000));
    assert_eq!(overdue.len(), 1);
    overdue
}

#[tokio::test]
async fn an_end_after_the_heart_settled_the_job_as_timed_out_is_answered_as_lost() {
    let (consumer, held) = consumer_with_a_job().await;
    let id = held.job().id;
    consumer.client().engine().settle(overdue(&held)).await.unwrap();
    assert_eq!(held.succeed().await, Ok(Settled::ClaimLost));
    assert_eq!(record(&consumer, id).await.last_error.unwrap().kind, ErrorKind::TimedOut);
}

#[tokio::test]
async fn an_end_after_one_from_outside_that_may_have_got_lost_is_still_a_time_out() {
    let (consumer, held) = consumer_with_a_job().await;
    let id = held.job().id;
    overdue(&held);
    assert_eq!(held.succeed().await, Ok(Settled::ClaimLost));
    assert_eq!(settled(&consumer, id).await.last_error.unwrap().kind, ErrorKind::TimedOut);
}

#[tokio::test]
async fn an_end_after_the_grace_of_a_stop_is_answered_as_lost() {
    let (consumer, held) = consumer_with_a_job().await;
    let id = held.job().id;
    // Both are in the inbox before the pool reads it, the stop first.
    consumer.request_stop();
    assert_eq!(held.succeed().await, Ok(Settled::ClaimLost));
    let record = settled(&consumer, id).await;
    assert_eq!(
        (record.job_state(), record.job.counters.failures),
        (JobState::Ready, 0),
        "the job was released"
    );
}

#[tokio::test]
async fn what_the_store_says_of_another_end_is_no_answer_to_the_holder() {
    let answers = Answers::default();
    let fence = Fence { job: JobId(1), token: ClaimToken::from_random(1) };
    let mut answer = answers.expect(fence);
    answers.stored(fence, Ok(Settled::Applied));
    assert!(answer.try_recv().is_err(), "its own end has not even arrived");
    answers.taken(fence);
    answers.stored(fence, Ok(Settled::Applied));
    assert_eq!(answer.await, Ok(Ok(Settled::Applied)));
}
