//! A cluster of three servers. A namespace lies on one of them, and the engine finds it whoever it asks.

use std::time::{Duration, Instant};

use windlass_core::engine::{Admin, Engine};
use windlass_engines::redis::{Grade, RedisEngine};
use windlass_servers::redis::Server;

use crate::place::{Place, ask, claim, enqueue, server, success};

const SLOTS: usize = 16_384;
const READY_MAX: Duration = Duration::from_secs(60);

/// Three servers that share the slots.
fn cluster() -> Vec<Server> {
    let nodes: Vec<_> = (0..3).map(|_| server(&[("cluster-enabled", "yes")])).collect();
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
        // may sleep: the servers tell each other who they are, and send no signal.
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_works_on_a_cluster_whichever_server_it_asks_first() {
    let nodes = tokio::task::block_in_place(cluster);
    for node in &nodes {
        for _ in 0..3 {
            let place = Place::on(node.url());
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

#[tokio::test(flavor = "multi_thread")]
async fn a_check_up_tells_the_state_of_the_cluster() {
    let mut nodes = tokio::task::block_in_place(cluster);
    let place = Place::on(nodes[0].url());
    let grade = async |what: &str| {
        let findings = RedisEngine::examine(&place.url, place.options()).await.unwrap();
        findings.into_iter().find(|finding| finding.about == what).expect("it is looked at").grade
    };
    assert_eq!(grade("cluster").await, Grade::Good);
    // Not the one that holds the slot of the namespace: that one is asked.
    let slot: usize = ask(&nodes[0].url(), &["CLUSTER", "KEYSLOT", &place.key("layout")]);
    let other = if (slot + 1) * 3 / SLOTS == 2 { 1 } else { 2 };
    tokio::task::block_in_place(|| nodes[other].kill().unwrap());
    let began = Instant::now();
    while grade("cluster").await != Grade::Bad {
        assert!(began.elapsed() < READY_MAX, "expected the cluster to notice");
        // may sleep: the servers tell nobody when they give one up, and a check-up asks all of them: more often it would keep
        // them from it.
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(grade("layout").await, Grade::Unread, "no key can be read while the cluster is down");
    assert_eq!(grade("durability").await, Grade::Good, "the server itself still tells");
}
