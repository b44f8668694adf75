//! The binary itself: help, version, retry plans, completions, wrong usage.

mod common;

use common::Dir;

#[test]
fn the_fibonacci_plan_waits_the_numbers_of_the_sequence() {
    let done = Dir::new().ok(&["retry-plan", "--policy", "fibonacci", "--unit", "1m", "--failures", "10"]);
    let waits: Vec<_> =
        done.out.lines().skip(1).map(|line| line.split_whitespace().nth(1).unwrap()).collect();
    assert_eq!(waits, ["1m", "1m", "2m", "3m", "5m", "8m", "13m", "21m", "34m", "55m"]);
}

#[test]
fn the_exponential_plan_shows_its_jitter_band_and_where_it_ends() {
    let done = Dir::new().ok(&["retry-plan", "--policy", "exponential"]);
    assert_eq!(
        done.out,
        "\
failure  wait              next attempt, since the first
1        22.5s to 37.5s    22.5s to 37.5s
2        45s to 1m 15s     1m 7s to 1m 52s
3        1m 30s to 2m 30s  2m 37s to 4m 22s
4        3m to 5m          5m 37s to 9m 22s
5        dead
"
    );
    let json = Dir::new().ok(&["retry-plan", "--policy", "exponential", "--json"]).json();
    assert_eq!(json["plan"][0]["wait"]["shortest_s"], 22.5);
    assert_eq!(json["plan"][0]["wait"]["longest_s"], 37.5);
    assert_eq!(json["plan"][4]["given_up"], true);
}

#[test]
fn more_failures_than_attempts_are_shown_unless_attempts_are_given() {
    let lines = |args: &[&str]| Dir::new().ok(args).out.lines().count() - 1;
    assert_eq!(lines(&["retry-plan", "--policy", "backfill", "--failures", "12"]), 12);
    assert_eq!(lines(&["retry-plan", "--policy", "backfill", "--failures", "12", "--attempts", "3"]), 3);
    assert_eq!(lines(&["retry-plan", "--policy", "list", "--delays", "1s,1m"]), 3);
    assert_eq!(lines(&["retry-plan", "--policy", "fixed", "--every", "5s"]), 5);
    assert_eq!(lines(&["retry-plan", "--policy", "progressive"]), 25);
    assert_eq!(lines(&["retry-plan", "--policy", "never"]), 1);
}

#[test]
fn a_plan_takes_the_configured_policy_and_that_of_a_type() {
    let dir = Dir::new();
    dir.write(
        "windlass.toml",
        "[retry]\npolicy = \"fixed\"\nevery = \"7s\"\n[types.t]\nqueue = \"high\"\nretry = \"list:9s\"\n",
    );
    assert!(dir.ok(&["retry-plan"]).out.contains("1        7s"));
    assert!(dir.ok(&["retry-plan", "--type", "t"]).out.contains("1        9s"));
    assert_eq!(dir.run(&["retry-plan", "--type", "unknown"]).code, 3);
}

#[test]
fn wrong_plans_are_wrong_usage() {
    for args in [
        &["--policy", "sometimes"][..],
        &["--policy", "fixed"],
        &["--policy", "fibonacci", "--base", "1s"],
        &["--policy", "exponential", "--attempts", "0"],
        &["--policy", "exponential", "--base", "-1s"],
        &["--unit", "1m"],
        &["--policy", "list", "--delays", "soon"],
        &["--failures", "0"],
        &["--failures", "1000"],
    ] {
        let done = Dir::new().run(&[&["retry-plan"], args].concat());
        assert_eq!((done.code, done.out.as_str()), (2, ""), "{args:?}: {done:?}");
    }
}

#[test]
fn help_lists_the_exit_codes_and_every_command_has_an_example() {
    let help = Dir::new().ok(&["--help"]).out;
    for code in ["0 ", "1 ", "2 ", "3 ", "4 ", "5 ", "6 ", "69", "78", "130"] {
        assert!(help.contains(&format!("\n  {code}")), "{code}: {help}");
    }
    for command in
        ["job enqueue", "job wait", "queue purge", "dlq retry", "type register", "retry-plan", "migrate"]
    {
        let words: Vec<_> = command.split(' ').chain(["--help"]).collect();
        let help = Dir::new().ok(&words).out;
        assert!(
            help.contains("Example") && help.contains(&format!("windlass {command}")),
            "{command}: {help}"
        );
    }
}

#[test]
fn wrong_usage_exits_with_2_and_tells_it_as_json_if_asked() {
    for args in
        [&["nope"][..], &["job", "show"], &["job", "show", "1", "--nope"], &["check", "-q", "-v"], &[]]
    {
        let done = Dir::new().run(args);
        assert_eq!((done.code, done.out.as_str()), (2, ""), "{args:?}");
        assert!(!done.err.is_empty());
    }
    let error = Dir::new().run(&["--json", "job", "show", "x"]).error();
    assert_eq!(error["code"], "usage");
    assert!(error["message"].as_str().unwrap().contains("job id"), "{error}");
}

#[test]
fn completions_and_version_are_printed() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(Dir::new().ok(&["completions", shell]).out.contains("retry-plan"), "{shell}");
    }
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(Dir::new().ok(&["version"]).out, format!("windlass {version}\n"));
    assert_eq!(Dir::new().ok(&["version", "--json"]).json()["version"], version);
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let dir = Dir::new();
    let mut child =
        dir.command(&["retry-plan", "--policy", "progressive", "--failures", "900"]).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}
