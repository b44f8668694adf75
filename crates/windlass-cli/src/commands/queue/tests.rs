use serde_json::json;

use crate::exit::Code;
use crate::testing::Shell;

#[tokio::test]
async fn a_fresh_store_knows_the_five_queues() {
    let shell = Shell::new();
    let queues = shell.ok("queue list --json").await.json();
    let names: Vec<_> =
        queues.as_array().unwrap().iter().map(|queue| queue["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["high", "default", "screenshot", "low", "bulk"]);
    let table = shell.ok("queue list").await.out;
    assert!(table.starts_with("queue       priority  slots  ready"), "{table}");
}

#[tokio::test]
async fn a_look_never_changes_a_queue_that_the_store_knows() {
    let shell = Shell::with_type().await;
    let changed = windlass_core::queue::QueueSpec {
        concurrency: 99,
        ..windlass_core::queue::QueueSpec::new("high".parse().unwrap())
    };
    let declaration = windlass_core::engine::Declaration { queues: vec![changed], types: Vec::new() };
    windlass_core::engine::Engine::declare(&*shell.engine, declaration).await.unwrap();
    assert_eq!(shell.ok("queue show high --json").await.json()["concurrency"], 99);
}

#[tokio::test]
async fn a_queue_shows_what_is_in_it_and_what_happened() {
    let shell = Shell::with_type().await;
    shell.ok("job enqueue t").await;
    shell.ok("job enqueue t --delay 1h").await;
    let queue = shell.ok("queue show HIGH --json").await.json();
    assert_eq!(queue["counts"]["ready"], 1);
    assert_eq!(queue["counts"]["scheduled"], 1);
    assert_eq!(queue["depth"], 2);
    assert_eq!(queue["totals"]["enqueued"], 2);
    assert_eq!(
        (&queue["p95_target"], &queue["paused"], &queue["shut"]),
        (&json!("30s"), &json!(false), &json!(false))
    );
    let text = shell.ok("queue show high").await.out;
    assert!(text.contains("1 ready, 1 scheduled, 0 parked, 0 running, 0 dead letters"), "{text}");
    assert_eq!(shell.run("queue show hihg", "").await.code, Code::NotFound);
}

#[tokio::test]
async fn a_pause_has_a_reason_and_an_end() {
    let shell = Shell::new();
    shell.ok("queue pause bulk --reason moving --for 30m").await;
    let queue = shell.ok("queue show bulk --json").await.json();
    assert_eq!(
        queue["pause"],
        json!({ "since": "2026-01-01T00:00:00.000Z", "until": "2026-01-01T00:30:00.000Z", "reason": "moving" })
    );
    assert!(shell.ok("queue list").await.out.contains("paused for 30m: moving"));
    shell.clock.advance(std::time::Duration::from_secs(1800));
    assert_eq!(shell.ok("queue show bulk --json").await.json()["paused"], false, "it ended by itself");
    shell.ok("queue pause bulk").await;
    assert_eq!(shell.ok("queue resume bulk").await.out, "bulk is resumed\n");
    assert_eq!(shell.ok("queue resume bulk").await.out, "bulk was not paused\n");
    for line in ["queue pause nowhere", "queue resume nowhere"] {
        assert_eq!(shell.run(line, "").await.code, Code::NotFound, "{line}");
    }
}

#[tokio::test]
async fn a_purge_needs_a_yes_and_leaves_running_jobs_alone() {
    let mut shell = Shell::with_type().await;
    for line in ["job enqueue t", "job enqueue t", "job enqueue t --delay 1h"] {
        shell.ok(line).await;
    }
    let running = shell.claim().await.job.id;
    let refused = shell.run("queue purge high", "").await;
    assert_eq!(refused.code, Code::Refused);
    assert!(
        refused.err.contains("cancels 2 jobs (1 ready, 1 scheduled, 0 parked) and leaves 1 running"),
        "{refused:?}"
    );
    assert!(refused.err.contains("--yes"), "{refused:?}");
    shell.ask = |_| Some("hihg\n".into());
    assert_eq!(shell.run("queue purge high", "").await.code, Code::Refused, "another name was typed");
    shell.ask = |question| question.contains("Type high").then(|| "high\n".into());
    let done = shell.ok("queue purge high --json").await;
    assert_eq!(done.json(), json!({ "queue": "high", "cancelled": 2 }));
    assert_eq!(shell.ok(&format!("job show {running} --json")).await.json()["state"], "running");
    assert_eq!(shell.ok("queue purge high --yes").await.out, "0 jobs of high cancelled\n");
    assert_eq!(shell.run("queue purge nowhere --yes", "").await.code, Code::NotFound);
}

#[tokio::test]
async fn the_status_names_the_engine_what_is_where_and_who_works() {
    let mut shell = Shell::with_type().await;
    shell.ok("job enqueue t").await;
    shell.ok("job enqueue t").await;
    shell.claim().await;
    let status = shell.ok("status --json").await.json();
    assert_eq!(
        (&status["engine"], &status["durability"]),
        (&json!("memory"), &json!("lost with the process"))
    );
    assert_eq!((&status["depth"], &status["healthy"]), (&json!(2), &json!(true)));
    assert_eq!((&status["counts"]["ready"], &status["counts"]["running"]), (&json!(1), &json!(1)));
    assert_eq!((&status["queues"][0]["shut"], &status["workers"][0]["running"]), (&json!(false), &json!(1)));
    let text = shell.ok("status").await.out;
    assert!(
        text.starts_with("memory; an acknowledged job is lost with the process\n2 unfinished: 1 ready"),
        "{text}"
    );
}

#[tokio::test]
async fn a_shut_queue_takes_nothing_until_it_is_opened() {
    let shell = Shell::with_type().await;
    assert!(shell.ok("queue shut high").await.out.contains("windlass queue open high"));
    assert_eq!(shell.ok("queue shut high").await.out, "high was already shut\n");
    let refused = shell.run("job enqueue t", "").await;
    assert_eq!(refused.code, Code::Refused, "{refused:?}");
    assert!(refused.err.contains("queue high is shut"), "{refused:?}");
    assert_eq!(shell.ok("queue open high --json").await.json(), json!({ "queue": "high", "shut": false }));
    assert_eq!(shell.ok("queue open high").await.out, "high was already open\n");
    shell.ok("job enqueue t").await;
    for line in ["queue shut nowhere", "queue open nowhere", "queue drain nowhere"] {
        assert_eq!(shell.run(line, "").await.code, Code::NotFound, "{line}");
    }
}

#[tokio::test]
async fn a_drain_shuts_the_queue_and_names_what_stays() {
    let shell = Shell::with_type().await;
    shell.ok("job enqueue t --delay 1h").await;
    let drained = shell.ok("queue drain high --json").await.json();
    assert_eq!(
        drained,
        json!({ "queue": "high", "shut": true, "drained": true, "scheduled": 1, "parked": 0 })
    );
    assert_eq!(shell.run("job enqueue t", "").await.code, Code::Refused, "it stays shut");
}

#[tokio::test]
async fn a_drain_gives_up_in_time_and_says_what_is_left_and_what_holds_it() {
    let mut shell = Shell::with_type().await;
    for _ in 0..3 {
        shell.ok("job enqueue t").await;
    }
    shell.claim().await;
    shell.ok("queue pause high").await;
    let timed_out = shell.run("queue drain high --timeout 50ms", "").await;
    assert_eq!(timed_out.code, Code::TimedOut);
    assert!(timed_out.err.contains("high still has 2 ready and 1 running jobs after 50ms"), "{timed_out:?}");
    assert!(timed_out.err.contains("`windlass queue resume high`"), "{timed_out:?}");
}
