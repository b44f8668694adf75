//! The doctor checks a real server and names what is wrong with it.
#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use std::collections::BTreeSet;
use std::time::Duration;

use tokio_postgres::{Client, NoTls};
use windlass_engines::postgres::{Finding, Grade, PostgresEngine, PostgresOptions};
use windlass_servers::postgres::{Options, Server};

/// The longest wait, sufficient for a busy machine.
const WAIT_MAX: Duration = Duration::from_secs(60);

async fn engine() -> (PostgresEngine, String, Client) {
    engine_on(&windlass_servers::shared::postgres_url().expect("a PostgreSQL server")).await
}

/// Opens an engine in a schema of its own, and another session.
async fn engine_on(url: &str) -> (PostgresEngine, String, Client) {
    let schema = format!("doctor_{:016x}", fastrand::u64(..));
    let options = PostgresOptions { schema: schema.clone(), ..PostgresOptions::default() };
    let engine = PostgresEngine::connect(url, options).await.expect("a fresh schema");
    (engine, schema, session(url).await)
}

async fn session(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

/// Starts a server of its own, for findings that concern a whole server.
fn server(settings: &[(&str, &str)]) -> Server {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let settings = settings.iter().map(own).collect();
    Server::start(&Options { fsync: false, settings, ..Options::default() }).expect("it starts")
}

/// Repeats the check until a finding is as expected: the server counts some things a moment later.
async fn until(engine: &PostgresEngine, what: &str, is_so: impl Fn(&Finding) -> bool) -> Finding {
    let looking = async {
        loop {
            let findings = engine.examine().await.unwrap();
            let found = findings.into_iter().find(|finding| finding.about == what && is_so(finding));
            if let Some(finding) = found {
                return finding;
            }
        }
    };
    tokio::time::timeout(WAIT_MAX, looking)
        .await
        .unwrap_or_else(|_| panic!("expected a finding about {what}"))
}

fn about<'a>(findings: &'a [Finding], what: &str) -> &'a Finding {
    findings.iter().find(|finding| finding.about == what).expect("every topic is checked")
}

#[tokio::test]
async fn a_fresh_schema_is_in_good_health() {
    let (engine, _, _client) = engine().await;
    let findings = engine.examine().await.unwrap();
    for what in ["indexes", "notifications", "clock", "tables"] {
        assert_eq!(about(&findings, what).grade, Grade::Good, "{findings:?}");
    }
}

#[tokio::test]
async fn a_missing_index_is_named() {
    let (engine, schema, client) = engine().await;
    client.batch_execute(&format!("DROP INDEX {schema}.delayed_jobs_ready")).await.unwrap();
    let findings = engine.examine().await.unwrap();
    let finding = about(&findings, "indexes");
    assert_eq!(finding.grade, Grade::Bad);
    assert!(finding.found.contains("delayed_jobs_ready"), "{finding:?}");
    assert_eq!(findings[0].about, "indexes", "the worst finding comes first");
}

#[tokio::test]
async fn each_index_that_statements_were_written_for_is_missed_if_it_is_not_there() {
    let (engine, schema, client) = engine().await;
    let text = "SELECT x.indexrelid::regclass::text, x.indrelid::regclass::text, i.relname::text, c.conname IS NOT NULL
        FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid LEFT JOIN pg_constraint c ON c.conindid = x.indexrelid AND c.contype <> 'f'
        WHERE i.relnamespace = $1::text::regnamespace AND i.relname NOT IN ('delayed_jobs_pkey', 'schema_versions_pkey')
        AND x.indexrelid NOT IN (SELECT inhrelid FROM pg_inherits)";
    let indexes = client.query(text, &[&schema]).await.unwrap();
    for row in &indexes {
        let (index, table, name): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        let drop = match row.get(3) {
            true => format!("ALTER TABLE {table} DROP CONSTRAINT {name} CASCADE"),
            false => format!("DROP INDEX {index}"),
        };
        client.batch_execute(&drop).await.unwrap();
    }
    let findings = engine.examine().await.unwrap();
    let finding = about(&findings, "indexes");
    let missing = finding.found.strip_prefix("missing: ").expect("no index is invalid");
    let missing: BTreeSet<_> = missing.split(", ").collect();
    let dropped: BTreeSet<_> = indexes.iter().map(|row| row.get::<_, &str>(2)).collect();
    assert_eq!(missing, dropped);
}

#[tokio::test]
async fn an_index_that_could_not_be_built_is_named_until_it_is_gone() {
    let (engine, schema, client) = engine().await;
    let fill = format!("CREATE TABLE {schema}.scratch AS SELECT 1 AS n FROM generate_series(1, 2)");
    client.batch_execute(&fill).await.unwrap();
    let build = format!("CREATE UNIQUE INDEX CONCURRENTLY half_built ON {schema}.scratch (n)");
    client.batch_execute(&build).await.expect_err("there are duplicates");
    let findings = engine.examine().await.unwrap();
    let finding = about(&findings, "indexes");
    assert_eq!((finding.grade, finding.found.as_str()), (Grade::Bad, "invalid: half_built"));
    assert!(finding.advice.as_ref().unwrap().contains("REINDEX INDEX CONCURRENTLY"), "{finding:?}");
    client.batch_execute(&format!("DROP INDEX {schema}.half_built")).await.unwrap();
    let findings = engine.examine().await.unwrap();
    assert_eq!(about(&findings, "indexes").grade, Grade::Good);
}

#[tokio::test]
async fn an_index_of_ours_that_is_invalid_is_named_once() {
    let (engine, schema, client) = engine().await;
    let spoil = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = $1::text::regclass";
    client.execute(spoil, &[&format!("{schema}.delayed_jobs_ready")]).await.unwrap();
    let findings = engine.examine().await.unwrap();
    assert_eq!(about(&findings, "indexes").found, "invalid: delayed_jobs_ready");
}

#[tokio::test]
async fn a_table_with_more_than_twice_as_many_dead_rows_as_live_ones_is_named_until_it_is_vacuumed() {
    // Open transactions of other tests would keep vacuum from removing the rows.
    let server = server(&[]);
    let (engine, schema, client) = engine_on(&server.url()).await;
    let name = format!("{schema}.receipts");
    let fill = format!(
        "ALTER TABLE {name} SET (autovacuum_enabled = false);
         INSERT INTO {name} (request, at) SELECT gen_random_uuid(), to_timestamp(n) FROM generate_series(1, 160000) AS n;
         DELETE FROM {name} WHERE at <= to_timestamp(110000)"
    );
    client.batch_execute(&fill).await.unwrap();
    let is_poor = |finding: &Finding| finding.grade == Grade::Poor && finding.found.starts_with(&name);
    let finding = until(&engine, "tables", is_poor).await;
    assert!(finding.advice.as_ref().unwrap().contains(&format!("VACUUM {name}")), "{finding:?}");
    client.batch_execute(&format!("VACUUM {name}")).await.unwrap();
    until(&engine, "tables", |finding| finding.found.starts_with(&name) && finding.grade == Grade::Good)
        .await;
}

#[tokio::test]
async fn a_table_and_an_index_that_are_nearly_empty_after_a_vacuum_are_named_until_they_are_made_anew() {
    // The transaction runs long enough to hold back vacuum in the schemas of other tests.
    let server = server(&[]);
    let (engine, schema, client) = engine_on(&server.url()).await;
    let (table, index) = (format!("{schema}.receipts"), format!("{schema}.spacious"));
    let fill = format!(
        "ALTER TABLE {table} SET (autovacuum_enabled = false);
         CREATE INDEX spacious ON {table} (answers);
         INSERT INTO {table} (request, at, answers) SELECT gen_random_uuid(), to_timestamp(n), text
         FROM generate_series(1, 150000) AS n, LATERAL (
             SELECT string_agg(md5(n || ' ' || part), '') AS text FROM generate_series(1, 15) AS part
         ) AS long;
         DELETE FROM {table} WHERE at > to_timestamp(10) AND at < to_timestamp(149990)"
    );
    client.batch_execute(&fill).await.unwrap();
    client.batch_execute(&format!("VACUUM ANALYZE {table}")).await.unwrap();
    let of = |name: String| move |finding: &Finding| finding.found.starts_with(&format!("{name} takes"));
    let finding = until(&engine, "space", of(table.clone())).await;
    assert_eq!(finding.grade, Grade::Poor);
    assert!(finding.advice.unwrap().contains(&format!("VACUUM FULL {table}")));
    let finding = until(&engine, "space", of(index.clone())).await;
    assert!(finding.advice.unwrap().contains(&format!("REINDEX INDEX CONCURRENTLY {index}")));
    client.batch_execute(&format!("VACUUM FULL {table}")).await.unwrap();
    let findings = engine.examine().await.unwrap();
    assert!(findings.iter().all(|finding| finding.about != "space"), "{findings:?}");
}

#[tokio::test]
async fn a_notification_queue_that_fills_up_is_a_finding_until_the_session_that_blocks_it_has_ended() {
    let server = server(&[]);
    let (engine, _, client) = engine_on(&server.url()).await;
    let deaf = session(&server.url()).await;
    deaf.batch_execute("LISTEN elsewhere; BEGIN; SELECT 1").await.unwrap();
    let send =
        "SELECT count(pg_notify('elsewhere', lpad(n::text, 7900, 'x'))) FROM generate_series(1, 11500) AS n";
    client.batch_execute(send).await.unwrap();
    let finding = until(&engine, "notifications", |finding| finding.grade == Grade::Poor).await;
    assert!(finding.advice.as_ref().unwrap().contains("LISTEN"), "{finding:?}");
    deaf.batch_execute("COMMIT; UNLISTEN *").await.unwrap();
    // The server removes the notifications that all sessions have read when a few more pages are written.
    // The engine's own listener reads them, too, and may not have reached the end yet.
    let some =
        "SELECT count(pg_notify('elsewhere', lpad(n::text, 7900, 'x'))) FROM generate_series(1, 8) AS n";
    let is_good = async || about(&engine.examine().await.unwrap(), "notifications").grade == Grade::Good;
    let clearing = async {
        while !is_good().await {
            client.batch_execute(some).await.unwrap();
        }
    };
    tokio::time::timeout(WAIT_MAX, clearing).await.expect("the queue is cleared");
}

#[tokio::test]
async fn a_prepared_transaction_that_holds_back_vacuum_is_named() {
    let server = server(&[("max_prepared_transactions", "2")]);
    let (engine, schema, client) = engine_on(&server.url()).await;
    let prepare = format!(
        "BEGIN; INSERT INTO {schema}.requeued_jobs VALUES (now(), now(), 5, 'main'); PREPARE TRANSACTION 'forgotten'"
    );
    client.batch_execute(&prepare).await.unwrap();
    let finding = until(&engine, "vacuum", |finding| finding.found.contains("forgotten")).await;
    assert!(finding.found.contains("has held back vacuum for 0 s"), "{finding:?}");
    client.batch_execute("ROLLBACK PREPARED 'forgotten'").await.unwrap();
    until(&engine, "vacuum", |finding| !finding.found.contains("forgotten")).await;
}

#[tokio::test]
async fn a_replication_slot_without_a_reader_is_named_with_the_way_to_drop_it() {
    let server = server(&[("wal_level", "logical")]);
    let (engine, _, client) = engine_on(&server.url()).await;
    let make = "SELECT pg_create_logical_replication_slot('forgotten', 'pgoutput')";
    client.batch_execute(make).await.unwrap();
    let finding = until(&engine, "vacuum", |finding| finding.found.contains("forgotten")).await;
    assert_eq!((finding.grade, finding.advice), (Grade::Good, None), "the transaction is young");
    let work = "DO $$ BEGIN FOR n IN 1..100000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$";
    client.batch_execute(work).await.unwrap();
    let finding = until(&engine, "vacuum", |finding| finding.grade == Grade::Poor).await;
    let cure = "SELECT pg_drop_replication_slot('forgotten')";
    assert!(finding.advice.as_ref().unwrap().contains(cure), "{finding:?}");
    client.batch_execute(cure).await.unwrap();
    until(&engine, "vacuum", |finding| finding.grade == Grade::Good).await;
}

/// The server's clock itself cannot be moved; but the function that our sessions call for it can be
/// replaced.
#[tokio::test]
async fn a_server_whose_clock_is_off_is_told_by_how_much() {
    let (_, schema, client) = engine().await;
    let shift = format!(
        "CREATE SCHEMA {schema}_late; CREATE FUNCTION {schema}_late.clock_timestamp() RETURNS timestamptz LANGUAGE sql
         AS $$ SELECT pg_catalog.clock_timestamp() - interval '1 hour' $$"
    );
    client.batch_execute(&shift).await.unwrap();
    let url = windlass_servers::shared::postgres_url().expect("a PostgreSQL server");
    let separator = if url.contains('?') { '&' } else { '?' };
    let url = format!("{url}{separator}options=-c%20search_path%3D{schema}_late%2Cpg_catalog");
    let options = PostgresOptions { schema, migrate: false, ..PostgresOptions::default() };
    let engine = PostgresEngine::connect(&url, options).await.unwrap();
    let findings = engine.examine().await.unwrap();
    let finding = about(&findings, "clock");
    assert_eq!(finding.grade, Grade::Poor);
    assert!(
        finding.found.contains("differ by 3600.") || finding.found.contains("differ by 3599."),
        "{finding:?}"
    );
}

#[tokio::test]
async fn the_session_that_holds_back_vacuum_is_named() {
    let (engine, _, client) = engine().await;
    client
        .batch_execute(
            "SET application_name = 'nightly-export'; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1",
        )
        .await
        .unwrap();
    let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    // Other tests of the same run may hold a transaction for a moment, but this one stays and so becomes
    // the oldest.
    let found = until(&engine, "vacuum", |finding| finding.found.contains(&pid.to_string())).await.found;
    assert!(found.contains("nightly-export"), "{found}");
}
