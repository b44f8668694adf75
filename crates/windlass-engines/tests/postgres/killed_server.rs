//! The server is killed and comes back. `tests/torture/` does this under load.

use std::time::Duration;

use windlass_core::engine::{Admin, Engine};
use windlass_core::worker::{Heartbeat, Liveness};
use windlass_servers::postgres::{Options, Server};

use super::{TestStore, WORKER, claim, enqueue};

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_goes_on_by_itself_after_its_server_came_back() {
    let mut server = Server::start(&Options::default()).unwrap();
    let place = TestStore::on(server.url());
    let engine = place.ready().await;
    let ids = enqueue(&engine, 3).await;
    server.kill().unwrap();
    let error = engine.enqueue(super::request(vec![super::new_job()])).await.unwrap_err();
    assert!(error.is_passing(), "{error:?}");
    server.restart().unwrap();
    let claimed: Vec<_> = claim(&engine, 10).await.iter().map(|claimed| claimed.job.id).collect();
    assert_eq!(claimed, ids, "the acknowledged jobs are there");
    let lease = Duration::from_secs(30);
    assert!(matches!(
        engine.extend(Heartbeat { worker: WORKER, lease, idle: false }).await.unwrap(),
        Liveness::Alive { .. }
    ));
    assert_eq!(engine.queues().await.unwrap()[0].counts.running, 3, "counts survive, too");
}
