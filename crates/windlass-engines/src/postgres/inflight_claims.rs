//! Claims of one process that are under way at once. Each meets the rows that the other has just locked, and to be refused
//! a lock costs more than to get one; so the later claim passes by every row that bears the mark of a lock. The mark of a
//! claim that failed stays on rows that are free, so now and then a claim tries all of them. A row that was locked and then written bears
//! the mark of its own writer, which means nothing.

use std::time::{Duration, Instant as Moment};

use super::Store;
use super::claim_cursor::Scope;

/// However many claims are under way, one tries every row this often.
const SCAN_ALL_EVERY: Duration = Duration::from_millis(100);

/// How many claims are under way.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    under_way: usize,
    scanned_all_at: Option<Moment>,
}

impl InFlight {
    /// A claim begins. Tells whether it passes by what bears the mark of a lock.
    pub(super) fn enter(&mut self, now: Moment) -> bool {
        let is_shared_scan = self.under_way > 0;
        self.under_way += 1;
        let lately = self.scanned_all_at.is_some_and(|at| now.duration_since(at) < SCAN_ALL_EVERY);
        let passes_by = is_shared_scan && lately;
        if !passes_by {
            self.scanned_all_at = Some(now);
        }
        passes_by
    }

    /// The next claim tries every row.
    pub(super) fn scan_all(&mut self) {
        self.scanned_all_at = None;
    }

    /// A claim ended.
    pub(super) fn leave(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }
}

/// A claim's turn among those of this process that ask for the same, until it is dropped.
pub(super) struct Turn<'s> {
    store: &'s Store,
    scope: Option<&'s Scope>,
    has_ended_well: bool,
    /// Whether it passes by what bears the mark of a lock.
    pub(super) passes_by: bool,
}

impl<'s> Turn<'s> {
    /// A claim of several queues tries every row: it is rare, and what it leaves would be hard to find again.
    pub(super) fn take(store: &'s Store, open: &'s [Scope]) -> Self {
        let scope = if let [scope] = open { Some(scope) } else { None };
        let now = Moment::now();
        let passes_by = scope.is_some_and(|scope| store.claim_cursors().of(scope, now).in_flight.enter(now));
        Self { store, scope, has_ended_well: false, passes_by }
    }

    /// The claim was answered.
    pub(super) fn end_well(mut self) {
        self.has_ended_well = true;
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(scope) = self.scope {
            let mut claim_cursors = self.store.claim_cursors();
            let in_flight = &mut claim_cursors.of(scope, Moment::now()).in_flight;
            in_flight.leave();
            // Its marks stay on rows that are free.
            if !self.has_ended_well {
                in_flight.scan_all();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_claim_beside_another_passes_by_rows() {
        let (mut in_flight, now) = (InFlight::default(), Moment::now());
        assert!(!in_flight.enter(now));
        assert!(in_flight.enter(now), "the first is under way");
        in_flight.leave();
        in_flight.leave();
        assert!(!in_flight.enter(now), "it is alone");
    }

    #[test]
    fn after_one_that_failed_the_next_tries_every_row() {
        let (mut in_flight, now) = (InFlight::default(), Moment::now());
        in_flight.enter(now);
        in_flight.scan_all();
        assert!(!in_flight.enter(now));
        assert!(in_flight.enter(now));
    }

    #[test]
    fn among_claims_without_end_one_tries_every_row_now_and_then() {
        let (mut in_flight, start) = (InFlight::default(), Moment::now());
        in_flight.enter(start);
        let tries: Vec<_> = (1..=4).map(|n| in_flight.enter(start + n * SCAN_ALL_EVERY / 2)).collect();
        assert_eq!(tries, [true, false, true, false]);
    }
}
