//! The binary and its configuration: which errors are refused with which code, and which source overrides
//! which.

mod common;

use common::Dir;
use serde_json::json;

#[test]
fn the_defaults_are_right_and_checking_them_makes_no_file() {
    let dir = Dir::new();
    let done = dir.ok(&["check"]);
    assert!(done.out.starts_with("ok: no file"), "{done:?}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_misspelt_key_names_file_line_column_and_nearest_key_and_exits_with_78() {
    let dir = Dir::new();
    dir.write("windlass.toml", "[queues.high]\nconcurency = 5\n");
    let done = dir.run(&["check"]);
    assert_eq!(done.code, 78);
    assert_eq!(
        done.err,
        "windlass.toml:2:1: unknown key `concurency` in [queues.high]; did you mean `concurrency`?\n"
    );
    assert_eq!(done.out, "");
    let error = dir.run(&["check", "--json"]).error();
    assert_eq!(error["code"], "configuration");
    let error = &error["errors"][0];
    assert_eq!(
        (&error["file"], &error["line"], &error["column"]),
        (&json!("windlass.toml"), &json!(2), &json!(1))
    );
    assert_eq!(dir.run(&["queue", "list"]).code, 78, "every command refuses it");
}

#[test]
fn yaml_is_found_and_checked_too() {
    let dir = Dir::new();
    dir.write("windlass.yaml", "queues:\n  high:\n    concurrency: many\n");
    let done = dir.run(&["check"]);
    assert_eq!(done.code, 78);
    assert_eq!(
        done.err,
        "windlass.yaml:3:18: `concurrency` in [queues.high]: expected a whole number from 1 to 1000, got \"many\"\n"
    );
}

#[test]
fn the_file_is_named_by_flag_or_variable_or_found() {
    let dir = Dir::new();
    dir.write("windlass.toml", "[worker]\nmax_crashes = 11\n");
    dir.write("other.toml", "[worker]\nmax_crashes = 12\n");
    dir.write("third.yaml", "worker:\n  max_crashes: 13\n");
    let crashes = |done: common::Done| done.json()["worker"]["max_crashes"].clone();
    assert_eq!(crashes(dir.ok(&["check", "--json"])), 11);
    let by_variable = [("WINDLASS_CONFIG", "other.toml")];
    assert_eq!(crashes(dir.with_env(&by_variable, &["check", "--json"])), 12);
    assert_eq!(crashes(dir.with_env(&by_variable, &["check", "--json", "--config", "third.yaml"])), 13);
    let missing = dir.run(&["check", "--config", "nowhere.toml"]);
    assert_eq!(missing.code, 78);
    assert!(missing.err.contains("nowhere.toml"), "{missing:?}");
}

#[test]
fn a_flag_goes_over_the_environment_over_the_file_over_the_default() {
    let dir = Dir::new();
    let path = |done: common::Done| done.json()["store"]["path"].clone();
    assert_eq!(path(dir.ok(&["check", "--json"])), "windlass.db");
    dir.write("windlass.toml", "[store]\npath = \"file.db\"\n");
    assert_eq!(path(dir.ok(&["check", "--json"])), "file.db");
    let env = [("WINDLASS__STORE__PATH", "env.db")];
    assert_eq!(path(dir.with_env(&env, &["check", "--json"])), "env.db");
    assert_eq!(path(dir.with_env(&env, &["check", "--json", "--db", "flag.db"])), "flag.db");
}

#[test]
fn a_wrong_variable_is_named() {
    let done = Dir::new().with_env(&[("WINDLASS__WORKER__LEESE", "1m")], &["check"]);
    assert_eq!(done.code, 78);
    assert_eq!(
        done.err,
        "environment variable WINDLASS__WORKER__LEESE: unknown key `leese` in [worker]; did you mean `lease`?\n"
    );
    let error = Dir::new().with_env(&[("WINDLASS__WORKER__LEESE", "1m")], &["check", "--json"]).error();
    assert_eq!(error["errors"][0]["variable"], "WINDLASS__WORKER__LEESE");
}

#[test]
fn asking_for_redis_without_a_server_is_an_error_and_never_falls_back_to_a_file() {
    let unreachable = ("REDIS_URL", "redis://127.0.0.1:1");
    let done = Dir::new().with_env(&[("USE_REDIS_QUEUE", "true"), unreachable], &["queue", "list"]);
    assert_eq!(done.code, 69, "{done:?}");
    assert!(done.err.contains("127.0.0.1:1"), "{done:?}");
    let done = Dir::new().with_env(&[("USE_REDIS_QUEUE", "true")], &["check"]);
    assert!(done.code == 78 && done.err.contains("REDIS_URL"), "{done:?}");
    assert_eq!(
        Dir::new().with_env(&[("USE_REDIS_QUEUE", "false")], &["check"]).code,
        0,
        "false selects SQLite"
    );
}

#[test]
fn the_printed_example_is_a_right_configuration() {
    let dir = Dir::new();
    let example = dir.ok(&["config", "example"]).out;
    dir.write("windlass.toml", &example);
    let with = dir.ok(&["check", "--json"]).json();
    let mut without = Dir::new().ok(&["check", "--json"]).json();
    without["file"] = json!("windlass.toml");
    assert_eq!(with, without, "the example sets every key to its default");
}
