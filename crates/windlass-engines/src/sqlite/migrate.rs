//! Migrations: numbered, forward only, each in one exclusive transaction, so that many processes may open a
//! fresh file at once. The version lives in a table of our own, `windlass_schema`, because the file may be
//! the user's: `user_version` and `application_id` are theirs, and so are all tables that are not named here.

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
    /// Its name.
    pub name: &'static str,
    /// The statements, as SQL.
    pub sql: &'static str,
}

/// All migrations, in order.
pub const MIGRATIONS: &[Migration] =
    &[Migration { version: 1, name: "first", sql: include_str!("migrations/0001_first.sql") }];

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

/// Brings a database up to date. The second of two processes finds nothing to do.
pub(super) fn apply_all(conn: &Connection) -> StoreResult<()> {
    apply(conn, MIGRATIONS)
}

fn apply(conn: &Connection, migrations: &[Migration]) -> StoreResult<()> {
    while version(conn)? < newest(migrations) {
        conn.execute_batch("BEGIN EXCLUSIVE")?;
        match apply_next(conn, migrations) {
            Ok(()) => conn.execute_batch("COMMIT")?,
            Err(fault) => {
                if !conn.is_autocommit() {
                    conn.execute_batch("ROLLBACK")?;
                }
                return Err(fault);
            }
        }
    }
    check_version(conn, migrations)?;
    check_shape(conn, migrations)
}

/// Refuses a database that is not up to date, for users who run migrations themselves.
pub(super) fn check_applied(conn: &Connection) -> StoreResult<()> {
    let (version, newest) = (version(conn)?, newest(MIGRATIONS));
    if version < newest {
        return Err(unusable(format!(
            "expected schema version {newest}, got {version}; run `windlass migrate`"
        )));
    }
    check_version(conn, MIGRATIONS)?;
    check_shape(conn, MIGRATIONS)
}

fn newest(migrations: &[Migration]) -> u32 {
    migrations.last().map_or(0, |migration| migration.version)
}

/// Applies the next migration inside an exclusive transaction: another process may have migrated meanwhile,
/// so the version is read again.
fn apply_next(conn: &Connection, migrations: &[Migration]) -> StoreResult<()> {
    let version = version(conn)?;
    let Some(migration) = migrations.iter().find(|migration| migration.version == version + 1) else {
        return Ok(());
    };
    refuse_clash(conn, version, migrations)?;
    conn.execute_batch(VERSIONS)?;
    conn.execute_batch(migration.sql)?;
    conn.execute(
        "INSERT INTO windlass_schema (version, name, applied_at) VALUES (?1, ?2, datetime())",
        params![migration.version, migration.name],
    )?;
    Ok(())
}

/// The version of the schema; 0 without a table of versions.
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

fn check_version(conn: &Connection, migrations: &[Migration]) -> StoreResult<()> {
    let (version, newest) = (version(conn)?, newest(migrations));
    if version > newest {
        return Err(unusable(format!(
            "expected schema version {newest} or older, got {version}: a newer Windlass was here; use that version or newer"
        )));
    }
    Ok(())
}

/// Refuses a file in which a table of the user has the name of a table that a later migration creates. All
/// migrations are checked before the first runs, so that no table is created if one of them would fail.
fn refuse_clash(conn: &Connection, version: u32, migrations: &[Migration]) -> StoreResult<()> {
    let (there, ours) = (shape(conn)?, shape_at(version, migrations)?);
    let is_theirs = |table: &String| there.contains_key(table) && !ours.contains_key(table);
    let clash: Vec<_> = shape_at(newest(migrations), migrations)?.into_keys().filter(is_theirs).collect();
    if clash.is_empty() {
        return Ok(());
    }
    Err(unusable(format!(
        "expected no table named {} in this file, got one that is not ours; name another file",
        clash.join(", ")
    )))
}

/// Refuses a file with a table of ours that another program changed: it must not be written to.
fn check_shape(conn: &Connection, migrations: &[Migration]) -> StoreResult<()> {
    let found = shape(conn)?;
    for (table, columns) in shape_at(newest(migrations), migrations)? {
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

/// The tables and their columns, as the migrations up to a version create them.
fn shape_at(version: u32, migrations: &[Migration]) -> StoreResult<BTreeMap<String, String>> {
    let conn = Connection::open_in_memory()?;
    for migration in migrations.iter().filter(|migration| migration.version <= version) {
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
mod tests;
