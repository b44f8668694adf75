//! The binary on a real SQLite file: jobs from end to end, and files that cannot be used.

mod common;

use common::Dir;
use serde_json::json;

fn with_type() -> Dir {
    let dir = Dir::new();
    dir.ok(&["type", "register", "t", "--queue", "high"]);
    dir
}

#[test]
fn a_job_is_put_in_listed_shown_cancelled_and_remembered_by_another_process() {
    let dir = with_type();
    assert_eq!(
        dir.ok(&["job", "enqueue", "t", "{\"n\":1}", "--json"]).json(),
        json!({ "id": 1, "result": "new" })
    );
    assert_eq!(
        dir.ok(&["job", "list", "--state", "ready", "--json"]).json()[0]["payload"],
        json!({ "n": 1 })
    );
    assert_eq!(dir.ok(&["job", "priority", "1", "low"]).out, "1 has priority 10\n");
    assert_eq!(dir.run(&["job", "wait", "1", "--timeout", "30ms"]).code, 6);
    assert_eq!(dir.ok(&["job", "cancel", "1", "--reason", "a slip"]).out, "1 cancelled\n");
    let shown = dir.ok(&["job", "show", "1", "--json"]).json();
    assert_eq!((&shown["state"], &shown["cancelled_because"]), (&json!("cancelled"), &json!("a slip")));
    assert_eq!(dir.run(&["job", "wait", "1"]).code, 1);
    assert_eq!(dir.run(&["job", "cancel", "1"]).code, 4);
    let queue = dir.ok(&["queue", "show", "high", "--json"]).json();
    assert_eq!((&queue["totals"]["enqueued"], &queue["totals"]["cancelled"]), (&json!(1), &json!(1)));
}

#[test]
fn every_refusal_has_its_code_and_json_shape() {
    let dir = with_type();
    let big = format!("\"{}\"", "x".repeat(1024 * 1024));
    for (args, code, name) in [
        (&["job", "show", "99"][..], 3, "not-found"),
        (&["job", "enqueue", "nobody"], 3, "not-found"),
        (&["queue", "show", "nowhere"], 3, "not-found"),
        (&["type", "register", "t", "--queue", "low"], 4, "refused"),
        (&["queue", "purge", "high"], 4, "refused"),
        (&["job", "enqueue", "t", "--priority", "urgent"], 2, "usage"),
        (&["job", "enqueue", "t", "--priority", "11"], 2, "usage"),
        (&["job", "enqueue", "t", "{"], 2, "usage"),
        (&["job", "enqueue", "t", "--delay", "-5s"], 2, "usage"),
        (&["job", "enqueue", "t", "--delay", "4000d"], 2, "usage"),
        (&["job", "enqueue", "odd name"], 2, "usage"),
    ] {
        let done = dir.run(&[args, &["--json"]].concat());
        assert_eq!((done.code, done.out.as_str()), (code, ""), "{args:?}: {done:?}");
        let error = done.error();
        assert_eq!(error["code"], name, "{args:?}");
        assert!(!error["message"].as_str().unwrap().is_empty() && error.get("hint").is_some(), "{error}");
    }
    assert_eq!(dir.with_input(&big, &["job", "enqueue", "t", "-"]).code, 2);
    let deep = "[".repeat(100_000);
    assert_eq!(dir.with_input(&deep, &["job", "enqueue", "t", "-"]).code, 2);
    assert_eq!(dir.ok(&["job", "list", "--json"]).json(), json!([]), "nothing was stored");
}

#[test]
fn lines_go_in_together_and_some_that_are_refused_give_5() {
    let dir = with_type();
    let lines = "{\"type\":\"t\",\"payload\":1}\n{\"type\":\"nobody\"}\n{\"type\":\"t\",\"key\":\"k\"}\n";
    let done = dir.with_input(lines, &["job", "enqueue", "--jsonl"]);
    assert_eq!((done.code, done.out.as_str()), (5, "1 new\n2 new\n"), "{done:?}");
    assert!(done.err.contains("line 2: expected a registered job type"), "{done:?}");
}

#[test]
fn a_full_queue_refuses_with_4() {
    let dir = Dir::new();
    dir.write("windlass.toml", "[queues.tiny]\ncapacity = 1\n[types.t]\nqueue = \"tiny\"\n");
    dir.ok(&["job", "enqueue", "t"]);
    let done = dir.run(&["job", "enqueue", "t"]);
    assert_eq!(done.code, 4);
    assert!(done.err.contains("queue tiny is full"), "{done:?}");
}

#[test]
fn configured_labels_are_known_and_kept_with_the_job() {
    let dir = Dir::new();
    dir.write("windlass.toml", "[priorities]\nurgent = 1\n[types.t]\nqueue = \"low\"\n");
    dir.ok(&["job", "enqueue", "t", "--priority", "URGENT"]);
    let job = dir.ok(&["job", "show", "1", "--json"]).json();
    assert_eq!(
        (&job["priority"], &job["label"], &job["queue"]),
        (&json!(1), &json!("urgent"), &json!("low"))
    );
}

#[test]
fn a_missing_file_is_not_made_by_a_command_that_only_looks() {
    let dir = Dir::new();
    for args in [&["queue", "list"][..], &["job", "list"], &["dlq", "retry", "1"], &["job", "show", "1"]] {
        let done = dir.run(args);
        assert_eq!((done.code, done.out.as_str()), (69, ""), "{args:?}: {done:?}");
        assert!(done.err.contains("windlass.db") && done.err.contains("--db"), "{done:?}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    let done = dir.run(&["migrate", "--db", "no/such/dir/x.db"]);
    assert_eq!(done.code, 69, "{done:?}");
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_as_it_is() {
    let dir = Dir::new();
    let text = "this is a letter, not a database. ".repeat(200);
    dir.write("windlass.db", &text);
    for args in [&["queue", "list"][..], &["migrate"], &["migrate", "--dry-run"], &["job", "enqueue", "t"]] {
        let done = dir.run(&[args, &["--json"]].concat());
        assert_eq!(done.code, 69, "{args:?}: {done:?}");
        assert_eq!(done.error()["code"], "store", "{args:?}");
    }
    assert_eq!(std::fs::read_to_string(dir.path().join("windlass.db")).unwrap(), text);
    std::fs::create_dir(dir.path().join("folder.db")).unwrap();
    assert_eq!(dir.run(&["queue", "list", "--db", "folder.db"]).code, 69);
}

#[test]
fn a_damaged_file_is_told_and_never_a_panic() {
    let dir = with_type();
    for _ in 0..20 {
        dir.ok(&["job", "enqueue", "t"]);
    }
    let path = dir.path().join("windlass.db");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[100..].iter_mut().for_each(|byte| *byte = 0xa5);
    std::fs::write(&path, bytes).unwrap();
    let _ = std::fs::remove_file(dir.path().join("windlass.db-wal"));
    for args in [&["queue", "list"][..], &["job", "list"], &["job", "enqueue", "t"], &["migrate"]] {
        let done = dir.run(args);
        assert_eq!(done.code, 69, "{args:?}: {done:?}");
        assert!(!done.err.contains("panicked"), "{done:?}");
    }
}

#[test]
fn a_place_where_nothing_can_be_written_is_refused() {
    // The permissions of a file mean nothing to root; nobody can make a file here.
    let done = Dir::new().run(&["job", "enqueue", "t", "--db", "/proc/self/windlass.db"]);
    assert_eq!(done.code, 69, "{done:?}");
}

#[test]
fn memory_cannot_be_shared_with_a_command() {
    let done = Dir::new().with_env(&[("WINDLASS__STORE__ENGINE", "memory")], &["queue", "list"]);
    assert_eq!(done.code, 78);
    assert!(done.err.contains("memory"), "{done:?}");
}

#[test]
fn a_dry_run_shows_the_statements_and_makes_nothing() {
    let dir = Dir::new();
    assert!(dir.ok(&["migrate", "--dry-run"]).out.contains("CREATE TABLE"));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    let applied = dir.ok(&["migrate", "--json"]).json();
    assert!(!applied["migrations"].as_array().unwrap().is_empty());
    assert_eq!(dir.ok(&["migrate"]).out, "up to date\n");
    assert_eq!(dir.ok(&["migrate", "--dry-run"]).out, "up to date\n");
    assert_eq!(dir.ok(&["queue", "list", "--json"]).json().as_array().unwrap().len(), 5);
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_wait_with_130() {
    use std::io::{BufRead, BufReader};
    let dir = with_type();
    dir.ok(&["job", "enqueue", "t"]);
    let mut child = dir.command(&["job", "wait", "1", "-v"]).spawn().unwrap();
    // The first line of the log says that the wait has begun and listens for the signal.
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("waiting for job 1") {
        line.clear();
        assert!(log.read_line(&mut line).unwrap() > 0, "the wait says when it begins");
    }
    let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}
