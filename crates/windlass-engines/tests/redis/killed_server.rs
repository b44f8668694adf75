//! The server is killed and comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;
use windlass_core::engine::{Admin, Engine};
use windlass_core::job::Phase;
use windlass_core::settle::Settled;
use windlass_engines::redis::RedisEngine;

use crate::place::{Place, WORKER, claim_request, claimed, request, server, success};

const KILLS: usize = 3;
/// So many jobs are acknowledged between two kills.
const APART: usize = 50;

/// Puts jobs in until told to stop, and tells how many were acknowledged.
async fn produce(engine: Arc<RedisEngine>, stop: Arc<AtomicBool>, acknowledged: watch::Sender<usize>) {
    while !stop.load(Ordering::SeqCst) {
        let request = request(5);
        // Asked under the same name until there is an answer.
        while engine.enqueue(request.clone()).await.is_err() {
            tokio::task::yield_now().await;
        }
        acknowledged.send_modify(|count| *count += 5);
    }
}

/// Claims and settles until told to stop and nothing is left. Gives how many ends were taken.
async fn consume(engine: Arc<RedisEngine>, stop: Arc<AtomicBool>) -> usize {
    let mut ended = 0;
    loop {
        let mut request = claim_request(10);
        let jobs = loop {
            match engine.claim(request.clone()).await {
                Ok(answer) => break claimed(answer),
                Err(error) => request.repeat |= error.is_unknown(),
            }
            tokio::task::yield_now().await;
        };
        // A repeat claims nothing, so it does not tell whether anything is left.
        if jobs.is_empty() && !request.repeat && stop.load(Ordering::SeqCst) {
            return ended;
        }
        let batch: Vec<_> = jobs.into_iter().map(success).collect();
        let settled = loop {
            if let Ok(settled) = engine.settle(batch.clone()).await {
                break settled;
            }
            tokio::task::yield_now().await;
        };
        ended += settled.iter().filter(|settled| **settled == Settled::Applied).count();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_syncs_always_and_is_killed_under_load_loses_nothing_and_ends_nothing_twice() {
    let mut server = server(&[("appendfsync", "always")]);
    let place = Place::on(server.url());
    let engine = Arc::new(place.ready().await);
    let (stop_producing, stop_consuming) =
        (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (tell, mut acknowledged) = watch::channel(0);
    let producer = tokio::spawn(produce(engine.clone(), stop_producing.clone(), tell));
    let consumer = tokio::spawn(consume(engine.clone(), stop_consuming.clone()));
    for _ in 0..KILLS {
        let before = *acknowledged.borrow();
        acknowledged.wait_for(|count| *count >= before + APART).await.expect("the producer goes on");
        tokio::task::block_in_place(|| {
            server.kill().unwrap();
            server.restart().unwrap();
        });
    }
    stop_producing.store(true, Ordering::SeqCst);
    producer.await.unwrap();
    let acknowledged = *acknowledged.borrow();
    stop_consuming.store(true, Ordering::SeqCst);
    let ended = consumer.await.unwrap();
    let queue = engine.queues().await.unwrap().remove(0);
    let succeeded = usize::try_from(queue.totals.succeeded).unwrap();
    assert_eq!((ended, succeeded), (acknowledged, acknowledged), "{:?}", queue.counts);
    let left = engine.workers().await.unwrap();
    assert_eq!((left[0].card.id, left[0].running), (WORKER, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_goes_on_by_itself_after_its_server_came_back() {
    let mut server = server(&[("appendfsync", "always")]);
    let place = Place::on(server.url());
    let engine = place.ready().await;
    let ids = crate::place::enqueue(&engine, 3).await;
    tokio::task::block_in_place(|| server.kill().unwrap());
    let error = engine.enqueue(request(1)).await.unwrap_err();
    assert!(error.is_passing(), "{error:?}");
    tokio::task::block_in_place(|| server.restart().unwrap());
    let claimed = loop {
        // For a moment calls are told that nobody was there.
        if let Ok(answer) = engine.claim(claim_request(10)).await {
            break claimed(answer);
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(claimed.iter().map(|claimed| claimed.job.id).collect::<Vec<_>>(), ids);
    assert_eq!(engine.job(ids[0]).await.unwrap().unwrap().phase(), Phase::Running);
}
