//! When a schedule may run at all: hours of the day, days of the week, no holidays.

use std::fmt;

use jiff::civil::Date;

use super::{Holidays, TimeOfDay, Weekdays};

/// When a schedule may run. By default always.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// From when to when; all day if nothing is said.
    pub hours: Option<Hours>,
    /// On which days. A window over midnight belongs to the day on which it opens.
    pub days: Weekdays,
    /// Whether it stays closed on holidays.
    pub except_holidays: bool,
}

/// From one time of day to another. A tick at the closing time still runs, but for `24:00`, which is tomorrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hours {
    opens: TimeOfDay,
    closes: TimeOfDay,
}

impl Default for Window {
    fn default() -> Self {
        Self { hours: None, days: Weekdays::ALL, except_holidays: false }
    }
}

impl Window {
    /// Whether it holds nothing back.
    pub fn is_always(&self) -> bool {
        *self == Self::default()
    }

    /// From when to when it is open on a day on which it opens.
    pub(super) fn hours_or_all_day(&self) -> Hours {
        self.hours.unwrap_or(Hours { opens: TimeOfDay::MIDNIGHT, closes: TimeOfDay::END_OF_DAY })
    }

    /// Whether it opens on a date.
    pub(super) fn opens_on(&self, date: Date, holidays: &Holidays) -> bool {
        self.days.contains(date.weekday()) && !(self.except_holidays && holidays.contains(date))
    }

    /// Whether it is open when clocks show this time on this date.
    pub(super) fn is_open(&self, date: Date, time: TimeOfDay, holidays: &Holidays) -> bool {
        let Hours { opens, closes } = self.hours_or_all_day();
        if opens <= closes {
            return (opens..=closes).contains(&time) && self.opens_on(date, holidays);
        }
        (time >= opens && self.opens_on(date, holidays))
            || (time <= closes && self.opened_before(date, holidays))
    }

    /// Whether it is open at any time of a date.
    pub(super) fn touches(&self, date: Date, holidays: &Holidays) -> bool {
        let Hours { opens, closes } = self.hours_or_all_day();
        self.opens_on(date, holidays) || (closes < opens && self.opened_before(date, holidays))
    }

    fn opened_before(&self, date: Date, holidays: &Holidays) -> bool {
        date.yesterday().is_ok_and(|yesterday| self.opens_on(yesterday, holidays))
    }
}

impl Hours {
    /// Reads `09:30-16:00`. The same time twice would be open always or never, so it is refused.
    pub fn parse(text: &str) -> Option<Self> {
        let (opens, closes) = text.split_once('-')?;
        let (opens, closes) = (TimeOfDay::parse(opens)?, TimeOfDay::parse(closes)?);
        (opens != closes && opens < TimeOfDay::END_OF_DAY).then_some(Self { opens, closes })
    }

    /// When it opens.
    pub fn opens(self) -> TimeOfDay {
        self.opens
    }

    /// When it closes; on the next day if that is earlier than it opens.
    pub fn closes(self) -> TimeOfDay {
        self.closes
    }

    /// Whether it is still open at its closing time.
    pub(super) fn includes_its_end(self) -> bool {
        self.closes != TimeOfDay::END_OF_DAY
    }

    /// The date on which it closes if it opens on the given one.
    pub(super) fn closing_date(self, opened: Date) -> Option<Date> {
        if self.closes < self.opens { opened.tomorrow().ok() } else { Some(opened) }
    }

    /// How many minutes it is open on an ordinary day.
    pub(super) fn minutes(self) -> u64 {
        let (opens, closes) = (u64::from(self.opens.minutes()), u64::from(self.closes.minutes()));
        if closes < opens { closes + 24 * 60 - opens } else { closes - opens }
    }
}

impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.opens, self.closes)
    }
}

impl fmt::Display for Window {
    /// The parts of the canonical text, each with a comma before it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(hours) = self.hours {
            write!(f, ", {hours}")?;
        }
        if self.days != Weekdays::ALL {
            write!(f, ", {}", self.days)?;
        }
        if self.except_holidays {
            f.write_str(", except holidays")?;
        }
        Ok(())
    }
}
