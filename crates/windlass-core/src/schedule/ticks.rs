//! When a schedule runs: its ticks, one after the other.
//!
//! What happens when clocks change depends on what the cadence is ([`ClockRule`]):
//! - *elapsed*: nothing; an interval is an interval. Its window opens at the first and closes at the last instant at
//!   which clocks show those times.
//! - *beat*: a tick whenever the clock shows a time that fits. What is left out when clocks go forward does not run,
//!   what is shown twice when they go back runs twice, so that the beat goes on.
//! - *appointment*: each once. If its time is left out it runs at the instant right after the gap, if its time
//!   comes twice it runs the first time.

use jiff::civil::{Date, DateTime};
use jiff::{SignedDuration, Timestamp as Moment};

use super::zone::{instant, moment};
use super::{Cadence, ClockRule, Holidays, Schedule, TimeOfDay};
use crate::clock::Timestamp;

/// The ticks of a schedule between two instants, in order. It always ends.
#[derive(Debug)]
pub struct Ticks<'a> {
    schedule: &'a Schedule,
    holidays: &'a Holidays,
    /// Ticks come strictly after it.
    after: Moment,
    /// Ticks come no later.
    until: Moment,
    pace: Pace,
}

/// Where the search stands.
#[derive(Debug)]
enum Pace {
    /// An interval without a window.
    Interval { from: Moment, interval: SignedDuration },
    /// An interval with a window: the date on which it opens next.
    Opening { date: Option<Date>, interval: SignedDuration },
    /// Whatever the clock shows.
    Beat { times: Vec<TimeOfDay> },
    /// Dates and times on paper.
    Appointment { times: Vec<TimeOfDay>, date: Option<Date>, next: usize },
    /// There is nothing left.
    Ended,
}

impl<'a> Ticks<'a> {
    /// The ticks after one instant and no later than another.
    pub(super) fn between(
        schedule: &'a Schedule,
        holidays: &'a Holidays,
        after: Timestamp,
        until: Timestamp,
    ) -> Self {
        // The end of the calendar is the end of every schedule.
        let (Some(after), until) = (moment(after), moment(until).unwrap_or(Moment::MAX)) else {
            return Self { schedule, holidays, after: Moment::MAX, until: Moment::MAX, pace: Pace::Ended };
        };
        Self { schedule, holidays, after, until, pace: Pace::of(schedule, after) }
    }

    fn step(&mut self) -> Option<Moment> {
        let tick = match &mut self.pace {
            Pace::Interval { from, interval } => next_in_step(*from, *interval, self.after),
            Pace::Opening { .. } => self.next_in_window(),
            Pace::Beat { .. } => self.next_reading(),
            Pace::Appointment { .. } => self.next_appointment(),
            Pace::Ended => None,
        }?;
        (tick <= self.until).then_some(tick)
    }

    /// Intervals count from each opening.
    fn next_in_window(&mut self) -> Option<Moment> {
        loop {
            let Pace::Opening { date, interval } = self.pace else { return None };
            let today = date?;
            let opens_on_paper = self.schedule.window.hours_or_all_day().opens().on(today)?;
            let opens = self.schedule.zone.first(opens_on_paper)?;
            if opens > self.until {
                return None;
            }
            if self.schedule.window.opens_on(today, self.holidays)
                && let Some(tick) = next_in_step(opens, interval, self.after)
                && self.is_before_closing(today, tick)?
            {
                return Some(tick);
            }
            self.pace = Pace::Opening { date: today.tomorrow().ok(), interval };
        }
    }

    fn is_before_closing(&self, opened: Date, tick: Moment) -> Option<bool> {
        let hours = self.schedule.window.hours_or_all_day();
        let closes = hours.closes().on(hours.closing_date(opened)?)?;
        Some(match hours.includes_its_end() {
            true => tick <= self.schedule.zone.last(closes)?,
            false => tick < self.schedule.zone.first(closes)?,
        })
    }

    /// Between two changes of clocks they run evenly, so there the search is one on paper.
    fn next_reading(&mut self) -> Option<Moment> {
        let zone = &self.schedule.zone;
        // Readings are whole minutes; the first to look at is the one at or after the next second.
        let mut from = self.after.checked_add(SignedDuration::from_nanos(1)).ok()?;
        while from <= self.until {
            let offset = zone.offset(from);
            let change = zone.next_change(from);
            let end = change.map_or(self.until, |change| change.min(self.until));
            let (first, last) = (offset.to_datetime(from), offset.to_datetime(end));
            if let Some(shown) = self.next_on_paper(first, last)
                && let Ok(tick) = offset.to_timestamp(shown)
                && change.is_none_or(|change| tick < change)
            {
                return Some(tick);
            }
            from = change?;
        }
        None
    }

    /// The first fitting date and time at or after one and no later than another.
    fn next_on_paper(&self, first: DateTime, last: DateTime) -> Option<DateTime> {
        let Pace::Beat { times } = &self.pace else { return None };
        let mut date = first.date();
        while date <= last.date() {
            if self.may_run_on(date) {
                let past = times.partition_point(|time| time.on(date).is_none_or(|shown| shown < first));
                let is_open = |time: &&TimeOfDay| self.schedule.window.is_open(date, **time, self.holidays);
                if let Some(time) = times[past..].iter().find(is_open) {
                    return time.on(date);
                }
            }
            date = self.following(date)?;
        }
        None
    }

    /// Whether there is any use in looking at the times of a date.
    fn may_run_on(&self, date: Date) -> bool {
        self.schedule.cadence.falls_on(date) && self.schedule.window.touches(date, self.holidays)
    }

    /// Appointments are walked through on paper; each has one instant, and they come in the same order.
    fn next_appointment(&mut self) -> Option<Moment> {
        loop {
            let Pace::Appointment { times, date, next } = &mut self.pace else { return None };
            let today = (*date)?;
            let time = times.get(*next).copied();
            *next += 1;
            let Some(time) = time.filter(|_| self.may_run_on(today)) else {
                self.turn_the_page(today)?;
                continue;
            };
            let tick = self.schedule.zone.first(time.on(today)?)?;
            if tick > self.after && self.schedule.window.is_open(today, time, self.holidays) {
                return Some(tick);
            }
        }
    }

    /// On to the next date, unless all of it lies past the end.
    fn turn_the_page(&mut self, today: Date) -> Option<()> {
        let tomorrow = self.following(today)?;
        let starts = self.schedule.zone.first(TimeOfDay::MIDNIGHT.on(tomorrow)?)?;
        let Pace::Appointment { date, next, .. } = &mut self.pace else { return None };
        (*date, *next) = (Some(tomorrow), 0);
        (starts <= self.until).then_some(())
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

impl Iterator for Ticks<'_> {
    type Item = Timestamp;

    fn next(&mut self) -> Option<Timestamp> {
        match self.step() {
            Some(tick) => {
                self.after = tick;
                Some(instant(tick))
            }
            None => {
                self.pace = Pace::Ended;
                None
            }
        }
    }
}

impl Pace {
    fn of(schedule: &Schedule, after: Moment) -> Self {
        // A gap may move an appointment by a whole day, and a window may have opened the day before.
        let date = schedule.zone.date(after);
        let early = Some(date.checked_sub(jiff::SignedDuration::from_hours(48)).unwrap_or(date));
        let times = schedule.cadence.times();
        match (schedule.cadence.clock_rule(), &schedule.cadence) {
            (ClockRule::Elapsed, Cadence::Every { interval, from }) => {
                let interval = SignedDuration::try_from(*interval).unwrap_or(SignedDuration::MAX);
                let from = from.map_or(Some(Moment::UNIX_EPOCH), moment);
                match (schedule.window.is_always(), from) {
                    (true, Some(from)) => Self::Interval { from, interval },
                    (true, None) => Self::Ended,
                    (false, _) => Self::Opening { date: early, interval },
                }
            }
            (ClockRule::Beat, _) => Self::Beat { times },
            _ => Self::Appointment { times, date: early, next: 0 },
        }
    }
}

/// The first of `from`, `from + interval`, `from + 2 × interval` … after an instant.
fn next_in_step(from: Moment, interval: SignedDuration, after: Moment) -> Option<Moment> {
    if after < from {
        return Some(from);
    }
    let steps = after.duration_since(from).as_nanos() / interval.as_nanos().max(1) + 1;
    let since = interval.as_secs().checked_mul(i64::try_from(steps).ok()?)?;
    from.checked_add(SignedDuration::from_secs(since)).ok()
}
