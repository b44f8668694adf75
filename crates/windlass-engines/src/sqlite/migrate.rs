//! Migrations: numbered, forward only, each in one exclusive transaction, so that many processes may open a
//! fresh file at once. The version lives in a table of our own, `windlass_schema`, because the file may be the
//! user's: `user_version` and `application_id` are theirs, and so are all tables that are not named here.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use windlass_core::error::EngineError;

use super::store_error::StoreResult;

/// One step from a version of the schema to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    /// The version of the schema afterwards.
    pub version: u32,
    /// What it is about.
    pub name: &'static str,
    /// What is executed.
    pub sql: &'static str,
}

/// All migrations, in order.
pub const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "first", sql: include_str!("migrations/0001_first.sql") },
    Migration { version: 2, name: "spent tokens", sql: include_str!("migrations/0002_spent_tokens.sql") },
    Migration { version: 3, name: "policies", sql: include_str!("migrations/0003_policies.sql") },
    Migration { version: 4, name: "spool", sql: include_str!("migrations/0004_spool.sql") },
    Migration { version: 5, name: "leases", sql: include_str!("migrations/0005_leases.sql") },
    Migration {
        version: 6,
        name: "duties of workers",
        sql: include_str!("migrations/0006_duties_of_workers.sql"),
    },
    Migration { version: 7, name: "ordering_key", sql: include_str!("migrations/0007_ordering_key.sql") },
    Migration { version: 8, name: "members", sql: include_str!("migrations/0008_crowd.sql") },
    Migration { version: 9, name: "schedules", sql: include_str!("migrations/0009_schedules.sql") },
    Migration { version: 10, name: "triggers", sql: include_str!("migrations/0010_drains.sql") },
    Migration { version: 11, name: "fairness_keys", sql: include_str!("migrations/0011_fairness_keys.sql") },
    Migration { version: 12, name: "aggregates", sql: include_str!("migrations/0012_aggregates.sql") },
    Migration { version: 13, name: "started over", sql: include_str!("migrations/0013_started_over.sql") },
];

const VERSIONS: &str = "CREATE TABLE IF NOT EXISTS windlass_schema (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    applied_at TEXT NOT NULL
) STRICT";

/// The migrations that a database still needs; all of them if there is no file yet. Changes nothing.
pub fn pending(path: &Path) -> Result<Vec<Migration>, EngineError> {
    if !path.exists() {
        return Ok(MIGRATIONS.to_vec());
    }
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
        .map_err(super::store_error::StoreError::Sqlite)?;
    let version = version(&conn)?;
    Ok(MIGRATIONS.iter().copied().filter(|migration| migration.version > version).collect())
}

/// What a dry run prints: the statements that would be executed.
pub fn dry_run(pending: &[Migration]) -> String {
    let show = |migration: &Migration| {
        format!("-- migration {}: {}\n{}\n", migration.version, migration.name, migration.sql)
    };
    pending.iter().map(show).collect()
}

/// Brings a database up to date. Whoever comes second finds nothing to do.
pub(super) fn apply_all(conn: &Connection) -> StoreResult<()> {
    while version(conn)? < newest() {
        conn.execute_batch("BEGIN EXCLUSIVE")?;
        match apply_next(conn) {
            Ok(()) => conn.execute_batch("COMMIT")?,
            Err(fault) => {
                if !conn.is_autocommit() {
                    conn.execute_batch("ROLLBACK")?;
                }
                return Err(fault);
            }
        }
    }
    check_version(conn)?;
    check_shape(conn)
}

/// Refuses a database that is not up to date, for those who migrate by hand.
pub(super) fn check_applied(conn: &Connection) -> StoreResult<()> {
    let version = version(conn)?;
    if version < newest() {
        return Err(unusable(format!(
            "expected schema version {}, got {version}; run `windlass migrate`",
            newest()
        )));
    }
    check_version(conn)?;
    check_shape(conn)
}

fn newest() -> u32 {
    MIGRATIONS.last().map_or(0, |migration| migration.version)
}

/// Inside an exclusive transaction: another process may have been here meanwhile, so the version is read again.
fn apply_next(conn: &Connection) -> StoreResult<()> {
    let version = version(conn)?;
    let Some(migration) = MIGRATIONS.iter().find(|migration| migration.version == version + 1) else {
        return Ok(());
    };
    refuse_clash(conn, version)?;
    conn.execute_batch(VERSIONS)?;
    conn.execute_batch(migration.sql)?;
    conn.execute(
        "INSERT INTO windlass_schema (version, name, applied_at) VALUES (?1, ?2, datetime())",
        params![migration.version, migration.name],
    )?;
    Ok(())
}

/// The version of the schema; 0 if there is none of ours.
fn version(conn: &Connection) -> StoreResult<u32> {
    let is_there = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'windlass_schema'";
    if conn.query_row(is_there, [], |_| Ok(())).optional()?.is_none() {
        return Ok(0);
    }
    let newest =
        conn.query_row("SELECT coalesce(max(version), 0) FROM windlass_schema", [], |row| row.get(0));
    newest.map_err(|error| match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::Unknown) => unusable(format!(
            "expected a table windlass_schema with the version of the schema, got another of that name ({error}); name another file"
        )),
        _ => error.into(),
    })
}

fn check_version(conn: &Connection) -> StoreResult<()> {
    let version = version(conn)?;
    if version > newest() {
        return Err(unusable(format!(
            "expected schema version {} or older, got {version}: a newer Windlass was here; use that one or a newer one",
            newest()
        )));
    }
    Ok(())
}

/// A table of the user's must not be taken for one that the migrations after this version make. All of them are
/// looked at before the first, so that nothing is made if one of them could not.
fn refuse_clash(conn: &Connection, version: u32) -> StoreResult<()> {
    let (there, ours) = (shape(conn)?, shape_at(version)?);
    let is_theirs = |table: &String| there.contains_key(table) && !ours.contains_key(table);
    let clash: Vec<_> = shape_at(newest())?.into_keys().filter(is_theirs).collect();
    if clash.is_empty() {
        return Ok(());
    }
    Err(unusable(format!(
        "expected no table named {} in this file, got one that is not ours; name another file",
        clash.join(", ")
    )))
}

/// A table of ours that somebody changed must not be written to.
fn check_shape(conn: &Connection) -> StoreResult<()> {
    let found = shape(conn)?;
    for (table, columns) in shape_at(newest())? {
        match found.get(&table) {
            Some(got) if *got == columns => {}
            Some(got) => {
                return Err(unusable(format!(
                    "expected table {table} with the columns {columns}, got {got}; restore the table or name another file"
                )));
            }
            None => {
                return Err(unusable(format!(
                    "expected a table {table}, got none; restore the file from a backup"
                )));
            }
        }
    }
    Ok(())
}

/// The tables and their columns, as the migrations up to a version make them.
fn shape_at(version: u32) -> StoreResult<BTreeMap<String, String>> {
    let conn = Connection::open_in_memory()?;
    for migration in MIGRATIONS.iter().filter(|migration| migration.version <= version) {
        conn.execute_batch(migration.sql)?;
    }
    shape(&conn)
}

fn shape(conn: &Connection) -> StoreResult<BTreeMap<String, String>> {
    let mut statement = conn.prepare(
        "SELECT t.name, group_concat(c.name, ', ') FROM sqlite_schema t, pragma_table_info(t.name) c
         WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%' GROUP BY t.name",
    )?;
    let tables = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(tables.collect::<Result<_, _>>()?)
}

fn unusable(why: String) -> super::store_error::StoreError {
    EngineError::Unusable { why }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(conn: &Connection) -> String {
        EngineError::from(apply_all(conn).unwrap_err()).to_string()
    }

    #[test]
    fn migrations_are_numbered_from_one_without_gaps() {
        assert!(MIGRATIONS.iter().zip(1..).all(|(migration, n)| migration.version == n));
    }

    #[test]
    fn a_second_run_finds_nothing_to_do() {
        let conn = Connection::open_in_memory().unwrap();
        apply_all(&conn).unwrap();
        apply_all(&conn).unwrap();
        assert_eq!(version(&conn).unwrap(), newest());
    }

    #[test]
    fn a_newer_schema_is_refused() {
        let conn = Connection::open_in_memory().unwrap();
        apply_all(&conn).unwrap();
        conn.execute("INSERT INTO windlass_schema VALUES (99, 'future', '')", []).unwrap();
        assert!(refusal(&conn).contains("99"));
    }

    #[test]
    fn the_users_tables_may_live_in_the_same_file_unless_they_clash() {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch("CREATE TABLE wallets (id); PRAGMA user_version = 7").unwrap();
        apply_all(&conn).unwrap();
        assert_eq!(conn.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0)).unwrap(), 7);

        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch("CREATE TABLE workers (name)").unwrap();
        assert!(refusal(&conn).contains("workers"));
        assert_eq!(version(&conn).unwrap(), 0, "nothing was made");
    }

    /// A database as a version left it.
    fn at_version(last: u32) -> Connection {
        let conn = Connection::open_in_memory().unwrap();
        while version(&conn).unwrap() < last {
            apply_next(&conn).unwrap();
        }
        conn
    }

    #[test]
    fn an_older_schema_is_brought_up_to_date_and_keeps_its_rows() {
        // Before workers told their duties.
        let conn = at_version(5);
        let worker = "INSERT INTO workers VALUES (x'00', 'h', 1, '', '[]', '[]', 1, 1, 1, 1, 1, NULL, NULL)";
        conn.execute(worker, []).unwrap();
        assert!(
            EngineError::from(check_applied(&conn).unwrap_err()).to_string().contains("windlass migrate")
        );
        apply_all(&conn).unwrap();
        assert_eq!(version(&conn).unwrap(), newest());
        assert_eq!(
            conn.query_row("SELECT count(*) FROM workers", [], |row| row.get::<_, i64>(0)).unwrap(),
            1
        );
    }

    #[test]
    fn a_table_of_the_users_with_the_name_of_a_new_one_of_ours_is_refused() {
        const BEFORE_LEASES: u32 = 4;
        let conn = at_version(BEFORE_LEASES);
        conn.execute_batch("CREATE TABLE background_job_leases (colour)").unwrap();
        let why = refusal(&conn);
        assert!(why.contains("background_job_leases") && why.contains("name another file"), "{why}");
        assert_eq!(version(&conn).unwrap(), BEFORE_LEASES, "nothing was made");
    }

    #[test]
    fn a_table_of_ours_with_another_shape_is_refused() {
        let conn = Connection::open_in_memory().unwrap();
        apply_all(&conn).unwrap();
        conn.execute_batch("ALTER TABLE attempts ADD COLUMN extra TEXT").unwrap();
        let why = refusal(&conn);
        assert!(why.contains("attempts") && why.contains("extra"), "{why}");
    }

    #[test]
    fn a_version_table_that_is_not_ours_is_refused() {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch("CREATE TABLE windlass_schema (colour)").unwrap();
        assert!(refusal(&conn).contains("windlass_schema"));
    }

    #[test]
    fn a_dry_run_shows_the_statements() {
        let text = dry_run(MIGRATIONS);
        assert!(text.contains("-- migration 1: first") && text.contains("CREATE TABLE delayed_jobs"));
    }
}
