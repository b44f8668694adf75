//! The server memory that a job takes, by the size of its payload and its kind.

use std::time::Duration;

use windlass_core::engine::Engine;
use windlass_core::enqueue::{EnqueueRequest, NewJob, RequestId, When};
use windlass_core::key::KeyClaim;
use windlass_core::names::{FairnessKey, Key, OrderingKey};
use windlass_core::payload::Payload;
use windlass_servers::redis::Server;

use crate::test_store::{TestStore, ask, claim, kind, server, success};

/// The sizes of payloads, and the number of jobs with each: enough that memory that belongs to no single
/// job does not matter.
const SIZES: [(usize, usize); 5] =
    [(0, 40_000), (27, 40_000), (100, 40_000), (1_000, 10_000), (10_000, 2_000)];
const BATCH: usize = 1_000;

/// The kind of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    /// With a key of 20 bytes.
    Keyed,
    Expiring,
    /// With one of a hundred fairness keys, whose names have 10 bytes.
    Shared,
    /// Each with an ordering key of its own, whose name has 20 bytes.
    Serial,
}

/// From this payload on, jobs of a kind take no more than the design allows: 2.5 times the payload and 250
/// bytes. With a small payload, the job's own records take more than that.
const fn modest_from(kind: Kind) -> usize {
    match kind {
        Kind::Plain => 100,
        Kind::Keyed | Kind::Expiring | Kind::Shared | Kind::Serial => 1_000,
    }
}

/// The memory that a job may take beside its payload and a quarter of it: while it waits, and once it has
/// ended. Measured on Redis 7.0, with a margin for other versions.
const fn room(kind: Kind) -> [usize; 2] {
    match kind {
        Kind::Plain => [340, 380],
        Kind::Keyed => [660, 590],
        Kind::Expiring => [610, 525],
        Kind::Shared => [640, 555],
        Kind::Serial => [680, 610],
    }
}

/// Returns the bytes in use while only this connection is open: buffers of connections belong to no job.
async fn used(server: &Server) -> usize {
    loop {
        let info: String = ask(&server.url(), &["INFO"]);
        let number = |name: &str| -> usize {
            let line = info.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().parse().unwrap()
        };
        if number("connected_clients:") == 1 {
            return number("used_memory:");
        }
        tokio::task::yield_now().await;
    }
}

fn payload(bytes: usize) -> Payload {
    // Two bytes are quotes. An empty payload is an empty object, which is as short.
    if bytes < 2 { Payload::default() } else { Payload::encode(&"x".repeat(bytes - 2)).unwrap() }
}

fn job(kind_of_job: Kind, payload: &Payload, number: usize) -> NewJob {
    let plain = NewJob::new(kind(), payload.clone());
    match kind_of_job {
        Kind::Plain => plain,
        Kind::Keyed => NewJob {
            key: Some(KeyClaim::new(Key::parse(&format!("customer-{number:011}")).unwrap())),
            ..plain
        },
        Kind::Shared => NewJob {
            fairness_key: Some(FairnessKey::parse(&format!("tenant-{:03}", number % 100)).unwrap()),
            ..plain
        },
        Kind::Serial => NewJob {
            ordering_key: Some(OrderingKey::parse(&format!("customer-{number:011}")).unwrap()),
            ..plain
        },
        Kind::Expiring => NewJob { expires: Some(When::In(Duration::from_secs(3_600))), ..plain },
    }
}

/// Returns the bytes for each of `jobs` jobs, while they wait and once they have ended; one request
/// enqueues `batch` of them.
async fn measure(server: &Server, kind: Kind, bytes: usize, jobs: usize, batch: usize) -> [usize; 2] {
    let place = TestStore::on(server.url());
    drop(place.ready().await);
    let payload = payload(bytes);
    let before = used(server).await;
    let engine = place.open_with(place.options()).await;
    for first in (0..jobs).step_by(batch) {
        let jobs = (first..first + batch).map(|number| job(kind, &payload, number)).collect();
        let request = RequestId::from_random(fastrand::u128(..));
        engine.enqueue(EnqueueRequest { request, jobs }).await.unwrap();
    }
    drop(engine);
    let waiting = (used(server).await - before) / jobs;
    let engine = place.open_with(place.options()).await;
    loop {
        let batch = claim(&engine, 1_000).await;
        if batch.is_empty() {
            break;
        }
        engine.settle(batch.into_iter().map(success).collect()).await.unwrap();
    }
    drop(engine);
    let done = (used(server).await - before) / jobs;
    // The flush is synchronous, which is the server's default, so that the next measurement begins with
    // nothing.
    ask::<()>(&server.url(), &["FLUSHALL"]);
    [waiting, done]
}

#[tokio::test]
async fn a_job_takes_no_more_memory_than_it_may_while_it_waits_and_once_it_is_done() {
    let server = server(&[("appendonly", "no")]);
    for kind in [Kind::Plain, Kind::Keyed, Kind::Expiring, Kind::Shared, Kind::Serial] {
        for (bytes, jobs) in SIZES {
            let taken = measure(&server, kind, bytes, jobs, BATCH).await;
            println!(
                "{kind:?} with {bytes} bytes: {} while it waits, {} once it is done",
                taken[0], taken[1]
            );
            let most = room(kind).map(|room| bytes * 5 / 4 + room);
            let fits = taken.iter().zip(most).all(|(taken, most)| *taken <= most);
            assert!(fits, "{kind:?} with {bytes} bytes: {taken:?} of {most:?}");
            let is_modest = taken.iter().all(|taken| *taken <= bytes * 5 / 2 + 250);
            assert!(is_modest || bytes < modest_from(kind), "{kind:?} with {bytes} bytes: {taken:?}");
        }
    }
}

/// The memory that the receipt of a request may take, for an hour.
const RECEIPT_MAX: usize = 260;

#[tokio::test]
async fn a_job_that_is_put_in_alone_takes_a_receipt_more() {
    const ALONE: usize = 5_000;
    let server = server(&[("appendonly", "no")]);
    let [in_batches, _] = measure(&server, Kind::Plain, 100, ALONE, BATCH).await;
    let [alone, _] = measure(&server, Kind::Plain, 100, ALONE, 1).await;
    let receipt = alone - in_batches;
    println!("{in_batches} in batches, {alone} alone: {receipt} for the receipt");
    assert!(receipt <= RECEIPT_MAX, "{receipt}");
}
