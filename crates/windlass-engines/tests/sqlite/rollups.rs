//! Minutes in a file: they outlive their process, one that is damaged spoils no other, and an older file begins with what it has counted.

use windlass_engines::sqlite::migrate::MIGRATIONS;

use super::rollup_rounds::{append, assert_first_is_damaged, booked, keep_two, roll_up_all};
use super::{Place, enqueue, ready_engine};

/// The last version without minutes.
const BEFORE: u32 = 11;

#[tokio::test]
async fn rollups_and_what_was_not_rolled_up_outlive_the_process() {
    let place = Place::new();
    let engine = ready_engine(&place).await;
    enqueue(&engine, 3).await;
    roll_up_all(&engine).await;
    append(&engine, 7).await;
    drop(engine);
    let engine = place.open();
    assert_eq!(booked(&engine).await.enqueued, 3);
    roll_up_all(&engine).await;
    let tally = booked(&engine).await;
    assert_eq!((tally.enqueued, tally.started, tally.waits.count()), (3, 7, 7));
}

#[tokio::test]
async fn a_damaged_minute_is_told_and_begins_anew() {
    for what in ["waits = 'b'", "runs = CAST(x'ff' AS TEXT)", "waits = 'a1,'"] {
        let place = Place::new();
        let engine = ready_engine(&place).await;
        keep_two(&engine).await;
        let sql = format!("UPDATE job_rollups SET {what} WHERE minute = 100");
        assert_eq!(place.connect().execute(&sql, []).unwrap(), 1);
        assert_first_is_damaged(&engine).await;
    }
}

#[tokio::test]
async fn what_was_counted_before_there_were_rollups_is_in_none_of_them() {
    let place = Place::new();
    let engine = ready_engine(&place).await;
    enqueue(&engine, 3).await;
    drop(engine);
    let conn = place.connect();
    for table in ["job_rollups", "rollup_samples", "rollup_watermark"] {
        conn.execute_batch(&format!("DROP TABLE {table}")).unwrap();
    }
    conn.execute_batch("ALTER TABLE counts DROP COLUMN started_over").unwrap();
    conn.execute("DELETE FROM windlass_schema WHERE version > ?1", [BEFORE]).unwrap();
    drop(conn);
    assert!(MIGRATIONS.iter().any(|migration| migration.version == BEFORE + 1));
    let engine = place.open();
    enqueue(&engine, 2).await;
    roll_up_all(&engine).await;
    assert_eq!(booked(&engine).await.enqueued, 2);
}

#[tokio::test]
async fn a_watermark_that_somebody_deleted_is_made_anew() {
    let place = Place::new();
    let engine = ready_engine(&place).await;
    enqueue(&engine, 3).await;
    place.connect().execute("DELETE FROM rollup_watermark", []).unwrap();
    roll_up_all(&engine).await;
    enqueue(&engine, 2).await;
    roll_up_all(&engine).await;
    assert_eq!(booked(&engine).await.enqueued, 2);
}
