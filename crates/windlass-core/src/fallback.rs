//! Fallback: decides whether the primary or its spool is used. Pure: results of calls and checks go in,
//! switches come out.
//!
//! The primary counts as unavailable only after several consecutive failures. It counts as available
//! again only after several consecutive successful checks and not at once, so that a store that comes and
//! goes does not make every process switch with it. One lost connection fails all calls in flight,
//! however many: that is one failure.

use std::time::Duration;

use crate::job::JobId;
use crate::limits::SPOOL_IDS_FROM;

/// Which of two stores new jobs go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The configured store.
    Primary,
    /// The store that keeps jobs while the primary is unavailable.
    Spool,
}

impl Side {
    /// Returns the side that has a job, by its id.
    pub fn of(job: JobId) -> Self {
        if job.0 >= SPOOL_IDS_FROM { Self::Spool } else { Self::Primary }
    }
}

/// When to switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchRules {
    /// After this number of consecutive failures, the primary counts as unavailable.
    pub failures: u32,
    /// After this number of consecutive successful checks, it counts as available.
    pub successes: u32,
    /// The shortest time for which it counts as unavailable.
    pub away_min: Duration,
    /// The longest such time, which grows while the primary keeps coming and going.
    pub away_max: Duration,
    /// A primary that stayed available for this long is trusted as before.
    pub trusted_after: Duration,
}

impl Default for SwitchRules {
    fn default() -> Self {
        Self {
            failures: 3,
            successes: 3,
            away_min: Duration::from_secs(5),
            away_max: Duration::from_secs(60),
            trusted_after: Duration::from_secs(60),
        }
    }
}

/// The side in use, and the evidence for a switch.
#[derive(Debug, Clone)]
pub struct Switch {
    rules: SwitchRules,
    side: Side,
    /// When the side was chosen. Instants are counted from an arbitrary origin, by a monotonic clock.
    since: Duration,
    failures: u32,
    /// When the last failure that counts was reported.
    failed_at: Duration,
    successes: u32,
    /// How long the primary counts as unavailable this time.
    away_for: Duration,
}

impl Switch {
    /// Creates a switch that starts on a side.
    pub fn new(rules: SwitchRules, side: Side, now: Duration) -> Self {
        let away_for = rules.away_min;
        Self { rules, side, since: now, failures: 0, failed_at: now, successes: 0, away_for }
    }

    /// Returns the side in use.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Returns when the side was chosen.
    pub fn since(&self) -> Duration {
        self.since
    }

    /// Whether the last result from the primary was a success.
    pub fn is_healthy(&self) -> bool {
        self.failures == 0 && (self.side == Side::Primary || self.successes > 0)
    }

    /// Handles a call or a check that began at this moment and failed because the primary is unavailable.
    /// Returns whether the failure caused a switch to the spool. A call that began before the last
    /// failure or the last switch gives no new evidence: it failed for a reason that is known already.
    pub fn failed(&mut self, began: Duration, now: Duration) -> bool {
        if began < self.failed_at.max(self.since) {
            return false;
        }
        self.failed_at = now;
        self.successes = 0;
        self.failures = self.failures.saturating_add(1);
        let is_away = self.side == Side::Primary && self.failures >= self.rules.failures;
        if is_away {
            self.go_away(now);
        }
        is_away
    }

    fn go_away(&mut self, now: Duration) {
        let stayed = now.saturating_sub(self.since);
        let is_flapping = self.since > Duration::ZERO && stayed < self.rules.trusted_after;
        let longer = self.away_for.saturating_mul(2).min(self.rules.away_max);
        self.away_for = if is_flapping { longer } else { self.rules.away_min };
        (self.side, self.since) = (Side::Spool, now);
    }

    /// Handles a successful check. Only checks count as evidence for the primary: which process calls it,
    /// how often and for what, is chance. Returns whether the success caused a switch back to the
    /// primary.
    pub fn succeeded(&mut self, now: Duration) -> bool {
        self.failures = 0;
        if self.side == Side::Primary {
            return false;
        }
        self.successes = self.successes.saturating_add(1);
        let stayed_away = now.saturating_sub(self.since) >= self.away_for;
        let is_back = self.successes >= self.rules.successes && stayed_away;
        if is_back {
            (self.side, self.since) = (Side::Primary, now);
        }
        is_back
    }
}

/// Where jobs go and have gone, for people.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct FallbackStatus {
    /// The engine that takes new jobs now.
    pub active: &'static str,
    /// The configured engine.
    pub primary: &'static str,
    /// The engine that keeps jobs while the primary is unavailable.
    pub spool: &'static str,
    /// Whether the last result from the primary was a success.
    pub primary_healthy: bool,
    /// The number of switches of this process, in both directions.
    pub switches: u64,
    /// Jobs that this process enqueued into the spool.
    pub spooled: u64,
    /// Jobs that this process moved from the spool to the primary.
    pub returned: u64,
    /// Jobs in the spool that have not ended.
    pub spool_size: u64,
    /// Jobs in the spool of which it is unknown whether the primary has them, too. They wait for a
    /// person's decision.
    pub uncertain: u64,
    /// Why the spool cannot be used, if it cannot. The numbers about its jobs are then the last known
    /// ones.
    pub spool_trouble: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn switch() -> Switch {
        Switch::new(SwitchRules::default(), Side::Primary, Duration::ZERO)
    }

    fn away_at(now: Duration) -> Switch {
        let mut switch = switch();
        (0..3).for_each(|_| _ = switch.failed(now, now));
        assert_eq!(switch.side(), Side::Spool);
        switch
    }

    #[test]
    fn it_goes_away_after_three_failures_in_a_row() {
        let mut switch = switch();
        assert_eq!([1; 2].map(|_| switch.failed(SECOND, SECOND)), [false, false]);
        switch.succeeded(SECOND);
        assert_eq!([1; 3].map(|_| switch.failed(SECOND, SECOND)), [false, false, true]);
        assert!(!switch.failed(SECOND, SECOND), "it had switched already");
        assert_eq!((switch.side(), switch.is_healthy()), (Side::Spool, false));
    }

    #[test]
    fn calls_that_one_cut_has_struck_are_one_failure_however_many_they_are() {
        let mut switch = switch();
        assert!((0..10).all(|call| !switch.failed(call * SECOND, (10 + call) * SECOND)));
        assert_eq!(switch.side(), Side::Primary);
        assert_eq!([20, 21].map(|second| switch.failed(second * SECOND, second * SECOND)), [false, true]);
    }

    #[test]
    fn calls_that_began_before_it_was_back_do_not_speak_against_it() {
        let mut switch = away_at(10 * SECOND);
        assert_eq!([16, 17, 18].map(|second| switch.succeeded(second * SECOND)), [false, false, true]);
        assert!((0..10).all(|call| !switch.failed((8 + call) * SECOND, 19 * SECOND)));
        assert_eq!((switch.side(), switch.is_healthy()), (Side::Primary, true));
    }

    #[test]
    fn it_comes_back_after_three_good_checks_in_a_row_and_five_seconds() {
        let mut switch = away_at(10 * SECOND);
        assert!((11..15).all(|second| !switch.succeeded(second * SECOND)), "too soon");
        assert!(switch.is_healthy());
        switch.failed(15 * SECOND, 15 * SECOND);
        assert_eq!([16, 17, 18].map(|second| switch.succeeded(second * SECOND)), [false, false, true]);
        assert_eq!(switch.side(), Side::Primary);
    }

    #[test]
    fn one_that_comes_and_goes_stays_away_longer_each_time_and_one_that_stayed_is_trusted_again() {
        let mut switch = away_at(SECOND);
        let mut now = SECOND;
        let mut stays = |switch: &mut Switch, for_how_long: Duration| {
            let left_at = now;
            while !switch.succeeded(now) {
                now += SECOND;
            }
            let away = now - left_at;
            now += for_how_long;
            (0..3).for_each(|_| _ = switch.failed(now, now));
            away.as_secs()
        };
        assert_eq!([1; 5].map(|seconds| stays(&mut switch, seconds * SECOND)), [5, 10, 20, 40, 60]);
        stays(&mut switch, 120 * SECOND);
        assert_eq!(stays(&mut switch, SECOND), 5);
    }

    #[test]
    fn the_number_of_a_job_says_where_it_is() {
        assert_eq!(Side::of(JobId(17)), Side::Primary);
        assert_eq!(Side::of(JobId(SPOOL_IDS_FROM)), Side::Spool);
    }
}
