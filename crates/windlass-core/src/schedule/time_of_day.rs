//! The time that a wall clock shows, to the minute: `09:30`.

use std::fmt;

use jiff::civil::{Date, DateTime, Time};

use super::error::{ScheduleError, shortened};

/// A time of day, from `00:00` to `24:00`, which is the end of the day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeOfDay {
    minutes: u16,
}

const MINUTES_A_DAY: u16 = 24 * 60;

impl TimeOfDay {
    /// The start of the day.
    pub const MIDNIGHT: Self = Self { minutes: 0 };
    /// The end of the day.
    pub const END_OF_DAY: Self = Self { minutes: MINUTES_A_DAY };

    /// Parses `9:30`, `09:30` or `24:00`.
    pub fn parse(text: &str) -> Result<Self, ScheduleError> {
        Self::read(text).ok_or_else(|| ScheduleError::Time { got: shortened(text) })
    }

    /// Parses a time at which something can start, which the end of a day is not.
    pub(super) fn parse_start(text: &str) -> Result<Self, ScheduleError> {
        match Self::parse(text)? {
            Self::END_OF_DAY => Err(ScheduleError::Time { got: shortened(text) }),
            time => Ok(time),
        }
    }

    fn read(text: &str) -> Option<Self> {
        let (hours, minutes) = text.split_once(':')?;
        let is_number = |part: &str, digits: std::ops::RangeInclusive<usize>| {
            digits.contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
        };
        if !is_number(hours, 1..=2) || !is_number(minutes, 2..=2) {
            return None;
        }
        Self::new(hours.parse().ok()?, minutes.parse().ok()?)
    }

    pub(super) fn new(hour: u16, minute: u16) -> Option<Self> {
        let minutes = hour.checked_mul(60)?.checked_add(minute)?;
        (minute < 60 && minutes <= MINUTES_A_DAY).then_some(Self { minutes })
    }

    /// Returns the minute that a clock shows, and whether some of it has passed.
    pub(super) fn of(shown: Time) -> (Self, bool) {
        let minutes = u16::from(shown.hour().unsigned_abs()) * 60 + u16::from(shown.minute().unsigned_abs());
        (Self { minutes }, shown.second() != 0 || shown.subsec_nanosecond() != 0)
    }

    /// Returns the minutes since the day began.
    pub fn minutes(self) -> u16 {
        self.minutes
    }

    /// Returns this time on a date; the end of a day is the start of the next.
    pub(super) fn on(self, date: Date) -> Option<DateTime> {
        if self == Self::END_OF_DAY {
            return Some(date.tomorrow().ok()?.to_datetime(Time::midnight()));
        }
        let part = |number: u16| i8::try_from(number).expect("hours and minutes are less than 60");
        Some(date.at(part(self.minutes / 60), part(self.minutes % 60), 0, 0))
    }
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.minutes / 60, self.minutes % 60)
    }
}
