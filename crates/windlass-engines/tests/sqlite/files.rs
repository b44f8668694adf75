//! Files that cannot be used, and files that many processes open at once.

use std::fs;
use std::time::Duration;

use rusqlite::Connection;
use windlass_core::engine::{Durability, Engine};
use windlass_core::error::EngineError;
use windlass_engines::sqlite::{SqliteEngine, SqliteOptions, Synchronous, migrate};

use super::{TestStore, claim, declare, enqueue, ready_engine};

fn refusal(place: &TestStore) -> String {
    match SqliteEngine::open(place.path(), SqliteOptions::default()) {
        Err(EngineError::Unusable { why }) => why,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

#[test]
fn a_directory_is_refused() {
    let place = TestStore::new();
    fs::create_dir(place.path()).unwrap();
    assert!(refusal(&place).contains("name a file in it"));
}

#[test]
fn a_missing_directory_is_refused() {
    let place = TestStore::new();
    let path = place.folder.path().join("nowhere/jobs.db");
    let error = SqliteEngine::open(path, SqliteOptions::default()).unwrap_err().to_string();
    assert!(error.contains("create it first"), "{error}");
}

#[test]
fn another_kind_of_file_is_refused_and_left_alone() {
    let place = TestStore::new();
    let text = "this is a letter, not a database\n".repeat(100);
    fs::write(place.path(), &text).unwrap();
    assert!(refusal(&place).contains("another kind of file"));
    assert_eq!(fs::read_to_string(place.path()).unwrap(), text);
}

#[tokio::test]
async fn a_damaged_database_is_refused() {
    let place = TestStore::new();
    let engine = ready_engine(&place).await;
    enqueue(&engine, 1).await;
    drop(engine);
    // Whichever connection was closed last, all data is in the file itself now, not in the log beside it.
    let conn = Connection::open(place.path()).unwrap();
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0)).unwrap();
    drop(conn);
    // The header stays, and the first page behind it is noise.
    let mut bytes = fs::read(place.path()).unwrap();
    bytes[100..4096].fill(0xa5);
    fs::write(place.path(), bytes).unwrap();
    assert!(refusal(&place).contains("damaged"));
}

#[test]
fn a_file_that_may_not_be_written_to_is_refused() {
    let place = TestStore::new();
    drop(place.open());
    let mut rights = fs::metadata(place.path()).unwrap().permissions();
    rights.set_readonly(true);
    fs::set_permissions(place.path(), rights).unwrap();
    // Some users may write to every file, whatever its mode says: then the file can be used.
    let may_write = fs::File::options().write(true).open(place.path()).is_ok();
    match SqliteEngine::open(place.path(), SqliteOptions::default()) {
        Ok(_) => assert!(may_write),
        Err(EngineError::Unusable { why }) => {
            assert!(!may_write);
            assert!(why.contains("cannot be written to"), "{why}");
        }
        Err(other) => panic!("expected a refusal, got {other:?}"),
    }
}

#[test]
fn a_file_that_another_process_locks_is_unavailable_after_the_timeout() {
    let place = TestStore::new();
    let other = Connection::open(place.path()).unwrap();
    other.execute_batch("CREATE TABLE theirs (x); BEGIN EXCLUSIVE; INSERT INTO theirs VALUES (1)").unwrap();
    let options = SqliteOptions { busy_timeout: Duration::from_millis(50), ..SqliteOptions::default() };
    let error = SqliteEngine::open(place.path(), options.clone()).unwrap_err();
    assert!(matches!(&error, EngineError::Unavailable { why } if why.contains("lock")), "{error:?}");
    other.execute_batch("COMMIT").unwrap();
    assert!(
        SqliteEngine::open(place.path(), options).is_ok(),
        "the file can be opened as soon as the lock is free"
    );
}

#[test]
fn a_newer_schema_is_refused() {
    let place = TestStore::new();
    drop(place.open());
    place.connect().execute("INSERT INTO windlass_schema VALUES (99, 'future', '')", []).unwrap();
    assert!(refusal(&place).contains("a newer Windlass was here"));
}

#[test]
fn who_migrates_by_hand_is_told_to() {
    let place = TestStore::new();
    let by_hand = SqliteOptions { migrate: false, ..SqliteOptions::default() };
    let error = SqliteEngine::open(place.path(), by_hand.clone()).unwrap_err().to_string();
    assert!(error.contains("windlass migrate"), "{error}");
    assert_eq!(migrate::pending(&place.path()).unwrap(), migrate::MIGRATIONS);
    drop(place.open());
    assert_eq!(migrate::pending(&place.path()).unwrap(), []);
    assert!(SqliteEngine::open(place.path(), by_hand).is_ok());
}

#[test]
fn asking_what_is_pending_makes_no_file() {
    let place = TestStore::new();
    assert_eq!(migrate::pending(&place.path()).unwrap(), migrate::MIGRATIONS);
    assert!(!place.path().exists());
}

#[tokio::test]
async fn jobs_live_beside_the_users_own_tables() {
    let place = TestStore::new();
    place.connect().execute_batch("CREATE TABLE wallets (id); INSERT INTO wallets VALUES (7)").unwrap();
    let engine = ready_engine(&place).await;
    enqueue(&engine, 1).await;
    assert_eq!(claim(&engine, 10).await.len(), 1);
    let theirs: i64 = place.connect().query_row("SELECT id FROM wallets", [], |row| row.get(0)).unwrap();
    assert_eq!(theirs, 7);
}

#[test]
fn a_users_table_of_our_name_is_refused() {
    let place = TestStore::new();
    place.connect().execute_batch("CREATE TABLE attempts (colour TEXT)").unwrap();
    assert!(refusal(&place).contains("attempts"));
}

#[test]
fn twenty_threads_may_open_a_fresh_file_at_once() {
    let place = TestStore::new();
    let path = place.path();
    let start = std::sync::Barrier::new(20);
    std::thread::scope(|scope| {
        let open = || {
            start.wait();
            SqliteEngine::open(&path, SqliteOptions::default()).map(drop)
        };
        let threads: Vec<_> = (0..20).map(|_| scope.spawn(open)).collect();
        for thread in threads {
            thread.join().unwrap().expect("every thread can open the file");
        }
    });
    let versions: i64 =
        place.connect().query_row("SELECT count(*) FROM windlass_schema", [], |row| row.get(0)).unwrap();
    assert_eq!(versions, i64::try_from(migrate::MIGRATIONS.len()).unwrap(), "each migration ran once");
}

#[tokio::test]
async fn jobs_are_there_when_the_file_is_opened_again() {
    let place = TestStore::new();
    let engine = place.open();
    declare(&engine).await;
    let ids = enqueue(&engine, 3).await;
    drop(engine);
    let engine = ready_engine(&place).await;
    let claimed: Vec<_> = claim(&engine, 10).await.into_iter().map(|claimed| claimed.job.id).collect();
    assert_eq!(claimed, ids);
    assert!(enqueue(&engine, 1).await[0] > ids[2], "the ids continue");
}

#[test]
fn what_an_engine_can_lose_depends_on_what_commits_wait_for() {
    let place = TestStore::new();
    assert_eq!(place.open().info().durability, Durability::PowerCut);
    let normal = SqliteOptions { synchronous: Synchronous::Normal, ..SqliteOptions::default() };
    let engine = SqliteEngine::open(place.path(), normal).unwrap();
    assert_eq!(engine.info().durability, Durability::Crash);
}
