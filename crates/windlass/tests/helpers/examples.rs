//! The examples of limits, schedules, completion triggers and duties work as they claim. They are run as
//! programs, as a user would run them: `cargo test` builds all examples before it runs tests.

use std::path::PathBuf;
use std::process::Command;

/// The path of an example, which cargo builds beside the folder of this test program.
fn program(name: &str) -> PathBuf {
    let this = std::env::current_exe().expect("this program has a path");
    let folder = this.parent().and_then(std::path::Path::parent).expect("the program is two folders deep");
    folder.join("examples").join(name)
}

/// The lines that an example prints until it ends, which must succeed.
fn lines_of(name: &str) -> Vec<String> {
    let program = program(name);
    assert!(program.exists(), "expected {program:?}; `cargo build --examples -p windlass` builds it");
    let output = Command::new(program).env_remove("USE_REDIS_QUEUE").output().expect("the example starts");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("the example prints text");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn the_example_of_affiliate_reports_leaves_nothing_but_one_dead_letter() {
    let lines = lines_of("affiliate_reports");
    let last = lines.last().expect("it prints something");
    assert!(last.ends_with("0 left; 1 report is a dead letter and needs a person"), "{lines:#?}");
    assert!(lines.iter().any(|line| line.ends_with(" in the queue, engine memory")), "{lines:#?}");
}

#[test]
fn the_example_of_a_flaky_platform_fetches_everything_with_few_calls_in_vain() {
    let lines = lines_of("flaky_platform");
    let last = lines.last().expect("it prints something");
    let calls = lines.iter().filter(|line| line.starts_with("  call ")).count();
    assert_eq!(*last, format!("All 20 reports are fetched, after {calls} calls."), "{lines:#?}");
    // Three failures open the breaker; then one probe at a time is sent for two seconds.
    assert!((23..=32).contains(&calls), "{lines:#?}");
}

#[test]
fn the_example_of_tenants_refuses_two_of_each_and_runs_the_rest_at_their_pace() {
    let lines = lines_of("tenant_limits");
    for tenant in ["ada", "bob"] {
        let about = |words: &str| lines.iter().filter(|line| line.contains(words)).count();
        let refused =
            lines.iter().filter(|line| line.contains("is refused") && line.contains(tenant)).count();
        assert_eq!((refused, about(&format!("{tenant} page "))), (2, 8), "{lines:#?}");
    }
    let last = lines.last().expect("it prints something");
    let seconds = last.trim().split('s').next().and_then(|seconds| seconds.parse::<f32>().ok());
    assert!(
        seconds.is_some_and(|seconds| seconds >= 1.9),
        "expected six jobs at two a second, the first two at once: {lines:#?}"
    );
}

#[test]
fn the_example_of_market_hours_tells_when_it_runs_and_runs_once_by_hand() {
    let lines = lines_of("market_hours");
    let next: Vec<_> = lines.iter().filter(|line| line.starts_with("next: ")).collect();
    let is_in_new_york = |line: &&&String| line.ends_with(" EST") || line.ends_with(" EDT");
    assert_eq!((next.len(), next.iter().filter(is_in_new_york).count()), (3, 3), "{lines:#?}");
    let refreshed = lines.iter().filter(|line| line.starts_with("refreshing NYSE for schedule/stocks/"));
    assert_eq!(refreshed.count(), 1, "{lines:#?}");
}

#[test]
fn the_example_of_a_nightly_sitemap_runs_at_two_over_the_change_of_clocks_and_builds_each_tick_once() {
    let lines = lines_of("nightly_sitemap");
    let nights: Vec<_> = lines.iter().filter(|line| line.starts_with("  ")).collect();
    let hours = ["02:00:00 CET", "03:00:00 CEST", "02:00:00 CEST"];
    assert!(nights.iter().zip(hours).all(|(line, hour)| line.ends_with(hour)), "{lines:#?}");
    let built: Vec<_> =
        lines.iter().filter(|line| line.starts_with("built for schedule/sitemap-demo/")).collect();
    let ticks: std::collections::BTreeSet<_> = built.iter().collect();
    assert_eq!((nights.len(), built.len(), ticks.len()), (3, 3, 3), "{lines:#?}");
}

#[test]
fn the_example_of_a_trigger_recalculates_once_after_each_of_two_backlogs() {
    let lines = lines_of("reclassify_when_finished");
    let count = |words: &str| lines.iter().filter(|line| line.contains(words)).count();
    assert_eq!((count("is backfilled"), count("reclassified and recalculated")), (9, 2), "{lines:#?}");
    let place = |words: &str| lines.iter().position(|line| line.contains(words));
    let between = lines
        .iter()
        .take(place("Another wallet").expect("the wallet is added"))
        .filter(|line| line.contains("is backfilled"));
    assert_eq!(between.count(), 6, "{lines:#?}");
    assert_eq!(lines.last().expect("it prints something"), "Recalculated 2 times for 9 backfills.");
}

#[test]
fn the_example_of_a_duty_goes_on_in_the_second_worker_where_the_first_one_stopped() {
    let lines = lines_of("own_duty");
    let stop = lines.iter().position(|line| line.contains("stops and releases the lease"));
    let (before, after) = lines.split_at(stop.expect("the first worker stops"));
    let adds = |line: &&String| line.contains(" adds up from sale ");
    assert!(before.iter().filter(adds).all(|line| line.starts_with("the first worker")), "{lines:#?}");
    let next = after.iter().find(|line| line.starts_with("the second worker adds up from sale "));
    let from = next.and_then(|line| line.split_whitespace().nth(7)).and_then(|from| from.parse::<u64>().ok());
    assert!(from.is_some_and(|from| from >= 30), "{lines:#?}");
}
