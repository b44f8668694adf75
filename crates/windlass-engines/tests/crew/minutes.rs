//! Rounds of folding, and what they left.

use std::time::Duration;

use windlass_core::aggregates::fold::fold;
use windlass_core::aggregates::{
    Delta, FoldChange, Folded, Histogram, Minute, MinuteKey, MinuteRow, MinutesRead, MinutesRequest, Seen,
    Tally,
};
use windlass_core::clock::Timestamp;
use windlass_core::engine::Engine;

use super::words::{kind, queue};

/// Appends that so many attempts were begun.
pub(crate) async fn append(engine: &dyn Engine, started: u64) {
    let mut waits = Histogram::default();
    (0..started).for_each(|n| waits.record(Duration::from_millis(n * n)));
    let seen = Seen { queue: queue(), job_type: kind(), started, runs: waits.clone(), waits };
    engine.append_deltas(&Delta::parts(Duration::ZERO, &[seen])).await.unwrap();
}

/// Folds what there is, if there is something.
pub(crate) async fn fold_all(engine: &dyn Engine) {
    while let Some(fold) = fold(engine.unfolded(100).await.unwrap()) {
        let kept = engine.minutes_of(&fold.keys()).await.unwrap();
        assert_eq!(engine.apply_fold(&fold.onto(kept.rows)).await.unwrap(), Folded::Done);
    }
}

pub(crate) async fn read(engine: &dyn Engine) -> MinutesRead {
    let far = Timestamp::parse("2200-01-01T00:00:00Z").unwrap();
    engine.minutes(&MinutesRequest::between(Timestamp::EPOCH, far)).await.unwrap()
}

/// All that was booked.
pub(crate) async fn booked(engine: &dyn Engine) -> Tally {
    let (read, mut all) = (read(engine).await, Tally::default());
    assert!(read.damaged.is_empty(), "{read:?}");
    read.rows.iter().for_each(|row| all.merge(&row.tally));
    all
}

/// Two rows, of which a test damages the first.
pub(crate) async fn keep_two(engine: &dyn Engine) {
    let row = |minute| MinuteRow {
        key: MinuteKey { minute: Minute::from_number(minute), queue: queue(), job_type: kind() },
        tally: Tally { enqueued: 1, started: 2, ..Tally::default() },
    };
    let change = FoldChange {
        read: 0,
        version: 1,
        mark: String::new(),
        rows: vec![row(100), row(200)],
        folded: Vec::new(),
    };
    assert_eq!(engine.apply_fold(&change).await.unwrap(), Folded::Done);
}

/// The first row cannot be read: that is told, the other is there, and what is booked there begins anew.
pub(crate) async fn assert_first_is_damaged(engine: &dyn Engine) {
    let told = read(engine).await;
    assert_eq!((told.rows.len(), told.damaged.len()), (1, 1), "{told:?}");
    assert_eq!((told.rows[0].key.minute.number(), told.damaged[0].minute.number()), (200, 100));
    let key = MinuteKey { minute: Minute::from_number(100), queue: queue(), job_type: kind() };
    let found = engine.minutes_of(std::slice::from_ref(&key)).await.unwrap();
    assert_eq!((found.rows.len(), found.damaged.len()), (0, 1));
    let version = engine.unfolded(1).await.unwrap().mark.unwrap().version;
    let row = MinuteRow { key, tally: Tally { enqueued: 5, ..Tally::default() } };
    let change = FoldChange {
        read: version,
        version: version + 1,
        mark: String::new(),
        rows: vec![row],
        folded: Vec::new(),
    };
    assert_eq!(engine.apply_fold(&change).await.unwrap(), Folded::Done);
    assert_eq!(booked(engine).await.enqueued, 6);
}
