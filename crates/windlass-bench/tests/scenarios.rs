//! The real binary measures: every figure is there and plausible, and nothing is left behind. No test judges
//! how large a figure is.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Figures that a scenario has on every engine.
const EVERYWHERE: [(&str, &[&str]); 14] = [
    ("enqueue", &["single_per_second", "bulk_per_second"]),
    ("drain", &["jobs_per_second", "stored_per_second"]),
    ("drain-without-history", &["jobs_per_second", "stored_per_second"]),
    ("latency", &["pickup_p50_ms", "pickup_p99_ms", "pickup_max_ms"]),
    ("deep", &["jobs_per_second", "ratio_to_drain"]),
    ("future", &["jobs_per_second", "stored_per_second", "ratio_to_drain"]),
    ("mixed", &["jobs_per_second", "stored_per_second", "ratio_to_drain"]),
    ("keys", &["jobs_per_second", "stored_per_second", "bulk_per_second", "ratio_to_drain"]),
    ("fairness-keys", &["jobs_per_second", "stored_per_second", "bulk_per_second", "ratio_to_drain"]),
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

/// Figures that only PostgreSQL has.
const POSTGRES: [(&str, &[&str]); 3] = [
    ("pinned", &["jobs_per_second", "first_quarter_per_second", "last_quarter_per_second", "ratio_to_drain"]),
    ("pinned-latency", &["pickup_p50_ms", "pickup_p99_ms"]),
    ("churn", &["wal_bytes_per_job", "table_bytes", "index_bytes"]),
];

/// Baselines and the ratios to them.
const BASELINES: [(&str, &[&str]); 3] = [
    ("enqueue", &["limit_bulk_per_second", "ratio_bulk_to_limit"]),
    ("drain", &["limit_jobs_per_second", "ratio_to_limit"]),
    ("drain-without-history", &["limit_jobs_per_second", "ratio_to_limit"]),
];

/// The baseline that only servers have.
const SERVER_BASELINES: [(&str, &[&str]); 1] =
    [("latency", &["limit_pickup_p50_ms", "ratio_pickup_to_limit"])];

/// The binary in this folder, without the servers of our own environment.
fn command(dir: &TempDir, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass-bench"));
    command.env_remove("DATABASE_URL").env_remove("REDIS_URL").current_dir(dir.path()).args(args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(dir: &TempDir, args: &[&str]) -> Output {
    command(dir, args).output().unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Measures all scenarios.
fn measure(dir: &TempDir, env: &[(&str, &str)], args: &[&str]) -> Value {
    let small = ["--json", "--scenario", "all", "--jobs", "300", "--seconds", "3", "--limit"];
    json(&command(dir, &[&small, args].concat()).envs(env.iter().copied()).output().unwrap())
}

fn dir() -> TempDir {
    tempfile::tempdir().unwrap()
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
    assert_has(report, &BASELINES);
    let in_time = figure(report, "churn", "jobs_per_second");
    assert!(in_time >= 0.0, "a slow machine may end none within the time: {report}");
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
    let report = measure(&dir(), &[], &["--engine", "memory"]);
    assert_eq!(report["engine"], "memory");
    assert_plausible(&report);
    let names: Vec<_> = report["scenarios"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names.len(), EVERYWHERE.len(), "{names:?}");
}

#[test]
fn every_scenario_gives_figures_on_sqlite_and_leaves_no_file() {
    let dir = dir();
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
    let report = measure(&dir(), &[("DATABASE_URL", &url)], &["--engine", "postgres"]);
    assert_eq!(report["engine"], "postgres");
    assert_plausible(&report);
    assert_has(&report, &POSTGRES);
    assert_has(&report, &SERVER_BASELINES);
    let conditions = &report["conditions"];
    for known in ["server_version", "fsync", "synchronous_commit"] {
        assert!(conditions[known].is_string(), "{known}: {conditions}");
    }
    assert_eq!(schemas(&url, conditions["schema"].as_str().unwrap()), 0);
}

#[test]
fn every_scenario_gives_figures_on_redis_and_leaves_no_key() {
    let url = windlass_servers::shared::redis_url().expect("a Redis server");
    let bench = ["--json", "--scenario", "all", "--jobs", "300", "--seconds", "3", "--limit", "--url", &url];
    let child = command(&dir(), &bench).spawn().unwrap();
    let pattern = format!("{{windlass_bench_{}_*", child.id());
    let report = json(&child.wait_with_output().unwrap());
    assert_eq!(report["engine"], "redis");
    assert_plausible(&report);
    assert_has(&report, &[("drain", &["bytes_per_waiting_job", "bytes_per_done_job"])]);
    assert_has(&report, &SERVER_BASELINES);
    assert!(report["conditions"]["appendonly"].is_boolean(), "{report}");
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    let left: Vec<Vec<u8>> = redis::cmd("KEYS").arg(pattern).query(&mut connection).unwrap();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn several_runs_give_medians_with_their_spread_and_only_the_chosen_scenarios() {
    let args = ["--engine", "memory", "--jobs", "200", "--runs", "3", "--history", "off"];
    let dir = dir();
    let report = json(&run(&dir, &[&args[..], &["--scenario", "mixed,latency", "--json"]].concat()));
    let names: Vec<_> =
        report["scenarios"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["drain", "latency", "mixed"], "what is compared with drain brings it along");
    let rate = figure(&report, "mixed", "jobs_per_second");
    let spread = &scenario(&report, "mixed")["spread"]["jobs_per_second"];
    assert!((spread["min"].as_f64().unwrap()..=spread["max"].as_f64().unwrap()).contains(&rate), "{report}");
    assert_eq!(report["conditions"]["history"], false);
    let table = run(&dir, &[&args[..], &["--scenario", "latency"]].concat());
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.contains("pickup_p99_ms") && table.contains("conditions: "), "{table}");
}

#[test]
fn what_an_engine_does_not_have_is_refused() {
    for args in [
        &["--engine", "sqlite", "--scenario", "pinned"][..],
        &["--engine", "postgres"],
        &["--engine", "redis"],
        &["--scenario", "nope"],
        &["--jobs", "0"],
        &["--url", "postgres://ada:secret@host:port/jobs"],
        &["--url", "redis://ada:secret@host:port"],
    ] {
        let output = run(&dir(), args);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{args:?}: {output:?}");
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!errors.contains("secret"), "{errors}");
    }
}

#[test]
fn an_interrupted_measurement_removes_its_schema() {
    let url = windlass_servers::shared::postgres_url().expect("a PostgreSQL server");
    interrupt_one_that_leaves_nothing(&url, |prefix| schemas(&url, prefix));
}

#[test]
fn an_interrupted_measurement_removes_its_keys() {
    let url = windlass_servers::shared::redis_url().expect("a Redis server");
    let mut server = redis::Client::open(url.as_str()).unwrap().get_connection().unwrap();
    interrupt_one_that_leaves_nothing(&url, |prefix| {
        let keys: Vec<String> =
            redis::cmd("KEYS").arg(format!("{{{prefix}*")).query(&mut server).expect("the server is up");
        keys.len() as i64
    });
}

/// Interrupts a measurement once it has a store. `count` counts what begins with the name of its stores.
fn interrupt_one_that_leaves_nothing(url: &str, mut count: impl FnMut(&str) -> i64) {
    let bench = command(&dir(), &["--url", url, "--scenario", "churn", "--seconds", "600"]).spawn().unwrap();
    let prefix = format!("windlass_bench_{}_", bench.id());
    while count(&prefix) == 0 {
        // may sleep: between two queries about another process.
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let interrupt = Command::new("kill").args(["-INT", &bench.id().to_string()]).status();
    assert!(interrupt.expect("there is a kill command").success());
    assert_eq!(bench.wait_with_output().unwrap().status.code(), Some(130));
    assert_eq!(count(&prefix), 0);
}

/// How many schemas begin with this.
fn schemas(url: &str, prefix: &str) -> i64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let sql = "SELECT count(*) FROM pg_namespace WHERE starts_with(nspname::text, $1)";
        client.query_one(sql, &[&prefix]).await.unwrap().get(0)
    })
}
