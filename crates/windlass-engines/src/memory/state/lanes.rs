//! The waiting jobs of one type, in the order in which they are claimed.

use std::collections::{BTreeSet, btree_set};
use std::ops::Bound;

use windlass_core::boost::ClaimRange;
use windlass_core::clock::Timestamp;
use windlass_core::fairness::{Cursor, Line};
use windlass_core::job::{Job, JobId};
use windlass_core::priority::Priority;

use super::fairness_keys::FairnessKeys;

/// A waiting job's position among those of its priority.
pub(crate) type Turn = (Timestamp, JobId);

/// The waiting jobs of one type without a gate: one set for each priority, and how many of all are due.
///
/// The count follows the clock: `ready` is right for the instant `counted_at`, and moving that instant
/// counts only the jobs in between. So a job is counted once when it falls due, and never again by a query.
#[derive(Debug)]
pub(crate) struct Lanes {
    /// Jobs without a fairness key.
    by_priority: [BTreeSet<Turn>; 11],
    /// Jobs with a fairness key.
    fairness_keys: [FairnessKeys; 11],
    counted_at: Timestamp,
    ready: u64,
    all: u64,
}

impl Default for Lanes {
    fn default() -> Self {
        Self {
            by_priority: Default::default(),
            fairness_keys: Default::default(),
            counted_at: Timestamp::EPOCH,
            ready: 0,
            all: 0,
        }
    }
}

impl Lanes {
    pub(crate) fn insert(&mut self, job: &Job) {
        let (at, turn) = (usize::from(job.priority.level()), (job.due, job.id));
        match &job.fairness_key {
            None => _ = self.by_priority[at].insert(turn),
            Some(fairness_key) => self.fairness_keys[at].insert(fairness_key, turn),
        }
        self.all += 1;
        self.ready += u64::from(turn.0 <= self.counted_at);
    }

    pub(crate) fn remove(&mut self, job: &Job) {
        let (at, turn) = (usize::from(job.priority.level()), (job.due, job.id));
        match &job.fairness_key {
            None => _ = self.by_priority[at].remove(&turn),
            Some(fairness_key) => self.fairness_keys[at].remove(fairness_key, turn),
        }
        self.all -= 1;
        self.ready -= u64::from(turn.0 <= self.counted_at);
    }

    fn both(&self, priority: Priority) -> [&BTreeSet<Turn>; 2] {
        let at = usize::from(priority.level());
        [&self.by_priority[at], self.fairness_keys[at].all()]
    }

    fn every(&self) -> impl Iterator<Item = &BTreeSet<Turn>> {
        self.by_priority.iter().chain(self.fairness_keys.iter().map(FairnessKeys::all))
    }

    /// Returns the due time of the first job of a priority.
    pub(crate) fn first(&self, priority: Priority) -> Option<Timestamp> {
        self.both(priority).into_iter().filter_map(|lane| lane.first()).min().map(|(due, _)| *due)
    }

    /// Lists the jobs of one range of the claim's order: those without a fairness key, and those with one.
    pub(crate) fn ranges(&self, range: &ClaimRange) -> [btree_set::Range<'_, Turn>; 2] {
        self.both(range.priority).map(|lane| lane.range(span(range)))
    }

    /// Lists the jobs of one fairness key in one range of the claim's order.
    pub(crate) fn line<'l>(
        &'l self,
        line: &Line,
        range: &ClaimRange,
    ) -> Box<dyn Iterator<Item = &'l Turn> + 'l> {
        let at = usize::from(range.priority.level());
        match line {
            None => Box::new(self.by_priority[at].range(span(range))),
            Some(fairness_key) => Box::new(self.fairness_keys[at].range(fairness_key, range)),
        }
    }

    /// Whether jobs of a priority have fairness keys.
    pub(crate) fn has_fairness_keys(&self, priority: Priority) -> bool {
        !self.fairness_keys[usize::from(priority.level())].all().is_empty()
    }

    /// Lists the next fairness keys by turns that have a due job, at most `most`, and additionally `None`
    /// if a job without a fairness key is due.
    pub(crate) fn due_keys(&mut self, cursor: &Cursor, range: &ClaimRange, most: usize) -> Vec<Line> {
        let at = usize::from(range.priority.level());
        let plain = self.by_priority[at].first().filter(|(due, _)| *due <= range.until).map(|_| None);
        let mut lines = self.fairness_keys[at].due_keys(cursor, range.until, most);
        lines.extend(plain);
        lines
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

    /// Counts the jobs that fall due after the first instant and not after the second.
    fn between(&self, after: Timestamp, until: Timestamp) -> u64 {
        if after >= until {
            return 0;
        }
        let span = (Bound::Excluded(last_at(after)), Bound::Included(last_at(until)));
        self.every().map(|lane| lane.range(span).count() as u64).sum()
    }

    pub(crate) fn oldest(&self) -> Option<Timestamp> {
        self.every().filter_map(BTreeSet::first).min().map(|(due, _)| *due)
    }

    pub(crate) fn next_after(&self, now: Timestamp) -> Option<Timestamp> {
        self.every().filter_map(|lane| next_after(lane, now)).min()
    }

    /// Lists the due jobs of each set, in the order in which they fell due.
    pub(crate) fn ready_lanes(&self, now: Timestamp) -> impl Iterator<Item = impl Iterator<Item = Turn>> {
        self.every().map(move |lane| lane.range(..=last_at(now)).copied())
    }

    /// Lists all due jobs.
    pub(crate) fn due(&self, now: Timestamp) -> impl Iterator<Item = JobId> {
        self.every().flat_map(move |lane| lane.range(..=last_at(now)).map(|(_, id)| *id))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all == 0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = JobId> {
        self.every().flatten().map(|(_, id)| *id)
    }
}

/// Returns the bounds of one range of the claim's order.
pub(super) fn span(range: &ClaimRange) -> (Bound<Turn>, Bound<Turn>) {
    let after = range.after.map_or(Bound::Unbounded, |after| Bound::Excluded(last_at(after)));
    (after, Bound::Included(last_at(range.until)))
}

/// Returns when the first job after `now` falls due.
pub(crate) fn next_after(turns: &BTreeSet<Turn>, now: Timestamp) -> Option<Timestamp> {
    turns.range((Bound::Excluded(last_at(now)), Bound::Unbounded)).next().map(|(due, _)| *due)
}

/// Returns the position behind every job of an instant.
pub(crate) fn last_at(instant: Timestamp) -> Turn {
    (instant, JobId(i64::MAX))
}
