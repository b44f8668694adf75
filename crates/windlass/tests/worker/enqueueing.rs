//! Enqueue calls: what the caller gets.

use windlass::types::admin::ListRequest;
use windlass::types::enqueue::{EnqueueAnswer, EnqueueRequest, NewJob, Refusal, RequestId};
use windlass::types::error::EngineError;
use windlass::types::names::TypeName;
use windlass::types::payload::Payload;
use windlass::{EnqueueError, EnqueueOutcome, Handle, JobType};

use crate::bench::{Act, Bench};

fn draft() -> NewJob {
    let job_type = TypeName::parse(Act::NAME).expect("a valid name");
    NewJob::new(job_type, Payload::encode(&Act::Succeed).expect("a small payload"))
}

/// Sends a request of two jobs, as if its answer were lost.
async fn send_unanswered(bench: &Bench, request: RequestId) -> Vec<EnqueueAnswer> {
    bench
        .engine
        .enqueue(EnqueueRequest { request, jobs: vec![draft(), draft()] })
        .await
        .expect("the engine is up")
}

#[tokio::test]
async fn what_became_of_an_enqueue_without_an_answer_can_be_asked() {
    let bench = Bench::start().await;
    let request = RequestId::from_random(7);
    let stored = send_unanswered(&bench, request).await;
    let asked = bench.client.ask(Handle { request, position: 1 }).await.unwrap().unwrap();
    assert_eq!((Ok(asked.id), asked.outcome), (stored[1].job(), EnqueueOutcome::New));
}

#[tokio::test]
async fn an_enqueue_that_never_arrived_is_known_not_to_be_stored() {
    let bench = Bench::start().await;
    let handle = Handle { request: RequestId::from_random(8), position: 0 };
    assert_eq!(bench.client.ask(handle).await.unwrap(), None);
}

#[tokio::test]
async fn a_job_that_is_put_in_again_after_it_was_not_stored_is_there_once_though_the_first_request_arrives_late()
 {
    let bench = Bench::start().await;
    let request = RequestId::from_random(11);
    for position in 0..2 {
        assert_eq!(bench.client.ask(Handle { request, position }).await.unwrap(), None);
    }
    let id = bench.client.enqueue(Act::Succeed).await.unwrap().id;
    let late = send_unanswered(&bench, request).await;
    assert!(late.iter().all(|answer| answer.job() == Err(&Refusal::RequestClosed)), "{late:?}");
    let all = bench.engine.list(ListRequest { limit: 10, ..ListRequest::default() }).await.unwrap();
    assert_eq!(all.iter().map(|record| record.job.id).collect::<Vec<_>>(), [id]);
}

#[tokio::test]
async fn a_job_under_a_request_id_that_was_closed_is_not_stored() {
    let bench = Bench::start().await;
    let request = RequestId::from_random(12);
    assert_eq!(bench.client.ask(Handle { request, position: 0 }).await.unwrap(), None);
    let refused = bench.client.enqueue(Act::Succeed).request_id(request).await;
    assert!(matches!(refused, Err(EnqueueError::NotStored(EngineError::Refused(_)))), "{refused:?}");
}

#[tokio::test]
async fn a_request_id_that_was_used_for_other_jobs_is_refused() {
    let bench = Bench::start().await;
    let request = RequestId::from_random(9);
    send_unanswered(&bench, request).await;
    let refused = bench.client.enqueue(Act::Succeed).request_id(request).await;
    assert!(matches!(refused, Err(EnqueueError::RequestUsed(used)) if used == request));
}

#[tokio::test]
async fn a_repeat_under_the_callers_own_request_id_makes_no_second_job() {
    let bench = Bench::start().await;
    let put = || async { bench.client.enqueue(Act::Succeed).request_id(RequestId::from_random(10)).await };
    assert_eq!(put().await.unwrap(), put().await.unwrap());
}

#[tokio::test]
async fn many_callers_at_once_each_get_their_own_job() {
    let bench = Bench::start().await;
    let callers: Vec<_> = (0..500)
        .map(|_| {
            let client = bench.client.clone();
            tokio::spawn(async move { client.enqueue(Act::Succeed).await.map(|enqueued| enqueued.id) })
        })
        .collect();
    let mut ids = std::collections::BTreeSet::new();
    for caller in callers {
        ids.insert(caller.await.unwrap().unwrap());
    }
    assert_eq!(ids.len(), 500);
}

#[test]
fn a_client_that_outlives_a_runtime_still_works_in_the_next() {
    let start = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = start();
    let client = first.block_on(async {
        let bench = Bench::start().await;
        let client = bench.client.clone();
        // Batchers are started and never flushed: their runtime ends.
        for _ in 0..4 {
            let put = client.clone();
            tokio::spawn(async move { put.enqueue(Act::Succeed).await });
        }
        client
    });
    drop(first);
    let enqueued = start().block_on(async { client.enqueue(Act::Succeed).await });
    assert!(enqueued.is_ok(), "{enqueued:?}");
}
