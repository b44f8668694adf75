//! Claims of one process that are under way at once. Each meets the rows that the other has just locked, and to be refused
//! a lock costs more than to get one; so the later claim passes by every row that bears the mark of a lock. The mark of a
//! claim that failed stays on rows that are free, so now and then a claim tries all of them.

use std::time::{Duration, Instant as Moment};

use super::Store;

/// However many claims are under way, one tries every row this often.
const THOROUGH_EVERY: Duration = Duration::from_millis(100);

/// How many claims are under way.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    under_way: usize,
    thorough_at: Option<Moment>,
}

impl Crowd {
    /// A claim begins. Tells whether it passes by what bears the mark of a lock.
    pub(super) fn enter(&mut self, now: Moment) -> bool {
        let is_crowded = self.under_way > 0;
        self.under_way += 1;
        let lately = self.thorough_at.is_some_and(|at| now.duration_since(at) < THOROUGH_EVERY);
        let passes_by = is_crowded && lately;
        if !passes_by {
            self.thorough_at = Some(now);
        }
        passes_by
    }

    /// A claim ended.
    pub(super) fn leave(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }
}

/// A claim's turn among those of this process, until it is dropped.
pub(super) struct Turn<'s> {
    store: &'s Store,
    /// Whether it passes by what bears the mark of a lock.
    pub(super) passes_by: bool,
}

impl<'s> Turn<'s> {
    pub(super) fn take(store: &'s Store) -> Self {
        let passes_by = store.crowd().enter(Moment::now());
        Self { store, passes_by }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.store.crowd().leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_claim_beside_another_passes_by_rows() {
        let (mut crowd, now) = (Crowd::default(), Moment::now());
        assert!(!crowd.enter(now));
        assert!(crowd.enter(now), "the first is under way");
        crowd.leave();
        crowd.leave();
        assert!(!crowd.enter(now), "it is alone");
    }

    #[test]
    fn among_claims_without_end_one_tries_every_row_now_and_then() {
        let (mut crowd, start) = (Crowd::default(), Moment::now());
        crowd.enter(start);
        let tries: Vec<_> = (1..=4).map(|n| crowd.enter(start + n * THOROUGH_EVERY / 2)).collect();
        assert_eq!(tries, [true, false, true, false]);
    }
}
