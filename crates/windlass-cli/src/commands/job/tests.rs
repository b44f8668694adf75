use std::time::Duration;

use serde_json::json;
use windlass_core::limits::{PAYLOAD_BYTES_MAX, PAYLOAD_DEPTH_MAX};
use windlass_core::outcome::{AttemptOutcome, ErrorKind, JobError};

use crate::exit::Code;
use crate::testing::Shell;

#[tokio::test]
async fn an_enqueued_job_is_new_and_shown_in_full() {
    let shell = Shell::with_type().await;
    let line = "job enqueue t {\"n\":18446744073709551616} --priority low --delay 90s --key k:1 --key-scope for:1h --ordering-key s --fairness-key tenant:42 --correlation c --tag a --tag b --group g --expires 2h --timeout 5s --retry fixed:every=1s --caused-by user:42 --trace-context 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 --json";
    assert_eq!(shell.ok(line).await.json(), json!({ "id": 1, "result": "new" }));
    let shown = shell.ok("job show 1 --json").await;
    assert!(shown.out.contains("18446744073709551616"), "a large number survives: {}", shown.out);
    let job = shown.json();
    let expected = [
        ("id", json!(1)),
        ("type", json!("t")),
        ("queue", json!("high")),
        ("state", json!("scheduled")),
        ("priority", json!(10)),
        ("label", json!("low")),
        ("due", json!("2026-01-01T00:01:30.000Z")),
        ("expires_at", json!("2026-01-01T02:00:00.000Z")),
        ("key", json!({ "key": "k:1", "scope": { "for": "3600s" }, "on_conflict": "keep" })),
        ("ordering_key", json!("s")),
        ("fairness_key", json!("tenant:42")),
        ("correlation", json!("c")),
        ("caused_by", json!("user:42")),
        ("trace_context", json!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")),
        ("tags", json!(["a", "b"])),
        ("group", json!("g")),
        ("timeout", json!("5s")),
        ("retry", json!({ "policy": "fixed", "every": "1s", "attempts": 5 })),
        ("counters", json!({ "attempts": 0, "failures": 0, "crashes": 0, "holds": 0 })),
        ("explained", json!("scheduled: due in 1m 30s; no live worker handles its type")),
        ("attempts", json!([])),
    ];
    for (key, value) in expected {
        assert_eq!(job[key], value, "{key}");
    }
}

#[tokio::test]
async fn a_held_key_keeps_replaces_and_revives() {
    let mut shell = Shell::with_type().await;
    let key = "--key k --key-scope live-or-dead --on-conflict";
    assert_eq!(shell.ok(&format!("job enqueue t --delay 1m {key} keep")).await.out, "1 new\n");
    assert_eq!(shell.ok(&format!("job enqueue t {key} keep")).await.out, "1 duplicate\n");
    assert_eq!(shell.ok(&format!("job enqueue t {key} replace")).await.out, "1 replaced\n");
    let claimed = shell.claim().await;
    shell.end(claimed, AttemptOutcome::Dead(JobError::new(ErrorKind::Failed, "no")), None).await;
    assert_eq!(shell.ok(&format!("job enqueue t {key} revive")).await.out, "1 revived\n");
}

#[tokio::test]
async fn a_job_that_waits_in_its_ordering_key_says_for_which() {
    let mut shell = Shell::with_type().await;
    for id in 1..=3 {
        assert_eq!(shell.ok("job enqueue t --ordering-key account:42").await.out, format!("{id} new\n"));
    }
    let waits = "parked: another job of type t with ordering key account:42 comes first; it waits for job 1";
    assert_eq!(shell.ok("job show 3 --json").await.json()["explained"], json!(waits));
    let claimed = shell.claim().await;
    shell.end(claimed, AttemptOutcome::Done(None), None).await;
    let shown = shell.ok("job show 3").await.out;
    assert!(shown.contains("it waits for job 2") && shown.contains("account:42"), "{shown}");
    let ready = shell.ok("job show 2 --json").await.json();
    assert_eq!((&ready["state"], &ready["ordering_key"]), (&json!("ready"), &json!("account:42")));
}

#[tokio::test]
async fn the_same_request_id_makes_no_second_job() {
    let shell = Shell::with_type().await;
    for _ in 0..2 {
        assert_eq!(shell.ok("job enqueue t --request-id 00ff").await.out, "1 new\n");
    }
    assert_eq!(shell.ok("job list --json").await.json().as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn wrong_input_is_refused_with_a_code_and_what_was_expected() {
    let shell = Shell::with_type().await;
    let cases = [
        ("job enqueue unknown", Code::NotFound, "registered job type"),
        ("job enqueue t --queue nowhere", Code::Refused, "nowhere"),
        ("job enqueue t --queue low", Code::Refused, "low"),
        ("job enqueue t --priority urgent", Code::Usage, "high, low, normal"),
        ("job enqueue t --priority 11", Code::Usage, "from 0 (most urgent) to 10"),
        ("job enqueue t --priority -1", Code::Usage, "from 0 (most urgent) to 10"),
        ("job enqueue t nope", Code::Usage, "JSON"),
        ("job enqueue odd%name", Code::Usage, "a-z"),
        ("job enqueue t --queue a/b", Code::Usage, "a-z"),
        ("job enqueue t --delay -5s", Code::Usage, "span of time"),
        ("job enqueue t --delay 99999d", Code::Usage, "ten years"),
        ("job enqueue t --delay soon", Code::Usage, "span of time"),
        ("job enqueue t --at tomorrow", Code::Usage, "instant"),
        ("job enqueue t --at 1969-01-01T00:00:00Z", Code::Usage, "1970"),
        ("job enqueue t --delay 1s --at 2026-01-01T00:00:00Z", Code::Usage, "cannot be used with"),
        ("job enqueue t --timeout 0s", Code::Usage, "time-out"),
        ("job enqueue t --expires never", Code::Usage, "instant"),
        ("job enqueue t --retry sometimes", Code::Usage, "retry policy"),
        ("job enqueue t --key-scope live", Code::Usage, "--key"),
        ("job enqueue t --key k --key-scope ever", Code::Usage, "live-or-dead"),
        ("job enqueue t --request-id xyz", Code::Usage, "hex"),
        ("job enqueue t --tag ", Code::Usage, "tag"),
        ("job show 99", Code::NotFound, "no job 99"),
        ("job show -1", Code::Usage, "unexpected argument"),
        ("job show x", Code::Usage, "job id"),
        ("job cancel 99", Code::NotFound, "no job 99"),
        ("job retry 99", Code::NotFound, "no job 99"),
        ("job wait 99", Code::NotFound, "no job 99"),
        ("job log 99", Code::NotFound, "no job 99"),
        ("job priority 99 1", Code::NotFound, "no job 99"),
        ("job list --state lost", Code::Usage, "ready, scheduled"),
        ("job list --queue hihg", Code::NotFound, "did you mean `high`?"),
        ("job list --limit 0", Code::Usage, "0"),
    ];
    for (line, code, expected) in cases {
        let done = shell.run(line, "").await;
        assert_eq!(done.code, code, "{line}: {done:?}");
        assert!(done.err.contains(expected), "{line}: {done:?}");
        assert_eq!(done.out, "", "{line}");
    }
    assert_eq!(shell.ok("job list --json").await.json(), json!([]), "nothing was stored");
}

#[tokio::test]
async fn a_payload_too_big_or_too_deep_is_refused_from_standard_input_too() {
    let shell = Shell::with_type().await;
    let big = format!("\"{}\"", "x".repeat(PAYLOAD_BYTES_MAX));
    let deep = "[".repeat(PAYLOAD_DEPTH_MAX + 1) + &"]".repeat(PAYLOAD_DEPTH_MAX + 1);
    for (payload, expected) in
        [(big, "at most 1048576 bytes"), (deep, "at most 64 levels"), (String::new(), "JSON")]
    {
        let done = shell.run("job enqueue t -", &payload).await;
        assert_eq!(done.code, Code::Usage);
        assert!(done.err.contains(expected), "{}", done.err);
    }
    assert_eq!(shell.run("job enqueue t -", "{\"a\":1}\n").await.out, "1 new\n");
    assert_eq!(shell.ok("job show 1 --json").await.json()["payload"], json!({ "a": 1 }));
}

#[tokio::test]
async fn many_jobs_come_from_lines_and_wrong_lines_spoil_no_others() {
    let shell = Shell::with_type().await;
    let lines = [
        r#"{"type":"t","payload":{"n":1},"priority":"high","tags":["x"],"retry":"never"}"#,
        "",
        r#"{"type":"t","priority":3,"delay":"5m","retry":{"policy":"fibonacci"}}"#,
        r#"{"type":"t","prority":3}"#,
        r#"{"type":"unknown"}"#,
        "nonsense",
        r#"{"type":"t","key":"k","on_conflict":"keep"}"#,
        r#"{"type":"t","key":"k"}"#,
    ]
    .join("\n");
    let done = shell.run("job enqueue --jsonl --json", &lines).await;
    assert_eq!(done.code, Code::Partly, "{done:?}");
    let mut answers: Vec<serde_json::Value> =
        done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    answers.sort_by_key(|answer| answer["line"].as_u64());
    let short: Vec<_> =
        answers.iter().map(|a| (a["line"].as_u64().unwrap(), a["result"].as_str().unwrap())).collect();
    let expected = [
        (1, "new"),
        (3, "new"),
        (4, "refused"),
        (5, "refused"),
        (6, "refused"),
        (7, "new"),
        (8, "duplicate"),
    ];
    assert_eq!(short, expected);
    assert!(answers[2]["error"].as_str().unwrap().contains("prority"), "{answers:?}");
    assert_eq!(shell.run("job enqueue --jsonl", "nonsense\n").await.code, Code::Failed);
    assert_eq!(shell.run("job enqueue --jsonl", "").await.code, Code::Ok);
    assert_eq!(shell.run("job enqueue --jsonl t", "").await.code, Code::Usage);
}

#[tokio::test]
async fn a_retry_policy_with_an_unknown_field_is_refused_by_the_name_of_the_field() {
    let shell = Shell::with_type().await;
    for (line, field) in [
        (r#"{"type":"t","retry":{"policy":"fixed","every":"1s","jitter":1}}"#, "jitter"),
        (
            r#"{"type":"t","retry":{"policy":"progressive","tiers":[{"max_age":"1h","interval":"1m","x":1}]}}"#,
            "x",
        ),
    ] {
        let done = shell.run("job enqueue --jsonl", &format!("{line}\n")).await;
        assert_eq!(done.code, Code::Failed, "{done:?}");
        assert!(format!("{done:?}").contains(&format!("`{field}`")), "{done:?}");
    }
}

#[tokio::test]
async fn more_lines_than_one_request_takes_go_in_several() {
    let shell = Shell::with_type().await;
    let lines = "{\"type\":\"t\"}\n".repeat(1_500);
    let done = shell.run("job enqueue --jsonl --request-id 1", &lines).await;
    assert_eq!((done.code, done.out.lines().count()), (Code::Ok, 1_500));
    let again = shell.run("job enqueue --jsonl --request-id 1", &lines).await;
    assert_eq!(again.out, done.out, "a repeat with the same request id makes no second jobs");
}

#[tokio::test]
async fn jobs_are_listed_by_what_they_are_and_page_by_page() {
    let mut shell = Shell::with_type().await;
    shell.ok("job enqueue t --key a --tag x --correlation c --group g").await;
    shell.ok("job enqueue t --delay 1h").await;
    let dead = shell.dead_letter().await;
    let ids = async |line: &str| {
        let listed = shell.ok(&format!("job list {line} --json")).await.json();
        listed.as_array().unwrap().iter().map(|job| job["id"].as_i64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(ids("--limit 10").await, [3, 2, 1]);
    assert_eq!(ids("--limit 1 --before 3").await, [2]);
    assert_eq!(ids("--state dead").await, [dead]);
    assert_eq!(ids("--state scheduled --queue high --type t").await, [2]);
    for filter in ["--key a", "--tag x", "--correlation c", "--group g"] {
        let listed = ids(filter).await;
        assert!(listed.len() == 1 && listed[0] != 2, "{filter}: {listed:?}");
    }
    let table = shell.ok("job list").await.out;
    assert!(table.starts_with("id  type  queue  state"), "{table}");
    assert!(table.contains("due in 1h"), "{table}");
}

#[tokio::test]
async fn a_dead_job_shows_its_attempts_and_error_and_can_be_retried() {
    let mut shell = Shell::with_type().await;
    let id = shell.dead_letter().await;
    let shown = shell.ok(&format!("job show {id}")).await.out;
    for part in ["dead for 0s: out of paper (failed)", "1 attempts, 1 failures", "attempt  ending"] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    let full = shell.ok(&format!("job show {id} --json")).await.json();
    assert_eq!(full["attempts"][0]["ending"], "dead");
    assert_eq!(full["last_error"]["text"], "out of paper\nline two");
    assert_eq!(shell.ok(&format!("job log {id} --attempt 1")).await.out, "printing\n");
    let log = shell.ok(&format!("job log {id} --json")).await.json();
    assert_eq!(log, json!([{ "attempt": 1, "ending": "dead", "output": "printing\n" }]));
    assert_eq!(shell.run(&format!("job log {id} --attempt 2"), "").await.code, Code::NotFound);
    assert_eq!(shell.ok(&format!("job retry {id}")).await.out, format!("{id} retried\n"));
    assert_eq!(shell.run(&format!("job retry {id}"), "").await.code, Code::Refused, "it is ready now");
}

#[tokio::test]
async fn a_waiting_job_is_cancelled_and_a_running_one_is_asked_to_stop() {
    let mut shell = Shell::with_type().await;
    shell.ok("job enqueue t --delay 1h").await;
    shell.ok("job enqueue t").await;
    assert_eq!(shell.ok("job cancel 1 --reason by%mistake").await.out, "1 cancelled\n");
    assert_eq!(shell.ok("job show 1 --json").await.json()["cancelled_because"], "by mistake");
    assert_eq!(shell.run("job cancel 1", "").await.code, Code::Refused);
    let claimed = shell.claim().await;
    assert_eq!(shell.ok("job cancel 2 --json").await.json(), json!({ "id": 2, "result": "requested" }));
    let explained = shell.ok("job show 2 --json").await.json()["explained"].as_str().unwrap().to_owned();
    assert!(explained.contains("asked to stop: cancelled by hand"), "{explained}");
    shell.end(claimed, AttemptOutcome::Done(None), None).await;
    assert_eq!(shell.ok("job show 2 --json").await.json()["state"], "cancelled");
}

#[tokio::test]
async fn waiting_ends_with_the_job_and_its_code_says_how() {
    let mut shell = Shell::with_type().await;
    shell.ok("type register t --queue high --keep-result").await;
    shell.ok("job enqueue t").await;
    assert_eq!(shell.run("job wait 1 --timeout 10ms", "").await.code, Code::TimedOut);
    let claimed = shell.claim().await;
    shell.end(claimed, AttemptOutcome::Done(Some("{\"sum\":3}".into())), None).await;
    let done = shell.ok("job wait 1 --json").await.json();
    assert_eq!((&done["state"], &done["result"]), (&json!("succeeded"), &json!({ "sum": 3 })));
    let dead = shell.dead_letter().await;
    let done = shell.run(&format!("job wait {dead}"), "").await;
    assert_eq!((done.code, done.out), (Code::Failed, format!("{dead} dead\n")));
}

#[tokio::test]
async fn a_wait_wakes_when_the_job_ends_meanwhile() {
    let mut shell = Shell::with_type().await;
    shell.ok("job enqueue t").await;
    let claimed = shell.claim().await;
    let (waited, ()) = tokio::join!(shell.run("job wait 1 --timeout 1h", ""), async {
        tokio::task::yield_now().await;
        shell.end(claimed, AttemptOutcome::Done(None), None).await;
    });
    assert_eq!(waited.out, "1 succeeded\n");
}

#[tokio::test]
async fn only_a_waiting_job_takes_another_priority() {
    let mut shell = Shell::with_type().await;
    shell.ok("job enqueue t").await;
    shell.ok("job priority 1 low").await;
    assert_eq!(shell.ok("job show 1 --json").await.json()["priority"], 10);
    assert_eq!(shell.ok("job priority 1 10").await.code, Code::Ok, "it has this priority already");
    let claimed = shell.claim().await;
    assert_eq!(shell.run("job priority 1 0", "").await.code, Code::Refused);
    shell.end(claimed, AttemptOutcome::Done(None), None).await;
    assert_eq!(shell.run("job priority 1 10", "").await.code, Code::Refused);
}

#[tokio::test]
async fn a_job_says_in_words_why_it_waits() {
    let mut shell = Shell::with_type().await;
    shell.ok("job enqueue t").await;
    shell.clock.advance(Duration::from_secs(5));
    let explained = async |shell: &Shell| shell.ok("job show 1 --json").await.json()["explained"].to_string();
    assert!(explained(&shell).await.contains("ready: due for 5s; no live worker handles its type"));
    shell.ok("queue pause high --reason moving").await;
    assert!(explained(&shell).await.contains("its queue is paused (moving)"));
    shell.ok("queue resume high").await;
    let claimed = shell.claim().await;
    assert!(explained(&shell).await.contains("running for 0s on worker"));
    shell.end(claimed, AttemptOutcome::Failed(JobError::new(ErrorKind::Failed, "no")), None).await;
    assert!(explained(&shell).await.contains("scheduled: due in"));
}

#[tokio::test]
async fn what_others_wrote_cannot_command_the_terminal() {
    let shell = Shell::with_type().await;
    shell.run("job enqueue t -", "\"\\u001b[2J\"").await;
    shell.ok("job cancel 1 --reason \u{1b}[31mred").await;
    for line in ["job show 1", "job list"] {
        assert!(!shell.ok(line).await.out.contains('\u{1b}'), "{line}");
    }
}

#[tokio::test]
async fn a_fairness_key_goes_in_by_a_line_of_jsonl_and_a_bad_name_is_refused() {
    let shell = Shell::with_type().await;
    let lines =
        [r#"{"type":"t","fairness_key":"tenant:42"}"#, r#"{"type":"t","fairness_key":""}"#].join("\n");
    let done = shell.run("job enqueue --jsonl --json", &lines).await;
    assert_eq!(done.code, Code::Partly, "{done:?}");
    assert!(done.out.contains("a fairness key"), "{done:?}");
    assert_eq!(shell.ok("job show 1 --json").await.json()["fairness_key"], json!("tenant:42"));
    assert!(shell.ok("job show 1").await.out.contains("tenant:42"));
    let too_long = format!("job enqueue t --fairness-key {}", "x".repeat(257));
    assert_eq!(shell.run(&too_long, "").await.code, Code::Usage);
}
