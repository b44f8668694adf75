//! What happens to ticks that nobody saw, because no process ran or none led: they are dropped, run as one, or run one
//! by one.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Holidays, Schedule};
use crate::clock::Timestamp;
use crate::limits::{CATCH_UP_MAX, MISSED_COUNTED_MAX, SCHEDULE_SEARCH_MAX};
use crate::span;

/// The smallest step of our instants.
const TICK_OF_TIME: Duration = Duration::from_micros(1);

/// What happens to missed ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CatchUp {
    /// Which of them run.
    pub missed: Missed,
    /// With [`Missed::RunAll`], no more than so many, the newest ones.
    pub limit: u32,
    /// None that is later than this; however late, if nothing is said.
    #[serde(with = "span::optional_text")]
    pub lateness: Option<Duration>,
    /// A tick that is seen no later than this was not missed.
    #[serde(with = "span::text")]
    pub grace: Duration,
}

/// Which missed ticks run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Missed {
    /// None.
    Skip,
    /// The newest, for all of them.
    #[default]
    RunOnce,
    /// Each.
    RunAll,
}

impl Default for CatchUp {
    fn default() -> Self {
        Self { missed: Missed::RunOnce, limit: 100, lateness: None, grace: Duration::from_secs(60) }
    }
}

/// What is to be done now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The ticks that run, oldest first.
    pub run: Vec<Timestamp>,
    /// How many ticks were missed, whether they run now or not; [`MISSED_COUNTED_MAX`] stands for that many or more.
    pub missed: u32,
    /// The first of them.
    pub first_missed: Option<Timestamp>,
    /// Everything up to here is dealt with: the `last` of the next call. It never goes back.
    pub last: Timestamp,
}

/// Decides about all ticks after `last`, the newest that was dealt with, and up to `now`. If the clock was set back,
/// nothing runs again. It looks back no further than fifty years.
pub fn catch_up(
    schedule: &Schedule,
    holidays: &Holidays,
    policy: &CatchUp,
    last: Timestamp,
    now: Timestamp,
) -> Due {
    if super::zone::moment(now).is_none() {
        // Past the end of the calendar there is no schedule.
        return Due { run: Vec::new(), missed: 0, first_missed: None, last };
    }
    let find = Finder { schedule, holidays };
    let dealt_with = last;
    let last = last.max(now.minus(SCHEDULE_SEARCH_MAX));
    // The newest instant of which a tick counts as missed.
    let missed_until = now.minus(policy.grace).minus(TICK_OF_TIME);
    let on_time = find.newest(CATCH_UP_MAX, last.max(missed_until), now);
    let (missed, first_missed) = find.count(last, missed_until);
    let oldest = policy.lateness.map_or(last, |lateness| last.max(now.minus(lateness).minus(TICK_OF_TIME)));
    let limit = match policy.missed {
        Missed::Skip => 0,
        // What is on time runs for what was missed, too.
        Missed::RunOnce => u32::from(on_time.is_empty()),
        Missed::RunAll => policy.limit.min(CATCH_UP_MAX),
    };
    let mut run = find.newest(limit, oldest, missed_until);
    run.extend(on_time);
    let last = find.newest(1, last, now).first().copied().unwrap_or(dealt_with);
    Due { run, missed, first_missed, last }
}

struct Finder<'a> {
    schedule: &'a Schedule,
    holidays: &'a Holidays,
}

impl Finder<'_> {
    /// How many ticks there are, as far as they are counted, and the first.
    fn count(&self, after: Timestamp, until: Timestamp) -> (u32, Option<Timestamp>) {
        if until <= after {
            return (0, None);
        }
        let mut ticks = self.schedule.ticks_between(after, until, self.holidays);
        let Some(first) = ticks.next() else { return (0, None) };
        let more = ticks.take(MISSED_COUNTED_MAX as usize - 1).count();
        (u32::try_from(more + 1).unwrap_or(MISSED_COUNTED_MAX), Some(first))
    }

    /// The newest ticks, oldest first. It looks further and further back, since a year of seconds is too long to walk.
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
        for tick in self.schedule.ticks_between(after, until, self.holidays) {
            if newest.len() == limit {
                newest.pop_front();
            }
            newest.push_back(tick);
        }
        newest
    }
}
