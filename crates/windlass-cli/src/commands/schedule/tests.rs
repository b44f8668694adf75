use std::time::Duration;

use serde_json::json;

use crate::exit::Code;
use crate::testing::Shell;

const HOUR: Duration = Duration::from_secs(3600);

/// A shell with an hourly schedule.
async fn hourly() -> Shell {
    let shell = Shell::with_type().await;
    shell.ok("schedule add hourly every%1h --job t --payload {\"n\":1}").await;
    shell
}

#[tokio::test]
async fn a_fresh_store_has_no_schedules() {
    let shell = Shell::new();
    assert_eq!(shell.ok("schedule list --json").await.json(), json!([]));
    let unknown = shell.run("schedule show hourly", "").await;
    assert_eq!(unknown.code, Code::NotFound, "{unknown:?}");
}

#[tokio::test]
async fn a_schedule_is_added_changed_and_shown_with_its_next_times() {
    let shell = Shell::with_type().await;
    let added = shell.ok("schedule add Hourly every%1h --job t --overlap skip --priority high").await;
    assert!(added.out.starts_with("hourly is stored: every hour"), "{added:?}");
    let shown = shell.ok("schedule show hourly --json").await.json();
    assert_eq!(
        (&shown["state"], &shown["overlap"], &shown["origin"]),
        (&json!("active"), &json!("skip"), &json!("cli"))
    );
    assert_eq!((&shown["job"]["type"], &shown["job"]["priority"]), (&json!("t"), &json!(0)));
    assert_eq!(shown["next"], "2026-01-01T01:00:00.000Z");
    assert_eq!(shown["upcoming"].as_array().unwrap().len(), 5);
    let text = shell.ok("schedule show hourly").await.out;
    assert!(text.contains("every hour") && text.contains("2026-01-01T05:00:00Z"), "{text}");
    let changed = shell.ok("schedule add hourly every%2h --job t --json").await.json();
    assert_eq!(changed["result"], "changed");
    let same = shell.ok("schedule add hourly every%2h --job t --json").await.json();
    assert_eq!(same["result"], "unchanged");
    let table = shell.ok("schedule list").await.out;
    assert!(table.contains("every 2h, UTC") && table.contains("active"), "{table}");
}

#[tokio::test]
async fn a_stored_schedule_is_shown_in_its_own_zone_with_changes_of_clocks_marked() {
    let shell = Shell::with_type().await;
    shell.ok("schedule add early daily%at%03:30,%Europe/Berlin --job t").await;
    shell.clock.advance(HOUR * 24 * 85);
    let text = shell.ok("schedule show early").await.out;
    assert!(text.contains("clocks go forward by 1h") && text.contains("Europe/Berlin"), "{text}");
    let shown = shell.ok("schedule show early --json").await.json();
    let local: Vec<_> =
        shown["upcoming"].as_array().unwrap().iter().map(|tick| tick["local"].clone()).collect();
    assert_eq!(local[0], "2026-03-27T03:30:00+01:00");
    assert_eq!(local[2], "2026-03-29T03:30:00+02:00");
    assert_eq!(shown["clock_changes"][0]["utc"], "2026-03-29T01:00:00Z");
}

#[tokio::test]
async fn what_is_wrong_is_refused_before_anything_is_stored() {
    let shell = Shell::with_type().await;
    let long = "x".repeat(1024);
    for (wrong, said) in [
        ("0%0%30%2%* --job t".to_owned(), "30 February"),
        ("daily%at%02:00,%America/NewYork --job t".to_owned(), "America/New_York"),
        ("daily%at%02:00,%09:00-10:00 --job t".to_owned(), "09:00-10:00"),
        ("every%0s --job t".to_owned(), "expected"),
        (format!("{long} --job t"), "512"),
        ("every%1h --job t --payload {".to_owned(), "JSON"),
        ("every%1h --job t --missed run-all --limit 0".to_owned(), "limit"),
        ("every%1h --job t --grace 0s".to_owned(), "grace"),
        ("every%1h --job t --timeout 0s".to_owned(), "time-out"),
        ("daily%at%02:00,%except%holidays --job t".to_owned(), "--holidays"),
    ] {
        let done = shell.run(&format!("schedule add wrong {wrong}"), "").await;
        assert_eq!(done.code, Code::Usage, "{wrong}: {done:?}");
        assert!(done.err.contains(said), "{wrong}: {done:?}");
    }
    assert_eq!(shell.ok("schedule list --json").await.json(), json!([]));
}

#[tokio::test]
async fn an_unregistered_type_is_taken_and_told() {
    let shell = Shell::with_type().await;
    let added = shell.ok("schedule add later every%1h --job unregistered").await;
    assert!(added.err.contains("unregistered is not registered yet"), "{added:?}");
    let refused = shell.run("schedule run later", "").await;
    assert_eq!(refused.code, Code::Refused, "{refused:?}");
}

#[tokio::test]
async fn a_job_is_put_in_by_hand() {
    let shell = hourly().await;
    let ran = shell.ok("schedule run hourly --json").await.json();
    let job = shell.ok(&format!("job show {} --json", ran["job"])).await.json();
    assert_eq!(job["payload"], json!({ "n": 1 }));
    assert_eq!(job["correlation"], "schedule/hourly/2026-01-01T00:00:00Z");
    let shown = shell.ok("schedule show hourly --json").await.json();
    assert_eq!(shown["last_job"], json!(null), "the job belongs to no tick");
}

#[tokio::test]
async fn a_schedule_that_is_decided_ahead_says_so_and_goes_on_after_a_pause() {
    let shell = hourly().await;
    let now = windlass_core::clock::Clock::now(&*shell.clock);
    shell.clock.advance(1_000 * HOUR);
    let ahead = shell.ok("schedule add ahead every%1h --job t").await;
    assert!(ahead.err.is_empty(), "{ahead:?}");
    shell.clock.set(now);
    assert!(shell.ok("schedule list").await.out.contains("the store's clock was ahead"));
    let shown = shell.ok("schedule show ahead --json").await.json();
    assert_eq!(shown["next"], "2026-02-11T17:00:00.000Z", "a thousand hours away");
    shell.ok("schedule pause ahead").await;
    shell.ok("schedule resume ahead").await;
    assert_eq!(shell.ok("schedule show ahead --json").await.json()["next"], "2026-01-01T01:00:00.000Z");
    assert!(!shell.ok("schedule list").await.out.contains("was ahead"));
}

#[tokio::test]
async fn a_pause_of_ten_years_is_shown_at_once() {
    let shell = Shell::with_type().await;
    shell.ok("schedule add quick every%1s --job t").await;
    shell.ok("schedule pause quick --for 3650d").await;
    let shown = shell.ok("schedule show quick --json").await.json();
    assert_eq!(shown["upcoming"][0]["utc"], "2035-12-30T00:00:01Z");
    assert_eq!(
        (&shown["next"], shown["upcoming"].as_array().unwrap().len()),
        (&json!("2035-12-30T00:00:01.000Z"), 5)
    );
}

#[tokio::test]
async fn a_schedule_is_paused_for_a_time_resumed_and_leaves_a_tick_out() {
    let shell = hourly().await;
    assert_eq!(
        shell.ok("schedule pause hourly --for 2h --reason we%move").await.out,
        "hourly is paused for 2h\n"
    );
    let shown = shell.ok("schedule show hourly --json").await.json();
    assert_eq!((&shown["state"], &shown["pause"]["reason"]), (&json!("paused"), &json!("we move")));
    assert_eq!(shown["next"], "2026-01-01T03:00:00.000Z");
    assert!(shell.ok("schedule list").await.out.contains("we move"));
    assert_eq!(shell.ok("schedule resume hourly").await.out, "hourly is resumed\n");
    assert_eq!(shell.ok("schedule resume hourly").await.out, "hourly was not paused\n");
    let skipped = shell.ok("schedule skip-next hourly --json").await.json();
    assert_eq!(skipped["skip"], "2026-01-01T01:00:00.000Z");
    assert_eq!(shell.ok("schedule show hourly --json").await.json()["next"], "2026-01-01T02:00:00.000Z");
    shell.ok("schedule pause hourly").await;
    shell.clock.advance(HOUR);
    assert_eq!(shell.run("schedule skip-next hourly", "").await.code, Code::Refused);
}

#[tokio::test]
async fn a_schedule_that_no_process_fires_is_overdue() {
    let shell = hourly().await;
    shell.clock.advance(2 * HOUR);
    assert_eq!(shell.ok("schedule list --json").await.json()[0]["state"], "overdue");
}

#[tokio::test]
async fn a_range_is_looked_at_and_filled_once() {
    let shell = hourly().await;
    shell.clock.advance(5 * HOUR);
    let range = "--from 2026-01-01T01:00:00Z --to 2026-01-01T04:00:00Z";
    let looked = shell.ok(&format!("schedule backfill hourly {range} --dry-run --json")).await.json();
    assert_eq!((&looked["ticks"], &looked["at"][0]), (&json!(3), &json!("2026-01-01T01:00:00.000Z")));
    assert_eq!(shell.run(&format!("schedule backfill hourly {range}"), "").await.code, Code::Refused);
    assert_eq!(shell.ok("queue show high --json").await.json()["counts"]["ready"], 0);
    let filled = shell.ok(&format!("schedule backfill hourly {range} --yes --json")).await.json();
    assert_eq!((&filled["jobs"], &filled["made_before"]), (&json!(3), &json!(0)));
    let again = shell.ok(&format!("schedule backfill hourly {range} --yes --json")).await.json();
    assert_eq!((&again["jobs"], &again["made_before"]), (&json!(0), &json!(3)));
}

#[tokio::test]
async fn a_century_and_a_time_that_lies_ahead_are_not_filled() {
    let shell = hourly().await;
    for range in [
        "--from 1900-01-01T00:00:00Z --to 2000-01-01T00:00:00Z",
        "--from 2026-01-01T00:00:00Z --to 2026-01-02T00:00:00Z",
        "--from 2025-01-02T00:00:00Z --to 2025-01-01T00:00:00Z",
    ] {
        let done = shell.run(&format!("schedule backfill hourly {range} --yes"), "").await;
        assert_eq!(done.code, Code::Usage, "{range}: {done:?}");
    }
}

#[tokio::test]
async fn removing_asks_first_and_says_if_there_is_none() {
    let mut shell = hourly().await;
    assert_eq!(shell.run("schedule remove hourly", "").await.code, Code::Refused);
    shell.ask = |_| Some("hourly".to_owned());
    assert_eq!(shell.ok("schedule remove hourly").await.out, "hourly is removed\n");
    assert_eq!(shell.run("schedule remove hourly --yes", "").await.code, Code::NotFound);
}

#[tokio::test]
async fn what_was_stored_at_the_command_line_is_named_by_diff() {
    let shell = hourly().await;
    let diff = shell.ok("schedule diff --json").await.json();
    assert_eq!(
        (&diff[0]["name"], &diff[0]["difference"]),
        (&json!("hourly"), &json!("stored at the command line"))
    );
}
