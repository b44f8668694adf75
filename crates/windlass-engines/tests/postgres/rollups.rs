//! Rollups on a server: they survive its crash, and a damaged row does not affect the others.

use windlass_servers::postgres::{Options, Server};

use super::rollup_rounds::{append, assert_first_is_damaged, booked, keep_two, roll_up_all};
use super::{TestStore, enqueue};

#[tokio::test(flavor = "multi_thread")]
async fn rollups_and_what_was_not_rolled_up_outlive_the_death_of_the_server() {
    let mut server = Server::start(&Options::default()).unwrap();
    let place = TestStore::on(server.url());
    let engine = place.ready().await;
    enqueue(&engine, 3).await;
    roll_up_all(&engine).await;
    append(&engine, 7).await;
    drop(engine);
    server.kill().unwrap();
    server.restart().unwrap();
    let engine = place.open().await;
    assert_eq!(booked(&engine).await.enqueued, 3);
    roll_up_all(&engine).await;
    let tally = booked(&engine).await;
    assert_eq!((tally.enqueued, tally.started, tally.waits.count()), (3, 7, 7));
}

#[tokio::test]
async fn a_damaged_minute_is_told_and_begins_anew() {
    for what in ["waits = 'b'", "runs = ''", "waits = 'a1,'"] {
        let place = TestStore::shared();
        let engine = place.ready().await;
        keep_two(&engine).await;
        place.sql(&format!("UPDATE windlass.job_rollups SET {what} WHERE minute = 100"));
        assert_first_is_damaged(&engine).await;
    }
}

#[tokio::test]
async fn a_watermark_that_was_deleted_is_made_anew() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    enqueue(&engine, 3).await;
    place.sql("DELETE FROM windlass.rollup_watermark");
    roll_up_all(&engine).await;
    enqueue(&engine, 2).await;
    roll_up_all(&engine).await;
    assert_eq!(booked(&engine).await.enqueued, 2);
}
