//! A cluster of three servers. A namespace lies on one of them, and the engine finds it by way of any of
//! them.

use std::time::{Duration, Instant};

use windlass_core::claim::ClaimRequest;
use windlass_core::engine::{Admin, Engine};
use windlass_core::error::EngineError;
use windlass_core::settle::Settled;
use windlass_core::worker::WorkerId;
use windlass_engines::redis::{Grade, RedisEngine, RedisOptions};
use windlass_servers::redis::Server;

use crate::test_store::{
    TestStore, ask, card, claim, claim_request, claimed, declaration, enqueue, request, server, success,
};
use crate::waking::until_listening;

const SLOTS: usize = 16_384;
const READY_MAX: Duration = Duration::from_secs(60);
/// After this number of milliseconds without an answer, the other servers consider a server failed.
const NODE_TIMEOUT: &str = "2000";

/// Starts three servers that share the slots, lose nothing when they are killed, and soon notice that one
/// is gone.
fn cluster() -> Vec<Server> {
    let settings =
        [("cluster-enabled", "yes"), ("appendfsync", "always"), ("cluster-node-timeout", NODE_TIMEOUT)];
    let nodes: Vec<_> = (0..3).map(|_| server(&settings)).collect();
    for (n, node) in nodes.iter().enumerate() {
        let slots = n * SLOTS / 3..(n + 1) * SLOTS / 3;
        let slots: Vec<_> = slots.map(|slot| slot.to_string()).collect();
        let words: Vec<&str> =
            ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str)).collect();
        ask::<()>(&node.url(), &words);
        let port = nodes[0].address().port().to_string();
        ask::<()>(&node.url(), &["CLUSTER", "MEET", "127.0.0.1", &port]);
    }
    nodes.iter().for_each(wait_until_whole);
    nodes
}

fn wait_until_whole(node: &Server) {
    let began = Instant::now();
    loop {
        let info: String = ask(&node.url(), &["CLUSTER", "INFO"]);
        if info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3") {
            return;
        }
        assert!(began.elapsed() < READY_MAX, "expected a cluster, got {info}");
        // may sleep: the servers exchange their addresses, and send no signal to a client.
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_works_on_a_cluster_whichever_server_it_asks_first() {
    let nodes = tokio::task::block_in_place(cluster);
    for node in &nodes {
        for _ in 0..3 {
            let place = TestStore::on(node.url());
            let engine = place.ready().await;
            let ids = enqueue(&engine, 10).await;
            let jobs = claim(&engine, 10).await;
            assert_eq!(jobs.iter().map(|claimed| claimed.job.id).collect::<Vec<_>>(), ids);
            engine.settle(jobs.into_iter().map(success).collect()).await.unwrap();
            assert_eq!(engine.queues().await.unwrap()[0].totals.succeeded, 10);
            assert!(engine.erase().await.unwrap() > 0);
        }
    }
}

/// Returns which of the servers has the slot of a namespace.
fn server_of(place: &TestStore, nodes: &[Server]) -> usize {
    let slot: usize = ask(&nodes[0].url(), &["CLUSTER", "KEYSLOT", &place.key("layout")]);
    (0..3).find(|n| slot < (n + 1) * SLOTS / 3).expect("every slot has a server")
}

/// Creates a namespace that lies on this server, reached by way of all three.
fn place_on(server: usize, nodes: &[Server]) -> TestStore {
    let hosts: Vec<_> = nodes.iter().map(|node| node.address().to_string()).collect();
    let places = std::iter::repeat_with(|| TestStore::on(format!("redis://{}", hosts.join(","))));
    let mut places = places.take(1_000);
    places.find(|place| server_of(place, nodes) == server).expect("names fall on all servers")
}

/// Repeats a query until there is an answer. Every error until then must be a passing one.
async fn until<T>(what: &str, is_so: impl AsyncFn() -> Result<Option<T>, EngineError>) -> T {
    let began = Instant::now();
    loop {
        match is_so().await {
            Ok(Some(found)) => return found,
            Ok(None) => {}
            Err(error) => assert!(error.is_passing(), "until {what}: {error:?}"),
        }
        assert!(began.elapsed() < READY_MAX, "waited in vain until {what}");
        // may sleep: a server that is unavailable is not queried all the time.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A server of the cluster is killed and comes back. The engine returns passing errors, and continues with
/// all its jobs.
async fn goes_on_without(is_replayed: bool) {
    let mut nodes = tokio::task::block_in_place(cluster);
    let place = place_on(0, &nodes);
    let engine = place.ready_with(place.impatient()).await;
    let ids = enqueue(&engine, 10).await;
    let first = claim(&engine, 3).await;
    let away = if is_replayed { 0 } else { 1 };
    tokio::task::block_in_place(|| nodes[away].kill().unwrap());
    // The other servers stop, too, once they have noticed: by default, a cluster serves all slots or none.
    until("the cluster is down", async || match engine.queues().await {
        Ok(_) => Ok(None),
        Err(error) if error.is_passing() => Ok(Some(())),
        Err(error) => Err(error),
    })
    .await;
    tokio::task::block_in_place(|| nodes[away].restart().unwrap());
    let again = request(5);
    let more =
        until("the cluster accepts jobs again", async || engine.enqueue(again.clone()).await.map(Some)).await;
    let ends: Vec<_> = first.into_iter().map(success).collect();
    let settled = until("ends are accepted", async || engine.settle(ends.clone()).await.map(Some)).await;
    assert_eq!(settled, [Settled::Applied; 3], "a worker that ran jobs meanwhile ends them");
    let rest: Vec<_> = claim(&engine, 100).await.iter().map(|claimed| claimed.job.id).collect();
    let expected = ids[3..].iter().copied().chain(more.iter().map(|answer| answer.job().unwrap()));
    assert_eq!(rest, expected.collect::<Vec<_>>(), "no job is lost, and no job is there twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_of_a_namespace_goes_away_and_comes_back_and_its_jobs_go_on() {
    goes_on_without(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_server_of_the_cluster_goes_away_and_comes_back_and_jobs_go_on() {
    goes_on_without(false).await;
}

/// Opens an engine with a worker that waits for jobs.
async fn waiting(place: &TestStore, number: u128) -> RedisEngine {
    let (engine, worker) = (place.open_with(place.options()).await, WorkerId::from_random(number));
    engine.declare(declaration()).await.unwrap();
    engine.register(card(worker)).await.unwrap();
    let request = ClaimRequest { worker, ..claim_request(5) };
    assert_eq!(claimed(engine.claim(request).await.unwrap()), []);
    engine
}

#[tokio::test(flavor = "multi_thread")]
async fn one_engine_is_woken_on_a_cluster_and_the_others_wait_on_whichever_server_they_asked_first() {
    let nodes = tokio::task::block_in_place(cluster);
    let mut places = std::iter::repeat_with(|| TestStore::on(nodes[0].url())).take(1_000);
    let place = places.find(|place| server_of(place, &nodes) == 1).expect("names fall on all servers");
    let _engines = [waiting(&place, 1).await, waiting(&place, 2).await];
    // A server counts only the listeners that are connected to it, and takes the others for gone.
    until_listening(2, &place, &nodes[1].url()).await;
    let producer = place.open_with(RedisOptions { listen: false, ..place.options() }).await;
    enqueue(&producer, 1).await;
    let waiters: usize = ask(&nodes[1].url(), &["ZCARD", &place.key("waiters:main")]);
    assert_eq!(waiters, 1);
}

/// Moves a namespace from one server of a cluster to another, like an operator who rebalances slots.
fn move_namespace(place: &TestStore, from: &Server, to: &Server, nodes: &[Server]) {
    let slot: usize = ask(&from.url(), &["CLUSTER", "KEYSLOT", &place.key("layout")]);
    let slot = slot.to_string();
    let id_of = |node: &Server| ask::<String>(&node.url(), &["CLUSTER", "MYID"]);
    ask::<()>(&to.url(), &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id_of(from)]);
    ask::<()>(&from.url(), &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id_of(to)]);
    let (host, port) = (to.address().ip().to_string(), to.address().port().to_string());
    loop {
        let keys: Vec<String> = ask(&from.url(), &["CLUSTER", "GETKEYSINSLOT", &slot, "100"]);
        if keys.is_empty() {
            break;
        }
        let words = ["MIGRATE", &host, &port, "", "0", "5000", "KEYS"];
        let words: Vec<&str> = words.into_iter().chain(keys.iter().map(String::as_str)).collect();
        ask::<String>(&from.url(), &words);
    }
    // The receiving server comes first, so that the slot is not without a server for a moment.
    for node in std::iter::once(to).chain(nodes) {
        ask::<()>(&node.url(), &["CLUSTER", "SETSLOT", &slot, "NODE", &id_of(to)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_listens_follows_a_namespace_that_is_moved_to_another_server_of_the_cluster() {
    let nodes = tokio::task::block_in_place(cluster);
    let place = place_on(0, &nodes);
    let _engine = waiting(&place, 1).await;
    until_listening(1, &place, &nodes[0].url()).await;
    tokio::task::block_in_place(|| move_namespace(&place, &nodes[0], &nodes[1], &nodes));
    // Only the engine itself makes calls: it polls for work.
    until_listening(1, &place, &nodes[1].url()).await;
    until_listening(0, &place, &nodes[0].url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_up_tells_the_state_of_the_cluster() {
    let mut nodes = tokio::task::block_in_place(cluster);
    let place = TestStore::on(nodes[0].url());
    let grade = async |what: &str| {
        let findings = RedisEngine::examine(&place.url, place.options()).await.unwrap();
        findings.into_iter().find(|finding| finding.about == what).expect("the topic is checked").grade
    };
    assert_eq!(grade("cluster").await, Grade::Good);
    // The server is not the one that holds the slot of the namespace, which is the one queried.
    let other = if server_of(&place, &nodes) == 2 { 1 } else { 2 };
    tokio::task::block_in_place(|| nodes[other].kill().unwrap());
    let began = Instant::now();
    while grade("cluster").await != Grade::Bad {
        assert!(began.elapsed() < READY_MAX, "expected the cluster to notice");
        // may sleep: the servers send no signal when they consider one failed. A check queries all of them,
        // and more frequent checks would delay that.
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(grade("layout").await, Grade::Unread, "no key can be read while the cluster is down");
    assert_eq!(grade("durability").await, Grade::Good, "the server itself still answers");
}
