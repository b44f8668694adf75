//! The server is killed and comes back. `tests/torture/` does this under load.

use windlass_core::engine::{Admin, Engine};
use windlass_core::job::JobState;

use crate::test_store::{TestStore, claim_request, claimed, once_it_is_back, request, server};

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_goes_on_by_itself_after_its_server_came_back() {
    let mut server = server(&[("appendfsync", "always")]);
    let place = TestStore::on(server.url());
    let engine = place.ready().await;
    let ids = crate::test_store::enqueue(&engine, 3).await;
    tokio::task::block_in_place(|| server.kill().unwrap());
    let error = engine.enqueue(request(1)).await.unwrap_err();
    assert!(error.is_passing(), "{error:?}");
    tokio::task::block_in_place(|| server.restart().unwrap());
    let request = claim_request(10);
    let claimed = claimed(once_it_is_back(async || engine.claim(request.clone()).await).await);
    assert_eq!(claimed.iter().map(|claimed| claimed.job.id).collect::<Vec<_>>(), ids);
    assert_eq!(engine.job(ids[0]).await.unwrap().unwrap().job_state(), JobState::Running);
}
