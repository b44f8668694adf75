//! How the server means to run our statements with a million rows there: none of the hot ones may walk over a big table,
//! or sort more than it gives back.
#![cfg(test)]

use tokio_postgres::{Client, NoTls};

use super::sql::{Statements, in_schema};
use super::{PostgresEngine, PostgresOptions, open};

/// Tables that grow with the number of jobs.
const BIG: [&str; 7] =
    ["delayed_jobs", "delayed_jobs_dlq", "job_history", "job_traces", "attempts", "job_keys", "receipts"];

/// Statements that run for every batch of jobs, or every second.
const HOT: [&str; 28] = [
    "enqueue",
    "insert_jobs",
    "reserve_keys",
    "lock_keys",
    "lock_free_keys",
    "hold_keys",
    "free_keys",
    "stages",
    "claim",
    "claim_suspect",
    "claimed_before",
    "spend_token",
    "look_ahead",
    "look",
    "settle",
    "open_gate",
    "behind_gate",
    "gates",
    "still_hold",
    "keys_of",
    "lock_jobs",
    "land_waiting",
    "land_ended",
    "land_dead",
    "was_settled",
    "report",
    "extend",
    "asked_to_stop",
];

/// Sorts of what was found by an index already, or of a handful.
const MAY_SORT: [&str; 6] =
    ["claim_suspect", "claimed_before", "look", "lock_keys", "lock_free_keys", "lock_jobs"];

const FILL: &str = "
INSERT INTO windlass.queues (name, spec, priority) VALUES ('main', '{}', 5);
INSERT INTO windlass.job_types (name, queue, spec, max_attempts, retention_days, keep_result)
VALUES ('work', 'main', '{}', 5, 7, false);
INSERT INTO windlass.delayed_jobs (id, scheduled_at, created_at, priority, queue, job_type, payload)
SELECT n, now() + n * interval '1 microsecond', now(), n % 11, 'main', 'work', '{}' FROM generate_series(1, 1000000) AS n;
INSERT INTO windlass.job_history (
    id, keep_until, scheduled_at, created_at, ended_at, attempts, max_attempts, failures, crashes, holds, priority, state,
    queue, job_type, payload
)
SELECT n, now(), now(), now(), now(), 1, 5, 0, 0, 0, 5, 1, 'main', 'work', '{}' FROM generate_series(1, 100000) AS n;
INSERT INTO windlass.job_keys (job_type, key, job) SELECT 'work', n::text, n FROM generate_series(1, 100000) AS n;
ANALYZE windlass.delayed_jobs, windlass.job_history, windlass.job_keys;";

#[tokio::test]
async fn no_hot_statement_walks_over_a_big_table_or_sorts_more_than_it_gives() {
    let ground = Ground::new().await;
    ground.client.batch_execute("SET statement_timeout = 0").await.unwrap();
    ground.client.batch_execute(&in_schema(FILL, &ground.schema)).await.unwrap();
    for name in HOT {
        let plan = ground.plan_of(name).await;
        for table in BIG {
            // A day of the history is named after its table.
            let scans = plan.lines().any(|line| line.contains("Seq Scan on") && line.contains(table));
            assert!(!scans, "{name} walks over {table}:\n{plan}");
        }
        let sorts =
            plan.lines().any(|line| line.trim_start().trim_start_matches("->").trim().starts_with("Sort"));
        assert!(!sorts || MAY_SORT.contains(&name), "{name} sorts:\n{plan}");
        assert!(name != "asked_to_stop" || plan.contains("delayed_jobs_stopping"), "{plan}");
    }
    ground.client.batch_execute(&format!("DROP SCHEMA {} CASCADE", ground.schema)).await.unwrap();
}

/// A fresh schema, and a session with the settings of ours.
struct Ground {
    client: Client,
    schema: String,
}

impl Ground {
    async fn new() -> Self {
        let url = windlass_servers::shared::postgres_url().expect("a PostgreSQL server");
        let schema = format!("plans_{:016x}", fastrand::u64(..));
        let options = PostgresOptions { schema: schema.clone(), listen: false, ..PostgresOptions::default() };
        PostgresEngine::connect(&url, options).await.unwrap();
        let (client, connection) = open::address(&url, false).unwrap().config().connect(NoTls).await.unwrap();
        tokio::spawn(connection);
        Self { client, schema }
    }

    async fn plan_of(&self, name: &str) -> String {
        let statements = Statements::all();
        let found = statements.iter().find(|(other, _)| *other == name);
        let (_, text) = found.expect("it is a statement of ours");
        plan_of(&self.client, &in_schema(text, &self.schema)).await
    }
}

/// The plan that is kept for all values.
async fn plan_of(client: &Client, text: &str) -> String {
    let nulls = vec!["NULL"; client.prepare(text).await.unwrap().params().len()].join(", ");
    let arguments = if nulls.is_empty() { String::new() } else { format!("({nulls})") };
    let text = text.trim_end().trim_end_matches(';');
    client.batch_execute(&format!("PREPARE planned AS {text}")).await.unwrap();
    let rows = client.simple_query(&format!("EXPLAIN (COSTS OFF) EXECUTE planned{arguments}")).await.unwrap();
    client.batch_execute("DEALLOCATE planned").await.unwrap();
    let line = |row: &tokio_postgres::SimpleQueryMessage| match row {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    };
    rows.iter().filter_map(line).collect::<Vec<_>>().join("\n")
}

/// A plan that was made while nothing was there is kept when there is much.
#[tokio::test]
async fn a_heartbeat_looks_only_at_what_was_asked_to_stop_also_by_a_plan_for_empty_tables() {
    let ground = Ground::new().await;
    let plan = ground.plan_of("asked_to_stop").await;
    assert!(plan.contains("Index Scan using delayed_jobs_stopping"), "{plan}");
}

#[tokio::test]
async fn ends_are_looked_for_where_their_rows_lie() {
    let ground = Ground::new().await;
    let plan = ground.plan_of("settle").await;
    assert!(plan.contains("Tid Scan on delayed_jobs"), "{plan}");
}

#[tokio::test]
async fn a_claim_pulls_from_one_priority_after_another_under_one_limit() {
    let ground = Ground::new().await;
    let plan = ground.plan_of("claim").await;
    let steps: Vec<_> = plan.lines().map(|line| line.trim_start().trim_start_matches("-> ").trim()).collect();
    let at = |step: &str| {
        steps.iter().position(|line| line.starts_with(step)).unwrap_or_else(|| panic!("{step}\n{plan}"))
    };
    // Limit over nested loop over the ranges, and in it the lock over the index: nothing in between that would
    // pull all of a range, or lock more rows than the limit takes.
    assert!(at("CTE picked") < at("Limit") && at("Limit") < at("LockRows"), "{plan}");
    assert!(at("LockRows") < at("Index Scan using delayed_jobs_ready"), "{plan}");
    let between = &steps[at("CTE picked")..at("LockRows")];
    assert!(!between.iter().any(|line| line.contains("Sort") || line.contains("Hash")), "{plan}");
}
