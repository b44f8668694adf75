//! Query plans of the statements inside the SQL functions, which cannot be seen from outside. A session of
//! an application, with the server's own settings, calls all functions, and the server reports how it ran
//! each statement.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio_postgres::{AsyncMessage, Client, NoTls};

use super::super::sql::in_schema;
use super::{Env, FILL, Index, Step, is_big};

/// Statements that may walk over a table or index from its beginning, by a part of their text, and why not
/// far.
const MAY_WALK: [(&str, &str, &str); 1] =
    [("FROM windlass.count_deltas d", "count_deltas", "rolling up keeps this table short")];

/// Rows besides those of the other test: dead and running jobs, some of them with a key.
const MORE: &str = "
SELECT setval('windlass.job_ids', 3000000);
INSERT INTO windlass.queues (name, spec, priority, capacity) VALUES ('small', '{}', 5, 1000);
INSERT INTO windlass.job_types (name, queue, spec, max_attempts, retention_days, keep_result) VALUES
    ('fleeting', 'main', '{}', 5, 0, false), ('small.work', 'small', '{}', 5, 7, false);
INSERT INTO windlass.delayed_jobs_dlq
SELECT n, now(), now(), NULL, NULL, 1, 5, 1, 0, 0, 5, 'main', 'work', '{}', 'dead-' || n, NULL, NULL, NULL, NULL, NULL, NULL,
    '{}', now(), NULL, NULL, NULL, NULL, NULL
FROM generate_series(2000000, 2010000) AS n;
INSERT INTO windlass.job_keys (job_type, key, job, scope) VALUES ('work', 'dead-2000007', 2000007, '\"while-live-or-dead\"');
UPDATE windlass.delayed_jobs SET key = id::text WHERE id BETWEEN 10 AND 99;
UPDATE windlass.delayed_jobs SET job_type = 'fleeting' WHERE id = 3;
INSERT INTO windlass.job_keys (job_type, key, job, scope) VALUES ('work', 'dead-2000008', 2000008, '\"while-live-or-dead\"');
UPDATE windlass.delayed_jobs_dlq SET options = '{\"ordering_key\": \"a\"}' WHERE id = 2000008;
UPDATE windlass.delayed_jobs SET ordering_key = 'a', gate = 'ordering_key:work:a' WHERE id BETWEEN 20000 AND 60000;
UPDATE windlass.delayed_jobs SET ordering_key = 's' || id WHERE id BETWEEN 60001 AND 90000;
UPDATE windlass.delayed_jobs SET ordering_key = 'a' WHERE id = 11;
UPDATE windlass.delayed_jobs SET locked_at = now(), locked_by = gen_random_uuid(),
    token = '00000000-0000-0000-0000-00000000feed', attempts = 1 WHERE id IN (1, 2, 3, 10, 11);
INSERT INTO windlass.receipts (request, at) SELECT gen_random_uuid(), now() FROM generate_series(1, 10000);
INSERT INTO windlass.job_traces (settled_by, at, jobs) SELECT gen_random_uuid(), now(), ARRAY[n] FROM generate_series(1, 10000) AS n;
INSERT INTO windlass.attempts (job, started_at, ended_at, worker, number, ending)
SELECT n, now(), now(), gen_random_uuid(), 1, 'failed' FROM generate_series(1, 10000) AS n;
INSERT INTO windlass.waiting VALUES ('main', 'another', now(), '{work}');
ANALYZE windlass.delayed_jobs, windlass.delayed_jobs_dlq, windlass.receipts, windlass.job_traces, windlass.attempts;";

/// Each path through each function.
const CALLS: [&str; 20] = [
    "SELECT windlass.enqueue('work')",
    "SELECT windlass.enqueue('small.work', delay => '1 minute', expires_in => '1 hour')",
    "SELECT windlass.enqueue('work', key => 'new', key_scope => '1 hour', retry => '{\"policy\": \"fixed\", \"every\": \"1s\"}')",
    "SELECT windlass.enqueue('work', key => '50')",
    "SELECT windlass.enqueue('work', key => '51', on_conflict => 'replace', label => 'urgent')",
    "SELECT windlass.enqueue('work', key => 'dead-2000007', on_conflict => 'revive')",
    "SELECT windlass.enqueue('work', request_id => '00000000-0000-0000-0000-000000000001')",
    "SELECT windlass.enqueue('work', request_id => '00000000-0000-0000-0000-000000000001')",
    "SELECT * FROM windlass.enqueue_many('[{\"job_type\": \"work\"}, {\"job_type\": \"work\", \"key\": \"a\"},
        {\"job_type\": \"work\", \"key\": \"b\", \"delay\": \"1 minute\", \"run_at\": \"soon\"}, {\"job_type\": \"nope\"}]',
        '00000000-0000-0000-0000-000000000002')",
    "SELECT * FROM windlass.enqueue_many('[{\"job_type\": \"work\", \"delay\": \"soon\"}, {\"job_type\": \"work\",
        \"retry\": {\"policy\": \"list\", \"delays\": [\"1s\"]}, \"payload\": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}]')",
    "SELECT windlass.complete(1, '00000000-0000-0000-0000-00000000feed')",
    "SELECT windlass.complete(1, '00000000-0000-0000-0000-00000000feed')",
    "SELECT windlass.complete(3, '00000000-0000-0000-0000-00000000feed')",
    "SELECT windlass.complete(10, '00000000-0000-0000-0000-00000000feed')",
    "SELECT windlass.enqueue('work', ordering_key => 'a')",
    "SELECT windlass.enqueue('work', key => 'dead-2000008', on_conflict => 'revive')",
    "SELECT windlass.complete(11, '00000000-0000-0000-0000-00000000feed')",
    "SELECT windlass.create_partitions(now())",
    "SELECT windlass.mark_put_off(50)",
    "SELECT windlass.enqueue('work', key => '53', on_conflict => 'replace', delay => '1 hour')",
];

/// The function that is not called: it walks over a day that it drops whole.
const NOT_CALLED: [&str; 1] = ["drop_partitions"];

#[tokio::test]
async fn no_statement_inside_a_function_walks_over_a_big_table_or_sorts_part_of_one() {
    let env = Env::new().await;
    let fill = format!("SET statement_timeout = 0; {}{MORE}", FILL.replace("1000000", "100000"));
    env.client.batch_execute(&in_schema(&fill, &env.schema)).await.unwrap();
    let indexes = env.indexes().await;
    let witness = Witness::new().await;
    witness.client.batch_execute("BEGIN").await.unwrap();
    for call in CALLS {
        witness
            .client
            .batch_execute(&in_schema(call, &env.schema))
            .await
            .unwrap_or_else(|error| panic!("{call}: {error:?}"));
    }
    // Waiting processes are notified at commit, which this brings forward.
    witness.client.batch_execute("SET CONSTRAINTS ALL IMMEDIATE").await.unwrap();
    assert_eq!(witness.never_called(&env.schema).await, BTreeSet::from(NOT_CALLED.map(str::to_owned)));
    witness.client.batch_execute("ROLLBACK").await.unwrap();
    let reported = witness.reported(&env.schema).await;
    assert!(reported.len() > 60, "each statement is reported: {}", reported.len());
    for (text, plan) in &reported {
        let mut walks = walks(plan, &indexes);
        walks.retain(|walk| {
            !MAY_WALK.iter().any(|(part, over, _)| text.contains(part) && walk.starts_with(over))
        });
        assert!(walks.is_empty(), "{walks:?}: {text}");
        assert!(!sorts_part_of_a_big_table(plan), "{text}: {plan}");
    }
    env.client.batch_execute(&format!("DROP SCHEMA {} CASCADE", env.schema)).await.unwrap();
}

fn walks(plan: &Value, indexes: &HashMap<String, Index>) -> Vec<String> {
    Step::all(plan).iter().filter_map(|step| step.walks_over(indexes)).collect()
}

fn sorts_part_of_a_big_table(plan: &Value) -> bool {
    let is_of_big = |step: &Step| step.word("Relation Name").is_some_and(is_big);
    Step::all(plan).iter().any(|step| step.is_sort() && Step::all(&step.0).iter().any(is_of_big))
}

#[tokio::test]
async fn a_statement_inside_a_function_that_walks_and_sorts_is_found() {
    let env = Env::new().await;
    let make = "CREATE FUNCTION windlass.bad() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
        PERFORM 1 FROM windlass.delayed_jobs WHERE crashes = 7 ORDER BY failures; END $$";
    env.client.batch_execute(&in_schema(make, &env.schema)).await.unwrap();
    let witness = Witness::new().await;
    witness.client.batch_execute(&in_schema("SELECT windlass.bad()", &env.schema)).await.unwrap();
    let reported = witness.reported(&env.schema).await;
    let (_, plan) =
        reported.iter().find(|(text, _)| text.contains("crashes = 7")).expect("the plan is reported");
    assert_eq!(walks(plan, &env.indexes().await), ["delayed_jobs"]);
    assert!(sorts_part_of_a_big_table(plan));
}

/// A session that receives the plan of each statement, also of those inside functions.
struct Witness {
    client: Client,
    notices: Arc<Mutex<Vec<String>>>,
}

impl Witness {
    async fn new() -> Self {
        let url = windlass_servers::shared::postgres_url().expect("a PostgreSQL server");
        let (client, mut connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        let notices = Arc::<Mutex<Vec<String>>>::default();
        let received = Arc::clone(&notices);
        tokio::spawn(async move {
            while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notice(notice) = message {
                    received.lock().unwrap().push(notice.message().to_owned());
                }
            }
        });
        let settings = "LOAD 'auto_explain'; SET auto_explain.log_nested_statements = on; SET track_functions = 'all';
            SET auto_explain.log_format = 'json'; SET auto_explain.log_level = 'notice'; SET auto_explain.log_min_duration = 0";
        client.batch_execute(settings).await.expect("a server with its usual extensions");
        Self { client, notices }
    }

    /// Returns the functions that use a table and that this session has not called in this transaction.
    async fn never_called(&self, schema: &str) -> BTreeSet<String> {
        let text = "SELECT p.proname::text FROM pg_proc p LEFT JOIN pg_stat_xact_user_functions f ON f.funcid = p.oid
            WHERE p.pronamespace = $1::text::regnamespace AND p.prosrc ~* ('(FROM|INTO|UPDATE) ' || $1::text)
            AND f.calls IS NULL";
        let rows = self.client.query(text, &[&schema]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Returns the statements of functions that were run so far, written for the schema `windlass`, and
    /// their plans.
    async fn reported(&self, schema: &str) -> Vec<(String, Value)> {
        self.client.batch_execute("SET auto_explain.log_min_duration = -1").await.unwrap();
        let mut reported = Vec::new();
        for notice in std::mem::take(&mut *self.notices.lock().unwrap()) {
            let Some((_, plan)) = notice.split_once("plan:") else { continue };
            let mut plan: Value = serde_json::from_str(plan).expect("the server writes JSON");
            let text = plan["Query Text"]
                .as_str()
                .expect("a plan with its statement")
                .replace(&format!("{schema}."), "windlass.");
            reported.push((text, plan["Plan"].take()));
        }
        reported
    }
}
