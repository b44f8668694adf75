//! Rollups on a server: they survive its crash, a damaged row does not affect the others, and their memory
//! is limited.

use std::time::Duration;

use windlass_core::rollups::{
    Histogram, Minute, Rollup, RollupChange, RollupKey, RollupOutcome, Rollups, Tally,
};

use crate::rollup_rounds::{append, assert_first_is_damaged, booked, keep_two, roll_up_all};
use crate::test_store::{TestStore, ask, enqueue, server};
use crate::words::{kind, queue};

/// The memory that each further type of a minute may take, and the first type with the minute itself.
/// Measured on Redis 7.0, with a margin for other versions.
const ROW_BYTES_MAX: i64 = 330;
const MINUTE_BYTES_MAX: i64 = 650;

#[tokio::test(flavor = "multi_thread")]
async fn rollups_and_what_was_not_rolled_up_outlive_the_death_of_the_server() {
    let mut server = server(&[("appendfsync", "always")]);
    let place = TestStore::on(server.url());
    let engine = place.ready().await;
    enqueue(&engine, 3).await;
    roll_up_all(&engine).await;
    append(&engine, 7).await;
    drop(engine);
    tokio::task::block_in_place(|| server.kill().unwrap());
    tokio::task::block_in_place(|| server.restart().unwrap());
    let engine = place.open_with(place.options()).await;
    assert_eq!(booked(&engine).await.enqueued, 3);
    roll_up_all(&engine).await;
    let tally = booked(&engine).await;
    assert_eq!((tally.enqueued, tally.started, tally.waits.count()), (3, 7, 7));
}

#[tokio::test]
async fn a_damaged_minute_is_told_and_begins_anew() {
    for what in ["1 2 3", "1 2 0 0 0 0 b a", "1 2 0 0 0 0 a a a", "-1 2 0 0 0 0 a a", "\u{7f}"] {
        let place = TestStore::shared();
        let engine = place.ready().await;
        keep_two(&engine).await;
        let field = format!("{} {}", queue(), kind());
        assert_eq!(ask::<i64>(&place.url, &["HSET", &place.key("rollups:100"), &field, what]), 0);
        assert_first_is_damaged(&engine).await;
    }
}

#[tokio::test]
async fn a_damaged_sample_goes_with_the_rest() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    append(&engine, 1).await;
    let _: i64 = ask(&place.url, &["RPUSH", &place.key("rollup_samples"), "nonsense"]);
    append(&engine, 2).await;
    roll_up_all(&engine).await;
    assert_eq!(booked(&engine).await.started, 3);
    assert_eq!(ask::<i64>(&place.url, &["LLEN", &place.key("rollup_samples")]), 0);
}

#[tokio::test]
async fn a_watermark_that_was_deleted_is_made_anew() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    enqueue(&engine, 3).await;
    assert_eq!(ask::<i64>(&place.url, &["DEL", &place.key("rollup_watermark")]), 1);
    roll_up_all(&engine).await;
    enqueue(&engine, 2).await;
    roll_up_all(&engine).await;
    assert_eq!(booked(&engine).await.enqueued, 2);
}

/// Creates the rollup of a busy minute: times spread over four doublings, like those of a usual handler.
fn busy() -> Tally {
    let mut times = Histogram::default();
    (0..200_u64).for_each(|n| times.record(Duration::from_millis(5 + n * n / 500)));
    let (enqueued, started, succeeded) = (200, 203, 198);
    Tally {
        enqueued,
        started,
        succeeded,
        retried: 3,
        dead: 1,
        cancelled: 0,
        runs: times.clone(),
        waits: times,
    }
}

#[tokio::test]
async fn a_minute_of_a_type_takes_little_memory() {
    const MINUTES: i64 = 500;
    let place = TestStore::shared();
    let engine = place.ready().await;
    let row = |minute, name: &str| Rollup {
        key: RollupKey {
            minute: Minute::from_number(minute),
            queue: queue(),
            job_type: name.parse().unwrap(),
        },
        tally: busy(),
    };
    let (mut version, mut in_each) = (0, 0);
    for types in [["report.fetch"].as_slice(), &["mail.send", "mail.digest", "image.scale", "image.store"]] {
        let rows = (0..MINUTES).flat_map(|minute| types.iter().map(move |name| row(minute, name))).collect();
        let change = RollupChange {
            read: version,
            version: version + 1,
            watermark: String::new(),
            rows,
            rolled_up: vec![],
        };
        assert_eq!(engine.apply_rollup(&change).await.unwrap(), RollupOutcome::Done);
        version += 1;
        let of = |key: &str| ask::<i64>(&place.url, &["MEMORY", "USAGE", &place.key(key), "SAMPLES", "0"]);
        in_each += types.len() as i64;
        let bytes = (0..MINUTES).map(|minute| of(&format!("rollups:{minute}"))).sum::<i64>() + of("rollups");
        println!("{in_each} types a minute: {} bytes a minute", bytes / MINUTES);
        assert!(bytes / MINUTES < MINUTE_BYTES_MAX + ROW_BYTES_MAX * (in_each - 1), "{bytes}");
    }
}
