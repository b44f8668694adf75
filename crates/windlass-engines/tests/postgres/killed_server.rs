//! The server itself is killed under load and comes back. What it acknowledged is there, and ended once.

use std::sync::Arc;
use std::time::Duration;

use windlass_conformance::history::FaultKind;
use windlass_core::engine::{Admin, Engine};
use windlass_core::worker::{Beat, Heartbeat};
use windlass_engines::postgres::PostgresEngine;
use windlass_servers::postgres::{Options, Server};

use super::crew::Crew;
use super::{Place, WORKER, claim, enqueue};

/// How often the server goes away. More than this is the business of `cargo xtask torture`.
const KILLS: u32 = 3;

async fn two_engines(place: &Place) -> [Arc<PostgresEngine>; 2] {
    let first = place.ready().await;
    [Arc::new(first), Arc::new(place.open().await)]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_under_load_loses_nothing_and_ends_nothing_twice() {
    let mut server = Server::start(&Options::default()).unwrap();
    let place = Place::on(server.url());
    let engines = two_engines(&place).await;
    let mut crew = Crew::new(Duration::from_secs(20));
    for engine in &engines {
        crew.producer(engine, Duration::from_millis(2));
        crew.worker(engine);
        crew.worker(engine);
        crew.rescuer(engine);
    }
    for round in 0..KILLS {
        crew.let_work(50).await;
        tokio::task::block_in_place(|| {
            crew.book.fault(FaultKind::StoreAway, || {
                if round % 3 != 2 {
                    server.kill().unwrap();
                }
                server.restart().unwrap();
            });
        });
    }
    crew.let_work(50).await;
    let verdict = crew.judge(&engines[0]).await;
    assert!(verdict.is_clean(), "{verdict}");
    assert!(verdict.jobs >= 200, "a run worth checking: {verdict}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_goes_on_by_itself_after_its_server_came_back() {
    let mut server = Server::start(&Options::default()).unwrap();
    let place = Place::on(server.url());
    let engine = place.ready().await;
    let ids = enqueue(&engine, 3).await;
    server.kill().unwrap();
    let error = engine.enqueue(super::request(vec![super::new_job()])).await.unwrap_err();
    assert!(error.is_passing(), "{error:?}");
    server.restart().unwrap();
    let claimed: Vec<_> = claim(&engine, 10).await.iter().map(|claimed| claimed.job.id).collect();
    assert_eq!(claimed, ids, "what was acknowledged is there");
    let lease = Duration::from_secs(30);
    assert!(matches!(engine.extend(Heartbeat { worker: WORKER, lease }).await.unwrap(), Beat::Alive { .. }));
    assert_eq!(engine.queues().await.unwrap()[0].counts.running, 3, "counts survive, too");
}
