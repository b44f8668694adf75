//! Claims of one process that are in flight at once.
//!
//! Each claim meets the rows that another has just locked, and a refused lock costs more than a granted
//! one. So the later claim skips every row that bears the mark of a lock. The mark of a failed claim stays
//! on rows that are free, so now and then a claim tries all of them. A row that was locked and then written
//! bears the mark of its own writer, which means nothing.

use std::time::{Duration, Instant as Moment};

use super::Store;
use super::claim_cursor::Scope;

/// However many claims are in flight, one tries every row this often.
const SCAN_ALL_EVERY: Duration = Duration::from_millis(100);

/// How many claims are in flight.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    under_way: usize,
    scanned_all_at: Option<Moment>,
}

impl InFlight {
    /// Notes that a claim begins. Returns whether it skips rows that bear the mark of a lock.
    pub(super) fn enter(&mut self, now: Moment) -> bool {
        let is_shared_scan = self.under_way > 0;
        self.under_way += 1;
        let lately = self.scanned_all_at.is_some_and(|at| now.duration_since(at) < SCAN_ALL_EVERY);
        let skips_locked = is_shared_scan && lately;
        if !skips_locked {
            self.scanned_all_at = Some(now);
        }
        skips_locked
    }

    /// Makes the next claim try every row.
    pub(super) fn scan_all(&mut self) {
        self.scanned_all_at = None;
    }

    /// Notes that a claim ended.
    pub(super) fn leave(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }
}

/// The place of a claim among those of this process with the same scope, until it is dropped.
pub(super) struct InFlightClaim<'s> {
    store: &'s Store,
    scope: Option<&'s Scope>,
    has_finished: bool,
    /// Whether the claim skips rows that bear the mark of a lock.
    pub(super) skips_locked: bool,
}

impl<'s> InFlightClaim<'s> {
    /// Begins a claim. A claim of several queues tries every row: it is rare, and rows that it skipped
    /// would be hard to find again.
    pub(super) fn begin(store: &'s Store, open: &'s [Scope]) -> Self {
        let scope = if let [scope] = open { Some(scope) } else { None };
        let now = Moment::now();
        let skips_locked =
            scope.is_some_and(|scope| store.claim_cursors().of(scope, now).in_flight.enter(now));
        Self { store, scope, has_finished: false, skips_locked }
    }

    /// Notes that the store answered the claim.
    pub(super) fn finish(mut self) {
        self.has_finished = true;
    }
}

impl Drop for InFlightClaim<'_> {
    fn drop(&mut self) {
        if let Some(scope) = self.scope {
            let mut claim_cursors = self.store.claim_cursors();
            let in_flight = &mut claim_cursors.of(scope, Moment::now()).in_flight;
            in_flight.leave();
            // The marks of a failed claim stay on rows that are free.
            if !self.has_finished {
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
