//! Migrations: numbered, forward only, each in one transaction under one lock, so that many processes may start at once.

use std::time::Duration;

use windlass_core::error::EngineError;

use super::conn::{Conn, Connections};
use super::fault::Step;
use super::open::{self, PostgresOptions};
use super::sql::in_schema;

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
    (7, "series", include_str!("migrations/0007_series.sql")),
    (8, "crowd", include_str!("migrations/0008_crowd.sql")),
    (9, "schedules", include_str!("migrations/0009_schedules.sql")),
    (10, "drains", include_str!("migrations/0010_drains.sql")),
    (11, "shares", include_str!("migrations/0011_shares.sql")),
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
pub(super) async fn apply_all(conn: &Conn, schema: &str) -> Step<Vec<Migration>> {
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
async fn apply_one(conn: &Conn, script: &str) -> Step<()> {
    for _ in 1..LOCK_TRIES {
        match conn.script(script).await {
            Err(fault) if fault.is_locked() => conn.script("ROLLBACK").await?,
            applied => return applied,
        }
        tracing::info!("a migration waits for a table that somebody has open");
        // may sleep: those who waited behind it go first, and nobody tells when the table is free.
        tokio::time::sleep(LOCK_AGAIN_AFTER.mul_f64(0.5 + fastrand::f64())).await;
    }
    conn.script(script).await
}

/// Refuses a schema that is not of this version.
pub(super) async fn check_applied(conn: &Conn, schema: &str) -> Step<()> {
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

async fn pending_on(conn: &Conn, schema: &str) -> Step<Vec<Migration>> {
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
            ["CREATE", "INDEX", name, ..] | ["CREATE", "UNIQUE", "INDEX", name, ..] => {
                names.push(name.to_owned())
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

/// One migration as one transaction, which does nothing if another process was here meanwhile. The text of a migration
/// is executed by the server itself once the lock is held, so that the question and the act cannot be parted.
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
async fn version(conn: &Conn, schema: &str) -> Step<u32> {
    let is_there =
        conn.question(&format!("SELECT to_regclass('{schema}.schema_versions') IS NOT NULL")).await?;
    if is_there.as_deref() != Some("t") {
        return Ok(0);
    }
    let newest =
        conn.question(&format!("SELECT coalesce(max(version), 0) FROM {schema}.schema_versions")).await?;
    Ok(newest.and_then(|newest| newest.parse().ok()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use windlass_core::engine::Admin;
    use windlass_core::job::{JobId, Phase};

    use super::*;
    use crate::postgres::PostgresEngine;
    use crate::postgres::sql::Statements;

    /// With which version statements came that have not been there from the beginning. One whose text changes with a new
    /// version is kept here under its old name and text for as long as processes of the version before may run beside it.
    const NEWER: &[(u32, &[&str])] = &[
        (2, &["breakers", "look_at_tokens", "prune_rate_limits", "save_breaker", "take_tokens"]),
        (3, &["leases", "leases_hold", "release_leases", "renew_leases", "step_down", "take_leases"]),
        (5, &["register", "live_workers"]),
        (
            7,
            &[
                "advance_series",
                "insert_jobs",
                "lock_free_jobs",
                "lock_jobs",
                "look",
                "mark_series",
                "series_out",
                "settle",
                "settle_traced",
                "start_over",
                "to_sweep",
            ],
        ),
        (8, &["extend", "register", "live_workers"]),
        (
            9,
            &[
                "count_schedules",
                "due_schedules",
                "list_schedules",
                "lock_schedules",
                "remove_schedules",
                "save_schedules",
                "schedules_named",
                "set_last_jobs",
            ],
        ),
        (
            10,
            &[
                "count_drains",
                "drains_named",
                "land_dead",
                "land_ended",
                "land_waiting",
                "left_in_queue",
                "left_of_group",
                "left_of_type",
                "list_drains",
                "lock_drains",
                "lock_free_drain",
                "mark_drains",
                "marked_drains",
                "note_firing",
                "remove_drains",
                "save_drains",
                "settle",
                "settle_traced",
                "unmark_drain",
            ],
        ),
        (
            11,
            &[
                "claim_shares",
                "enqueue",
                "forget_shares",
                "insert_jobs",
                "land_waiting",
                "load_queues",
                "look",
                "set_priority",
                "shares_due",
                "start_over",
                "use_shares",
            ],
        ),
    ];

    /// What these were before: up to which version, the name, and the text.
    const OLDER: &[(u32, &str, &str)] = &[
        (
            4,
            "register",
            "INSERT INTO windlass.workers (
                 id, since, seen_at, expires_at, beats, lease_micros, pid, host, version, queues, types
             )
             SELECT $2::uuid, at, at, at + $8::bigint * interval '1 microsecond', 0, $8::bigint, $4::bigint, $3::text,
                 $5::text, $6::text[], $7::text[]
             FROM (SELECT coalesce($1::timestamptz, now()) AS at) AS c ON CONFLICT DO NOTHING RETURNING id",
        ),
        (
            4,
            "live_workers",
            "SELECT coalesce($1::timestamptz, now()), w.id, w.host, w.pid, w.version, w.queues, w.types, w.lease_micros,
                 w.since, w.seen_at, w.expires_at, w.beats
             FROM windlass.workers w WHERE w.died IS NULL ORDER BY w.id",
        ),
        (6, "insert_jobs", include_str!("migrations/older/0006_insert_jobs.sql")),
        (6, "lock_free_jobs", include_str!("migrations/older/0006_lock_free_jobs.sql")),
        (6, "lock_jobs", include_str!("migrations/older/0006_lock_jobs.sql")),
        (6, "look", include_str!("migrations/older/0006_look.sql")),
        (6, "settle", include_str!("migrations/older/0006_settle.sql")),
        (6, "settle_traced", include_str!("migrations/older/0006_settle_traced.sql")),
        (6, "start_over", include_str!("migrations/older/0006_start_over.sql")),
        (6, "to_sweep", include_str!("migrations/older/0006_to_sweep.sql")),
        (7, "extend", include_str!("migrations/older/0007_extend.sql")),
        (7, "register", include_str!("migrations/older/0007_register.sql")),
        (7, "live_workers", include_str!("migrations/older/0007_live_workers.sql")),
        (9, "land_dead", include_str!("migrations/older/0009_land_dead.sql")),
        (9, "land_ended", include_str!("migrations/older/0009_land_ended.sql")),
        (9, "land_waiting", include_str!("migrations/older/0009_land_waiting.sql")),
        (9, "settle", include_str!("migrations/older/0009_settle.sql")),
        (9, "settle_traced", include_str!("migrations/older/0009_settle_traced.sql")),
        (10, "enqueue", include_str!("migrations/older/0010_enqueue.sql")),
        (10, "insert_jobs", include_str!("migrations/older/0010_insert_jobs.sql")),
        (10, "land_waiting", include_str!("migrations/older/0010_land_waiting.sql")),
        (10, "load_queues", include_str!("migrations/older/0010_load_queues.sql")),
        (10, "look", include_str!("migrations/older/0010_look.sql")),
        (10, "set_priority", include_str!("migrations/older/0010_set_priority.sql")),
        (10, "start_over", include_str!("migrations/older/0010_start_over.sql")),
    ];

    /// A sum over each migration's text, by which a change of one is noticed. Whoever has run it would never get the change:
    /// it belongs into a migration of its own.
    const SUMS: &[(u32, u64)] = &[
        (1, 0x2124_c0ce_0bb1_19ac),
        (2, 0xa350_a78a_8844_6c96),
        (3, 0x6b73_ccbd_11e4_ea01),
        (4, 0x2ff0_463b_329c_73e8),
        (5, 0x8ba5_5249_5817_efb1),
        (6, 0x97e2_dfc6_4a0d_bc31),
        (7, 0xce1b_faba_2766_9100),
        (8, 0xe8db_44d5_0027_c0d1),
        (9, 0x769e_7a48_a5cd_843a),
        (10, 0x3668_6d19_8a31_66e6),
        (11, 0x5069_d2ce_860d_4fa9),
    ];

    /// FNV-1a.
    fn sum(text: &str) -> u64 {
        let step = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
    }

    #[test]
    fn no_migration_changes_after_somebody_may_have_run_it() {
        let sums: Vec<_> = MIGRATIONS.iter().map(|(version, _, text)| (*version, sum(text))).collect();
        assert_eq!(sums, SUMS);
    }

    fn statements_of(version: u32) -> impl Iterator<Item = (&'static str, &'static str)> {
        let is_newer =
            move |name: &str| NEWER.iter().any(|(since, names)| *since > version && names.contains(&name));
        // Of several texts that a statement had, the one of this version is the first that came to its end after it.
        let until = move |name: &str| {
            OLDER
                .iter()
                .filter(|(until, of, _)| *of == name && version <= *until)
                .map(|(until, ..)| *until)
                .min()
        };
        let older = OLDER.iter().filter(move |(end, name, _)| until(name) == Some(*end));
        let today = Statements::all().into_iter().filter(move |(name, _)| !is_newer(name));
        today.chain(older.map(|(_, name, text)| (*name, *text)))
    }

    /// A schema as a version made it.
    async fn schema_of(version: u32) -> (tokio_postgres::Client, String, String) {
        let url = windlass_servers::shared::postgres_url().expect("a PostgreSQL server");
        let schema = format!("migrate_{:016x}", fastrand::u64(..));
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        for (number, name, text) in MIGRATIONS.iter().filter(|(number, ..)| *number <= version) {
            let migration = Migration { version: *number, name, sql: in_schema(text, &schema) };
            client.batch_execute(&script(&migration, &schema)).await.unwrap();
        }
        (client, url, schema)
    }

    #[tokio::test]
    async fn the_statements_of_every_version_work_on_its_own_schema_and_on_all_newer_ones() {
        for made in 1..=newest() {
            let (client, _, schema) = schema_of(made).await;
            for version in 1..=made {
                for (name, text) in statements_of(version) {
                    let prepared = client.prepare(&in_schema(text, &schema)).await;
                    prepared.unwrap_or_else(|error| panic!("{name} of {version} on {made}: {error:?}"));
                }
            }
        }
    }

    const WAITING: &str = "INSERT INTO windlass.queues (name, spec, priority) VALUES ('old', '{}', 5);
        INSERT INTO windlass.job_types (name, queue, spec, max_attempts, retention_days, keep_result)
        VALUES ('old', 'old', '{}', 5, 7, false);
        INSERT INTO windlass.delayed_jobs (id, scheduled_at, created_at, priority, queue, job_type, payload)
        VALUES (nextval('windlass.job_ids'), now(), now(), 5, 'old', 'old', '{\"n\": 1}')";

    #[tokio::test(flavor = "multi_thread")]
    async fn twenty_who_open_a_schema_of_any_earlier_version_bring_it_up_to_date_once_and_keep_its_jobs() {
        for version in 1..newest() {
            let (client, url, schema) = schema_of(version).await;
            client.batch_execute(&in_schema(WAITING, &schema)).await.unwrap();
            let options =
                PostgresOptions { schema: schema.clone(), listen: false, ..PostgresOptions::default() };
            let open = || {
                let (url, options) = (url.clone(), options.clone());
                tokio::spawn(async move { PostgresEngine::connect(&url, options).await.map(drop) })
            };
            for opener in (0..20).map(|_| open()).collect::<Vec<_>>() {
                opener.await.unwrap().expect("the schema is brought up to date");
            }
            let versions = format!("SELECT count(*), max(version) FROM {schema}.schema_versions");
            let row = client.query_one(&versions, &[]).await.unwrap();
            assert_eq!((row.get::<_, i64>(0), row.get::<_, i32>(1)), (i64::from(newest()), newest() as i32));
            let engine = PostgresEngine::connect(&url, options).await.unwrap();
            let job = engine.job(JobId(1)).await.unwrap().expect("a migration keeps jobs");
            assert_eq!(job.phase(), Phase::Ready);
        }
    }

    #[tokio::test]
    async fn whoever_might_call_enqueue_may_do_so_after_the_migration_that_makes_it_anew() {
        let (client, url, schema) = schema_of(6).await;
        let role = format!("producer_{:016x}", fastrand::u64(..));
        let granted = format!("CREATE ROLE {role}; GRANT EXECUTE ON FUNCTION {schema}.enqueue TO {role}");
        client.batch_execute(&granted).await.unwrap();
        let options = PostgresOptions { schema: schema.clone(), listen: false, ..PostgresOptions::default() };
        PostgresEngine::connect(&url, options).await.unwrap();
        let may = "SELECT has_function_privilege($1, p.oid, 'EXECUTE') FROM pg_proc p
            WHERE p.pronamespace = $2::text::regnamespace AND p.proname = 'enqueue'";
        let may = |who: String| {
            let (client, schema) = (&client, &schema);
            async move { client.query_one(may, &[&who, schema]).await.unwrap().get::<_, bool>(0) }
        };
        assert!(may(role.clone()).await);
        let stranger = format!("stranger_{:016x}", fastrand::u64(..));
        client.batch_execute(&format!("CREATE ROLE {stranger}")).await.unwrap();
        assert!(!may(stranger).await, "and nobody else");
    }

    /// As somebody does who makes a backup, or looks at a table for long.
    #[tokio::test(flavor = "multi_thread")]
    async fn while_a_migration_waits_for_a_table_others_are_kept_from_it_for_a_second_at_a_time() {
        let (beats, url, schema) = schema_of(4).await;
        let (reader, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        reader.batch_execute(&format!("BEGIN; SELECT count(*) FROM {schema}.workers")).await.unwrap();
        let options = PostgresOptions { schema: schema.clone(), listen: false, ..PostgresOptions::default() };
        let opening = tokio::spawn(async move { PostgresEngine::connect(&url, options).await.map(drop) });
        let (mut kept_waiting, beat) = (0, format!("UPDATE {schema}.workers SET beats = beats + 1"));
        while kept_waiting < 2 {
            let asked = std::time::Instant::now();
            beats.batch_execute(&beat).await.unwrap();
            kept_waiting += u32::from(asked.elapsed() > Duration::from_millis(300));
            assert!(asked.elapsed() < Duration::from_secs(10), "a heartbeat took {:?}", asked.elapsed());
            assert!(!opening.is_finished(), "somebody has the table open");
        }
        reader.batch_execute("COMMIT").await.unwrap();
        opening.await.unwrap().expect("it goes on by itself");
    }

    #[test]
    fn migrations_are_numbered_from_one_without_gaps() {
        let numbers: Vec<_> = MIGRATIONS.iter().map(|(version, ..)| *version).collect();
        assert_eq!(numbers, (1..=newest()).collect::<Vec<_>>());
    }
}
