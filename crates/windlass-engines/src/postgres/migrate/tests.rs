//! The real schema, and a made-up second migration on top of it.

use super::*;
use crate::postgres::PostgresEngine;

/// A migration as a later release could bring it: a new table, and a new column of a table with rows.
const SECOND: Source = (
    2,
    "second",
    "CREATE TABLE windlass.notes (note text NOT NULL);
     INSERT INTO windlass.notes VALUES ('once');
     ALTER TABLE windlass.queues ADD COLUMN note text NOT NULL DEFAULT 'none';",
);

/// A second migration with a statement at its end that fails.
const BROKEN: Source = (
    2,
    "broken",
    "CREATE TABLE windlass.notes (note text NOT NULL);
     ALTER TABLE windlass.queues ADD COLUMN note text NOT NULL DEFAULT 'none';
     SELECT 1 / 0;",
);

const ROWS: &str = "
INSERT INTO windlass.queues (name, spec, priority) VALUES ('main', '{}', 5);
INSERT INTO windlass.job_types (name, queue, spec, max_attempts, retention_days, keep_result)
VALUES ('work', 'main', '{}', 5, 7, false);
SELECT windlass.enqueue('work')";

fn with(second: Source) -> Vec<Source> {
    [MIGRATIONS, &[second]].concat()
}

/// The longest wait, sufficient for a busy machine.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// A schema of its own for one test.
struct Fixture {
    client: tokio_postgres::Client,
    url: String,
    schema: String,
}

impl Fixture {
    /// A schema without any table.
    async fn empty() -> Self {
        let url = windlass_servers::shared::postgres_url().expect("a PostgreSQL server");
        let schema = format!("migrate_{:016x}", fastrand::u64(..));
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        Self { client, url, schema }
    }

    /// A schema as today's version creates it, with one waiting job.
    async fn of_today() -> Self {
        let fixture = Self::empty().await;
        fixture.apply(MIGRATIONS).await.expect("a fresh schema");
        fixture.client.batch_execute(&in_schema(ROWS, &fixture.schema)).await.unwrap();
        fixture
    }

    fn options(&self) -> PostgresOptions {
        PostgresOptions { schema: self.schema.clone(), listen: false, ..PostgresOptions::default() }
    }

    /// Applies migrations, and returns their versions.
    async fn apply(&self, sources: &[Source]) -> Result<Vec<u32>, EngineError> {
        let conn = connect(&self.url, &self.options()).await?;
        let applied = apply_from(sources, &conn, &self.schema).await?;
        Ok(applied.iter().map(|migration| migration.version).collect())
    }

    async fn number(&self, query: &str) -> i64 {
        self.client.query_one(&in_schema(query, &self.schema), &[]).await.unwrap().get(0)
    }

    async fn versions(&self) -> Vec<i32> {
        let query = in_schema("SELECT version FROM windlass.schema_versions ORDER BY 1", &self.schema);
        self.client.query(&query, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
    }

    async fn jobs(&self) -> i64 {
        self.number("SELECT count(*) FROM windlass.delayed_jobs").await
    }

    async fn assert_second_ran_once(&self) {
        assert_eq!(self.versions().await, [1, 2]);
        assert_eq!(self.number("SELECT count(*) FROM windlass.notes").await, 1);
    }
}

#[tokio::test]
async fn a_second_migration_runs_on_the_schema_of_today_and_keeps_its_rows() {
    let fixture = Fixture::of_today().await;
    assert_eq!(fixture.apply(&with(SECOND)).await.unwrap(), [2]);
    fixture.assert_second_ran_once().await;
    assert_eq!(fixture.jobs().await, 1);
    assert_eq!(fixture.number("SELECT count(*) FROM windlass.queues WHERE note = 'none'").await, 1);
}

#[tokio::test]
async fn a_fresh_schema_gets_all_migrations_in_order_and_a_second_run_finds_none_pending() {
    let fixture = Fixture::empty().await;
    assert_eq!(fixture.apply(&with(SECOND)).await.unwrap(), [1, 2]);
    assert_eq!(fixture.apply(&with(SECOND)).await.unwrap(), [0; 0]);
    fixture.assert_second_ran_once().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_processes_that_migrate_at_once_apply_the_second_migration_once() {
    let fixture = std::sync::Arc::new(Fixture::of_today().await);
    let open = |_| {
        let fixture = fixture.clone();
        tokio::spawn(async move { fixture.apply(&with(SECOND)).await })
    };
    for opener in (0..20).map(open).collect::<Vec<_>>() {
        opener.await.unwrap().expect("the schema is brought up to date");
    }
    fixture.assert_second_ran_once().await;
    assert_eq!(fixture.jobs().await, 1);
}

#[tokio::test]
async fn a_second_migration_that_fails_leaves_the_first_version_intact() {
    let fixture = Fixture::of_today().await;
    let error = fixture.apply(&with(BROKEN)).await.unwrap_err();
    assert!(error.to_string().contains("division by zero"), "{error}");
    assert_eq!(fixture.versions().await, [1]);
    let engine = PostgresEngine::connect(&fixture.url, fixture.options()).await.expect("version 1 works");
    drop(engine);
    assert_eq!(fixture.apply(&with(SECOND)).await.unwrap(), [2], "no part of the failed one is left");
    fixture.assert_second_ran_once().await;
}

#[tokio::test]
async fn an_unknown_newer_version_is_refused_and_left_alone() {
    let fixture = Fixture::of_today().await;
    fixture.apply(&with(SECOND)).await.unwrap();
    let conn = connect(&fixture.url, &fixture.options()).await.unwrap();
    let refused = [
        EngineError::from(apply_all(&conn, &fixture.schema).await.unwrap_err()),
        EngineError::from(check_applied(&conn, &fixture.schema).await.unwrap_err()),
        pending(&fixture.url, &fixture.options()).await.unwrap_err(),
        PostgresEngine::connect(&fixture.url, fixture.options()).await.unwrap_err(),
    ];
    for error in refused {
        let is_refused =
            matches!(&error, EngineError::Unusable { why } if why.contains("of version 1 or older, got 2"));
        assert!(is_refused, "{error:?}");
    }
    fixture.assert_second_ran_once().await;
}

/// A backup, or a report that reads a table for long, does the same.
#[tokio::test(flavor = "multi_thread")]
async fn while_a_migration_waits_for_a_table_others_are_kept_from_it_for_a_second_at_a_time() {
    const LATER: Source =
        (2, "later", "ALTER TABLE windlass.workers ADD COLUMN later integer NOT NULL DEFAULT 0;");
    let fixture = std::sync::Arc::new(Fixture::of_today().await);
    let schema = &fixture.schema;
    let (reader, connection) = tokio_postgres::connect(&fixture.url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    reader.batch_execute(&format!("BEGIN; SELECT count(*) FROM {schema}.workers")).await.unwrap();
    let migrating = fixture.clone();
    let migrating = tokio::spawn(async move { migrating.apply(&with(LATER)).await });
    let session: i32 = fixture.client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let (mut kept_waiting, beat) = (0, format!("UPDATE {schema}.workers SET beats = beats + 1"));
    let beats = async {
        while kept_waiting < 2 {
            let beat = fixture.client.batch_execute(&beat);
            tokio::pin!(beat);
            let (mut has_waited, params) = (false, [&session as &(dyn tokio_postgres::types::ToSql + Sync)]);
            loop {
                // The reader blocks no heartbeat, so only the migration can.
                let waits = reader.query_one("SELECT pg_blocking_pids($1) <> '{}'", &params);
                tokio::select! {
                    biased;
                    done = &mut beat => break done.unwrap(),
                    waits = waits => has_waited |= waits.unwrap().get::<_, bool>(0),
                }
            }
            kept_waiting += u32::from(has_waited);
            assert!(!migrating.is_finished(), "a reader has the table open");
        }
    };
    tokio::time::timeout(WAIT_MAX, beats).await.expect("the migration lets each heartbeat pass");
    reader.batch_execute("COMMIT").await.unwrap();
    assert_eq!(migrating.await.unwrap().expect("the migration goes on when the table is free"), [2]);
}

#[test]
fn migrations_are_numbered_from_one_without_gaps() {
    let numbers: Vec<_> = MIGRATIONS.iter().map(|(version, ..)| *version).collect();
    assert_eq!(numbers, (1..=newest(MIGRATIONS)).collect::<Vec<_>>());
}

#[test]
fn every_file_of_the_schema_is_part_of_the_first_migration() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/postgres/migrations/0001_schema");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(files.len() > 10);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(MIGRATIONS[0].2.contains(&text), "expected {} in MIGRATIONS", file.display());
    }
}
