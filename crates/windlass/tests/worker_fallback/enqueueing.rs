//! Many concurrent callers, while the server is unavailable.

use serde::{Deserialize, Serialize};
use windlass::fallback::{FallbackOptions, KeysWhileAway};
use windlass::types::enqueue::RequestId;
use windlass::types::error::EngineError;
use windlass::{Client, EnqueueError, EnqueueOutcome, Handle, JobType};

use crate::primary::{Primary, memory, quick, until_away};

#[derive(Serialize, Deserialize)]
struct Post;

impl JobType for Post {
    const NAME: &'static str = "ledger.post";
}

/// All tasks submit their job before the first request is sent, so the jobs would share a request if they
/// could.
#[tokio::test]
async fn a_job_with_an_ordering_key_is_refused_and_no_other_caller_of_the_same_moment_is() {
    let primary = Primary::redis();
    let options = FallbackOptions { keys: KeysWhileAway::Accept, ..quick() };
    let engine = primary.with_options(memory(), options).await;
    let client = Client::new(engine.clone());
    client.register::<Post>().await.unwrap();
    primary.cut();
    until_away(&engine).await;
    let calls: Vec<_> = (0..12).map(|n| (n, tokio::spawn(put(client.clone(), n)))).collect();
    for (n, call) in calls {
        match (n % 3, call.await.unwrap()) {
            (0, Err(EnqueueError::NotStored(EngineError::Unavailable { why }))) => {
                assert!(why.contains("ordering key a"), "{why}");
            }
            (1 | 2, Ok(outcome)) => assert_eq!(outcome, EnqueueOutcome::Spooled),
            (_, other) => panic!("job {n}: {other:?}"),
        }
    }
}

/// Enqueues a job. Of three jobs, the first has an ordering key, the second a key, the third neither.
async fn put(client: Client, n: u32) -> Result<EnqueueOutcome, EnqueueError> {
    let job = client.enqueue(Post);
    let job = match n % 3 {
        0 => job.ordering_key("a"),
        1 => job.key(&format!("k{n}")),
        _ => job,
    };
    job.await.map(|enqueued| enqueued.outcome)
}

#[tokio::test]
async fn a_question_that_the_store_cannot_answer_is_answered_with_unknown() {
    let primary = Primary::redis();
    let engine = primary.with(memory()).await;
    let client = Client::new(engine.clone());
    primary.cut();
    until_away(&engine).await;
    let handle = Handle { request: RequestId::from_random(7), position: 0 };
    let asked = client.ask(handle).await;
    assert!(matches!(asked, Err(EnqueueError::Unknown(Some(again))) if again == handle), "{asked:?}");
}
