//! Falling back: whether a store is to be used, or the spool beside it. Pure: calls and checks go in, switches come out.
//!
//! It goes away only after several failures in a row, and comes back only after several good checks in a row and not at
//! once, so that a store that comes and goes does not make everybody come and go with it. One cut fails all calls that are
//! under way, however many: that is one failure.

use std::time::Duration;

use crate::job::JobId;
use crate::limits::SPOOL_IDS_FROM;

/// Which of two stores new jobs go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The one that was asked for.
    Primary,
    /// The one that keeps jobs while the other is away.
    Spool,
}

impl Side {
    /// Where a job is, which its number says.
    pub fn of(job: JobId) -> Self {
        if job.0 >= SPOOL_IDS_FROM { Self::Spool } else { Self::Primary }
    }
}

/// When to switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchRules {
    /// So many failures in a row, and the primary counts as away.
    pub failures: u32,
    /// So many good checks in a row, and it counts as back.
    pub successes: u32,
    /// It stays away for at least so long.
    pub away_min: Duration,
    /// If it keeps coming and going it stays away for longer and longer, but not for longer than this.
    pub away_max: Duration,
    /// One that stayed for so long is trusted as before.
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

/// Which side is in use, and what speaks for the other.
#[derive(Debug, Clone)]
pub struct Switch {
    rules: SwitchRules,
    side: Side,
    /// When the side was chosen. Moments are counted from anywhere, by a clock that only runs forwards.
    since: Duration,
    failures: u32,
    /// When the last failure that counts was heard of.
    failed_at: Duration,
    successes: u32,
    /// How long it stays away this time.
    away_for: Duration,
}

impl Switch {
    /// Starts on a side.
    pub fn new(rules: SwitchRules, side: Side, now: Duration) -> Self {
        let away_for = rules.away_min;
        Self { rules, side, since: now, failures: 0, failed_at: now, successes: 0, away_for }
    }

    /// The side in use.
    pub fn side(&self) -> Side {
        self.side
    }

    /// When it was chosen.
    pub fn since(&self) -> Duration {
        self.since
    }

    /// Whether the last thing heard of the primary was good.
    pub fn is_healthy(&self) -> bool {
        self.failures == 0 && (self.side == Side::Primary || self.successes > 0)
    }

    /// A call or a check that began at this moment failed for want of the primary. Tells whether that was one too many. One that
    /// began before the last failure or the last switch says nothing new: it was struck by what is known already.
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

    /// A check went well. Only checks speak for the primary: who calls it, how often and for what, is chance. Tells whether it
    /// is back.
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
    /// The engine that was asked for.
    pub primary: &'static str,
    /// The engine that keeps jobs while it is away.
    pub spool: &'static str,
    /// Whether the last thing heard of the primary was good.
    pub primary_healthy: bool,
    /// How often this process switched, both ways.
    pub switches: u64,
    /// Jobs that this process put into the spool.
    pub spooled: u64,
    /// Jobs that this process moved from the spool to the primary.
    pub returned: u64,
    /// Jobs in the spool that have not ended.
    pub spool_size: u64,
    /// Jobs in the spool of which nobody can tell any more whether the primary has them, too. They wait for a person.
    pub uncertain: u64,
    /// Why the spool cannot be used, if it cannot. What is told of its jobs is then what was known last.
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
        assert!(!switch.failed(SECOND, SECOND), "it went away before");
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
