//! When a schedule runs: its ticks, one after the other.
//!
//! What happens when clocks change depends on what the cadence is ([`ClockRule`]):
//! - *elapsed*: nothing; an interval is an interval. Its window opens at the first and closes at the last instant at
//!   which clocks show those times.
//! - *beat*: a tick whenever the clock shows a time that fits. What is left out when clocks go forward does not run,
//!   what is shown twice when they go back runs twice, so that the beat goes on.
//! - *appointment*: each once. If its time is left out it runs at the instant right after the gap, if its time
//!   comes twice it runs the first time.

use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp as Moment};

mod interval;
mod beat;
mod appointment;

use appointment::Appointments;
use beat::Liveness;
use interval::{Interval, Openings};

use super::zone::{instant, within_calendar};
use super::{Cadence, ClockRule, Holidays, Schedule, TimeOfDay};
use crate::clock::Timestamp;
use crate::limits::SCHEDULE_SEARCH_MAX;

/// The ticks of a schedule after an instant, in order. It always ends, at the end of the calendar if nowhere else.
#[derive(Debug)]
pub struct Ticks<'a> {
    search: Search<'a>,
    reach: Reach,
    /// Nothing once there is no further tick.
    pace: Option<Pace>,
}

/// How far ticks go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// To an instant.
    Until,
    /// As long as each comes within fifty years after the one before it.
    Onwards,
}

/// What a search for the next tick goes by.
#[derive(Debug)]
struct Search<'a> {
    schedule: &'a Schedule,
    holidays: &'a Holidays,
    /// Ticks come strictly after it.
    after: Moment,
    /// Ticks come no later.
    until: Moment,
}

/// Where the search stands.
#[derive(Debug)]
enum Pace {
    Interval(Interval),
    Openings(Openings),
    Liveness(Liveness),
    Appointments(Appointments),
}

impl<'a> Ticks<'a> {
    /// All ticks after an instant.
    pub(super) fn after(schedule: &'a Schedule, holidays: &'a Holidays, after: Timestamp) -> Self {
        let until = after.plus(SCHEDULE_SEARCH_MAX);
        Self { reach: Reach::Onwards, ..Self::between(schedule, holidays, after, until) }
    }

    /// The ticks after one instant and no later than another.
    pub(super) fn between(
        schedule: &'a Schedule,
        holidays: &'a Holidays,
        after: Timestamp,
        until: Timestamp,
    ) -> Self {
        // The ends of the calendar are the ends of every schedule.
        let (after, until) = (within_calendar(after), within_calendar(until));
        let search = Search { schedule, holidays, after, until };
        let pace = (after < until).then(|| Pace::of(&search)).flatten();
        Self { search, reach: Reach::Until, pace }
    }

    fn go_on_after(&mut self, tick: Moment) {
        self.search.after = tick;
        if self.reach == Reach::Onwards {
            self.search.until = within_calendar(instant(tick).plus(SCHEDULE_SEARCH_MAX));
        }
    }
}

impl Iterator for Ticks<'_> {
    type Item = Timestamp;

    fn next(&mut self) -> Option<Timestamp> {
        let tick = self.pace.as_mut()?.next(&self.search).filter(|tick| *tick <= self.search.until);
        match tick {
            Some(tick) => self.go_on_after(tick),
            None => self.pace = None,
        }
        tick.map(instant)
    }
}

impl Pace {
    /// Nothing if it is plain that there is no tick.
    fn of(search: &Search<'_>) -> Option<Self> {
        let Schedule { cadence, window, .. } = search.schedule;
        if let Cadence::Every { interval, from } = cadence {
            let interval = SignedDuration::try_from(*interval).expect("an interval is at most INTERVAL_MAX");
            return Some(match window.is_always() {
                true => Self::Interval(Interval::counted_from(from.unwrap_or(Timestamp::EPOCH), interval)),
                false => Self::Openings(Openings::since(search.early_date(), interval)),
            });
        }
        // A schedule whose times all lie outside of its window must not be searched for fifty years.
        let times = cadence.times().into_iter().filter(|time| window.shows_open(*time));
        let times: Vec<TimeOfDay> = times.collect();
        if times.is_empty() {
            return None;
        }
        Some(match cadence.clock_rule() {
            ClockRule::Liveness => Self::Liveness(Liveness { times }),
            _ => Self::Appointments(Appointments::since(search.early_date(), times)),
        })
    }

    fn next(&mut self, search: &Search<'_>) -> Option<Moment> {
        match self {
            Self::Interval(interval) => interval.after(search.after),
            Self::Openings(openings) => openings.next(search),
            Self::Liveness(beat) => beat.next(search),
            Self::Appointments(appointments) => appointments.next(search),
        }
    }
}

impl Search<'_> {
    /// A date that lies early enough: a gap may move an appointment by a whole day, and a window may have opened the
    /// day before.
    fn early_date(&self) -> Date {
        /// All of it has instants, in whatever zone.
        const FIRST: Date = jiff::civil::date(-9999, 1, 4);
        let date = self.schedule.zone.date(self.after);
        date.checked_sub(SignedDuration::from_hours(48)).map_or(FIRST, |early| early.max(FIRST))
    }

    /// Whether there is any use in looking at the times of a date.
    fn may_run_on(&self, date: Date) -> bool {
        self.schedule.cadence.falls_on(date) && self.schedule.window.touches(date, self.holidays)
    }

    fn is_open(&self, date: Date, time: TimeOfDay) -> bool {
        self.schedule.window.is_open(date, time, self.holidays)
    }

    /// The next date that may fit: months in which the cadence never runs are left out.
    fn following(&self, date: Date) -> Option<Date> {
        let next = date.tomorrow().ok()?;
        match self.schedule.cadence.runs_in_month_of(next) {
            true => Some(next),
            false => next.last_of_month().tomorrow().ok(),
        }
    }
}
