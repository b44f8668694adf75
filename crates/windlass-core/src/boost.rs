//! The order of a claim. Ready jobs are claimed by (priority, due time, sequence). A job that has been
//! due for long rises, one step for each ten minutes. Jobs that have risen get at most a quarter of the
//! claimed jobs, so that a large number of old low-priority jobs cannot hold up fresh urgent ones.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::priority::Priority;

/// A job rises one step for each of these that it has been due.
pub const BOOST_STEP: Duration = Duration::from_secs(10 * 60);

/// One part of a claim's order: jobs of one stored priority, due in `(after, until]`, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimRange {
    /// The stored priority.
    pub priority: Priority,
    /// Due after this instant; `None` means no lower limit.
    pub after: Option<Timestamp>,
    /// Due at this instant or before.
    pub until: Timestamp,
    /// Whether jobs of this range are claimed ahead of their turn and count against the quarter.
    pub boosted: bool,
}

/// Returns the order in which to scan for jobs: ranges, most urgent first. A job may lie in a boosted
/// range and in the plain range of its priority; it is claimed from the first range that contains it.
///
/// `oldest` gives the due time of the oldest ready job of a priority, if there is one. It keeps the list
/// short: without old jobs it is just the eleven priorities, and empty ones are left out.
pub fn claim_order(
    now: Timestamp,
    boosted_max: u32,
    oldest: impl Fn(Priority) -> Option<Timestamp>,
) -> Vec<ClaimRange> {
    let heads: Vec<_> = Priority::all()
        .filter_map(|priority| Some((priority, oldest(priority).filter(|due| *due <= now)?)))
        .collect();
    let mut order = Vec::with_capacity(heads.len());
    for level in Priority::all() {
        if boosted_max > 0 {
            let risen = heads.iter().filter(|(priority, _)| *priority > level);
            order.extend(risen.filter_map(|(priority, oldest)| risen_range(now, *priority, level, *oldest)));
        }
        if heads.iter().any(|(priority, _)| *priority == level) {
            order.push(ClaimRange { priority: level, after: None, until: now, boosted: false });
        }
    }
    order
}

/// Returns the jobs of `priority` that have risen to exactly `level`, unless the oldest shows that there
/// are none.
fn risen_range(now: Timestamp, priority: Priority, level: Priority, oldest: Timestamp) -> Option<ClaimRange> {
    let steps = u32::from(priority.level() - level.level());
    let until = now.minus(BOOST_STEP * steps);
    // A job that rose to the top stays there, however old it gets.
    let after = (level != Priority::MOST_URGENT).then(|| now.minus(BOOST_STEP * (steps + 1)));
    let has_some = oldest <= until;
    has_some.then_some(ClaimRange { priority, after, until, boosted: true })
}

/// The quarter of the claimed jobs that may be boosted, tracked over many small claims: slots often free
/// one by one, and a quarter of one is nothing.
#[derive(Debug, Clone, Default)]
pub struct BoostCredit {
    quarters: u32,
}

impl BoostCredit {
    /// The maximum that is saved, so that a quiet hour does not give a burst.
    const QUARTERS_MAX: u32 = 4 * 250;

    /// Returns how many boosted jobs a claim of `limit` may return.
    pub fn allowance(&self, limit: u32) -> u32 {
        (self.quarters.saturating_add(limit) / 4).min(limit)
    }

    /// Books the result of a claim.
    pub fn book(&mut self, claimed: u32, boosted: u32) {
        let earned = self.quarters.saturating_add(claimed);
        self.quarters = earned.saturating_sub(boosted.saturating_mul(4)).min(Self::QUARTERS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000_000);
    const MINUTE: Duration = Duration::from_secs(60);

    fn level(n: i64) -> Priority {
        Priority::new(n).unwrap()
    }

    /// The order as (stored priority, boosted?) pairs.
    fn order(oldest: &[(i64, u32)]) -> Vec<(u8, bool)> {
        let head = |priority| {
            oldest.iter().find(|(p, _)| level(*p) == priority).map(|(_, mins)| NOW.minus(MINUTE * *mins))
        };
        claim_order(NOW, 10, head).iter().map(|r| (r.priority.level(), r.boosted)).collect()
    }

    #[test]
    fn fresh_jobs_leave_by_priority() {
        assert_eq!(order(&[(8, 0), (0, 5), (5, 9)]), [(0, false), (5, false), (8, false)]);
    }

    #[test]
    fn ten_minutes_raise_a_job_by_one_step() {
        assert_eq!(order(&[(5, 0), (6, 10)]), [(6, true), (5, false), (6, false)]);
        assert_eq!(order(&[(5, 0), (7, 10)]), [(5, false), (7, true), (7, false)]);
        assert_eq!(order(&[(5, 0), (7, 20)]), [(7, true), (5, false), (7, true), (7, false)]);
    }

    #[test]
    fn a_job_that_is_not_due_is_in_no_range() {
        let future = |_| Some(NOW.plus(MINUTE));
        assert_eq!(claim_order(NOW, 10, future), []);
    }

    #[test]
    fn without_credit_nothing_is_boosted() {
        let old = |_| Some(NOW.minus(MINUTE * 500));
        assert!(claim_order(NOW, 0, old).iter().all(|range| !range.boosted));
    }

    #[test]
    fn the_boosted_ranges_of_a_priority_cover_every_age_past_ten_minutes_once() {
        let old = |p| (p == Priority::LEAST_URGENT).then(|| NOW.minus(MINUTE * 500));
        let boosted: Vec<_> = claim_order(NOW, 10, old).into_iter().filter(|range| range.boosted).collect();
        for minutes in [10, 11, 19, 20, 55, 99, 100, 101, 499] {
            let due = NOW.minus(MINUTE * minutes);
            let hits = boosted.iter().filter(|r| r.after.is_none_or(|after| due > after) && due <= r.until);
            assert_eq!(hits.count(), 1, "{minutes} minutes");
        }
    }

    #[test]
    fn boosted_jobs_get_a_quarter_even_if_slots_free_one_by_one() {
        let mut credit = BoostCredit::default();
        let mut boosted = 0;
        for _ in 0..1000 {
            let allowed = credit.allowance(1);
            boosted += allowed;
            credit.book(1, allowed);
        }
        assert_eq!(boosted, 250);
    }

    #[test]
    fn a_big_claim_gives_a_quarter() {
        assert_eq!(BoostCredit::default().allowance(100), 25);
    }
}
