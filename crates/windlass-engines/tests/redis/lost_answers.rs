//! Connections break and answers are lost. Every caller can still find out what happened.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::claim::ClaimRequest;
use windlass_core::engine::{Admin, Engine};
use windlass_core::enqueue::{EnqueueAnswer, Refusal};
use windlass_core::error::EngineError;
use windlass_core::settle::Settled;
use windlass_core::worker::{Heartbeat, Liveness};
use windlass_servers::proxy::Proxy;
use windlass_servers::redis::Server;

use crate::test_store::{
    TestStore, WAIT_MAX, WORKER, ask, claim, claim_request, claimed, enqueue, once_it_is_back, request,
    server, success,
};

fn proxied(server: &Server) -> (TestStore, Proxy) {
    let proxy = Proxy::start(server.address()).unwrap();
    (TestStore::on(proxy.url(&server.url())), proxy)
}

#[tokio::test]
async fn an_enqueue_whose_answer_is_lost_is_repeated_by_its_id_and_makes_no_second_job() {
    let server = server(&[]);
    let (place, proxy) = proxied(&server);
    let engine = place.ready_with(place.impatient()).await;
    // From now on the server has the script; else its answer would only be that it does not have it.
    enqueue(&engine, 1).await;
    proxy.swallow_answers(true);
    let request = request(3);
    assert!(engine.enqueue(request.clone()).await.unwrap_err().is_unknown());
    proxy.swallow_answers(false);
    proxy.cut_all();
    let receipt = engine.receipt(request.request).await.unwrap().expect("it happened");
    assert_eq!(engine.enqueue(request).await.unwrap(), receipt);
    assert_eq!(engine.queues().await.unwrap()[0].counts.ready, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_held_up_until_it_was_asked_about_stores_nothing_when_it_arrives() {
    let server = server(&[]);
    let (place, proxy) = proxied(&server);
    let engine = Arc::new(place.ready().await);
    enqueue(&engine, 1).await;
    let direct = TestStore { url: server.url(), namespace: place.namespace.clone() };
    let other = direct.open_with(direct.options()).await;
    let sent = request(2);
    proxy.hold_questions(true);
    let (caller, copy) = (engine.clone(), sent.clone());
    let call = tokio::spawn(async move { caller.enqueue(copy).await });
    let start = Instant::now();
    while proxy.stuck_connections() == 0 {
        assert!(start.elapsed() < WAIT_MAX, "expected the request to be held back");
        // may sleep: the proxy sends no signal when it holds bytes back.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(other.ask(sent.request).await.unwrap(), None);
    proxy.hold_questions(false);
    let told = EnqueueAnswer::Refused(Refusal::RequestClosed);
    assert_eq!(call.await.unwrap().unwrap(), [told.clone(), told]);
    assert_eq!(other.queues().await.unwrap()[0].counts.ready, 1, "the job before");
}

#[tokio::test]
async fn a_claim_whose_answer_is_lost_is_asked_for_by_its_token() {
    let server = server(&[]);
    let (place, proxy) = proxied(&server);
    let engine = place.ready_with(place.impatient()).await;
    assert_eq!(claim(&engine, 1).await, [], "now the server has the script");
    let ids = enqueue(&engine, 3).await;
    proxy.swallow_answers(true);
    let request = claim_request(2);
    assert!(engine.claim(request.clone()).await.unwrap_err().is_unknown());
    proxy.swallow_answers(false);
    proxy.cut_all();
    let again = claimed(engine.claim(ClaimRequest { repeat: true, ..request.clone() }).await.unwrap());
    assert_eq!(again.iter().map(|claimed| claimed.job.id).collect::<Vec<_>>(), ids[..2]);
    assert_eq!(claimed(engine.claim(request).await.unwrap()), [], "a late first request claims nothing");
}

#[tokio::test]
async fn a_settle_whose_answer_is_lost_is_repeated_and_gets_the_same_answer() {
    let server = server(&[]);
    let (place, proxy) = proxied(&server);
    let engine = place.ready_with(place.impatient()).await;
    enqueue(&engine, 1).await;
    let end = success(claim(&engine, 1).await.remove(0));
    engine.settle(Vec::new()).await.unwrap();
    proxy.swallow_answers(true);
    assert!(engine.settle(vec![end.clone()]).await.unwrap_err().is_unknown());
    proxy.swallow_answers(false);
    proxy.cut_all();
    assert_eq!(engine.settle(vec![end]).await.unwrap(), [Settled::Applied]);
    assert_eq!(engine.queues().await.unwrap()[0].totals.succeeded, 1, "and is written once");
}

#[tokio::test]
async fn a_server_that_is_frozen_for_five_seconds_declares_no_worker_dead_and_goes_on() {
    let server = server(&[]);
    let place = TestStore::on(server.url());
    let engine = place.ready_with(place.impatient()).await;
    let ids = enqueue(&engine, 1).await;
    server.freeze().unwrap();
    let frozen = Instant::now();
    let lease = Duration::from_secs(30);
    while frozen.elapsed() < Duration::from_secs(5) {
        let answer = engine.extend(Heartbeat { worker: WORKER, lease, idle: false }).await;
        let is_passing = answer.as_ref().is_err_and(EngineError::is_passing);
        assert!(is_passing, "after {:?}: {answer:?}", frozen.elapsed());
    }
    server.thaw().unwrap();
    let beat =
        once_it_is_back(async || engine.extend(Heartbeat { worker: WORKER, lease, idle: false }).await).await;
    assert!(matches!(beat, Liveness::Alive { .. }));
    assert_eq!(claim(&engine, 5).await[0].job.id, ids[0]);
}

#[tokio::test]
async fn scripts_that_the_server_has_forgotten_are_sent_again() {
    let server = server(&[]);
    let place = TestStore::on(server.url());
    let engine = place.ready().await;
    ask::<()>(&server.url(), &["SCRIPT", "FLUSH"]);
    enqueue(&engine, 1).await;
    ask::<()>(&server.url(), &["SCRIPT", "FLUSH"]);
    assert_eq!(claim(&engine, 5).await.len(), 1);
}

#[tokio::test]
async fn connections_that_are_cut_are_made_anew() {
    let server = server(&[]);
    let (place, proxy) = proxied(&server);
    let engine = place.ready().await;
    for _ in 0..5 {
        proxy.cut_all();
        // The first call may be the one that detects it.
        let request = request(1);
        if let Err(error) = engine.enqueue(request.clone()).await {
            assert!(error.is_passing(), "{error:?}");
            engine.enqueue(request).await.unwrap();
        }
    }
    assert_eq!(engine.queues().await.unwrap()[0].counts.ready, 5);
}
