//! Migrations from every earlier version, and the statements of each.

use windlass_core::engine::Admin;
use windlass_core::job::{JobId, Phase};

use super::older::statements_of;
use super::*;
use crate::postgres::PostgresEngine;

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
    (12, 0x4a8d_5b9a_5cac_d94c),
    (13, 0xbf63_98a1_75a3_4d58),
    (14, 0x39fb_f6cc_fb6a_e667),
    (15, 0x58fa_03b3_57e2_dd9d),
    (16, 0x5418_3c06_04ef_da12),
    (17, 0x7fed_b826_7211_4ea8),
    (18, 0xe1fa_52f0_fad0_170a),
    (19, 0x91b6_3449_e27c_d128),
];

/// FNV-1a.
pub(super) fn sum(text: &str) -> u64 {
    let step = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

#[test]
fn no_migration_changes_after_somebody_may_have_run_it() {
    let sums: Vec<_> = MIGRATIONS.iter().map(|(version, _, text)| (*version, sum(text))).collect();
    assert_eq!(sums, SUMS);
}

/// A schema as a version made it.
pub(super) async fn schema_of(version: u32) -> (tokio_postgres::Client, String, String) {
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

/// A job in each place, by columns that every version has: it waits, waits behind a gate, runs (3, and 4 of a type without a
/// history), is a dead letter, has ended.
pub(super) const ROWS: &str = "
INSERT INTO windlass.queues (name, spec, priority) VALUES ('main', '{}', 5);
INSERT INTO windlass.job_types (name, queue, spec, max_attempts, retention_days, keep_result)
VALUES ('work', 'main', '{}', 5, 7, false), ('brief', 'main', '{}', 5, 0, false);
INSERT INTO windlass.workers (id, since, seen_at, expires_at, beats, lease_micros, pid, host, version, queues, types)
VALUES ('00000000-0000-0000-0000-00000000000d', now(), now(), now() + interval '1 hour', 0, 3600000000, 1, 'here', 'old',
    '{main}', '{work}');
INSERT INTO windlass.delayed_jobs (id, scheduled_at, created_at, priority, queue, job_type, payload, key, gate)
VALUES (1, now(), now(), 5, 'main', 'work', '{\"n\": 1}', 'a', NULL), (2, now(), now(), 5, 'main', 'work', '{}', NULL, 'rate:a');
INSERT INTO windlass.job_keys (job_type, key, job) VALUES ('work', 'a', 1);
INSERT INTO windlass.delayed_jobs (
    id, scheduled_at, created_at, priority, queue, job_type, payload, attempts, token, locked_by, locked_at
)
VALUES (3, now(), now(), 5, 'main', 'work', '{}', 1, '00000000-0000-0000-0000-00000000000a', '00000000-0000-0000-0000-00000000000d', now()),
    (4, now(), now(), 5, 'main', 'brief', '{}', 1, '00000000-0000-0000-0000-00000000000a', '00000000-0000-0000-0000-00000000000d', now());
INSERT INTO windlass.claims (token, at, worker, jobs, held)
VALUES ('00000000-0000-0000-0000-00000000000a', now(), '00000000-0000-0000-0000-00000000000d', '{3,4}', 2);
INSERT INTO windlass.delayed_jobs_dlq (
    id, scheduled_at, created_at, attempts, max_attempts, failures, crashes, holds, priority, queue, job_type, payload,
    error, ended_at
)
VALUES (5, now(), now(), 5, 5, 5, 0, 0, 5, 'main', 'work', '{}', '{\"kind\": \"failed\", \"message\": \"no\"}', now());
INSERT INTO windlass.job_history (
    id, keep_until, scheduled_at, created_at, ended_at, attempts, max_attempts, failures, crashes, holds, priority, state,
    queue, job_type, payload
)
VALUES (7, now() + interval '7 days', now(), now(), now(), 1, 5, 0, 0, 0, 5, 1, 'main', 'work', '{}');
SELECT setval('windlass.job_ids', 1000)";

/// Where each of those is.
const PHASES: [(i64, Phase); 6] = [
    (1, Phase::Ready),
    (2, Phase::Parked),
    (3, Phase::Running),
    (4, Phase::Running),
    (5, Phase::Dead),
    (7, Phase::Succeeded),
];

#[tokio::test(flavor = "multi_thread")]
async fn twenty_who_open_a_schema_of_any_earlier_version_bring_it_up_to_date_once_and_keep_its_jobs() {
    for version in 1..newest() {
        let (client, url, schema) = schema_of(version).await;
        client.batch_execute(&in_schema(ROWS, &schema)).await.unwrap();
        let options = PostgresOptions { schema: schema.clone(), listen: false, ..PostgresOptions::default() };
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
        for (id, phase) in PHASES {
            let job = engine.job(JobId(id)).await.unwrap().expect("a migration keeps jobs");
            assert_eq!(job.phase(), phase, "{id} of version {version}");
        }
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

#[tokio::test]
async fn whoever_might_replace_a_waiting_job_may_do_so_after_the_migration_that_gives_it_a_fairness_key() {
    let (client, url, schema) = schema_of(11).await;
    let role = format!("client_{:016x}", fastrand::u64(..));
    let granted = format!(
        "CREATE ROLE {role}; CREATE ROLE {role}_stranger; GRANT UPDATE (payload, options) ON {schema}.delayed_jobs TO {role}"
    );
    client.batch_execute(&granted).await.unwrap();
    let options = PostgresOptions { schema: schema.clone(), listen: false, ..PostgresOptions::default() };
    PostgresEngine::connect(&url, options).await.unwrap();
    let may = format!(
        "SELECT has_column_privilege('{role}', '{schema}.delayed_jobs', 'fairness_key', 'UPDATE'),
            has_column_privilege('{role}_stranger', '{schema}.delayed_jobs', 'fairness_key', 'UPDATE')"
    );
    let row = client.query_one(&may, &[]).await.unwrap();
    assert_eq!((row.get(0), row.get(1)), (true, false));
}

#[tokio::test]
async fn who_might_fold_or_read_counts_may_do_so_with_minutes_after_the_migration_that_makes_them() {
    let (client, url, schema) = schema_of(13).await;
    let role = format!("worker_{:016x}", fastrand::u64(..));
    let granted = format!(
        "CREATE ROLE {role}; CREATE ROLE {role}_reader; GRANT SELECT, INSERT, DELETE ON {schema}.count_deltas TO {role};
         GRANT SELECT ON {schema}.counts TO {role}_reader"
    );
    client.batch_execute(&granted).await.unwrap();
    let options = PostgresOptions { schema: schema.clone(), listen: false, ..PostgresOptions::default() };
    PostgresEngine::connect(&url, options).await.unwrap();
    let may = format!(
        "SELECT has_table_privilege('{role}', '{schema}.rollup_watermark', 'UPDATE'),
            has_table_privilege('{role}_reader', '{schema}.job_rollups', 'SELECT'),
            has_table_privilege('{role}_reader', '{schema}.job_rollups', 'UPDATE')"
    );
    let row = client.query_one(&may, &[]).await.unwrap();
    assert_eq!((row.get(0), row.get(1), row.get(2)), (true, true, false));
}

#[tokio::test]
async fn who_might_take_or_read_leases_may_note_or_read_locks_after_the_migration_that_makes_them() {
    let (client, url, schema) = schema_of(15).await;
    let role = format!("worker_{:016x}", fastrand::u64(..));
    let granted = format!(
        "CREATE ROLE {role}; CREATE ROLE {role}_reader; CREATE ROLE {role}_stranger;
         GRANT SELECT, INSERT, UPDATE ON {schema}.background_job_leases TO {role};
         GRANT SELECT ON {schema}.background_job_leases TO {role}_reader"
    );
    client.batch_execute(&granted).await.unwrap();
    let options = PostgresOptions { schema: schema.clone(), listen: false, ..PostgresOptions::default() };
    PostgresEngine::connect(&url, options).await.unwrap();
    for (who, may) in [("", [true, true, true]), ("_reader", [true, false, false]), ("_stranger", [false; 3])]
    {
        let right = |to| format!("has_table_privilege('{role}{who}', '{schema}.duty_locks', '{to}')");
        let rights = ["SELECT", "UPDATE", "DELETE"].map(right).join(", ");
        let row = client.query_one(&format!("SELECT {rights}"), &[]).await.unwrap();
        assert_eq!([0, 1, 2].map(|at| row.get::<_, bool>(at)), may, "{who}");
    }
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
