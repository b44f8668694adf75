//! The real binary measures: every figure is present and plausible, and nothing is left behind. This test
//! does not judge how large the figures are.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod common;

use common::{Dir, ended, wait_for};
use serde_json::Value;

/// The figures of scenarios that every engine has.
const EVERYWHERE: [(&str, &[&str]); 14] = [
    ("enqueue", &["single_per_second", "bulk_per_second"]),
    ("drain", &["jobs_per_second", "stored_per_second"]),
    ("drain-without-history", &["jobs_per_second", "stored_per_second"]),
    ("latency", &["pickup_p50_ms", "pickup_p99_ms", "pickup_max_ms"]),
    ("deep", &["jobs_per_second", "ratio_to_drain"]),
    ("future", &["jobs_per_second", "stored_per_second", "ratio_to_drain"]),
    ("mixed", &["jobs_per_second", "stored_per_second", "ratio_to_drain"]),
    ("keys", &["jobs_per_second", "stored_per_second", "bulk_per_second", "ratio_to_drain"]),
    ("fairness_keys", &["jobs_per_second", "stored_per_second", "bulk_per_second", "ratio_to_drain"]),
    ("boost", &["jobs_per_second", "stored_per_second", "ratio_to_drain"]),
    (
        "parked",
        &[
            "jobs_per_second",
            "attempts_per_second",
            "parked_per_second",
            "opened_per_second",
            "ratio_to_drain",
        ],
    ),
    ("rate-limit", &["jobs_per_second", "stored_per_second", "ratio_to_drain"]),
    ("breaker", &["jobs_per_second", "stored_per_second", "ratio_to_drain"]),
    ("churn", &["pickup_p50_ms", "pickup_p99_ms"]),
];

/// The figures that only PostgreSQL has.
const POSTGRES: [(&str, &[&str]); 3] = [
    ("pinned", &["jobs_per_second", "first_quarter_per_second", "last_quarter_per_second", "ratio_to_drain"]),
    ("pinned-latency", &["pickup_p50_ms", "pickup_p99_ms"]),
    ("churn", &["wal_bytes_per_job", "table_bytes", "index_bytes"]),
];

const LIMITS: [(&str, &[&str]); 3] = [
    ("enqueue", &["limit_bulk_per_second", "ratio_bulk_to_limit"]),
    ("drain", &["limit_jobs_per_second", "ratio_to_limit"]),
    ("drain-without-history", &["limit_jobs_per_second", "ratio_to_limit"]),
];

/// The baseline figures that only servers have.
const LIMITS_OF_SERVERS: [(&str, &[&str]); 1] =
    [("latency", &["limit_pickup_p50_ms", "ratio_pickup_to_limit"])];

fn measure(dir: &Dir, env: &[(&str, &str)], args: &[&str]) -> Value {
    let small = ["bench", "--json", "--scenario", "all", "--jobs", "300", "--seconds", "3", "--limit"];
    let done = dir.with_env(env, &[&small, args].concat());
    assert_eq!(done.code, 0, "{done:?}");
    done.json()
}

fn scenario<'a>(report: &'a Value, name: &str) -> &'a Value {
    let scenarios = report["scenarios"].as_array().expect("a list of scenarios");
    scenarios.iter().find(|scenario| scenario["name"] == name).unwrap_or_else(|| panic!("{name}: {report}"))
}

fn figure(report: &Value, name: &str, figure: &str) -> f64 {
    let scenario = scenario(report, name);
    scenario[figure].as_f64().unwrap_or_else(|| panic!("{figure} of {name}: {scenario}"))
}

fn assert_has(report: &Value, expected: &[(&str, &[&str])]) {
    for (name, figures) in expected {
        for known in *figures {
            assert!(figure(report, name, known) > 0.0, "{known} of {name}: {}", scenario(report, name));
        }
    }
}

fn assert_plausible(report: &Value) {
    assert_has(report, &EVERYWHERE);
    assert_has(report, &LIMITS);
    let kept_up = figure(report, "churn", "jobs_per_second");
    assert!(kept_up >= 0.0, "a slow machine may finish no job within the time: {report}");
    for name in ["drain", "mixed", "keys"] {
        let (handled, stored) =
            (figure(report, name, "jobs_per_second"), figure(report, name, "stored_per_second"));
        assert!(stored <= handled, "an end is stored after it happened: {name}, {report}");
    }
    for name in ["latency", "churn"] {
        let (half, most) = (figure(report, name, "pickup_p50_ms"), figure(report, name, "pickup_p99_ms"));
        assert!(half <= most, "{name}, {report}");
    }
    let (mixed, drain) =
        (figure(report, "mixed", "jobs_per_second"), figure(report, "drain", "jobs_per_second"));
    let ratio = figure(report, "mixed", "ratio_to_drain");
    assert!((ratio - mixed / drain).abs() < 0.01, "{report}");
    let conditions = &report["conditions"];
    assert_eq!((&conditions["jobs"], &conditions["payload_bytes"]), (&300.into(), &100.into()));
}

#[test]
fn every_scenario_gives_figures_in_memory() {
    let dir = Dir::new();
    let report = measure(&dir, &[], &["--engine", "memory"]);
    assert_eq!(report["engine"], "memory");
    assert_plausible(&report);
    let names: Vec<_> = report["scenarios"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names.len(), EVERYWHERE.len(), "{names:?}");
}

#[test]
fn every_scenario_gives_figures_on_sqlite_and_leaves_no_file() {
    let dir = Dir::new();
    let report = measure(&dir, &[], &["--engine", "sqlite"]);
    assert_eq!(report["engine"], "sqlite");
    assert_eq!(report["conditions"]["synchronous"], "full");
    assert_plausible(&report);
    assert!(figure(&report, "enqueue", "ratio_single_to_limit") > 0.0);
    assert!(figure(&report, "churn", "file_bytes") > 0.0);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn every_scenario_gives_figures_on_postgres_and_leaves_no_schema() {
    let url = windlass_servers::shared::postgres_url().expect("a PostgreSQL server");
    let report = measure(&Dir::new(), &[("DATABASE_URL", &url)], &["--engine", "postgres"]);
    assert_eq!(report["engine"], "postgres");
    assert_plausible(&report);
    assert_has(&report, &POSTGRES);
    assert_has(&report, &LIMITS_OF_SERVERS);
    let conditions = &report["conditions"];
    for known in ["server_version", "fsync", "synchronous_commit"] {
        assert!(conditions[known].is_string(), "{known}: {conditions}");
    }
    assert_eq!(schemas(&url, conditions["schema"].as_str().unwrap()), 0);
}

#[test]
fn every_scenario_gives_figures_on_redis() {
    let url = windlass_servers::shared::redis_url().expect("a Redis server");
    let report = measure(&Dir::new(), &[("REDIS_URL", &url)], &["--engine", "redis"]);
    assert_eq!(report["engine"], "redis");
    assert_plausible(&report);
    assert_has(&report, &[("drain", &["bytes_per_waiting_job", "bytes_per_done_job"])]);
    assert_has(&report, &LIMITS_OF_SERVERS);
}

#[test]
fn several_runs_give_medians_with_their_spread_and_only_what_was_asked_for() {
    let args = ["bench", "--engine", "memory", "--jobs", "200", "--runs", "3", "--history", "off"];
    let dir = Dir::new();
    let report = dir.ok(&[&args[..], &["--scenario", "mixed,latency", "--json"]].concat()).json();
    let names: Vec<_> =
        report["scenarios"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["drain", "latency", "mixed"], "a scenario that is compared with drain includes drain");
    let rate = figure(&report, "mixed", "jobs_per_second");
    let spread = &scenario(&report, "mixed")["spread"]["jobs_per_second"];
    assert!((spread["min"].as_f64().unwrap()..=spread["max"].as_f64().unwrap()).contains(&rate), "{report}");
    assert_eq!(report["conditions"]["history"], false);
    let table = dir.ok(&[&args[..], &["--scenario", "latency"]].concat()).out;
    assert!(table.contains("pickup_p99_ms") && table.contains("conditions: "), "{table}");
}

#[test]
fn what_an_engine_does_not_have_is_refused() {
    let dir = Dir::new();
    for args in [
        &["--engine", "sqlite", "--scenario", "pinned"][..],
        &["--engine", "postgres"],
        &["--scenario", "nope"],
        &["--jobs", "0"],
        &["--url", "postgres://ada:secret@host:port/jobs"],
    ] {
        let done = dir.run(&[&["bench"], args].concat());
        assert_eq!((done.code, done.out.as_str()), (2, ""), "{args:?}: {done:?}");
        assert!(!done.err.contains("secret"), "{done:?}");
    }
}

#[test]
fn an_interrupted_measurement_removes_its_schema() {
    let url = windlass_servers::shared::postgres_url().expect("a PostgreSQL server");
    let dir = Dir::new();
    let mut bench = dir
        .command(&["bench", "--url", &url, "--scenario", "churn", "--seconds", "600"])
        .spawn()
        .expect("the binary starts");
    let prefix = format!("windlass_bench_{}_", bench.id());
    assert!(wait_for(|| schemas(&url, &prefix) == 1), "the benchmark has a schema");
    let interrupt = std::process::Command::new("kill").args(["-INT", &bench.id().to_string()]).status();
    assert!(interrupt.expect("the kill command exists").success());
    assert_eq!(ended(&mut bench), Some(130));
    assert_eq!(schemas(&url, &prefix), 0);
}

/// The number of schemas whose name begins with the prefix.
fn schemas(url: &str, prefix: &str) -> i64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let sql = "SELECT count(*) FROM pg_namespace WHERE starts_with(nspname::text, $1)";
        client.query_one(sql, &[&prefix]).await.unwrap().get(0)
    })
}
