//! The ticks of a schedule, one after the other.
//!
//! The effect of a clock change depends on the cadence ([`ClockRule`]):
//! - *elapsed*: no effect; an interval is an interval. Its window opens at the first and closes at the
//!   last instant at which clocks show those times.
//! - *beat*: a tick whenever the clock shows a matching time. A time that is left out when clocks go
//!   forward does not run. A time that is shown twice when they go back runs twice, so that the beat goes
//!   on.
//! - *appointment*: each runs once. If its time is left out, it runs at the instant right after the gap.
//!   If its time comes twice, it runs the first time.

use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp as Moment};

mod interval;
mod beat;
mod appointment;

use appointment::Appointments;
use beat::Beat;
use interval::{Interval, Openings};

use super::zone::{instant, within_calendar};
use super::{Cadence, ClockRule, Holidays, Schedule, TimeOfDay};
use crate::clock::Timestamp;
use crate::limits::SCHEDULE_SEARCH_MAX;

/// The ticks of a schedule after an instant, in order. The sequence always ends, at the latest at the end
/// of the calendar.
#[derive(Debug)]
pub struct Ticks<'a> {
    search: Search<'a>,
    reach: Reach,
    /// The state of the search; `None` once there is no further tick.
    pace: Option<Pace>,
}

/// How far ticks go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// To an instant.
    Until,
    /// As long as each tick comes within fifty years after the previous one.
    Onwards,
}

/// The parameters of a search for the next tick.
#[derive(Debug)]
struct Search<'a> {
    schedule: &'a Schedule,
    holidays: &'a Holidays,
    /// Ticks come strictly after this instant.
    after: Moment,
    /// Ticks come no later than this instant.
    until: Moment,
}

/// The state of the search.
#[derive(Debug)]
enum Pace {
    Interval(Interval),
    Openings(Openings),
    Beat(Beat),
    Appointments(Appointments),
}

impl<'a> Ticks<'a> {
    /// Returns all ticks after an instant.
    pub(super) fn after(schedule: &'a Schedule, holidays: &'a Holidays, after: Timestamp) -> Self {
        let until = after.plus(SCHEDULE_SEARCH_MAX);
        Self { reach: Reach::Onwards, ..Self::between(schedule, holidays, after, until) }
    }

    /// Returns the ticks after one instant and no later than another.
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
    /// Returns the start of the search; `None` if it is certain that there is no tick.
    fn of(search: &Search<'_>) -> Option<Self> {
        let Schedule { cadence, window, .. } = search.schedule;
        if let Cadence::Every { interval, from } = cadence {
            let interval = SignedDuration::try_from(*interval).expect("an interval is at most INTERVAL_MAX");
            return Some(match window.is_always() {
                true => Self::Interval(Interval::counted_from(from.unwrap_or(Timestamp::EPOCH), interval)),
                false => Self::Openings(Openings::since(search.early_date(), interval)),
            });
        }
        // A schedule whose times all lie outside its window must not be searched for fifty years.
        let times = cadence.times().into_iter().filter(|time| window.shows_open(*time));
        let times: Vec<TimeOfDay> = times.collect();
        if times.is_empty() {
            return None;
        }
        Some(match cadence.clock_rule() {
            ClockRule::Beat => Self::Beat(Beat { times }),
            _ => Self::Appointments(Appointments::since(search.early_date(), times)),
        })
    }

    fn next(&mut self, search: &Search<'_>) -> Option<Moment> {
        match self {
            Self::Interval(interval) => interval.after(search.after),
            Self::Openings(openings) => openings.next(search),
            Self::Beat(beat) => beat.next(search),
            Self::Appointments(appointments) => appointments.next(search),
        }
    }
}

impl Search<'_> {
    /// Returns a date that lies early enough: a gap may move an appointment by a whole day, and a window
    /// may have opened the day before.
    fn early_date(&self) -> Date {
        /// Every time of this date has an instant, in every zone.
        const FIRST: Date = jiff::civil::date(-9999, 1, 4);
        let date = self.schedule.zone.date(self.after);
        date.checked_sub(SignedDuration::from_hours(48)).map_or(FIRST, |early| early.max(FIRST))
    }

    /// Whether a date can have a tick, so that its times must be checked.
    fn may_run_on(&self, date: Date) -> bool {
        self.schedule.cadence.falls_on(date) && self.schedule.window.touches(date, self.holidays)
    }

    fn is_open(&self, date: Date, time: TimeOfDay) -> bool {
        self.schedule.window.is_open(date, time, self.holidays)
    }

    /// Returns the next date that may have a tick: months in which the cadence never runs are left out.
    fn following(&self, date: Date) -> Option<Date> {
        let next = date.tomorrow().ok()?;
        match self.schedule.cadence.runs_in_month_of(next) {
            true => Some(next),
            false => next.last_of_month().tomorrow().ok(),
        }
    }
}

#[cfg(test)]
mod tests;
