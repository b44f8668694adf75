//! Query plans: how the server plans our statements when the tables have a million rows. No hot statement
//! may scan a big table or a whole index of one, or sort more than it returns.
//!
//! A statement that does so says in its header why that does no harm, on a line of one of these forms,
//! where NAME is an index, or a table for any of its indexes:
//!
//! ```text
//! -- plan: cold: an operator runs the doctor
//! -- plan: walks NAME: rolling up keeps this table short
//! -- plan: walks NAME when seen empty: an operator reads one job
//! -- plan: sorts: the jobs of one request
//! ```
//!
//! A cold statement may do anything, or has no plan. All others are expected to run for every batch of
//! jobs, or every second. The third form is about plans that were made when the tables were empty.
#![cfg(test)]

mod inside;

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use tokio_postgres::{Client, NoTls};

use super::sql::{Statements, in_schema};
use super::{PostgresEngine, PostgresOptions, open};

/// Tables that grow with the number of jobs.
const BIG: [&str; 18] = [
    "delayed_jobs",
    "delayed_jobs_dlq",
    "job_history",
    "job_traces",
    "attempts",
    "job_keys",
    "receipts",
    "count_deltas",
    "claims",
    "claim_ends",
    "completion_trigger_marks",
    "ordering_key_marks",
    "ended_keys",
    "requeued_jobs",
    "job_rate_limits",
    "job_schedules",
    "job_rollups",
    "rollup_samples",
];

const FILL: &str = "
INSERT INTO windlass.queues (name, spec, priority) VALUES ('main', '{}', 5);
INSERT INTO windlass.job_types (name, queue, spec, max_attempts, retention_days, keep_result)
VALUES ('work', 'main', '{}', 5, 7, false);
INSERT INTO windlass.delayed_jobs (id, scheduled_at, created_at, priority, queue, job_type, payload, fairness_key)
SELECT n, now() + n * interval '1 microsecond', now(), n % 11, 'main', 'work', '{}', CASE WHEN n % 2 = 0 THEN 's' || n % 997 END
FROM generate_series(1, 1000000) AS n;
INSERT INTO windlass.job_history (
    id, keep_until, scheduled_at, created_at, ended_at, attempts, max_attempts, failures, crashes, holds, priority, state,
    queue, job_type, payload
)
SELECT n, now(), now(), now(), now(), 1, 5, 0, 0, 0, 5, 1, 'main', 'work', '{}' FROM generate_series(1, 100000) AS n;
INSERT INTO windlass.job_keys (job_type, key, job) SELECT 'work', n::text, n FROM generate_series(1, 100000) AS n;
ANALYZE windlass.delayed_jobs, windlass.job_history, windlass.job_keys;";

#[tokio::test]
async fn no_hot_statement_walks_over_a_big_table_or_sorts_more_than_it_gives() {
    let env = Env::new().await;
    env.client.batch_execute("SET statement_timeout = 0").await.unwrap();
    env.client.batch_execute(&in_schema(FILL, &env.schema)).await.unwrap();
    let walks = env.walks().await;
    assert!(walks.is_empty(), "{walks:?}");
    let mut sorts = HashSet::new();
    for (name, text) in hot() {
        let steps = env.steps_of(text).await;
        let sorts_much = steps.iter().any(Step::is_sort) && !permits_of(text).contains(&Permit::Sorts);
        sorts.extend(sorts_much.then_some(name));
    }
    assert!(sorts.is_empty(), "{sorts:?}");
    let plan = env.plan_of("asked_to_stop").await;
    assert!(plan.contains("delayed_jobs_stopping"), "{plan}");
    env.client.batch_execute(&format!("DROP SCHEMA {} CASCADE", env.schema)).await.unwrap();
}

/// The minimum of rows when these statements run.
const ONE_OF_EACH: &str = "
INSERT INTO windlass.queues (name, spec, priority) VALUES ('main', '{}', 5);
INSERT INTO windlass.job_types (name, queue, spec, max_attempts, retention_days, keep_result)
VALUES ('work', 'main', '{}', 5, 7, false);
INSERT INTO windlass.delayed_jobs (id, scheduled_at, created_at, priority, queue, job_type, payload, key)
VALUES (1, now(), now(), 5, 'main', 'work', '{}', 'a');
INSERT INTO windlass.job_keys (job_type, key, job) VALUES ('work', 'a', 1);
INSERT INTO windlass.claims (token, at) VALUES (gen_random_uuid(), now());";

/// A server that has seen tables empty, by a vacuum or a manual ANALYZE, takes all access paths through
/// them for equally good. The plan is kept while they fill up, until the server analyzes them again.
#[tokio::test]
async fn no_hot_statement_walks_over_a_big_table_by_a_plan_that_was_made_when_it_was_seen_empty() {
    let env = Env::new().await;
    for table in BIG {
        env.client.batch_execute(&format!("VACUUM ANALYZE {}.{table}", env.schema)).await.unwrap();
    }
    env.client.batch_execute(&in_schema(ONE_OF_EACH, &env.schema)).await.unwrap();
    let mut walks = env.walks().await;
    walks.retain(|(name, what)| !permits_of(env.text_of(name)).contains(&Permit::WalksWhenSeenEmpty(what)));
    assert!(walks.is_empty(), "{walks:?}");
}

#[tokio::test]
async fn a_statement_without_a_fitting_index_is_found_to_walk() {
    let env = Env::new().await;
    let indexes = env.indexes().await;
    let (jobs, any) = ("SELECT 1 FROM windlass.delayed_jobs WHERE", "ANY ($1::bigint[])");
    for (text, walk) in [
        (format!("{jobs} id = {any}"), None),
        (format!("{jobs} ctid = '(0,1)'"), None),
        (format!("{jobs} crashes = {any}"), Some("delayed_jobs")),
        (format!("{jobs} crashes = {any} ORDER BY id"), Some("delayed_jobs_pkey")),
        (
            format!("{jobs} locked_at IS NULL AND gate IS NULL AND priority = {any} ORDER BY queue"),
            Some("delayed_jobs_ready"),
        ),
        (format!("SELECT 1 FROM windlass.job_history WHERE crashes = {any}"), Some("job_history_rest")),
    ] {
        let steps = env.steps_of(&text).await;
        let found: HashSet<_> = steps.iter().filter_map(|step| step.walks_over(&indexes)).collect();
        assert!(found.iter().map(String::as_str).eq(walk), "{text}: {found:?}");
    }
}

/// All statements that are not cold, with their texts.
fn hot() -> Vec<(&'static str, &'static str)> {
    let mut all = Statements::all();
    all.retain(|(_, text)| !permits_of(text).contains(&Permit::Cold));
    all
}

/// The exceptions that the header of a statement states.
#[derive(Debug, PartialEq)]
enum Permit<'a> {
    Cold,
    Walks(&'a str),
    WalksWhenSeenEmpty(&'a str),
    Sorts,
}

fn permits_of(text: &str) -> Vec<Permit<'_>> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("-- plan: "));
    lines
        .map(|line| {
            permit_of(line)
                .unwrap_or_else(|| panic!("expected one of the forms at the top of plans.rs, got {line}"))
        })
        .collect()
}

fn permit_of(line: &str) -> Option<Permit<'_>> {
    let (what, why) = line.split_once(": ")?;
    let words: Vec<_> = what.split(' ').collect();
    let permit = match words[..] {
        ["cold"] => Permit::Cold,
        ["sorts"] => Permit::Sorts,
        ["walks", over] => Permit::Walks(over),
        ["walks", over, "when", "seen", "empty"] => Permit::WalksWhenSeenEmpty(over),
        _ => return None,
    };
    (!why.trim().is_empty()).then_some(permit)
}

#[test]
fn a_header_permits_what_it_gives_a_reason_for() {
    assert_eq!(permit_of("sorts: few"), Some(Permit::Sorts));
    assert_eq!(permit_of("walks a_pkey when seen empty: few"), Some(Permit::WalksWhenSeenEmpty("a_pkey")));
    for line in ["sorts", "sorts: ", "sorts a lot: few", "walks: few"] {
        assert_eq!(permit_of(line), None, "{line}");
    }
    let permits = Statements::all().iter().map(|(_, text)| permits_of(text).len()).sum::<usize>();
    assert!(permits > 50, "headers are read: {permits}");
}

/// A step of a plan.
struct Step(Value);

impl Step {
    /// Returns all steps of a plan.
    fn all(plan: &Value) -> Vec<Self> {
        let below = plan["Plans"].as_array().into_iter().flatten().flat_map(Self::all);
        std::iter::once(Self(plan.clone())).chain(below).collect()
    }

    fn word(&self, name: &str) -> Option<&str> {
        self.0[name].as_str()
    }

    fn is_sort(&self) -> bool {
        self.word("Node Type").is_some_and(|kind| kind.ends_with("Sort"))
    }

    /// Returns the big table, or the index of one, that this step walks over, if it does: it neither knows
    /// the positions of rows nor has it a condition on the first column of its index. Without sequential
    /// scans, the server walks over whole indexes.
    fn walks_over(&self, indexes: &HashMap<String, Index>) -> Option<String> {
        let kind = self.word("Node Type")?;
        // The index scan of a bitmap is a step of its own, which names its index and no table.
        if !kind.ends_with("Scan") || kind == "Tid Scan" || kind == "Bitmap Heap Scan" {
            return None;
        }
        let index = self.word("Index Name");
        let known = index.and_then(|index| indexes.get(index));
        let table = self.word("Relation Name").or(known.map(|index| index.table.as_str()))?;
        let Some(index) = index.filter(|_| is_big(table)) else {
            return is_big(table).then(|| table.to_owned());
        };
        let Index { first, .. } = known.expect("every index of a big table was read");
        let condition = self.word("Index Cond").unwrap_or_default();
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let is_led = condition.split(|c| !is_word(c)).any(|word| word == first);
        (!is_led).then(|| index.to_owned())
    }
}

fn is_big(table: &str) -> bool {
    // A day of the history is named after its table.
    BIG.contains(&table) || table.starts_with("job_history")
}

/// The first column of an index, and its table.
struct Index {
    first: String,
    table: String,
}

/// A fresh schema, and a session with the settings of the engine.
struct Env {
    client: Client,
    schema: String,
}

impl Env {
    async fn new() -> Self {
        let url = windlass_servers::shared::postgres_url().expect("a PostgreSQL server");
        let schema = format!("plans_{:016x}", fastrand::u64(..));
        let options = PostgresOptions { schema: schema.clone(), listen: false, ..PostgresOptions::default() };
        PostgresEngine::connect(&url, options).await.unwrap();
        let (client, connection) = open::address(&url, false).unwrap().config().connect(NoTls).await.unwrap();
        tokio::spawn(connection);
        Self { client, schema }
    }

    fn text_of(&self, name: &str) -> &'static str {
        let found = Statements::all().into_iter().find(|(other, _)| *other == name);
        found.expect("the name of a statement").1
    }

    async fn plan_of(&self, name: &str) -> String {
        plan_of(&self.client, &in_schema(self.text_of(name), &self.schema), "TEXT").await
    }

    async fn steps_of(&self, text: &str) -> Vec<Step> {
        let plan = plan_of(&self.client, &in_schema(text, &self.schema), "JSON").await;
        let plan: Value = serde_json::from_str(&plan).expect("the server writes JSON");
        Step::all(&plan[0]["Plan"])
    }

    /// Returns the hot statements that walk over a table or index, unless their headers permit it.
    async fn walks(&self) -> HashSet<(&'static str, String)> {
        let indexes = self.indexes().await;
        let mut walks = HashSet::new();
        for (name, text) in hot() {
            let steps = self.steps_of(text).await;
            walks.extend(steps.iter().filter_map(|step| Some((name, step.walks_over(&indexes)?))));
        }
        walks.retain(|(name, what)| {
            let permits = permits_of(self.text_of(name));
            !permits.iter().any(|permit| matches!(permit, Permit::Walks(over) if what.starts_with(over)))
        });
        walks
    }

    async fn indexes(&self) -> HashMap<String, Index> {
        let text = "SELECT c.relname::text, pg_get_indexdef(c.oid, 1, true), t.relname::text
            FROM pg_class c JOIN pg_index x ON x.indexrelid = c.oid JOIN pg_class t ON t.oid = x.indrelid
            WHERE c.relnamespace = $1::text::regnamespace";
        let rows = self.client.query(text, &[&self.schema]).await.unwrap();
        rows.iter().map(|row| (row.get(0), Index { first: row.get(1), table: row.get(2) })).collect()
    }
}

/// The plan that is kept for all values.
async fn plan_of(client: &Client, text: &str, format: &str) -> String {
    let nulls = vec!["NULL"; client.prepare(text).await.unwrap().params().len()].join(", ");
    let arguments = if nulls.is_empty() { String::new() } else { format!("({nulls})") };
    let text = text.trim_end().trim_end_matches(';');
    client.batch_execute(&format!("PREPARE planned AS {text}")).await.unwrap();
    let rows = client
        .simple_query(&format!("EXPLAIN (COSTS OFF, FORMAT {format}) EXECUTE planned{arguments}"))
        .await
        .unwrap();
    client.batch_execute("DEALLOCATE planned").await.unwrap();
    let line = |row: &tokio_postgres::SimpleQueryMessage| match row {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    };
    rows.iter().filter_map(line).collect::<Vec<_>>().join("\n")
}

/// A plan that was made for an empty table is kept when the table is big.
#[tokio::test]
async fn a_heartbeat_looks_only_at_what_was_asked_to_stop_also_by_a_plan_for_empty_tables() {
    let env = Env::new().await;
    let plan = env.plan_of("asked_to_stop").await;
    assert!(plan.contains("Index Scan using delayed_jobs_stopping"), "{plan}");
}

#[tokio::test]
async fn what_a_worker_runs_is_found_by_its_claims_also_by_a_plan_for_empty_tables() {
    let env = Env::new().await;
    for name in ["running_of", "orphans", "declare_dead", "list_running", "prune_workers"] {
        let plan = env.plan_of(name).await;
        assert!(plan.contains("Index Cond: (id = named.id)"), "{name}: {plan}");
        assert!(!plan.contains("Join Filter"), "{name}: {plan}");
    }
}

#[tokio::test]
async fn ends_are_looked_for_where_their_rows_lie() {
    let env = Env::new().await;
    for name in ["settle", "settle_traced", "apply_waiting"] {
        let plan = env.plan_of(name).await;
        assert!(plan.contains("Tid Scan on delayed_jobs"), "{plan}");
    }
}

/// Mostly there are no triggers, and then an end must cost no more than without this check.
#[tokio::test]
async fn an_end_is_compared_with_triggers_only_where_there_are_some() {
    let env = Env::new().await;
    for name in ["settle", "settle_traced", "apply_ended", "apply_dead", "apply_waiting"] {
        let plan = env.plan_of(name).await;
        let steps: Vec<_> =
            plan.lines().map(|line| line.trim_start().trim_start_matches("-> ").trim()).collect();
        let marked = steps.iter().position(|step| *step == "CTE marked").unwrap_or_else(|| panic!("{plan}"));
        let of_marks = &steps[marked..marked + 5];
        assert!(of_marks[2].starts_with("Nested Loop Semi Join"), "{name}: {plan}");
        assert!(
            of_marks.iter().any(|step| step.contains("on completion_triggers d")),
            "triggers come first: {name}: {plan}"
        );
    }
}

#[tokio::test]
async fn what_is_left_of_a_group_is_found_by_when_it_is_due() {
    let env = Env::new().await;
    for (name, conditions) in [
        (
            "queue_has_work",
            ["(queue = $1) AND (priority = (p.priority)::smallint) AND (scheduled_at <=", "queue = $1"],
        ),
        (
            "type_has_work",
            [
                "(priority = (p.priority)::smallint) AND (scheduled_at <=",
                "((gate)::text = 'suspect'::text) AND (scheduled_at <=",
            ],
        ),
        (
            "group_has_work",
            ["(gate IS NULL) AND (scheduled_at <=", "(gate = 'suspect'::text) AND (scheduled_at <="],
        ),
    ] {
        let plan = env.plan_of(name).await;
        for condition in conditions {
            let is_index_cond =
                plan.lines().any(|line| line.contains("Index Cond") && line.contains(condition));
            assert!(is_index_cond, "{name}, {condition}: {plan}");
        }
    }
}

#[tokio::test]
async fn a_claim_pulls_from_one_priority_after_another_under_one_limit() {
    let env = Env::new().await;
    let plan = env.plan_of("claim").await;
    let steps: Vec<_> = plan.lines().map(|line| line.trim_start().trim_start_matches("-> ").trim()).collect();
    let at = |step: &str| {
        steps.iter().position(|line| line.starts_with(step)).unwrap_or_else(|| panic!("{step}\n{plan}"))
    };
    // Limit over nested loop over the ranges, and in it the lock over the index: nothing in between that
    // would pull all of a range, or lock more rows than the limit takes.
    assert!(at("CTE picked") < at("Limit") && at("Limit") < at("LockRows"), "{plan}");
    assert!(at("LockRows") < at("Index Scan using delayed_jobs_ready"), "{plan}");
    let between = &steps[at("CTE picked")..at("LockRows")];
    assert!(!between.iter().any(|line| line.contains("Sort") || line.contains("Hash")), "{plan}");
}
