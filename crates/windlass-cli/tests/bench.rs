//! The real binary measures the configured store: every figure is there, and nothing is left behind. No test
//! judges a figure.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod common;

use std::process::{Child, Command};

use common::{Dir, ended, wait_for};
use serde_json::Value;

const FIGURES: [(&str, &[&str]); 3] = [
    ("enqueue", &["single_per_second", "bulk_per_second"]),
    ("drain", &["jobs_per_second", "stored_per_second"]),
    ("latency", &["pickup_p50_ms", "pickup_p99_ms"]),
];

fn assert_complete(report: &Value, engine: &str) {
    assert_eq!(report["engine"], engine);
    let scenarios = report["scenarios"].as_array().unwrap();
    assert_eq!(scenarios.len(), FIGURES.len(), "{report}");
    for (scenario, (name, figures)) in scenarios.iter().zip(FIGURES) {
        assert_eq!(scenario["name"], name);
        for figure in figures {
            assert!(scenario[figure].as_f64().is_some_and(|value| value > 0.0), "{figure}: {scenario}");
        }
    }
}

#[test]
fn all_scenarios_give_figures_on_sqlite_and_the_jobs_there_are_untouched() {
    let dir = Dir::new();
    dir.ok(&["type", "register", "t", "--queue", "high"]);
    dir.ok(&["job", "enqueue", "t"]);
    let before = dir.ok(&["job", "list", "--json"]).out;
    let report = dir.ok(&["bench", "--json", "--jobs", "200"]).json();
    assert_complete(&report, "sqlite");
    assert_eq!(
        (&report["conditions"]["jobs"], &report["conditions"]["payload_bytes"]),
        (&200.into(), &100.into())
    );
    assert_eq!(dir.ok(&["job", "list", "--json"]).out, before);
    let mut files: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    files.retain(|name| !name.to_str().unwrap().starts_with("windlass.db"));
    assert!(files.is_empty(), "{files:?}");
}

#[test]
fn the_store_itself_is_not_made() {
    let dir = Dir::new();
    dir.ok(&["bench", "--db", "other.db", "--jobs", "100", "--scenario", "drain"]);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn several_runs_give_a_median_and_its_spread() {
    let dir = Dir::new();
    let env = [("WINDLASS__STORE__ENGINE", "memory")];
    let args = ["bench", "--jobs", "100", "--runs", "3", "--scenario", "latency,drain,drain"];
    let report = dir.with_env(&env, &[&args[..], &["--json"]].concat()).json();
    let drain = &report["scenarios"][0];
    let spread = &drain["spread"]["jobs_per_second"];
    let range = spread["min"].as_f64().unwrap()..=spread["max"].as_f64().unwrap();
    assert!(range.contains(&drain["jobs_per_second"].as_f64().unwrap()), "{report}");
    assert_eq!(report["scenarios"].as_array().unwrap().len(), 2, "each once, in order: {report}");
    let table = dir.with_env(&env, &args).out;
    assert!(table.contains("jobs_per_second") && table.contains(" to "), "{table}");
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let dir = Dir::new();
    for args in [
        &["--scenario", "pinned"][..],
        &["--scenario", ""],
        &["--jobs", "0"],
        &["--runs", "none"],
        &["--concurrency", "1000000"],
        &["--limit"],
        &["--db", "postgres://ada:secret@host:port/jobs"],
    ] {
        let done = dir.run(&[&["bench"], args].concat());
        assert_eq!((done.code, done.out.as_str()), (2, ""), "{args:?}: {done:?}");
        assert!(!done.err.contains("secret"), "{done:?}");
    }
    let done = dir.run(&["bench", "--db", "missing/windlass.db", "--jobs", "100"]);
    assert_eq!((done.code, done.out.as_str()), (69, ""), "{done:?}");
}

#[test]
fn all_scenarios_give_figures_on_postgres_and_leave_no_schema() {
    let url = windlass_servers::shared::postgres_url().expect("a PostgreSQL server");
    let bench = Dir::new().command(&["bench", "--db", &url, "--json", "--jobs", "200"]).spawn().unwrap();
    let prefix = format!("windlass_bench_{}_", bench.id());
    let output = bench.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_complete(&serde_json::from_slice(&output.stdout).unwrap(), "postgres");
    assert_eq!(schemas(&url, &prefix), 0);
}

#[test]
fn an_interrupted_measurement_removes_its_schema() {
    let url = windlass_servers::shared::postgres_url().expect("a PostgreSQL server");
    let mut bench = long_measurement(&url);
    let prefix = format!("windlass_bench_{}_", bench.id());
    assert!(wait_for(|| schemas(&url, &prefix) == 1), "it has a schema");
    interrupt(&mut bench);
    assert_eq!(schemas(&url, &prefix), 0);
}

#[test]
fn an_interrupted_measurement_removes_its_namespace() {
    let url = windlass_servers::shared::redis_url().expect("a Redis server");
    let mut bench = long_measurement(&url);
    let pattern = format!("{{windlass_bench_{}_*", bench.id());
    assert!(wait_for(|| keys(&url, &pattern) > 10), "its worker is registered");
    interrupt(&mut bench);
    assert_eq!(keys(&url, &pattern), 0);
}

/// An idle worker that gets a job every 20 ms, for a quarter of an hour.
fn long_measurement(url: &str) -> Child {
    let args = ["bench", "--db", url, "--scenario", "latency", "--jobs", "100000", "--runs", "99"];
    Dir::new().command(&args).spawn().expect("the binary starts")
}

fn interrupt(bench: &mut Child) {
    let sent = Command::new("kill").args(["-INT", &bench.id().to_string()]).status();
    assert!(sent.expect("there is a kill command").success());
    assert_eq!(ended(bench), Some(130));
}

fn keys(url: &str, pattern: &str) -> usize {
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    let found: Vec<Vec<u8>> = redis::cmd("KEYS").arg(pattern).query(&mut connection).unwrap();
    found.len()
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
