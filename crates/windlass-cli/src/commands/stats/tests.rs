use std::time::Duration;

use serde_json::json;
use windlass_core::names::{QueueName, TypeName};
use windlass_core::rollups::roll_up::roll_up;
use windlass_core::rollups::{Histogram, Rollups, Sample, Seen};

use super::*;
use crate::testing::Shell;

const HOUR: Duration = Duration::from_secs(3_600);

/// Appends a worker's samples of these waits, and rolls up.
async fn roll_up_waits(shell: &Shell, waited: &[u64]) {
    let mut waits = Histogram::default();
    waited.iter().for_each(|ms| waits.record(Duration::from_millis(*ms)));
    let (queue, job_type) = (QueueName::parse("high").unwrap(), TypeName::parse("t").unwrap());
    let seen = Seen { queue, job_type, started: waited.len() as u64, runs: waits.clone(), waits };
    shell.engine.append_samples(&Sample::parts(Duration::ZERO, &[seen])).await.unwrap();
    let roll_up =
        roll_up(shell.engine.rollup_input(100).await.unwrap()).expect("there are samples to roll up");
    let kept = shell.engine.rollups_of(&roll_up.keys()).await.unwrap();
    shell.engine.apply_rollup(&roll_up.onto(kept.rows)).await.unwrap();
}

async fn shell() -> Shell {
    let shell = Shell::with_type().await;
    shell.ok("job enqueue t").await;
    shell.ok("job enqueue t").await;
    roll_up_waits(&shell, &[100, 200]).await;
    shell.clock.advance(HOUR * 2);
    shell.ok("job enqueue t").await;
    roll_up_waits(&shell, &[400]).await;
    shell.clock.advance(Duration::from_secs(30));
    shell
}

#[tokio::test]
async fn what_happened_is_reported_by_slot_and_in_all() {
    let shell = shell().await;
    let report = shell.ok("stats --since 3h --by hour --json").await.json();
    let slots = report["slots"].as_array().unwrap();
    assert_eq!((slots.len(), &report["by"]), (2, &json!("hour")));
    assert_eq!((&slots[0]["enqueued"], &slots[0]["started"]), (&json!(2), &json!(2)));
    assert_eq!((&report["total"]["enqueued"], &report["total"]["wait_ms"]["count"]), (&json!(3), &json!(3)));
    let p99 = report["total"]["wait_ms"]["p99"].as_f64().unwrap();
    assert!((355.0..445.0).contains(&p99), "{p99}");
    let shown = shell.ok("stats --since 3h").await.out;
    assert!(shown.contains("wait p50") && shown.contains("run p99"), "{shown}");
    assert!(shown.starts_with("minute (UTC)"), "{shown}");
    let total: Vec<_> = shown.lines().last().expect("a last line").split_whitespace().collect();
    assert_eq!(total[..7], ["total", "3", "3", "0", "0", "0", "0"], "{shown}");
    assert!(total[7..].iter().all(|time| time.ends_with("ms")), "{shown}");
    assert_eq!(shown.lines().count(), 5, "{shown}");
    assert!(shown.contains("(119 quiet minutes)"), "{shown}");
}

#[tokio::test]
async fn a_range_and_names_narrow_it_down() {
    let shell = shell().await;
    let total = |of: &'static str| {
        let shell = &shell;
        async move { shell.ok(&format!("stats {of} --json")).await.json()["total"]["enqueued"].clone() }
    };
    assert_eq!(total("--quiet").await, json!(1), "the last hour");
    assert_eq!(total("--since 3h --until 90m").await, json!(2));
    assert_eq!(total("--since 2026-01-01T00:00:00Z --until 2026-01-01T00:01:00Z").await, json!(2));
    assert_eq!(total("--since 30d --by day --queue high --type t").await, json!(3));
    shell.ok("type register u --queue low").await;
    assert_eq!(total("--since 3h --queue low").await, json!(0));
    let empty = shell.ok("stats --queue low").await;
    assert!(empty.out.is_empty() && empty.err.contains("no rollups"), "{empty:?}");
}

#[tokio::test]
async fn nonsense_is_refused_with_a_word_on_what_would_do() {
    let shell = shell().await;
    for (of, code, why) in [
        ("--since 1h --until 2h", Code::Usage, "begins before it ends"),
        ("--since 30d --by minute", Code::Usage, "by hour or day"),
        ("--queue hihg", Code::NotFound, "high"),
        ("--type unknown", Code::NotFound, "there is no type unknown"),
    ] {
        let done = shell.run(&format!("stats {of}"), "").await;
        assert_eq!(done.code, code, "{of}: {done:?}");
        assert!(done.err.contains(why), "{of}: {done:?}");
    }
    assert!(parse_when("soon").unwrap_err().contains("90m"));
}
