//! Rollups in a file: they survive their process, and a damaged row does not affect the others.

use super::rollup_rounds::{append, assert_first_is_damaged, booked, keep_two, roll_up_all};
use super::{TestStore, enqueue, ready_engine};

#[tokio::test]
async fn rollups_and_what_was_not_rolled_up_outlive_the_process() {
    let place = TestStore::new();
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
        let place = TestStore::new();
        let engine = ready_engine(&place).await;
        keep_two(&engine).await;
        let sql = format!("UPDATE job_rollups SET {what} WHERE minute = 100");
        assert_eq!(place.connect().execute(&sql, []).unwrap(), 1);
        assert_first_is_damaged(&engine).await;
    }
}

#[tokio::test]
async fn a_watermark_that_was_deleted_is_made_anew() {
    let place = TestStore::new();
    let engine = ready_engine(&place).await;
    enqueue(&engine, 3).await;
    place.connect().execute("DELETE FROM rollup_watermark", []).unwrap();
    roll_up_all(&engine).await;
    enqueue(&engine, 2).await;
    roll_up_all(&engine).await;
    assert_eq!(booked(&engine).await.enqueued, 2);
}
