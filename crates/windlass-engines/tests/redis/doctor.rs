//! The doctor checks real servers and names what is wrong with them.

use std::time::{Duration, Instant};

use windlass_core::engine::Admin;
use windlass_engines::redis::{Finding, Grade, RedisEngine, RedisOptions};

use crate::test_store::{TestStore, ask, enqueue, generation, server};

/// This version has users and cannot report their rights; earlier versions have none, and later ones report
/// them.
const TELLS_NO_RIGHTS: u32 = 6;

async fn examine(place: &TestStore) -> Vec<Finding> {
    RedisEngine::examine(&place.url, place.options()).await.expect("the server answers")
}

fn about<'a>(findings: &'a [Finding], what: &str) -> &'a Finding {
    findings.iter().find(|finding| finding.about == what).unwrap_or_else(|| panic!("{what}: {findings:?}"))
}

fn assert_grade(findings: &[Finding], what: &str, grade: Grade) {
    let finding = about(findings, what);
    assert_eq!(finding.grade, grade, "{finding:?}");
    assert_eq!(finding.advice.is_none(), grade == Grade::Good, "{finding:?}");
}

/// Waits until `INFO` reports a field.
fn wait_for(url: &str, field: &str) {
    let began = Instant::now();
    while !ask::<String>(url, &["INFO"]).contains(field) {
        assert!(began.elapsed() < Duration::from_secs(60), "expected {field}");
        // may sleep: the server sends no signal, and while it answers it does nothing else.
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fresh_server_is_in_good_health_and_stays_untouched() {
    let server = server(&[]);
    let place = TestStore::on(server.url());
    let findings = examine(&place).await;
    assert!(findings.len() >= 14, "{findings:?}");
    for finding in &findings {
        // The machine that runs the tests may be slow or full; that is no fault of the check.
        if finding.about == "rights" && generation(&place.url) == TELLS_NO_RIGHTS {
            assert_eq!(finding.grade, Grade::Unread, "{finding:?}");
        } else if !["latency", "memory", "forks", "slow commands"].contains(&finding.about) {
            assert_eq!(finding.grade, Grade::Good, "{finding:?}");
        }
    }
    assert_eq!(ask::<u64>(&place.url, &["DBSIZE"]), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_drops_keys_or_is_full_is_told() {
    let server = server(&[("maxmemory-policy", "allkeys-lru")]);
    let place = TestStore::on(server.url());
    assert_grade(&examine(&place).await, "eviction", Grade::Bad);
    let wanted = RedisOptions { allow_eviction: true, ..place.options() };
    let findings = RedisEngine::examine(&place.url, wanted).await.unwrap();
    assert_grade(&findings, "eviction", Grade::Poor);
    ask::<()>(&place.url, &["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    ask::<()>(&place.url, &["CONFIG", "SET", "maxmemory", "100kb"]);
    let findings = examine(&place).await;
    assert_grade(&findings, "memory", Grade::Bad);
    assert_eq!(findings[0].grade, Grade::Bad, "the worst finding comes first");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_be_lost_is_told() {
    let server = server(&[("appendonly", "no")]);
    let place = TestStore::on(server.url());
    assert_grade(&examine(&place).await, "durability", Grade::Bad);
    ask::<()>(&place.url, &["CONFIG", "SET", "save", "60 1"]);
    assert_grade(&examine(&place).await, "durability", Grade::Poor);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_failed_is_told() {
    // A folder has the name of the snapshot file.
    let server = server(&[("dbfilename", "in-the-way")]);
    std::fs::create_dir(server.folder().join("in-the-way")).unwrap();
    let place = TestStore::on(server.url());
    ask::<String>(&place.url, &["BGSAVE"]);
    wait_for(&place.url, "rdb_last_bgsave_status:err");
    let findings = examine(&place).await;
    assert_grade(&findings, "disk", Grade::Bad);
    assert!(about(&findings, "disk").found.contains("rdb_last_bgsave_status"), "{findings:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_is_told_from_its_primary_and_the_primary_is_looked_at_if_both_are_named() {
    let (primary, copy) = (server(&[]), server(&[]));
    let port = primary.address().port().to_string();
    ask::<()>(&copy.url(), &["REPLICAOF", "127.0.0.1", &port]);
    wait_for(&copy.url(), "master_link_status:up");
    wait_for(&primary.url(), "state=online");
    let findings = examine(&TestStore::on(copy.url())).await;
    assert_grade(&findings, "server", Grade::Bad);
    assert!(about(&findings, "server").found.contains(&format!("127.0.0.1:{port}")), "{findings:?}");
    let both = format!("{},{}", copy.url(), primary.address());
    let findings = examine(&TestStore::on(both)).await;
    assert_grade(&findings, "server", Grade::Good);
    let replicas = &about(&findings, "replicas").found;
    assert!(replicas.contains(&copy.address().port().to_string()), "{replicas}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_away_is_told_beside_what_the_other_says() {
    let server = server(&[]);
    let address = server.address();
    for hosts in [format!("redis://127.0.0.1:1,{address}"), format!("redis://{address},127.0.0.1:1")] {
        let findings = examine(&TestStore::on(hosts)).await;
        assert_grade(&findings, "hosts", Grade::Poor);
        assert_grade(&findings, "server", Grade::Good);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_the_rights_of_the_docs_lacks_none_and_is_told_what_it_cannot_read() {
    let server = server(&[]);
    let mut place = TestStore::on(server.url());
    let rights = [&format!("~{{{}}}:*", place.namespace), &format!("&{{{}}}:*", place.namespace)];
    let docs = ["+@all", "-@admin", "-@dangerous", "+info"];
    let words =
        [&["ACL", "SETUSER", "ada", "on", ">secret", "resetchannels", rights[0], rights[1]][..], &docs];
    let words = words.concat();
    ask::<()>(&place.url, &words);
    place.url = format!("redis://ada:secret@{}", server.address());
    let findings = examine(&place).await;
    for what in ["durability", "slow commands"] {
        assert_grade(&findings, what, Grade::Unread);
    }
    if generation(&server.url()) == TELLS_NO_RIGHTS {
        return assert_grade(&findings, "rights", Grade::Unread);
    }
    assert_grade(&findings, "rights", Grade::Good);
    let ready_key = Some(format!("orders:{{{}}}", place.namespace));
    let elsewhere = RedisOptions { ready_key, ..place.options() };
    let findings = RedisEngine::examine(&place.url, elsewhere).await.unwrap();
    assert_grade(&findings, "rights", Grade::Bad);
    ask::<()>(&server.url(), &["ACL", "SETUSER", "ada", "-zadd", "resetchannels"]);
    let findings = examine(&place).await;
    assert_grade(&findings, "rights", Grade::Bad);
    let found = &about(&findings, "rights").found;
    assert!(found.contains("ZADD") && found.contains("PUBLISH") && !found.contains("ZREM"), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_may_not_even_ask_what_the_server_is_is_told_so() {
    let server = server(&[]);
    let place = TestStore::on(format!("redis://ada:secret@{}", server.address()));
    ask::<()>(&server.url(), &["ACL", "SETUSER", "ada", "on", ">secret", "~*", "&*", "+@all", "-info"]);
    let findings = examine(&place).await;
    assert_grade(&findings, "rights", Grade::Bad);
    for what in ["server", "memory", "disk", "connections", "durability"] {
        assert_grade(&findings, what, Grade::Unread);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_that_blocked_the_server_are_named_with_whose_they_were() {
    let server = server(&[]);
    let place = TestStore::on(server.url());
    let slow = "local from = redis.call('TIME') repeat local now = redis.call('TIME') \
        until (now[1] - from[1]) * 1000000 + now[2] - from[2] > 200000";
    ask::<()>(&place.url, &["EVAL", slow, "1", &place.key("")]);
    let findings = examine(&place).await;
    let finding = about(&findings, "slow commands");
    assert!(
        finding.grade >= Grade::Poor && finding.found.contains("1 of them by this namespace"),
        "{finding:?}"
    );
    let others = examine(&TestStore::on(server.url())).await;
    assert!(about(&others, "slow commands").found.contains("another client"), "{others:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_nearly_used_up_are_told() {
    let server = server(&[]);
    let place = TestStore::on(server.url());
    ask::<()>(&place.url, &["CONFIG", "SET", "maxclients", "10"]);
    let open = || redis::Client::open(place.url.as_str()).unwrap().get_connection().unwrap();
    let _crowd: Vec<_> = (0..8).map(|_| open()).collect();
    assert_grade(&examine(&place).await, "connections", Grade::Poor);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_a_newer_version_and_other_names_of_lanes_are_told() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    enqueue(&engine, 1).await;
    assert_grade(&examine(&place).await, "layout", Grade::Good);
    let elsewhere =
        RedisOptions { ready_key: Some(format!("orders:{{{}}}", place.namespace)), ..place.options() };
    let findings = RedisEngine::examine(&place.url, elsewhere).await.unwrap();
    assert_grade(&findings, "layout", Grade::Bad);
    assert_eq!(engine.queues().await.unwrap()[0].counts.ready, 1, "nothing was changed");
    for other in ["0", "2"] {
        ask::<i64>(&place.url, &["HSET", &place.key("layout"), "version", other]);
        assert_grade(&examine(&place).await, "layout", Grade::Bad);
    }
}
