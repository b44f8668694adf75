//! Parses a schedule as people write it: a cadence, then in any order a window, days, `except holidays`
//! and a zone.

use std::time::Duration;

mod words;
mod cadence;
mod parts;

use words::Words;

use super::error::ScheduleError;
use super::{Cadence, Holidays, Schedule, Weekdays, Zone};
use crate::clock::Timestamp;
use crate::limits::SCHEDULE_BYTES_MAX;
use crate::span::show_span;

/// Parses the text. `zone` is the zone that was given separately, if any.
pub(super) fn parse(text: &str, zone: Option<Zone>) -> Result<Schedule, ScheduleError> {
    check_text(text)?;
    // People paste dashes that word processors made.
    let text = text.replace(['–', '—'], "-");
    let mut words = Words::of(text.trim());
    let cadence = cadence::read(&mut words, text.trim())?;
    let (window, zone) = parts::read(&mut words, zone)?;
    let schedule = Schedule { cadence, window, zone };
    check_interval(&schedule)?;
    check_days(&schedule)?;
    // The canonical text must read back from the store.
    check_text(&schedule.to_string())?;
    check_that_it_runs(schedule)
}

fn check_text(text: &str) -> Result<(), ScheduleError> {
    if text.len() > SCHEDULE_BYTES_MAX {
        return Err(ScheduleError::TooLong { got: text.len() });
    }
    let odd = text.chars().enumerate().find(|(_, c)| c.is_control());
    odd.map_or(Ok(()), |(index, got)| Err(ScheduleError::Unprintable { got, at: index + 1 }))
}

fn check_interval(schedule: &Schedule) -> Result<(), ScheduleError> {
    let Cadence::Every { interval, from } = schedule.cadence else { return Ok(()) };
    if schedule.window.is_always() {
        return Ok(());
    }
    if from.is_some() {
        return Err(ScheduleError::FromWithWindow);
    }
    let hours = schedule.window.hours_or_all_day();
    let open = Duration::from_secs(60 * hours.minutes());
    // At its end a window that goes to midnight is closed already. But on a day of 25 hours it would be
    // open, and an interval of a day would run twice on that day alone.
    if interval > open || (interval == open && !hours.includes_its_end()) {
        let (interval, window) = (show_span(interval), show_span(open));
        return Err(ScheduleError::IntervalOverWindow { interval, window });
    }
    Ok(())
}

/// Refuses days of the week both in the expression and after it. `0 9 * * mon, wed` was meant as
/// `mon,wed`. Read as Mondays that are Wednesdays it never runs, and `0 9 1 * mon, wed` would run on days
/// that the author did not mean.
fn check_days(schedule: &Schedule) -> Result<(), ScheduleError> {
    match &schedule.cadence {
        Cadence::Cron(cron) if schedule.window.days != Weekdays::ALL && !cron.is_any_week_day() => {
            Err(ScheduleError::DaysTwice { got: schedule.window.days.to_string() })
        }
        _ => Ok(()),
    }
}

/// Checks that it runs. Any schedule that ever runs does so within the time that is searched, whatever
/// day it is now.
fn check_that_it_runs(schedule: Schedule) -> Result<Schedule, ScheduleError> {
    /// The start of 2026. A fixed instant, so that the result does not depend on the current day.
    const SINCE: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);
    let since = match schedule.cadence {
        Cadence::Every { from: Some(from), .. } => from.minus(Duration::from_secs(1)),
        _ => SINCE,
    };
    if schedule.ticks_after(since, &Holidays::default()).next().is_some() {
        return Ok(schedule);
    }
    let hint = match (schedule.window.is_always(), &schedule.cadence) {
        (true, Cadence::Cron(_)) => "check its day and month: there is no 30 February and no 31 April",
        (true, _) => "check its start",
        (false, _) => "its times and days all lie outside of its window: change one of them",
    };
    Err(ScheduleError::NeverRuns { got: schedule.to_string(), hint })
}
