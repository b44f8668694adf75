//! The line before the door: waiting jobs of one type, in the order in which they are claimed.

use std::collections::{BTreeSet, btree_set};
use std::ops::Bound;

use windlass_core::boost::ClaimRange;
use windlass_core::clock::Timestamp;
use windlass_core::job::JobId;
use windlass_core::priority::Priority;

/// A waiting job's place among those of its priority.
pub(crate) type Turn = (Timestamp, JobId);

/// Waiting jobs of one type without a gate: one lane for each priority, and how many of all are due.
///
/// The count follows the clock: `ready` is right for the instant `counted_at`, and moving that instant counts
/// only the jobs that lie between. So a job is counted once when it falls due, and never again by a look.
#[derive(Debug)]
pub(crate) struct Lanes {
    by_priority: [BTreeSet<Turn>; 11],
    counted_at: Timestamp,
    ready: u64,
    all: u64,
}

impl Default for Lanes {
    fn default() -> Self {
        Self { by_priority: Default::default(), counted_at: Timestamp::EPOCH, ready: 0, all: 0 }
    }
}

impl Lanes {
    pub(crate) fn insert(&mut self, priority: Priority, turn: Turn) {
        self.by_priority[usize::from(priority.level())].insert(turn);
        self.all += 1;
        self.ready += u64::from(turn.0 <= self.counted_at);
    }

    pub(crate) fn remove(&mut self, priority: Priority, turn: Turn) {
        self.by_priority[usize::from(priority.level())].remove(&turn);
        self.all -= 1;
        self.ready -= u64::from(turn.0 <= self.counted_at);
    }

    pub(crate) fn lane(&self, priority: Priority) -> &BTreeSet<Turn> {
        &self.by_priority[usize::from(priority.level())]
    }

    pub(crate) fn range(&self, range: &ClaimRange) -> btree_set::Range<'_, Turn> {
        let after = range.after.map_or(Bound::Unbounded, |after| Bound::Excluded(last_at(after)));
        self.lane(range.priority).range((after, Bound::Included(last_at(range.until))))
    }

    /// Moves the instant for which the counts are right.
    pub(crate) fn count_until(&mut self, now: Timestamp) {
        self.ready += self.between(self.counted_at, now);
        self.ready -= self.between(now, self.counted_at);
        self.counted_at = now;
    }

    pub(crate) fn ready(&self) -> u64 {
        self.ready
    }

    pub(crate) fn scheduled(&self) -> u64 {
        self.all - self.ready
    }

    /// How many fall due after the one instant and not after the other.
    fn between(&self, after: Timestamp, until: Timestamp) -> u64 {
        if after >= until {
            return 0;
        }
        let span = (Bound::Excluded(last_at(after)), Bound::Included(last_at(until)));
        self.by_priority.iter().map(|lane| lane.range(span).count() as u64).sum()
    }

    pub(crate) fn oldest(&self) -> Option<Timestamp> {
        self.by_priority.iter().filter_map(BTreeSet::first).min().map(|(due, _)| *due)
    }

    pub(crate) fn next_after(&self, now: Timestamp) -> Option<Timestamp> {
        self.by_priority.iter().filter_map(|lane| next_after(lane, now)).min()
    }

    /// All that is due.
    pub(crate) fn due(&self, now: Timestamp) -> impl Iterator<Item = JobId> {
        self.by_priority.iter().flat_map(move |lane| lane.range(..=last_at(now)).map(|(_, id)| *id))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all == 0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = JobId> {
        self.by_priority.iter().flatten().map(|(_, id)| *id)
    }
}

/// When the first job after `now` falls due.
pub(crate) fn next_after(turns: &BTreeSet<Turn>, now: Timestamp) -> Option<Timestamp> {
    turns.range((Bound::Excluded(last_at(now)), Bound::Unbounded)).next().map(|(due, _)| *due)
}

/// Behind every turn of an instant.
pub(crate) fn last_at(instant: Timestamp) -> Turn {
    (instant, JobId(i64::MAX))
}
