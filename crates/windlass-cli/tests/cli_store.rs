//! The binary on a real SQLite file: jobs from end to end, and files that cannot be used.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod common;

use std::io::{BufRead, BufReader};

use common::{Dir, ended};
use serde_json::json;
use windlass_core::claim::{ClaimAnswer, ClaimRequest, ClaimToken, Suspects};
use windlass_core::engine::Engine;
use windlass_core::limits::WORKER_LEASE;
use windlass_core::names::{QueueName, TypeName};
use windlass_core::outcome::{AttemptOutcome, ErrorKind, JobError};
use windlass_core::retry::RetryPolicy;
use windlass_core::settle::{AttemptReport, settle};
use windlass_core::worker::{WorkerCard, WorkerId};
use windlass_engines::sqlite::{SqliteEngine, SqliteOptions};

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
fn a_queue_and_a_type_that_cannot_be_read_are_named_beside_the_others_and_stop_no_other_command() {
    let dir = with_type();
    dir.ok(&["type", "register", "u", "--queue", "low"]);
    let file = rusqlite::Connection::open(dir.path().join("windlass.db")).unwrap();
    let damage = "UPDATE queues SET spec = json_set(spec, '$.concurrency', 'many') WHERE name = 'high';
         UPDATE job_types SET spec = '{' WHERE name = 't'";
    file.execute_batch(damage).unwrap();
    assert_eq!(dir.ok(&["job", "enqueue", "u"]).out, "1 new\n");
    assert_eq!(dir.run(&["job", "enqueue", "t"]).code, 69);
    for (list, show, what) in [
        (["queue", "list"], ["queue", "show", "high"], "a wrong `concurrency`"),
        (["type", "list"], ["type", "show", "t"], "expected job type t"),
    ] {
        assert!(dir.ok(&list).out.contains("unreadable"));
        assert!(dir.ok(&show).out.contains(what));
        let listed = dir.ok(&[list[0], list[1], "--json"]).json();
        let named = |one: &&serde_json::Value| one["name"] == show[2];
        let one = listed.as_array().unwrap().iter().find(named).unwrap();
        assert!(one["unreadable"].as_str().unwrap().contains(what), "{one}");
        assert_eq!((&one["concurrency"], &one["retry"]), (&json!(null), &json!(null)), "no defaults: {one}");
    }
}

#[test]
fn a_breaker_that_cannot_be_read_is_named_and_reset_and_the_others_go_on() {
    let dir = with_type();
    for name in ["bank", "shop"] {
        dir.ok(&["breaker", "open", name]);
    }
    let file = rusqlite::Connection::open(dir.path().join("windlass.db")).unwrap();
    file.execute_batch("UPDATE job_breakers SET state = '{' WHERE name = 'shop'").unwrap();
    assert_eq!(dir.ok(&["breaker", "close", "bank", "--json"]).json()["state"], "closed");
    assert_eq!(dir.run(&["breaker", "close", "shop"]).code, 69);
    let listed = dir.ok(&["breaker", "list", "--json"]).json();
    assert_eq!((&listed[0]["state"], &listed[1]["state"]), (&json!("closed"), &json!(null)));
    assert!(listed[1]["why"].as_str().unwrap().contains("expected breaker shop"), "{listed}");
    assert_eq!(dir.ok(&["breaker", "reset", "shop", "--json"]).json()["state"], "closed");
}

#[test]
fn several_processes_at_once_with_one_key_make_one_job() {
    let dir = with_type();
    let enqueue = ["job", "enqueue", "t", "--key", "wallet:1", "--json"];
    let processes: Vec<_> = (0..8).map(|_| dir.command(&enqueue).spawn().unwrap()).collect();
    let answers: Vec<serde_json::Value> = processes
        .into_iter()
        .map(|process| serde_json::from_slice(&process.wait_with_output().unwrap().stdout).unwrap())
        .collect();
    let new = answers.iter().filter(|answer| answer["result"] == "new");
    assert_eq!(new.count(), 1, "{answers:?}");
    assert!(answers.iter().all(|answer| answer["id"] == 1), "{answers:?}");
    assert_eq!(dir.ok(&["queue", "show", "high", "--json"]).json()["totals"]["enqueued"], 1);
}

#[test]
fn every_refusal_has_its_code_and_json_shape() {
    let dir = with_type();
    let big = format!("\"{}\"", "x".repeat(1024 * 1024));
    for (args, code, name) in [
        (&["job", "show", "99"][..], 3, "not-found"),
        (&["job", "enqueue", "unknown"], 3, "not-found"),
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
    let lines = "{\"type\":\"t\",\"payload\":1}\n{\"type\":\"unknown\"}\n{\"type\":\"t\",\"key\":\"k\"}\n";
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
fn a_damaged_file_is_an_error_and_never_a_panic() {
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
fn a_locked_file_is_waited_for_as_long_as_configured_and_then_refused() {
    let dir = with_type();
    let other = rusqlite::Connection::open(dir.path().join("windlass.db")).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let enqueue = ["job", "enqueue", "t", "--json"];
    let variable = "WINDLASS__STORE__BUSY_TIMEOUT";
    let mut patient = dir.command(&enqueue).env(variable, "10m").spawn().unwrap();
    // The second of them waits for the default time, which is five seconds.
    for variables in [&[(variable, "50ms")][..], &[]] {
        let done = dir.with_env(variables, &enqueue);
        assert_eq!((done.code, &done.error()["code"]), (69, &json!("store")), "{done:?}");
    }
    assert_eq!(patient.try_wait().unwrap(), None, "it still waits, unlike one with the default");
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(ended(&mut patient), Some(0));
    dir.ok(&enqueue);
}

#[test]
fn a_place_where_nothing_can_be_written_is_refused() {
    // File permissions do not apply to root, but no user can create a file here.
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

/// Reads the log of a program up to the line with these words, and returns the line.
fn log_line(child: &mut std::process::Child, words: &str) -> String {
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(words) {
        line.clear();
        assert!(log.read_line(&mut line).unwrap() > 0, "expected the log to say {words:?}");
    }
    child.stderr = Some(log.into_inner());
    line
}

/// Starts `job wait`, and returns it once its log says that it waits.
fn begin_wait(dir: &Dir, id: &str) -> std::process::Child {
    let mut child = dir.command(&["job", "wait", id, "-v"]).spawn().unwrap();
    log_line(&mut child, &format!("waiting for job {id}"));
    child
}

#[cfg(unix)]
#[test]
fn the_log_of_serve_says_what_waits_and_runs_and_on_which_engine() {
    let dir = with_type();
    dir.ok(&["job", "enqueue", "t", "--delay", "1h"]);
    let mut serve = dir.command(&["serve"]).spawn().unwrap();
    let line = log_line(&mut serve, "waiting and running jobs");
    for field in [
        "depth=1",
        "ready=0",
        "scheduled=1",
        "parked=0",
        "running=0",
        "shut_down=false",
        "active_engine=\"sqlite\"",
        "primary_healthy=true",
        "spool_size=0",
    ] {
        assert!(line.contains(field), "{field}: {line}");
    }
    serve.kill().unwrap();
    serve.wait().unwrap();
}

#[test]
fn a_queue_is_shown_with_all_that_waits_and_runs_and_with_the_engine_behind_it() {
    let dir = with_type();
    dir.ok(&["job", "enqueue", "t"]);
    dir.ok(&["job", "enqueue", "t", "--delay", "1h"]);
    dir.ok(&["queue", "shut", "high"]);
    let queue = dir.ok(&["queue", "show", "high", "--json"]).json();
    let counts = &queue["counts"];
    let counted =
        [&queue["depth"], &counts["ready"], &counts["scheduled"], &counts["running"], &queue["spool_size"]];
    assert_eq!(counted, [&json!(2), &json!(1), &json!(1), &json!(0), &json!(0)], "{queue}");
    let fields = [&queue["shut"], &queue["active_engine"], &queue["primary_healthy"]];
    assert_eq!(fields, [&json!(true), &json!("sqlite"), &json!(true)], "{queue}");
}

#[cfg(unix)]
#[test]
fn serve_warns_of_a_backlog_that_has_passed_its_mark() {
    let dir = with_type();
    dir.write("windlass.toml", "[queues.high]\nwarn_depth = 1\n");
    dir.ok(&["job", "enqueue", "t", "--delay", "1h"]);
    dir.ok(&["job", "enqueue", "t", "--delay", "1h"]);
    let mut serve = dir.command(&["serve"]).spawn().unwrap();
    let line = log_line(&mut serve, "warn_depth");
    for field in ["WARN", "queue=high", "depth=2"] {
        assert!(line.contains(field), "{field}: {line}");
    }
    serve.kill().unwrap();
    serve.wait().unwrap();
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_wait_with_130() {
    let dir = with_type();
    dir.ok(&["job", "enqueue", "t"]);
    let mut child = begin_wait(&dir, "1");
    let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// Claims the next job of `t` as a worker in this process would, and ends it.
async fn run_one(dir: &Dir, outcome: AttemptOutcome, output: &str) {
    let engine = SqliteEngine::open(dir.path().join("windlass.db"), SqliteOptions::default()).unwrap();
    let (queues, types): (Vec<QueueName>, Vec<TypeName>) =
        (vec!["high".parse().unwrap()], vec!["t".parse().unwrap()]);
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).unwrap();
    let (id, token) = (WorkerId::from_bytes(bits), ClaimToken::from_bytes(bits));
    let card = WorkerCard {
        id,
        host: "here".into(),
        pid: 1,
        version: "0".into(),
        queues: queues.clone(),
        types: types.clone(),
        duties: Vec::new(),
        slots: 0,
        lease: WORKER_LEASE,
    };
    engine.register(card).await.unwrap();
    let request = ClaimRequest {
        token,
        repeat: false,
        worker: id,
        queues,
        types,
        limit: 1,
        boosted_max: 0,
        suspects: Suspects::LeaveOut,
    };
    let ClaimAnswer::Claimed { mut jobs, .. } = engine.claim(request).await.unwrap() else {
        panic!("just registered")
    };
    let claimed = jobs.pop().expect("a job is ready");
    let transition = settle(&claimed.job, outcome, &RetryPolicy::default(), claimed.age);
    let report = AttemptReport { output: Some(output.to_owned()), ..AttemptReport::default() };
    engine.settle(vec![claimed.settled(transition, report)]).await.unwrap();
    engine.retire(id).await.unwrap();
}

#[tokio::test]
async fn a_wait_ends_when_another_process_ends_the_job() {
    let dir = with_type();
    dir.ok(&["job", "enqueue", "t"]);
    let mut child = begin_wait(&dir, "1");
    run_one(&dir, AttemptOutcome::Done(None), "").await;
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[tokio::test]
async fn dead_letters_are_inspected_started_over_and_discarded() {
    let dir = with_type();
    for _ in 0..2 {
        dir.ok(&["job", "enqueue", "t"]);
        run_one(&dir, AttemptOutcome::Dead(JobError::new(ErrorKind::Failed, "out of paper")), "printing\n")
            .await;
    }
    assert_eq!(dir.ok(&["dlq", "list", "--queue", "high", "--json"]).json().as_array().unwrap().len(), 2);
    let shown = dir.ok(&["dlq", "show", "1", "--json"]).json();
    assert_eq!(
        (&shown["last_error"]["text"], &shown["attempts"][0]["ending"]),
        (&json!("out of paper"), &json!("dead"))
    );
    assert_eq!(dir.ok(&["job", "log", "1"]).out, "printing\n");
    assert_eq!(dir.run(&["job", "wait", "1"]).code, 1);
    assert_eq!(dir.run(&["dlq", "discard", "--all"]).code, 4);
    assert_eq!(dir.ok(&["dlq", "retry", "1"]).out, "1 retried\n");
    assert_eq!(dir.ok(&["job", "show", "1", "--json"]).json()["counters"]["failures"], 0);
    assert_eq!(dir.run(&["dlq", "discard", "1", "2"]).code, 5, "job 1 is ready now");
    assert_eq!(dir.run(&["job", "show", "2"]).code, 3);
    assert_eq!(dir.ok(&["queue", "purge", "high", "--yes"]).out, "1 jobs of high cancelled\n");
}

#[tokio::test]
async fn a_wait_for_a_job_that_is_not_kept_says_so() {
    let dir = with_type();
    dir.ok(&["type", "register", "t", "--queue", "high", "--retention-days", "0"]);
    dir.ok(&["job", "enqueue", "t"]);
    let child = begin_wait(&dir, "1");
    run_one(&dir, AttemptOutcome::Done(None), "").await;
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("was not kept"), "{output:?}");
}

#[test]
fn a_look_from_elsewhere_brings_no_removed_queue_back() {
    let dir = Dir::new();
    dir.write("own.toml", "[queues.bulk]\nremove = true\n[queues.mine]\n[types.t]\nqueue = \"mine\"\n");
    dir.ok(&["job", "enqueue", "t", "--config", "own.toml"]);
    let names = || {
        let queues = dir.ok(&["queue", "list", "--json"]).json();
        queues.as_array().unwrap().iter().map(|queue| queue["name"].to_string()).collect::<Vec<_>>().join(" ")
    };
    assert!(names().contains("mine") && !names().contains("bulk"), "{}", names());
    dir.ok(&["type", "register", "u", "--queue", "high"]);
    assert!(!names().contains("bulk"), "nor does a command that adds something");
    dir.write("more.toml", "[queues.extra]\n");
    dir.ok(&["job", "enqueue", "t", "--config", "more.toml"]);
    assert!(names().contains("extra"), "queues that the configuration adds are declared in the store");
}
