//! Rounds of rolling up, and their results.

use std::time::Duration;

use windlass_core::clock::Timestamp;
use windlass_core::engine::Engine;
use windlass_core::rollups::roll_up::roll_up;
use windlass_core::rollups::{
    Histogram, Minute, Rollup, RollupChange, RollupKey, RollupOutcome, RollupsRead, RollupsRequest, Sample,
    Seen, Tally,
};

use super::words::{kind, queue};

/// Appends a sample in which this number of attempts were begun.
pub(crate) async fn append(engine: &dyn Engine, started: u64) {
    let mut waits = Histogram::default();
    (0..started).for_each(|n| waits.record(Duration::from_millis(n * n)));
    let seen = Seen { queue: queue(), job_type: kind(), started, runs: waits.clone(), waits };
    engine.append_samples(&Sample::parts(Duration::ZERO, &[seen])).await.unwrap();
}

/// Rolls up all samples, if there are some.
pub(crate) async fn roll_up_all(engine: &dyn Engine) {
    while let Some(roll_up) = roll_up(engine.rollup_input(100).await.unwrap()) {
        let kept = engine.rollups_of(&roll_up.keys()).await.unwrap();
        assert_eq!(engine.apply_rollup(&roll_up.onto(kept.rows)).await.unwrap(), RollupOutcome::Done);
    }
}

pub(crate) async fn read(engine: &dyn Engine) -> RollupsRead {
    let far = Timestamp::parse("2200-01-01T00:00:00Z").unwrap();
    engine.rollups(&RollupsRequest::between(Timestamp::EPOCH, far)).await.unwrap()
}

/// Sums all rollups.
pub(crate) async fn booked(engine: &dyn Engine) -> Tally {
    let (read, mut all) = (read(engine).await, Tally::default());
    assert!(read.damaged.is_empty(), "{read:?}");
    read.rows.iter().for_each(|row| all.merge(&row.tally));
    all
}

/// Stores two rows, of which a test damages the first.
pub(crate) async fn keep_two(engine: &dyn Engine) {
    let row = |minute| Rollup {
        key: RollupKey { minute: Minute::from_number(minute), queue: queue(), job_type: kind() },
        tally: Tally { enqueued: 1, started: 2, ..Tally::default() },
    };
    let change = RollupChange {
        read: 0,
        version: 1,
        watermark: String::new(),
        rows: vec![row(100), row(200)],
        rolled_up: Vec::new(),
    };
    assert_eq!(engine.apply_rollup(&change).await.unwrap(), RollupOutcome::Done);
}

/// Asserts that the first row cannot be read: it is reported, the other row is there, and the sum of the
/// damaged row begins anew.
pub(crate) async fn assert_first_is_damaged(engine: &dyn Engine) {
    let told = read(engine).await;
    assert_eq!((told.rows.len(), told.damaged.len()), (1, 1), "{told:?}");
    assert_eq!((told.rows[0].key.minute.number(), told.damaged[0].minute.number()), (200, 100));
    let key = RollupKey { minute: Minute::from_number(100), queue: queue(), job_type: kind() };
    let found = engine.rollups_of(std::slice::from_ref(&key)).await.unwrap();
    assert_eq!((found.rows.len(), found.damaged.len()), (0, 1));
    let version = engine.rollup_input(1).await.unwrap().watermark.unwrap().version;
    let row = Rollup { key, tally: Tally { enqueued: 5, ..Tally::default() } };
    let change = RollupChange {
        read: version,
        version: version + 1,
        watermark: String::new(),
        rows: vec![row],
        rolled_up: Vec::new(),
    };
    assert_eq!(engine.apply_rollup(&change).await.unwrap(), RollupOutcome::Done);
    assert_eq!(booked(engine).await.enqueued, 6);
}
