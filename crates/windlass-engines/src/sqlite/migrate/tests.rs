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
    assert_eq!(version(&conn).unwrap(), newest(MIGRATIONS));
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
    assert_eq!(version(&conn).unwrap(), 0, "nothing was created");
}

/// The real schema, and a migration after it that the next version could bring.
fn with_a_second(sql: &'static str) -> Vec<Migration> {
    MIGRATIONS
        .iter()
        .copied()
        .chain([Migration { version: newest(MIGRATIONS) + 1, name: "second", sql }])
        .collect()
}

const SECOND: &str = "CREATE TABLE second (id INTEGER PRIMARY KEY) STRICT;
    ALTER TABLE queues ADD COLUMN colour TEXT NOT NULL DEFAULT 'grey';";

#[test]
fn a_second_migration_moves_the_real_schema_forward_and_keeps_its_rows() {
    let conn = Connection::open_in_memory().unwrap();
    apply_all(&conn).unwrap();
    conn.execute("INSERT INTO queues (name, spec) VALUES ('high', '{}')", []).unwrap();
    let migrations = with_a_second(SECOND);
    apply(&conn, &migrations).unwrap();
    assert_eq!(version(&conn).unwrap(), newest(&migrations));
    let colour: String = conn.query_row("SELECT colour FROM queues", [], |row| row.get(0)).unwrap();
    assert_eq!(colour, "grey");
    assert!(refusal(&conn).contains("a newer Windlass was here"), "the older version refuses it");
}

#[test]
fn a_fresh_file_gets_all_migrations_and_each_is_noted_once() {
    let conn = Connection::open_in_memory().unwrap();
    let migrations = with_a_second(SECOND);
    apply(&conn, &migrations).unwrap();
    apply(&conn, &migrations).unwrap();
    let noted = conn.query_row("SELECT count(*) FROM windlass_schema", [], |row| row.get::<_, u32>(0));
    assert_eq!(noted.unwrap(), newest(&migrations));
}

#[test]
fn a_schema_that_is_not_up_to_date_is_refused_if_migrations_run_by_hand() {
    let conn = Connection::open_in_memory().unwrap();
    let why = EngineError::from(check_applied(&conn).unwrap_err()).to_string();
    assert!(why.contains("windlass migrate"), "{why}");
    apply_all(&conn).unwrap();
    check_applied(&conn).unwrap();
}

#[test]
fn a_second_migration_that_fails_leaves_the_first_and_can_be_repeated() {
    let conn = Connection::open_in_memory().unwrap();
    apply_all(&conn).unwrap();
    conn.execute("INSERT INTO queues (name, spec) VALUES ('high', '{}'), ('low', '{}')", []).unwrap();
    let migrations = with_a_second(
        "CREATE TABLE second (id INTEGER PRIMARY KEY) STRICT; CREATE UNIQUE INDEX queues_spec ON queues (spec);",
    );
    apply(&conn, &migrations).unwrap_err();
    assert!(conn.is_autocommit(), "no transaction is left open");
    assert_eq!(version(&conn).unwrap(), newest(MIGRATIONS));
    assert_eq!(shape(&conn).unwrap().get("second"), None, "no table of the second migration exists");
    apply_all(&conn).unwrap();
    conn.execute("DELETE FROM queues WHERE name = 'low'", []).unwrap();
    apply(&conn, &migrations).unwrap();
    assert_eq!(version(&conn).unwrap(), newest(&migrations));
}

#[test]
fn two_processes_that_migrate_a_file_at_once_make_everything_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let migrations = with_a_second(SECOND);
    let start = std::sync::Barrier::new(2);
    let migrate = || {
        let conn = Connection::open(&path).unwrap();
        conn.busy_timeout(std::time::Duration::from_secs(30)).unwrap();
        start.wait();
        apply(&conn, &migrations).unwrap();
        version(&conn).unwrap()
    };
    let versions = std::thread::scope(|scope| {
        let threads = [scope.spawn(migrate), scope.spawn(migrate)];
        threads.map(|thread| thread.join().unwrap())
    });
    assert_eq!(versions, [newest(&migrations); 2]);
    let noted =
        Connection::open(&path)
            .unwrap()
            .query_row("SELECT count(*) FROM windlass_schema", [], |row| row.get::<_, u32>(0));
    assert_eq!(noted.unwrap(), newest(&migrations));
}

#[test]
fn a_table_of_the_users_with_the_name_of_a_new_one_of_ours_is_refused() {
    let conn = Connection::open_in_memory().unwrap();
    apply_all(&conn).unwrap();
    conn.execute_batch("CREATE TABLE second (colour)").unwrap();
    let why = EngineError::from(apply(&conn, &with_a_second(SECOND)).unwrap_err()).to_string();
    assert!(why.contains("second") && why.contains("name another file"), "{why}");
    assert_eq!(version(&conn).unwrap(), newest(MIGRATIONS), "nothing was created");
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
