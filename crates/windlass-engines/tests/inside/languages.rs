//! Other languages: `psql`, and Python with psycopg. Each enqueues a job beside its own write. `psql` also
//! completes one, and Python gets a refusal.

use std::process::Command;

use windlass_core::engine::Admin;
use windlass_core::job::{JobId, JobState};
use windlass_servers::{postgres, python};

use super::test_store::{TestStore, claim, status};

#[tokio::test]
async fn psql_puts_a_job_in_and_ends_one() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let put = |end: &str| {
        let text = "BEGIN;
            CREATE TABLE IF NOT EXISTS windlass.orders (id bigint);
            INSERT INTO windlass.orders VALUES (1);
            SELECT windlass.enqueue(job_type => 'work', payload => '{}', queue => 'main');";
        postgres::psql(&place.url, &place.sql(&format!("{text} {end};"))).unwrap()
    };
    assert_eq!(put("ROLLBACK"), "1");
    assert_eq!(status(&engine).await.counts.ready, 0);
    let id = JobId(put("COMMIT").parse().unwrap());
    assert_eq!(claim(&engine, 10).await.iter().map(|claimed| claimed.job.id).collect::<Vec<_>>(), [id]);
    let text = "BEGIN; INSERT INTO windlass.orders VALUES (2);
        SELECT windlass.complete(id, token) FROM windlass.delayed_jobs; COMMIT;";
    assert_eq!(postgres::psql(&place.url, &place.sql(text)).unwrap(), "t");
    assert_eq!(engine.job(id).await.unwrap().unwrap().job_state(), JobState::Succeeded);
}

const PYTHON: &str = r#"
import json, sys
import psycopg
from psycopg.types.json import Json

url, schema = sys.argv[1:]
with psycopg.connect(url) as connection:
    connection.execute(f"CREATE TABLE {schema}.orders (id bigint)")

# The block is one transaction: it commits at the end, and rolls back if anything is raised.
with psycopg.connect(url) as connection:
    connection.execute(f"INSERT INTO {schema}.orders VALUES (1)")
    one = connection.execute(
        f"SELECT {schema}.enqueue(job_type => %s, payload => %s, key => %s, tags => %s)",
        ("work", Json({"order": 1, "name": "grüße 🦀"}), "order:1", ["shop"]),
    ).fetchone()[0]
    many = connection.execute(
        f"SELECT position, answer, why FROM {schema}.enqueue_many(%s)",
        (Json([{"job_type": "work", "delay": 60}, {"job_type": "work", "key": "order:1"}, {"job_type": "nope"}]),),
    ).fetchall()

try:
    with psycopg.connect(url) as connection:
        connection.execute(f"SELECT {schema}.enqueue('work')")
        connection.execute(f"SELECT {schema}.enqueue('nope')")
except psycopg.Error as error:
    refused = {"code": error.sqlstate, "message": error.diag.message_primary, "hint": error.diag.message_hint}

print(json.dumps({"one": one, "many": [row[:2] for row in many], "refused": refused}))
"#;

#[tokio::test]
async fn python_puts_jobs_in_together_with_its_own_writes() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let python = python::with_psycopg().unwrap_or_else(|error| panic!("{error}"));
    let mut command = Command::new(python);
    command.args(["-c", PYTHON, &place.url, &place.schema]);
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["many"], serde_json::json!([[1, "new"], [2, "duplicate"], [3, "refused"]]));
    assert_eq!(told["refused"]["code"], "WL001");
    assert!(told["refused"]["hint"].as_str().unwrap().contains("windlass type register nope"), "{told}");
    let job = engine.job(JobId(told["one"].as_i64().unwrap())).await.unwrap().unwrap().job;
    let payload: serde_json::Value = job.payload.decode().unwrap();
    assert_eq!(payload, serde_json::json!({"order": 1, "name": "grüße 🦀"}));
    assert_eq!(status(&engine).await.totals.enqueued, 2, "the third was rolled back");
}
