//! When something runs again and again: every so often, at times of day, by a cron expression; in a time zone, within
//! a window. Pure: a schedule is a text, and its ticks are a function of the text, the holidays and two instants.
//!
//! Read it in this order: [`Cadence`] is how often, [`Window`] when it may run at all, [`Zone`] whose clocks count,
//! [`Ticks`] when it runs, [`catch_up`] what happens to ticks that nobody saw, [`backfill`] which ones lie in a past range.

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

/// Bytes of a name that is compared with those of all zones.
const ZONE_NAME_BYTES_MAX: usize = 64;

/// When something runs. Made from text, and written as one canonical text that reads back as the same schedule.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Schedule {
    cadence: Cadence,
    window: Window,
    zone: Zone,
}

impl Schedule {
    /// Reads a schedule such as `every 5m, 09:30-16:00, mon-fri, America/New_York`. Without a zone it is UTC.
    pub fn parse(text: &str) -> Result<Self, ScheduleError> {
        parse::parse(text, None)
    }

    /// Reads a schedule whose zone was named apart. If the text names another one it is refused.
    pub fn parse_in(text: &str, zone: Zone) -> Result<Self, ScheduleError> {
        parse::parse(text, Some(zone))
    }

    /// How often.
    pub fn cadence(&self) -> &Cadence {
        &self.cadence
    }

    /// When it may run at all.
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Whose clocks count.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// The ticks after an instant. Each is searched for fifty years, and then there is no further one.
    pub fn ticks_after<'a>(&'a self, after: Timestamp, holidays: &'a Holidays) -> Ticks<'a> {
        Ticks::after(self, holidays, after)
    }

    /// The ticks after an instant and no later than another.
    pub fn ticks_between<'a>(
        &'a self,
        after: Timestamp,
        until: Timestamp,
        holidays: &'a Holidays,
    ) -> Ticks<'a> {
        Ticks::between(self, holidays, after, until)
    }

    /// In plain words: `every 5 minutes from 09:00 to 16:55, Monday to Friday, New York time`.
    pub fn words(&self) -> String {
        words::schedule(self)
    }
}

impl fmt::Display for Schedule {
    /// The canonical text.
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
