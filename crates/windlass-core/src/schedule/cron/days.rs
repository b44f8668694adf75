//! The two fields of days, which also accept counted days: the last day, the second Friday.

use std::fmt;

use jiff::civil::{Date, Weekday};

use super::field::{Field, MONTH_DAY, WEEK_DAY, number_of, plain_number, wrong};
use crate::schedule::error::ScheduleError;

/// Days of the month.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::schedule) struct MonthDays {
    pub(in crate::schedule) numbers: Field,
    /// `L`.
    pub(in crate::schedule) last: bool,
}

/// Days of the week.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::schedule) struct WeekDays {
    pub(in crate::schedule) every: Field,
    /// `FRI#2` and `FRIL`, in order, each once.
    pub(in crate::schedule) counted: Vec<Counted>,
}

/// A day of the week, counted within its month.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::schedule) struct Counted {
    /// Sunday is 0.
    day: u8,
    /// From 1 to 5; `None` for the last one.
    pub(in crate::schedule) nth: Option<u8>,
}

impl MonthDays {
    pub(super) fn parse(text: &str) -> Result<Self, ScheduleError> {
        let (last, plain): (Vec<_>, Vec<_>) =
            text.split(',').partition(|part| part.eq_ignore_ascii_case("L"));
        Ok(Self { numbers: numbers(&plain, &MONTH_DAY)?, last: !last.is_empty() })
    }

    pub(in crate::schedule) fn is_star(&self) -> bool {
        self.numbers.is_star()
    }

    pub(super) fn contains(&self, date: Date) -> bool {
        self.numbers.contains(date.day().unsigned_abs()) || (self.last && date == date.last_of_month())
    }
}

impl WeekDays {
    pub(super) fn parse(text: &str) -> Result<Self, ScheduleError> {
        let (mut plain, mut counted) = (Vec::new(), Vec::new());
        for part in text.split(',') {
            match Counted::parse(part)? {
                Some(day) => counted.push(day),
                None => plain.push(part),
            }
        }
        counted.sort_unstable();
        counted.dedup();
        Ok(Self { every: numbers(&plain, &WEEK_DAY)?, counted })
    }

    pub(in crate::schedule) fn is_star(&self) -> bool {
        self.every.is_star()
    }

    pub(super) fn contains(&self, date: Date) -> bool {
        self.every.contains(cron_number(date.weekday())) || self.counted.iter().any(|day| day.is(date))
    }

    /// Returns the days that come every week.
    pub(in crate::schedule) fn weekly(&self) -> impl Iterator<Item = Weekday> {
        self.every.values().map(weekday)
    }
}

impl Counted {
    /// Parses a counted day; `None` if the text has neither `#` nor a final `L`.
    fn parse(text: &str) -> Result<Option<Self>, ScheduleError> {
        let refused = || wrong(&WEEK_DAY, text, "");
        let day_of = |name: &str| number_of(name, &WEEK_DAY).map(|day| day % 7).ok_or_else(refused);
        if let Some((day, nth)) = text.split_once('#') {
            let nth = plain_number(nth).filter(|nth| (1..=5).contains(nth));
            return Ok(Some(Self { day: day_of(day)?, nth: Some(nth.ok_or_else(refused)?) }));
        }
        match text.strip_suffix(['L', 'l']) {
            Some(day) => Ok(Some(Self { day: day_of(day)?, nth: None })),
            None => Ok(None),
        }
    }

    fn is(self, date: Date) -> bool {
        let is_day = cron_number(date.weekday()) == self.day;
        is_day
            && match self.nth {
                Some(nth) => (date.day().unsigned_abs() - 1) / 7 + 1 == nth,
                None => date.day() + 7 > date.days_in_month(),
            }
    }

    pub(in crate::schedule) fn weekday(self) -> Weekday {
        weekday(self.day)
    }
}

fn numbers(parts: &[&str], kind: &super::field::Kind) -> Result<Field, ScheduleError> {
    if parts.is_empty() { Ok(Field::empty(kind)) } else { Field::parse(&parts.join(","), kind) }
}

fn cron_number(day: Weekday) -> u8 {
    day.to_sunday_zero_offset().unsigned_abs()
}

fn weekday(number: u8) -> Weekday {
    let number = (number % 7).cast_signed();
    Weekday::from_sunday_zero_offset(number).expect("a week has seven days, counted from 0")
}

impl fmt::Display for MonthDays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.last.then(|| "L".to_owned());
        f.write_str(&joined([self.numbers.to_string()].into_iter().chain(last)))
    }
}

impl fmt::Display for WeekDays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = self.counted.iter().map(|day| match day.nth {
            Some(nth) => format!("{}#{nth}", day.day),
            None => format!("{}L", day.day),
        });
        f.write_str(&joined([self.every.to_string()].into_iter().chain(counted)))
    }
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(",")
}
