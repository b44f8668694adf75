//! The server comes back empty or older than it was, or another server takes its place.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use windlass_core::claim::{ClaimAnswer, ClaimRequest};
use windlass_core::engine::{Admin, Declaration, Engine};
use windlass_core::enqueue::{EnqueueRequest, NewJob};
use windlass_core::error::EngineError;
use windlass_core::job::JobId;
use windlass_core::job_type::TypeSpec;
use windlass_core::names::TypeName;
use windlass_core::payload::Payload;
use windlass_core::settle::Settled;
use windlass_core::worker::{Heartbeat, Liveness, WorkerId};
use windlass_engines::redis::{Grade, RedisEngine};
use windlass_servers::proxy::Proxy;
use windlass_servers::redis::Server;

use crate::alerts;
use crate::test_store::{
    TestStore, WAIT_MAX, WORKER, ask, card, claim, claim_request, claimed, enqueue, once_it_is_back, queue,
    request, server, success,
};

#[tokio::test]
async fn a_store_that_was_emptied_raises_an_alert_and_gets_queues_and_types_again() {
    alerts::listen();
    let server = server(&[]);
    let place = TestStore::on(server.url());
    let engine = place.ready().await;
    enqueue(&engine, 2).await;
    let held = claim(&engine, 1).await.remove(0);
    ask::<()>(&server.url(), &["FLUSHALL"]);
    let answers = engine.enqueue(request(1)).await.unwrap();
    assert!(answers[0].job().is_ok(), "queues and types are declared again: {answers:?}");
    assert_one_alert(&place, "the store was replaced: the data of the former store");
    assert_eq!(
        engine.queues().await.unwrap()[0].counts.ready,
        1,
        "the earlier jobs are gone, and not counted"
    );
    let lease = card(WORKER).lease;
    assert_eq!(
        engine.extend(Heartbeat { worker: WORKER, lease, idle: false }).await.unwrap(),
        Liveness::Dead
    );
    assert!(matches!(engine.claim(claim_request(5)).await.unwrap(), ClaimAnswer::WorkerDead));
    assert_eq!(engine.settle(vec![success(held)]).await.unwrap(), [Settled::ClaimLost]);
    engine.register(card(WorkerId::from_random(7))).await.unwrap();
}

/// Asserts that the log has exactly one error about it.
fn assert_one_alert(place: &TestStore, words: &str) {
    let raised = alerts::about(&place.namespace);
    assert!(matches!(&raised[..], [one] if one.contains(words)), "{raised:?}");
}

#[tokio::test]
async fn how_often_a_store_was_emptied_and_when_last_can_be_asked_later_and_by_others() {
    let server = server(&[]);
    let place = TestStore::on(server.url());
    let (engine, other) = (place.ready().await, place.open_with(place.options()).await);
    assert_eq!(engine.replaced().await.unwrap(), None);
    let losses = async || {
        let findings = RedisEngine::examine(&place.url, place.options()).await.unwrap();
        findings.into_iter().find(|finding| finding.about == "losses").expect("the topic is checked").grade
    };
    assert_eq!(losses().await, Grade::Good);
    for times in 1..=2 {
        let before = engine.now().await.unwrap();
        ask::<()>(&server.url(), &["FLUSHALL"]);
        // Both engines notice it, and it counts once.
        let after = [engine.now().await.unwrap(), other.now().await.unwrap()];
        let replaced = other.replaced().await.unwrap().expect("the store was emptied");
        assert_eq!(replaced.times, times);
        assert!(
            before <= replaced.last && replaced.last <= after[1].plus(Duration::from_secs(1)),
            "{replaced:?}"
        );
    }
    let later = place.open_with(place.options()).await;
    assert_eq!(later.replaced().await.unwrap().map(|replaced| replaced.times), Some(2));
    assert_eq!(losses().await, Grade::Poor);
}

#[tokio::test]
async fn a_store_that_is_emptied_twice_in_a_row_gives_no_number_again() {
    let server = server(&[]);
    let engine = TestStore::on(server.url()).ready().await;
    let known = enqueue(&engine, 5).await.pop().unwrap();
    for _ in 0..2 {
        ask::<()>(&server.url(), &["FLUSHALL"]);
        // This call notices it, and enqueues nothing.
        let lease = card(WORKER).lease;
        assert_eq!(
            engine.extend(Heartbeat { worker: WORKER, lease, idle: false }).await.unwrap(),
            Liveness::Dead
        );
    }
    assert!(enqueue(&engine, 1).await[0] > known);
}

/// Waits until a replica has all writes. For the server, the last write of the same connection decides what
/// to wait for.
fn reaches_a_replica(url: &str) {
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    let mut waiting = redis::pipe();
    waiting.cmd("SET").arg("last").arg("1").ignore().cmd("WAIT").arg(1).arg(60_000);
    let (replicas,): (u64,) = waiting.query(&mut connection).unwrap();
    assert_eq!(replicas, 1);
}

#[tokio::test]
async fn a_replica_that_takes_over_has_what_reached_it() {
    let mut primary = server(&[]);
    let replica = server(&[]);
    let port = primary.address().port().to_string();
    ask::<()>(&replica.url(), &["REPLICAOF", "127.0.0.1", &port]);
    let hosts = format!("{},{}", primary.url(), replica.address());
    let place = TestStore::on(hosts);
    let engine = place.ready().await;
    let ids = enqueue(&engine, 3).await;
    let first = claim(&engine, 1).await.remove(0);
    reaches_a_replica(&primary.url());
    primary.kill().unwrap();
    ask::<()>(&replica.url(), &["REPLICAOF", "NO", "ONE"]);
    let end = success(first);
    let settled = once_it_is_back(async || engine.settle(vec![end.clone()]).await).await;
    assert_eq!(settled, [Settled::Applied], "the claim moved with the data");
    let rest: Vec<_> = claim(&engine, 5).await.iter().map(|claimed| claimed.job.id).collect();
    assert_eq!(rest, ids[1..]);
}

#[tokio::test]
async fn a_replica_that_lags_behind_is_not_asked_whether_a_job_was_stored() {
    let (primary, replica) = (server(&[]), server(&[]));
    let port = primary.address().port().to_string();
    ask::<()>(&replica.url(), &["REPLICAOF", "127.0.0.1", &port]);
    let proxy = Proxy::start(primary.address()).unwrap();
    let place = TestStore::on(format!("{},{}", proxy.url(&primary.url()), replica.address()));
    let engine = place.ready().await;
    reaches_a_replica(&primary.url());
    // The replica follows no server any more, and answers from its own data.
    ask::<()>(&replica.url(), &["REPLICAOF", "127.0.0.1", "1"]);
    let stored = request(1);
    let answers = engine.enqueue(stored.clone()).await.unwrap();
    // The next connection tries the next host.
    proxy.cut_all();
    let receipt = once_it_is_back(async || engine.receipt(stored.request).await).await;
    assert_eq!(receipt, Some(answers));
    assert!(engine.job(receipt.unwrap()[0].job().unwrap()).await.unwrap().is_some());
}

#[tokio::test]
async fn a_store_that_could_not_be_opened_anew_at_first_is_opened_by_the_next_call() {
    let server = server(&[]);
    let place = TestStore::on(server.url());
    let engine = place.ready().await;
    ask::<()>(&server.url(), &["FLUSHALL"]);
    // Another process creates the namespace anew and declares nothing, and then no declaration is possible
    // for a while.
    place.open_with(place.options()).await;
    ask::<()>(&server.url(), &["CONFIG", "SET", "maxmemory", "1"]);
    let error = engine.now().await.unwrap_err();
    assert!(matches!(error, EngineError::Full { .. }), "{error:?}");
    ask::<()>(&server.url(), &["CONFIG", "SET", "maxmemory", "0"]);
    let answers = engine.enqueue(request(1)).await.unwrap();
    assert!(answers[0].job().is_ok(), "its type is declared again: {answers:?}");
}

/// How often a store is emptied while other processes enqueue jobs.
const EMPTIED: usize = 20;

/// Enqueues jobs until it is stopped. Returns the first answer that is not a job.
async fn enqueue_until_stopped(engine: Arc<RedisEngine>, stop: Arc<AtomicBool>) -> Option<String> {
    while !stop.load(Ordering::SeqCst) {
        let answers = match engine.enqueue(request(1)).await {
            Ok(answers) => answers,
            Err(error) if error.is_passing() => continue,
            Err(error) => return Some(error.to_string()),
        };
        if answers[0].job().is_err() {
            return Some(format!("{answers:?}"));
        }
    }
    None
}

#[tokio::test(flavor = "multi_thread")]
async fn no_job_is_refused_while_an_emptied_store_gets_queues_and_types_again() {
    let server = server(&[]);
    let place = TestStore::on(server.url());
    let engine = Arc::new(place.ready().await);
    let stop = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> =
        (0..20).map(|_| tokio::spawn(enqueue_until_stopped(engine.clone(), stop.clone()))).collect();
    for _ in 0..EMPTIED {
        let url = server.url();
        tokio::task::spawn_blocking(move || ask::<()>(&url, &["FLUSHALL"])).await.unwrap();
        // As soon as the store contains jobs again, its queues and types are declared.
        let start = Instant::now();
        while engine.queues().await.unwrap().first().is_none_or(|queue| queue.counts.ready == 0) {
            assert!(start.elapsed() < WAIT_MAX, "expected a process to enqueue a job");
            tokio::task::yield_now().await;
        }
    }
    stop.store(true, Ordering::SeqCst);
    for caller in callers {
        assert_eq!(caller.await.unwrap(), None);
    }
}

/// The server has lost everything after its snapshot: another type was declared, the running job has ended,
/// and three jobs were enqueued. Returns the job that ran, and the last of the three.
async fn comes_back_older(
    server: &mut Server,
    engine: &RedisEngine,
    meanwhile: impl AsyncFn(),
) -> (JobId, JobId) {
    enqueue(engine, 2).await;
    let held = claim(engine, 1).await.remove(0);
    let ran = held.job.id;
    ask::<()>(&server.url(), &["SAVE"]);
    let types = vec![TypeSpec::new(later(), queue())];
    engine.declare(Declaration { queues: vec![], types }).await.unwrap();
    assert_eq!(engine.settle(vec![success(held)]).await.unwrap(), [Settled::Applied]);
    let last = *enqueue(engine, 3).await.last().unwrap();
    meanwhile().await;
    tokio::task::block_in_place(|| {
        server.kill().unwrap();
        server.restart().unwrap();
    });
    (ran, last)
}

fn later() -> TypeName {
    TypeName::parse("later").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_comes_back_older_raises_an_alert_by_the_numbers_of_jobs_and_gives_none_again() {
    alerts::listen();
    let mut server = server(&[("appendonly", "no")]);
    let place = TestStore::on(server.url());
    let engine = place.ready().await;
    let (ran, last) = comes_back_older(&mut server, &engine, async || ()).await;
    let jobs = vec![NewJob::new(later(), Payload::default())];
    let request = EnqueueRequest { jobs, ..request(0) };
    let answers = once_it_is_back(async || engine.enqueue(request.clone()).await).await;
    let id = answers[0].job().expect("the type that the snapshot does not know is declared again");
    assert_one_alert(&place, "the store came back older than it was");
    assert!(id > last, "{id:?} was issued before, up to {last:?}");
    assert!(matches!(engine.claim(claim_request(5)).await.unwrap(), ClaimAnswer::WorkerDead));
    let other = WorkerId::from_random(7);
    engine.register(card(other)).await.unwrap();
    let again = claimed(engine.claim(ClaimRequest { worker: other, ..claim_request(5) }).await.unwrap());
    assert_eq!(again.first().map(|claimed| claimed.job.id), Some(ran), "the jobs of the snapshot continue");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_comes_back_older_is_noticed_by_heartbeats() {
    let mut server = server(&[("appendonly", "no")]);
    let place = TestStore::on(server.url());
    let engine = place.ready().await;
    // Another process, which has enqueued nothing, and so knows no job ids.
    let worker = place.open_with(place.options()).await;
    let beat = Heartbeat { worker: WORKER, lease: card(WORKER).lease, idle: false };
    ask::<()>(&server.url(), &["SAVE"]);
    assert!(matches!(worker.extend(beat).await.unwrap(), Liveness::Alive { .. }));
    let store_epoch = || ask::<String>(&place.url, &["HGET", &place.key("layout"), "store_epoch"]);
    let before = store_epoch();
    tokio::task::block_in_place(|| {
        server.kill().unwrap();
        server.restart().unwrap();
    });
    assert_eq!(store_epoch(), before, "the snapshot is of the same store");
    let answer = once_it_is_back(async || worker.extend(beat).await).await;
    assert_eq!(answer, Liveness::Dead, "the worker must register again");
    assert_ne!(store_epoch(), before, "and every other process notices");
    assert_eq!(once_it_is_back(async || engine.workers().await).await, [], "and the worker is removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_number_is_given_again_that_a_process_knows_that_was_not_the_first_to_notice() {
    let mut server = server(&[("appendonly", "no")]);
    let place = TestStore::on(server.url());
    let engine = place.ready().await;
    // It has enqueued nothing, and so knows no job ids. But it is the first to notice.
    let worker = place.open_with(place.options()).await;
    let beat = Heartbeat { worker: WORKER, lease: card(WORKER).lease, idle: false };
    let (_, last) = comes_back_older(&mut server, &engine, async || {
        worker.extend(beat).await.unwrap();
    })
    .await;
    assert_eq!(
        once_it_is_back(async || worker.extend(beat).await).await,
        Liveness::Dead,
        "the worker has noticed"
    );
    let request = request(1);
    let answers = once_it_is_back(async || engine.enqueue(request.clone()).await).await;
    assert!(answers[0].job().unwrap() > last, "{answers:?} was issued before, up to {last:?}");
}
