//! Decides about ticks that no process noticed in time, because no process ran or none led: they are
//! dropped, run as one, or run one by one.

use std::collections::VecDeque;
use std::time::Duration;

use super::zone::is_in_calendar;
use super::{Holidays, Schedule};
use crate::clock::Timestamp;
use crate::limits::{
    CATCH_UP_MAX, CATCH_UP_SPAN_MAX, CATCH_UP_SPAN_MIN, MISSED_COUNTED_MAX, SCHEDULE_SEARCH_MAX,
};
use crate::span::{self, show_span};

/// What happens to missed ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
// Unknown fields are ignored: this is part of what stores keep, and after a rollback they keep what a
// newer version wrote. The reader of a configuration checks for wrong keys itself.
#[serde(default)]
pub struct CatchUp {
    /// Which missed ticks run.
    pub missed: Missed,
    /// With [`Missed::RunAll`], the maximum number of missed ticks that run at once, the newest.
    pub limit: u32,
    /// No tick runs later than this, not even within the grace; without a value there is no limit.
    #[serde(with = "span::optional_text")]
    pub lateness: Option<Duration>,
    /// A tick that is noticed no later than this was not missed, and runs whatever happens to missed
    /// ones.
    #[serde(with = "span::text")]
    pub grace: Duration,
}

/// Which missed ticks run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Missed {
    /// None; only ticks that are noticed in time run.
    Skip,
    /// The newest, in place of all of them, unless one in time runs anyway.
    #[default]
    RunOnce,
    /// Each of them.
    RunAll,
}

impl Default for CatchUp {
    fn default() -> Self {
        Self { missed: Missed::RunOnce, limit: 100, lateness: None, grace: Duration::from_secs(60) }
    }
}

/// Why a policy for missed ticks was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CatchUpError {
    /// It would run none of them, or more than can be enqueued at once.
    #[error("expected a `limit` from 1 to {CATCH_UP_MAX}, got {got}; write `missed = \"skip\"` to run none")]
    Limit {
        /// The given value.
        got: u32,
    },
    /// A span in which no tick could ever be noticed, or one that never ends.
    #[error(
        "expected a `{name}` from {} to {}, got {}", show_span(CATCH_UP_SPAN_MIN), show_span(CATCH_UP_SPAN_MAX),
        show_span(*.got)
    )]
    Span {
        /// The name of the span.
        name: &'static str,
        /// The given value.
        got: Duration,
    },
}

impl CatchUp {
    /// Checks whether it can be stored. It is checked where it is declared; [`catch_up`] is safe with any
    /// value.
    pub fn check(&self) -> Result<(), CatchUpError> {
        let is_in_range = |span: &Duration| (CATCH_UP_SPAN_MIN..=CATCH_UP_SPAN_MAX).contains(span);
        if !(1..=CATCH_UP_MAX).contains(&self.limit) {
            return Err(CatchUpError::Limit { got: self.limit });
        }
        if let Some(got) = self.lateness.filter(|lateness| !is_in_range(lateness)) {
            return Err(CatchUpError::Span { name: "lateness", got });
        }
        match is_in_range(&self.grace) {
            true => Ok(()),
            false => Err(CatchUpError::Span { name: "grace", got: self.grace }),
        }
    }
}

/// The state of a schedule apart from its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Everything up to here is decided. For a schedule that was never checked, it is the instant at
    /// which the schedule was stored, so that it does not catch up on earlier ticks. When its text
    /// changes, or when it is resumed, it is the instant of that change.
    pub decided_until: Timestamp,
    /// Whether it is paused. Ticks that come meanwhile are dropped. A store that applies a decision must
    /// also verify that it was made after the last pause: a pause alone does not change `decided_until`.
    pub is_paused: bool,
    /// A tick that an operator skipped.
    pub skip: Option<Timestamp>,
}

/// The decision for now, about all ticks after `decided_from` and up to `decided_until`.
///
/// Two processes may decide at the same time. A store applies a decision only if its own state is decided
/// until `decided_from`, and then sets it to `decided_until`: compared and set by one statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The ticks that run, oldest first.
    pub run: Vec<Timestamp>,
    /// Ticks that were noticed too late, whether they run now or not.
    pub missed: Tally,
    /// Ticks that do not run and never will, and no other tick runs in their place.
    pub dropped: Tally,
    /// The tick that was skipped on request.
    pub skipped: Option<Timestamp>,
    /// The [`Standing::decided_until`] that this was decided from.
    pub decided_from: Timestamp,
    /// The next [`Standing::decided_until`]. It never goes back.
    pub decided_until: Timestamp,
}

/// A number of ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// The number; [`MISSED_COUNTED_MAX`] means that many or more.
    pub count: u32,
    /// The first of them.
    pub first: Option<Timestamp>,
}

/// Decides about all ticks that are not decided yet, up to `now`. If the clock was set back, nothing runs
/// again. The search goes back no further than fifty years.
pub fn catch_up(
    schedule: &Schedule,
    holidays: &Holidays,
    policy: &CatchUp,
    standing: &Standing,
    now: Timestamp,
) -> Due {
    let decided_from = standing.decided_until;
    // Outside the calendar there is no schedule, and such a clock must not decide for all time.
    let decided_until = if is_in_calendar(now) { decided_from.max(now) } else { decided_from };
    let nothing = Due { decided_until, ..Due::nothing(decided_from) };
    if decided_until == decided_from {
        return nothing;
    }
    let from = decided_from.max(now.minus(SCHEDULE_SEARCH_MAX));
    let find = Finder { schedule, holidays, skip: standing.skip };
    let skipped = standing.skip.filter(|tick| from < *tick && *tick <= now && find.is_tick(*tick));
    if standing.is_paused {
        return Due { dropped: find.count(from, now), skipped, ..nothing };
    }
    let missed_until = before(now.minus(policy.grace_or_lateness())).max(from);
    let run = policy.choose(&find, from, missed_until, now);
    let dropped = policy.dropped(&find, &run, (from, missed_until, now));
    Due { run, missed: find.count(from, missed_until), dropped, skipped, ..nothing }
}

impl CatchUp {
    /// Returns after how long a tick counts as missed: a tick that is too late to run was missed,
    /// whatever the grace.
    fn grace_or_lateness(&self) -> Duration {
        self.lateness.map_or(self.grace, |lateness| lateness.min(self.grace))
    }

    /// Returns the ticks that run. The ticks in time were not missed, so all of them run, up to the
    /// number that can be enqueued at once: one tick is one job.
    fn choose(
        &self,
        find: &Finder<'_>,
        from: Timestamp,
        missed_until: Timestamp,
        now: Timestamp,
    ) -> Vec<Timestamp> {
        let in_time = find.newest(CATCH_UP_MAX, missed_until, now);
        let oldest = self.lateness.map_or(from, |lateness| from.max(before(now.minus(lateness))));
        let room = CATCH_UP_MAX.saturating_sub(u32::try_from(in_time.len()).unwrap_or(u32::MAX));
        let of_missed = match self.missed {
            Missed::Skip => 0,
            // One tick in time runs in place of all that were missed.
            Missed::RunOnce => u32::from(in_time.is_empty()),
            Missed::RunAll => self.limit.min(room),
        };
        let mut run = find.newest(of_missed, oldest, missed_until);
        run.extend(in_time);
        run
    }

    /// Returns the ticks for which nothing runs.
    fn dropped(
        &self,
        find: &Finder<'_>,
        run: &[Timestamp],
        (from, missed_until, now): (Timestamp, Timestamp, Timestamp),
    ) -> Tally {
        match (self.missed, run.first()) {
            (_, None) => find.count(from, now),
            (Missed::RunOnce, Some(oldest)) => find.count(missed_until, before(*oldest)),
            (Missed::Skip | Missed::RunAll, Some(oldest)) => find.count(from, before(*oldest)),
        }
    }
}

impl Due {
    pub(super) fn nothing(at: Timestamp) -> Self {
        let none = Tally::default();
        Self {
            run: Vec::new(),
            missed: none,
            dropped: none,
            skipped: None,
            decided_from: at,
            decided_until: at,
        }
    }
}

/// Returns the last instant before another.
pub(super) fn before(instant: Timestamp) -> Timestamp {
    instant.minus(Duration::from_micros(1))
}

struct Finder<'a> {
    schedule: &'a Schedule,
    holidays: &'a Holidays,
    skip: Option<Timestamp>,
}

impl Finder<'_> {
    /// Returns all ticks except the skipped one.
    fn ticks(&self, after: Timestamp, until: Timestamp) -> impl Iterator<Item = Timestamp> {
        let ticks = self.schedule.ticks_between(after, until, self.holidays);
        ticks.filter(|tick| Some(*tick) != self.skip)
    }

    fn is_tick(&self, instant: Timestamp) -> bool {
        self.schedule.ticks_between(before(instant), instant, self.holidays).next().is_some()
    }

    /// Returns the number of ticks, as far as they are counted, and the first.
    fn count(&self, after: Timestamp, until: Timestamp) -> Tally {
        let mut tally = Tally::default();
        for tick in self.ticks(after, until).take(MISSED_COUNTED_MAX as usize) {
            tally = Tally { count: tally.count + 1, first: tally.first.or(Some(tick)) };
        }
        tally
    }

    /// Returns the newest ticks, oldest first. The search goes further and further back, since a year of
    /// seconds is too long to iterate over.
    fn newest(&self, limit: u32, after: Timestamp, until: Timestamp) -> Vec<Timestamp> {
        let limit = limit as usize;
        let mut back = Duration::from_secs(60);
        if limit == 0 || until <= after {
            return Vec::new();
        }
        loop {
            let from = after.max(until.minus(back));
            let newest = self.last_of(limit, from, until);
            if newest.len() == limit || from == after {
                return newest.into();
            }
            back = back.saturating_mul(4);
        }
    }

    fn last_of(&self, limit: usize, after: Timestamp, until: Timestamp) -> VecDeque<Timestamp> {
        let mut newest = VecDeque::with_capacity(limit);
        for tick in self.ticks(after, until) {
            if newest.len() == limit {
                newest.pop_front();
            }
            newest.push_back(tick);
        }
        newest
    }
}
