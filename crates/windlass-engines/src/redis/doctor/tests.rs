//! Tests of the conclusions from a server's answers. `tests/redis/doctor.rs` examines real servers.

use std::time::Duration;

use windlass_core::clock::Timestamp;

use super::super::server::ServerFacts;
use super::pace::{Slow, slow_commands};
use super::{Unanswered, disk, layout, machine, rights, room};
use crate::finding::Grade::{Bad, Good, Poor, Unread};
use crate::redis::info::Info;

#[test]
fn a_disk_that_cannot_be_written_is_bad_and_a_file_that_only_grows_is_poor() {
    let of = |write: &str, rewrite: &str, save: &str| {
        let text = format!(
            "aof_last_write_status:{write}\r\naof_last_bgrewrite_status:{rewrite}\r\nrdb_last_bgsave_status:{save}\r\n"
        );
        disk::disk(&Info::of(&text)).unwrap().grade
    };
    assert_eq!(of("ok", "ok", "ok"), Good);
    assert_eq!(of("err", "ok", "ok"), Bad);
    assert_eq!(of("ok", "ok", "err"), Bad);
    assert_eq!(of("ok", "err", "ok"), Poor);
    assert!(disk::disk(&Info::of("")).is_none(), "a missing value is not called good");
}

#[test]
fn a_store_that_was_emptied_lately_is_poor_and_one_long_ago_is_no_news() {
    let now = Timestamp::EPOCH.plus(Duration::from_secs(100 * 24 * 60 * 60));
    let of = |last: Timestamp| layout::losses(Some(3), Some(last), now);
    assert_eq!(layout::losses(None, None, now).grade, Good);
    assert_eq!((of(now).grade, of(Timestamp::EPOCH).grade), (Poor, Good));
    assert!(of(now).found.contains("3 times"), "{}", of(now).found);
}

#[test]
fn memory_is_compared_with_the_limit_or_else_with_the_machine() {
    let of = |used: u32, most: u32| {
        let text = format!("used_memory:{used}\r\nmaxmemory:{most}\r\ntotal_system_memory:1000\r\n");
        room::memory(&Info::of(&text)).unwrap().grade
    };
    assert_eq!((of(79, 100), of(80, 100), of(96, 100)), (Good, Poor, Bad));
    assert_eq!((of(79, 0), of(850, 0)), (Good, Poor));
}

#[test]
fn connections_near_their_most_are_told() {
    let of = |open: u32| {
        let info = Info::of(&format!("connected_clients:{open}\r\nrejected_connections:3\r\n"));
        room::connections(&info, 100.0).unwrap()
    };
    assert_eq!((of(10).grade, of(85).grade, of(99).grade), (Good, Poor, Bad));
    assert!(of(10).found.contains("3 were turned away"));
}

#[test]
fn a_replica_that_stays_behind_is_told_with_how_far() {
    let of = |state: &str, lag: u32| {
        let text = format!(
            "role:master\r\nconnected_slaves:1\r\nslave0:ip=10.0.0.2,port=6379,state={state},offset=900,lag={lag}\r\nmaster_repl_offset:1000\r\n"
        );
        machine::replicas(&Info::of(&text)).unwrap()
    };
    assert_eq!((of("online", 1).grade, of("online", 10).grade, of("online", 100).grade), (Good, Poor, Bad));
    assert_eq!(of("send_bulk", 0).grade, Poor);
    assert!(of("online", 1).found.contains("10.0.0.2:6379 is online, 100 bytes behind"));
    let cut_off = machine::replicas(&Info::of("role:slave\r\nmaster_link_status:down\r\n")).unwrap();
    assert_eq!(cut_off.grade, Bad);
}

#[test]
fn a_server_that_keeps_nothing_is_bad_and_one_that_does_not_tell_is_not_called_good() {
    let of = |appends: bool, syncs: Option<&str>, snapshots: Option<bool>| {
        let info = Info::of(if appends { "aof_enabled:1\r\n" } else { "aof_enabled:0\r\n" });
        let facts = ServerFacts::of(&info, syncs.map(str::to_owned), snapshots);
        disk::durability(&facts, None).grade
    };
    assert_eq!((of(true, Some("always"), None), of(true, Some("everysec"), None)), (Good, Good));
    assert_eq!((of(true, Some("no"), None), of(true, None, None)), (Poor, Unread));
    assert_eq!((of(false, None, Some(true)), of(false, None, Some(false))), (Poor, Bad));
}

#[test]
fn only_who_is_denied_its_settings_is_told_to_be_let() {
    let facts = ServerFacts::of(&Info::of("aof_enabled:1\r\n"), None, None);
    let advice = |code: &str| {
        let cause = Unanswered { why: "no".to_owned(), code: code.to_owned(), is_passing: false };
        let found = disk::durability(&facts, Some(&cause));
        assert_eq!(found.grade, Unread);
        found.advice.unwrap()
    };
    assert!(advice("NOPERM").contains("grant this user CONFIG GET"), "{}", advice("NOPERM"));
    assert!(advice("ERR").contains("with the server's own tools"), "{}", advice("ERR"));
}

#[test]
fn a_long_fork_is_told() {
    let of = |micros: u32| {
        let info = Info::of(&format!("latest_fork_usec:{micros}\r\naof_rewrite_in_progress:1\r\n"));
        disk::forks(&info).unwrap()
    };
    assert_eq!((of(900).grade, of(300_000).grade, of(3_000_000).grade), (Good, Poor, Bad));
    assert!(of(900).found.contains("being rewritten now"));
}

#[test]
fn what_was_slow_long_ago_is_over() {
    let now = Timestamp::EPOCH.plus(Duration::from_secs(100_000));
    let slow = |ago: u64, millis: u64| Slow {
        command: "KEYS".to_owned(),
        is_ours: false,
        at: Timestamp::EPOCH.plus(Duration::from_secs(100_000 - ago)),
        took: Duration::from_millis(millis),
    };
    assert_eq!(slow_commands(&[slow(7_200, 5_000)], now).grade, Good);
    let found = slow_commands(&[slow(7_200, 5_000), slow(60, 300), slow(60, 20)], now);
    assert_eq!(found.grade, Poor);
    assert!(found.found.contains("2 within") && found.found.contains("KEYS"), "{found:?}");
    assert_eq!(slow_commands(&[slow(60, 3_000)], now).grade, Bad);
}

#[test]
fn the_commands_that_need_rights_are_those_that_scripts_call() {
    let commands = rights::commands(7);
    for known in ["ZADD", "HSET", "PUBLISH", "EVALSHA", "SUBSCRIBE", "UNLINK"] {
        assert!(commands.contains(known), "{known}: {commands:?}");
    }
    assert!(commands.iter().all(|name| name.bytes().all(|b| b.is_ascii_uppercase())), "{commands:?}");
}
