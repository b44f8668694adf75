//! Migrations: numbered, forward only, each in one transaction under one lock, so that many processes may
//! start at once. `docs/compatibility.md` says what a migration may change.

#[cfg(test)]
mod tests;

use std::time::Duration;

use windlass_core::error::EngineError;

use super::conn::{Conn, Connections};
use super::open::{self, PostgresOptions};
use super::sql::in_schema;
use super::store_error::StoreResult;

/// One step from a version of the schema to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migration {
    /// The version of the schema afterwards.
    pub version: u32,
    /// Its name.
    pub name: &'static str,
    /// The statements, for the schema of the options.
    pub sql: String,
}

/// A migration as the source has it: version, name, and a text that names the schema `windlass`.
type Source = (u32, &'static str, &'static str);

macro_rules! texts {
    ($first:literal $(, $next:literal)* $(,)?) => {
        concat!(include_str!($first) $(, "\n", include_str!($next))*)
    };
}

/// All migrations, in order. The parts of the first are in the order in which they need each other.
const MIGRATIONS: &[Source] = &[(
    1,
    "schema",
    texts!(
        "migrations/0001_schema/queues.sql",
        "migrations/0001_schema/jobs.sql",
        "migrations/0001_schema/history_days.sql",
        "migrations/0001_schema/keys.sql",
        "migrations/0001_schema/claims.sql",
        "migrations/0001_schema/counts.sql",
        "migrations/0001_schema/policies.sql",
        "migrations/0001_schema/leases.sql",
        "migrations/0001_schema/schedules.sql",
        "migrations/0001_schema/triggers.sql",
        "migrations/0001_schema/ordering_keys.sql",
        "migrations/0001_schema/new_jobs.sql",
        "migrations/0001_schema/accept_jobs.sql",
        "migrations/0001_schema/enqueue.sql",
    ),
)];

/// The number of the advisory lock under which migrations run: "windlass" in ASCII.
const LOCK: i64 = 0x77_69_6e_64_6c_61_73_73;

/// How often a migration tries to lock a table that another session has open, for a second each time, and how
/// long it lets waiting sessions go first in between.
const LOCK_TRIES: u32 = 60;
const LOCK_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// The migrations that a database still needs. Changes nothing.
pub async fn pending(url: &str, options: &PostgresOptions) -> Result<Vec<Migration>, EngineError> {
    options.check()?;
    let conn = connect(url, options).await?;
    Ok(pending_on(&conn, &options.schema).await?)
}

/// Brings a database up to date and returns what was done. A process that comes second finds nothing to do.
pub async fn apply(url: &str, options: &PostgresOptions) -> Result<Vec<Migration>, EngineError> {
    options.check()?;
    let conn = connect(url, options).await?;
    Ok(apply_all(&conn, &options.schema).await?)
}

async fn connect(url: &str, options: &PostgresOptions) -> Result<Conn, EngineError> {
    let address = open::address(url, options.pooled)?;
    let within = options.periods.answer_within;
    Ok(Connections::new(&address, 1, options.pooled, within)?.get().await?)
}

/// The text of a dry run: all statements that would be executed. An operator who runs them with psql gets
/// the same result.
pub fn dry_run(pending: &[Migration], options: &PostgresOptions) -> String {
    let show = |migration: &Migration| {
        let script = script(migration, &options.schema);
        format!("-- migration {}: {}\n{script}\n\n", migration.version, migration.name)
    };
    pending.iter().map(show).collect()
}

/// Brings a schema up to date.
pub(super) async fn apply_all(conn: &Conn, schema: &str) -> StoreResult<Vec<Migration>> {
    apply_from(MIGRATIONS, conn, schema).await
}

async fn apply_from(sources: &[Source], conn: &Conn, schema: &str) -> StoreResult<Vec<Migration>> {
    let pending = pending_of(sources, conn, schema).await?;
    if pending.is_empty() {
        return Ok(pending);
    }
    for migration in &pending {
        apply_one(conn, &script(migration, schema)).await?;
    }
    check_version(version(conn, schema).await?, newest(sources), schema)?;
    Ok(pending)
}

/// A session that has a table open keeps the migration waiting. While the migration waits for its lock, all
/// later sessions wait behind it: claims and heartbeats of running workers. So it waits a second at a time,
/// and lets them go first in between.
async fn apply_one(conn: &Conn, script: &str) -> StoreResult<()> {
    for _ in 1..LOCK_TRIES {
        match conn.script(script).await {
            Err(fault) if fault.is_locked() || fault.is_deadlock() => conn.script("ROLLBACK").await?,
            applied => return applied,
        }
        tracing::info!("a migration waits for a table that another session has open");
        // may sleep: the sessions that waited behind it go first, and no signal says when the table is free.
        tokio::time::sleep(LOCK_AGAIN_AFTER.mul_f64(0.5 + fastrand::f64())).await;
    }
    conn.script(script).await
}

/// Refuses a schema that is not of this version.
pub(super) async fn check_applied(conn: &Conn, schema: &str) -> StoreResult<()> {
    check_version(version(conn, schema).await?, newest(MIGRATIONS), schema)
}

fn check_version(found: u32, newest: u32, schema: &str) -> StoreResult<()> {
    let why = match found.cmp(&newest) {
        std::cmp::Ordering::Equal => return Ok(()),
        std::cmp::Ordering::Less if found == 0 => {
            format!("expected the tables of Windlass in schema {schema}, found none; run `windlass migrate`")
        }
        std::cmp::Ordering::Less => {
            format!("expected schema {schema} of version {newest}, got {found}; run `windlass migrate`")
        }
        std::cmp::Ordering::Greater => format!(
            "expected schema {schema} of version {newest} or older, got {found}: a newer Windlass has been here; use that version or newer"
        ),
    };
    Err(EngineError::Unusable { why }.into())
}

async fn pending_on(conn: &Conn, schema: &str) -> StoreResult<Vec<Migration>> {
    pending_of(MIGRATIONS, conn, schema).await
}

async fn pending_of(sources: &[Source], conn: &Conn, schema: &str) -> StoreResult<Vec<Migration>> {
    let (found, newest) = (version(conn, schema).await?, newest(sources));
    if found > newest {
        check_version(found, newest, schema)?;
    }
    let newer = sources.iter().filter(|(version, ..)| *version > found);
    Ok(newer
        .map(|(version, name, sql)| Migration { version: *version, name, sql: in_schema(sql, schema) })
        .collect())
}

fn newest(sources: &[Source]) -> u32 {
    sources.last().map_or(0, |(version, ..)| *version)
}

/// The indexes that migrations create, those of primary keys included. Indexes of partitions are not named.
pub(super) fn indexes() -> Vec<String> {
    let mut names = vec!["background_job_leases_job_name_fence_key".to_owned()];
    let mut table = "";
    for line in MIGRATIONS.iter().flat_map(|(_, _, sql)| sql.lines()) {
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            ["CREATE", "INDEX", name, ..] | ["CREATE", "UNIQUE", "INDEX", name, ..] => {
                names.push(name.to_owned());
            }
            ["CREATE", "TABLE", name, ..] | ["CREATE", "UNLOGGED", "TABLE", name, ..] => {
                table = name.trim_start_matches("windlass.");
            }
            _ => {}
        }
        if line.contains("PRIMARY KEY") {
            names.push(format!("{table}_pkey"));
        }
    }
    names
}

/// One migration as one transaction, which does nothing if another process has applied it meanwhile. The
/// server itself executes the text of the migration once the lock is held, so that the check and the act are
/// one step.
fn script(migration: &Migration, schema: &str) -> String {
    let Migration { version, name, sql } = migration;
    format!(
        "BEGIN;
SET LOCAL lock_timeout = '60s';
SET LOCAL statement_timeout = '10min';
SELECT pg_advisory_xact_lock({LOCK});
DO $windlass_schema$
BEGIN
    -- Not with IF NOT EXISTS, which asks for the right to make schemas even if it is there.
    IF to_regnamespace('{schema}') IS NULL THEN
        CREATE SCHEMA {schema};
    END IF;
END
$windlass_schema$;
CREATE TABLE IF NOT EXISTS {schema}.schema_versions (
    version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now()
);
SET LOCAL lock_timeout = '1s';
DO $windlass_migration$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM {schema}.schema_versions WHERE version >= {version}) THEN
        EXECUTE $windlass_text${sql}$windlass_text$;
        INSERT INTO {schema}.schema_versions (version, name) VALUES ({version}, '{name}');
    END IF;
END
$windlass_migration$;
COMMIT;"
    )
}

/// The version of the schema; 0 if it has no tables of ours.
async fn version(conn: &Conn, schema: &str) -> StoreResult<u32> {
    let is_there =
        conn.query_one(&format!("SELECT to_regclass('{schema}.schema_versions') IS NOT NULL")).await?;
    if is_there.as_deref() != Some("t") {
        return Ok(0);
    }
    let newest =
        conn.query_one(&format!("SELECT coalesce(max(version), 0) FROM {schema}.schema_versions")).await?;
    Ok(newest.and_then(|newest| newest.parse().ok()).unwrap_or(0))
}
