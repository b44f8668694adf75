//! Cron expressions: five fields, as in Vixie cron, with `L` and `#` for counted days.

use std::fmt;

use jiff::civil::Date;

mod field;
mod days;

pub(super) use days::Counted;
pub(super) use field::MONTHS;

use days::{MonthDays, WeekDays};
use field::{Field, HOUR, MINUTE, MONTH};

use super::TimeOfDay;
use super::error::ScheduleError;

/// A cron expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cron {
    pub(super) minute: Field,
    pub(super) hour: Field,
    pub(super) month_days: MonthDays,
    pub(super) month: Field,
    pub(super) week_days: WeekDays,
}

impl Cron {
    /// Parses five fields.
    pub(super) fn parse(fields: &[&str]) -> Result<Self, ScheduleError> {
        let [minute, hour, month_days, month, week_days] = fields else {
            return Err(ScheduleError::CronFields { got: fields.len() });
        };
        Ok(Self {
            minute: Field::parse(minute, &MINUTE)?,
            hour: Field::parse(hour, &HOUR)?,
            month_days: MonthDays::parse(month_days)?,
            month: Field::parse(month, &MONTH)?,
            week_days: WeekDays::parse(week_days)?,
        })
    }

    /// Returns the expression that a nickname such as `@daily` stands for.
    pub(super) fn nickname(name: &str) -> Option<&'static str> {
        match name.to_ascii_lowercase().as_str() {
            "@hourly" => Some("0 * * * *"),
            "@daily" | "@midnight" => Some("0 0 * * *"),
            "@weekly" => Some("0 0 * * 0"),
            "@monthly" => Some("0 0 1 * *"),
            "@yearly" | "@annually" => Some("0 0 1 1 *"),
            _ => None,
        }
    }

    /// Whether it is a beat rather than certain times of day: every minute or the minute begins with `*`,
    /// or every hour.
    ///
    /// It decides what happens when clocks change. `*/5 9-16 * * *` and `0 * * * *` are beats and follow
    /// elapsed time; `30 2 * * *`, `0 2,14 * * *` and `0 */12 * * *` are appointments and are kept, each
    /// once.
    pub fn is_beat(&self) -> bool {
        self.minute.is_star() || self.minute.is_every() || self.hour.is_every()
    }

    /// Returns all times of day, in order.
    pub(super) fn times(&self) -> Vec<TimeOfDay> {
        let hours = self.hour.values();
        let times = hours.flat_map(|hour| {
            self.minute.values().filter_map(move |minute| TimeOfDay::new(u16::from(hour), u16::from(minute)))
        });
        times.collect()
    }

    /// Whether it runs on a date. If both day fields are restricted, a match of either is enough, as in
    /// every cron.
    pub(super) fn falls_on(&self, date: Date) -> bool {
        let (by_month, by_week) = (self.month_days.contains(date), self.week_days.contains(date));
        self.runs_in(date) && if self.either_day() { by_month || by_week } else { by_month && by_week }
    }

    /// Whether a day that matches one of the two day fields is enough.
    pub(super) fn either_day(&self) -> bool {
        !self.month_days.is_star() && !self.week_days.is_star()
    }

    /// Whether any day of the week matches.
    pub(super) fn is_any_week_day(&self) -> bool {
        self.week_days.every.is_any()
    }

    /// Whether it runs in the month of a date at all.
    pub(super) fn runs_in(&self, date: Date) -> bool {
        self.month.contains(date.month().unsigned_abs())
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { minute, hour, month_days, month, week_days } = self;
        write!(f, "{minute} {hour} {month_days} {month} {week_days}")
    }
}
