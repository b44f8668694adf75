//! Fairness keys through the SQL functions, from any language.

use std::time::{Duration, Instant};

use windlass_core::engine::{Admin, Engine};
use windlass_core::enqueue::NewJob;
use windlass_core::job::JobId;
use windlass_core::names::FairnessKey;
use windlass_engines::postgres::enqueue_in;

use super::test_store::{TestStore, claim, work};

/// The longest wait, sufficient for a busy machine.
const WAIT_MAX: Duration = Duration::from_secs(60);

fn fairness_key(name: &str) -> FairnessKey {
    FairnessKey::parse(name).unwrap()
}

#[tokio::test]
async fn a_fairness_key_goes_in_through_each_function_and_is_shown() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let mut client = place.connect().await;
    let one = place.ask(&client, "SELECT windlass.enqueue('work', fairness_key => 'tenant:42')::text").await;
    let many = "SELECT id::text FROM windlass.enqueue_many('[{\"job_type\": \"work\", \"fairness_key\": \"tenant:42\"}]')";
    let two = place.ask(&client, many).await;
    for id in [one, two] {
        let record = engine.job(JobId(id.parse().unwrap())).await.unwrap().unwrap();
        assert_eq!(record.job.fairness_key, Some(fairness_key("tenant:42")));
    }
    let tx = client.transaction().await.unwrap();
    let new = NewJob { fairness_key: Some(fairness_key("tenant:7")), ..work() };
    let answers = enqueue_in(&tx, &place.schema, vec![new]).await.unwrap();
    tx.commit().await.unwrap();
    let record = engine.job(answers[0].job().unwrap()).await.unwrap().unwrap();
    assert_eq!(record.job.fairness_key, Some(fairness_key("tenant:7")));
}

#[tokio::test]
async fn names_that_core_refuses_the_functions_refuse_too() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let client = place.connect().await;
    for (text, name) in
        [("''", String::new()), ("E'a\\tb'", "a\tb".to_owned()), ("repeat('x', 257)", "x".repeat(257))]
    {
        let core = FairnessKey::parse(&name).unwrap_err().to_string();
        let called = client
            .simple_query(&place.sql(&format!("SELECT windlass.enqueue('work', fairness_key => {text})")))
            .await;
        let error = called.expect_err(text).as_db_error().expect("the server sent the error").clone();
        let beginning = "expected a fairness key of 1 to 256 bytes without control characters, got ";
        assert!(error.message().starts_with(beginning), "{error:?}");
        assert!(core.starts_with(beginning), "{core}");
    }
    assert_eq!(engine.queues().await.unwrap().iter().map(|queue| queue.counts.ready).sum::<u64>(), 0);
}

#[tokio::test]
async fn turns_begin_with_the_first_claim_that_meets_a_fairness_key() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let client = place.connect().await;
    for (fairness_key, count) in [("a", 30), ("b", 1)] {
        let text = format!(
            "SELECT count(windlass.enqueue('work', fairness_key => '{fairness_key}'))::text FROM generate_series(1, {count})"
        );
        place.ask(&client, &text).await;
    }
    let start = Instant::now();
    let mut served = Vec::new();
    while !served.contains(&Some(fairness_key("b"))) {
        served.extend(claim(&engine, 1).await.into_iter().map(|claimed| claimed.job.fairness_key));
        assert!(start.elapsed() < WAIT_MAX, "no job of b was claimed");
    }
    assert!(served.len() <= 4, "{served:?}");
    engine.prune(10).await.unwrap();
}
