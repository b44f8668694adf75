//! The server comes back empty, or another one takes its place.

use windlass_core::claim::ClaimAnswer;
use windlass_core::engine::{Admin, Engine};
use windlass_core::settle::Settled;
use windlass_core::worker::{Beat, Heartbeat, WorkerId};

use crate::place::{Place, WORKER, ask, card, claim, claim_request, enqueue, request, server, success};

#[tokio::test]
async fn a_store_that_was_emptied_is_noticed_and_gets_queues_and_types_again() {
    let server = server(&[]);
    let place = Place::on(server.url());
    let engine = place.ready().await;
    enqueue(&engine, 2).await;
    let held = claim(&engine, 1).await.remove(0);
    ask::<()>(&server.url(), &["FLUSHALL"]);
    let answers = engine.enqueue(request(1)).await.unwrap();
    assert!(answers[0].job().is_ok(), "queues and types are there again: {answers:?}");
    assert_eq!(engine.queues().await.unwrap()[0].counts.ready, 1, "what was there is gone, and not counted");
    let lease = card(WORKER).lease;
    assert_eq!(engine.extend(Heartbeat { worker: WORKER, lease }).await.unwrap(), Beat::Dead);
    assert!(matches!(engine.claim(claim_request(5)).await.unwrap(), ClaimAnswer::WorkerDead));
    assert_eq!(engine.settle(vec![success(held)]).await.unwrap(), [Settled::ClaimLost]);
    engine.register(card(WorkerId::from_random(7))).await.unwrap();
}

#[tokio::test]
async fn a_replica_that_takes_over_has_what_reached_it() {
    let mut primary = server(&[]);
    let replica = server(&[]);
    let port = primary.address().port().to_string();
    ask::<()>(&replica.url(), &["REPLICAOF", "127.0.0.1", &port]);
    let hosts = format!("{},{}", primary.url(), replica.address());
    let place = Place::on(hosts);
    let engine = place.ready().await;
    let ids = enqueue(&engine, 3).await;
    // Waits until the replica has everything.
    assert_eq!(ask::<u64>(&primary.url(), &["WAIT", "1", "20000"]), 1);
    let first = claim(&engine, 1).await.remove(0);
    assert_eq!(ask::<u64>(&primary.url(), &["WAIT", "1", "20000"]), 1);
    primary.kill().unwrap();
    ask::<()>(&replica.url(), &["REPLICAOF", "NO", "ONE"]);
    let end = success(first);
    let settled = loop {
        if let Ok(settled) = engine.settle(vec![end.clone()]).await {
            break settled;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(settled, [Settled::Applied], "the claim moved with the data");
    let rest: Vec<_> = claim(&engine, 5).await.iter().map(|claimed| claimed.job.id).collect();
    assert_eq!(rest, ids[1..]);
}
