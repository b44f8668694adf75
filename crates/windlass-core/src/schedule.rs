//! Recurring schedules: at an interval, at times of day, or by a cron expression; in a time zone, within
//! a window. Pure: a schedule is a text, and its ticks are a function of the text, the holidays and two
//! instants.
//!
//! Read it in this order: [`Cadence`] is how often it runs, [`Window`] when it may run at all, and
//! [`Zone`] the time zone of its clocks. [`Ticks`] computes when it runs, [`catch_up`] decides about
//! ticks that no process noticed in time, and [`backfill`] lists the ticks in a past range.

use std::fmt;

mod error;
mod zone;
mod time_of_day;
mod weekdays;
mod cron;
mod cadence;
mod holidays;
mod window;
mod parse;
mod ticks;
mod catch_up;
mod backfill;
mod words;

pub use backfill::{BackfillError, backfill};
pub use cadence::{Cadence, ClockRule};
pub use catch_up::{CatchUp, CatchUpError, Due, Missed, Standing, Tally, catch_up};
pub use cron::Cron;
pub use error::ScheduleError;
pub use holidays::{Holidays, HolidaysError};
pub use ticks::Ticks;
pub use time_of_day::TimeOfDay;
pub use weekdays::Weekdays;
pub use window::{Hours, Window};
pub use zone::{ClockChange, Zone};

use crate::clock::Timestamp;

/// Bytes of the longest name that is compared with those of all zones.
const ZONE_NAME_BYTES_MAX: usize = 64;

/// A recurring schedule. Made from text, and written as one canonical text that reads back as the same
/// schedule.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Schedule {
    cadence: Cadence,
    window: Window,
    zone: Zone,
}

impl Schedule {
    /// Parses a schedule such as `every 5m, 09:30-16:00, mon-fri, America/New_York`. Without a zone it is
    /// UTC.
    pub fn parse(text: &str) -> Result<Self, ScheduleError> {
        parse::parse(text, None)
    }

    /// Parses a schedule whose zone is given separately. Refuses a text that names another zone.
    pub fn parse_in(text: &str, zone: Zone) -> Result<Self, ScheduleError> {
        parse::parse(text, Some(zone))
    }

    /// Returns how often it runs.
    pub fn cadence(&self) -> &Cadence {
        &self.cadence
    }

    /// Returns when it may run at all.
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Returns the time zone of its clocks.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Returns the ticks after an instant. The search for each tick ends after fifty years, and then
    /// there is no further one.
    pub fn ticks_after<'a>(&'a self, after: Timestamp, holidays: &'a Holidays) -> Ticks<'a> {
        Ticks::after(self, holidays, after)
    }

    /// Returns the ticks after an instant and no later than another.
    pub fn ticks_between<'a>(
        &'a self,
        after: Timestamp,
        until: Timestamp,
        holidays: &'a Holidays,
    ) -> Ticks<'a> {
        Ticks::between(self, holidays, after, until)
    }

    /// Describes it in plain words: `every 5 minutes from 09:00 to 16:55, Monday to Friday, New York
    /// time`.
    pub fn words(&self) -> String {
        words::schedule(self)
    }
}

impl fmt::Display for Schedule {
    /// Writes the canonical text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}, {}", self.cadence, self.window, self.zone)
    }
}

impl std::str::FromStr for Schedule {
    type Err = ScheduleError;
    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Schedule {
    type Error = ScheduleError;
    fn try_from(text: String) -> Result<Self, ScheduleError> {
        Self::parse(&text)
    }
}

impl From<Schedule> for String {
    fn from(schedule: Schedule) -> String {
        schedule.to_string()
    }
}

#[cfg(test)]
mod tests;
