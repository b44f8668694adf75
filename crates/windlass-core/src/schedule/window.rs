//! When a schedule may run at all: hours of the day, days of the week, no holidays.

use std::fmt;

use jiff::civil::{Date, Time};

use super::error::{ScheduleError, shortened};
use super::{Holidays, TimeOfDay, Weekdays};

/// When a schedule may run; by default always.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The opening hours; `None` means all day.
    pub hours: Option<Hours>,
    /// The days. A window over midnight belongs to the day on which it opens.
    pub days: Weekdays,
    /// Whether it stays closed on holidays.
    pub except_holidays: bool,
}

/// The hours from one time of day to another. A tick at the closing time still runs, except at `24:00`,
/// which is tomorrow.
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
    /// Whether it restricts nothing.
    pub fn is_always(&self) -> bool {
        *self == Self::default()
    }

    /// Returns its hours on a day on which it opens.
    pub(super) fn hours_or_all_day(&self) -> Hours {
        self.hours.unwrap_or(Hours { opens: TimeOfDay::MIDNIGHT, closes: TimeOfDay::END_OF_DAY })
    }

    /// Whether it opens on a date.
    pub(super) fn opens_on(&self, date: Date, holidays: &Holidays) -> bool {
        self.days.contains(date.weekday()) && !self.is_holiday(date, holidays)
    }

    /// Whether it stays closed on a date, whatever its days and hours are.
    pub(super) fn is_holiday(&self, date: Date, holidays: &Holidays) -> bool {
        self.except_holidays && holidays.contains(date)
    }

    /// Whether it may be open on some day when clocks show this time.
    pub(super) fn shows_open(&self, time: TimeOfDay) -> bool {
        let Hours { opens, closes } = self.hours_or_all_day();
        if opens <= closes { (opens..=closes).contains(&time) } else { time >= opens || time <= closes }
    }

    /// Whether it may be open at this time, to the second: half a minute after the closing time it is
    /// closed.
    pub(super) fn shows_open_at(&self, shown: Time) -> bool {
        let (minute, is_past) = TimeOfDay::of(shown);
        let closes = self.hours_or_all_day().closes;
        self.shows_open(minute) && !(is_past && minute == closes)
    }

    /// Whether it is open when clocks show this time on this date.
    pub(super) fn is_open(&self, date: Date, time: TimeOfDay, holidays: &Holidays) -> bool {
        let Hours { opens, .. } = self.hours_or_all_day();
        // A time before the opening time belongs to the window of the day before.
        let has_opened =
            if time >= opens { self.opens_on(date, holidays) } else { self.opened_before(date, holidays) };
        self.shows_open(time) && has_opened
    }

    /// Whether it is open at any time of a date.
    pub(super) fn touches(&self, date: Date, holidays: &Holidays) -> bool {
        let Hours { opens, closes } = self.hours_or_all_day();
        self.opens_on(date, holidays) || (closes < opens && self.opened_before(date, holidays))
    }

    fn opened_before(&self, date: Date, holidays: &Holidays) -> bool {
        !self.is_holiday(date, holidays)
            && date.yesterday().is_ok_and(|yesterday| self.opens_on(yesterday, holidays))
    }
}

impl Hours {
    /// Parses `09:30-16:00`. The same time twice would be open always or never, so it is refused.
    pub fn parse(text: &str) -> Result<Self, ScheduleError> {
        let refused = || ScheduleError::Window { got: shortened(text) };
        let (opens, closes) = text.split_once('-').ok_or_else(refused)?;
        let opens = TimeOfDay::parse_start(opens).map_err(|_| refused())?;
        let closes = TimeOfDay::parse(closes).map_err(|_| refused())?;
        if opens == closes { Err(refused()) } else { Ok(Self { opens, closes }) }
    }

    /// Returns when it opens.
    pub fn opens(self) -> TimeOfDay {
        self.opens
    }

    /// Returns when it closes; on the next day if that is earlier than the opening.
    pub fn closes(self) -> TimeOfDay {
        self.closes
    }

    /// Whether it is still open at its closing time.
    pub(super) fn includes_its_end(self) -> bool {
        self.closes != TimeOfDay::END_OF_DAY
    }

    /// Returns the date on which it closes if it opens on the given one.
    pub(super) fn closing_date(self, opened: Date) -> Option<Date> {
        if self.closes < self.opens { opened.tomorrow().ok() } else { Some(opened) }
    }

    /// Returns for how many minutes it is open on an ordinary day.
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
    /// Writes the parts of the canonical text, each preceded by a comma.
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
