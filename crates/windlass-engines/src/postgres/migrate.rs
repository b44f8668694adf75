//! Migrations: numbered, forward only, each in one transaction under one lock, so that many processes may start at once.

mod older;
mod sums;
mod rolling;
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
    /// What it is about.
    pub name: &'static str,
    /// What is executed, for the schema that was asked for.
    pub sql: String,
}

/// All migrations, in order: version, name, text.
const MIGRATIONS: &[(u32, &str, &str)] = &[
    (
        1,
        "first",
        concat!(
            include_str!("migrations/0001_first.sql"),
            "\n",
            include_str!("migrations/0001_inside.sql"),
            "\n",
            include_str!("migrations/0001_rights.sql")
        ),
    ),
    (2, "policies", include_str!("migrations/0002_policies.sql")),
    (3, "leases", include_str!("migrations/0003_leases.sql")),
    (4, "deleted_types", include_str!("migrations/0004_deleted_types.sql")),
    (5, "duties_of_workers", include_str!("migrations/0005_duties_of_workers.sql")),
    (6, "complete_once", include_str!("migrations/0006_complete_once.sql")),
    (7, "ordering_key", include_str!("migrations/0007_ordering_key.sql")),
    (8, "in_flight", include_str!("migrations/0008_crowd.sql")),
    (9, "schedules", include_str!("migrations/0009_schedules.sql")),
    (10, "triggers", include_str!("migrations/0010_drains.sql")),
    (11, "fairness_keys", include_str!("migrations/0011_fairness_keys.sql")),
    (12, "ages", include_str!("migrations/0012_ages.sql")),
    (13, "trigger_hooks", include_str!("migrations/0013_drain_hooks.sql")),
    (14, "aggregates", include_str!("migrations/0014_aggregates.sql")),
    (15, "replaced_fairness_keys", include_str!("migrations/0015_replaced_fairness_keys.sql")),
    (16, "suspects", include_str!("migrations/0016_suspects.sql")),
    (17, "duty_locks", include_str!("migrations/0017_duty_locks.sql")),
    (18, "started_over", include_str!("migrations/0018_started_over.sql")),
    (19, "closed_requests", include_str!("migrations/0019_closed_requests.sql")),
];

/// The lock under which migrations run; any number that nobody else uses.
const LOCK: i64 = 0x77_69_6e_64_6c_61_73_73;

/// How often a migration asks for a table that somebody has open, for a second each time, and how long it lets others by.
const LOCK_TRIES: u32 = 60;
const LOCK_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// The migrations that a database still needs. Changes nothing.
pub async fn pending(url: &str, options: &PostgresOptions) -> Result<Vec<Migration>, EngineError> {
    options.check()?;
    let conn = connect(url, options).await?;
    Ok(pending_on(&conn, &options.schema).await?)
}

/// Brings a database up to date and tells what was done. Whoever comes second finds nothing to do.
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

/// What a dry run prints: all that would be executed. Run by hand, it does the same.
pub fn dry_run(pending: &[Migration], options: &PostgresOptions) -> String {
    let show = |migration: &Migration| {
        let script = script(migration, &options.schema);
        format!("-- migration {}: {}\n{script}\n\n", migration.version, migration.name)
    };
    pending.iter().map(show).collect()
}

/// Brings a schema up to date.
pub(super) async fn apply_all(conn: &Conn, schema: &str) -> StoreResult<Vec<Migration>> {
    let pending = pending_on(conn, schema).await?;
    if pending.is_empty() {
        return Ok(pending);
    }
    for migration in &pending {
        apply_one(conn, &script(migration, schema)).await?;
    }
    check_applied(conn, schema).await?;
    Ok(pending)
}

/// Whoever has a table open keeps the migration waiting, and while that waits, all who come after it wait too: claims and
/// heartbeats of workers that run. So it waits a second at a time, and lets them by in between.
async fn apply_one(conn: &Conn, script: &str) -> StoreResult<()> {
    for _ in 1..LOCK_TRIES {
        match conn.script(script).await {
            Err(fault) if fault.is_locked() || fault.is_deadlock() => conn.script("ROLLBACK").await?,
            applied => return applied,
        }
        tracing::info!("a migration waits for a table that somebody has open");
        // may sleep: those who waited behind it go first, and nobody tells when the table is free.
        tokio::time::sleep(LOCK_AGAIN_AFTER.mul_f64(0.5 + fastrand::f64())).await;
    }
    conn.script(script).await
}

/// Refuses a schema that is not of this version.
pub(super) async fn check_applied(conn: &Conn, schema: &str) -> StoreResult<()> {
    let (found, newest) = (version(conn, schema).await?, newest());
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
    let found = version(conn, schema).await?;
    if found > newest() {
        check_applied(conn, schema).await?;
    }
    let newer = MIGRATIONS.iter().filter(|(version, ..)| *version > found);
    Ok(newer
        .map(|(version, name, sql)| Migration { version: *version, name, sql: in_schema(sql, schema) })
        .collect())
}

fn newest() -> u32 {
    MIGRATIONS.last().map_or(0, |(version, ..)| *version)
}

/// The indexes that migrations make, of tables and of their primary keys. Those of the parts of a table are not named.
pub(super) fn indexes() -> Vec<String> {
    let mut names = vec!["background_job_leases_job_name_fence_key".to_owned()];
    let mut table = "";
    for line in MIGRATIONS.iter().flat_map(|(_, _, sql)| sql.lines()) {
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            ["CREATE", "INDEX", "IF", "NOT", "EXISTS", name, ..]
            | ["CREATE", "INDEX", name, ..]
            | ["CREATE", "UNIQUE", "INDEX", name, ..] => names.push(name.to_owned()),
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

/// One migration as one transaction, which does nothing if another process was here meanwhile. The text of a migration
/// is executed by the server itself once the lock is held, so that the query_one and the act cannot be parted.
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

/// The version of the schema; 0 if there is none of ours.
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
