//! A store that cannot be written to for a while.

use std::time::Duration;

use windlass_core::engine::Engine;
use windlass_core::error::EngineError;
use windlass_engines::sqlite::{SqliteEngine, SqliteOptions};

use super::{TestStore, declare, enqueue, new_job, request, status};

#[tokio::test]
async fn a_lock_that_is_held_too_long_is_an_answer_and_the_engine_goes_on() {
    let place = TestStore::new();
    let options = SqliteOptions { busy_timeout: Duration::from_millis(30), ..SqliteOptions::default() };
    let engine = SqliteEngine::open(place.path(), options).unwrap();
    declare(&engine).await;
    let other = place.connect();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let request = request(vec![new_job()]);
    let error = engine.enqueue(request.clone()).await.unwrap_err();
    assert!(matches!(error, EngineError::Unavailable { .. }), "{error:?}");
    assert!(error.is_passing());
    assert_eq!(status(&engine).await.totals.enqueued, 0, "reads continue, and nothing was written");
    other.execute_batch("ROLLBACK").unwrap();
    // With so short a timeout, a busy machine may need several tries.
    let answers = loop {
        match engine.enqueue(request.clone()).await {
            Err(error) => assert!(error.is_passing(), "{error:?}"),
            Ok(answers) => break answers,
        }
    };
    assert_eq!(answers.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_callers_share_commits_and_each_gets_its_own_answer() {
    let place = TestStore::new();
    let engine = std::sync::Arc::new(place.open());
    declare(&engine).await;
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let engine = engine.clone();
        callers.spawn(async move { enqueue(&engine, 1).await[0] });
    }
    let mut ids = callers.join_all().await;
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 200);
    assert_eq!(status(&engine).await.counts.ready, 200);
}
