//! Days on which a schedule does not run, from a list of dates with names.

use std::collections::BTreeMap;

use jiff::civil::Date;

use super::error::shortened;
use crate::limits::{HOLIDAY_NAME_BYTES_MAX, HOLIDAYS_MAX};

/// Dates with names; empty if none were given. Stored as the text of such a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Holidays(BTreeMap<Date, String>);

/// Why a list of holidays was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HolidaysError {
    /// A line that does not begin with a date.
    #[error("line {line}: expected a date and a name, such as `2027-01-01 New Year's Day`, got {got:?}")]
    Date {
        /// The line, counted from 1.
        line: usize,
        /// The given text.
        got: String,
    },
    /// A name that is missing, too long or not printable.
    #[error(
        "line {line}: expected a name of 1 to {HOLIDAY_NAME_BYTES_MAX} printable bytes after the date, got {got:?}"
    )]
    Name {
        /// The line, counted from 1.
        line: usize,
        /// The given text.
        got: String,
    },
    /// The same date occurs twice.
    #[error("line {line}: expected each date once, got {date} again; put both names on one line")]
    Twice {
        /// The line, counted from 1.
        line: usize,
        /// The date.
        date: String,
    },
    /// The list has too many dates.
    #[error("expected at most {HOLIDAYS_MAX} holidays; leave out those that are long past")]
    TooMany,
}

impl Holidays {
    /// Parses a list: a date and a name a line. Empty lines and lines that begin with `#` are ignored.
    pub fn parse(text: &str) -> Result<Self, HolidaysError> {
        let mut days = BTreeMap::new();
        for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (date, name) = read_line(index + 1, line)?;
            if days.insert(date, name).is_some() {
                return Err(HolidaysError::Twice { line: index + 1, date: date.to_string() });
            }
            if days.len() > HOLIDAYS_MAX {
                return Err(HolidaysError::TooMany);
            }
        }
        Ok(Self(days))
    }

    /// Returns the number of holidays.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the first and the last date of the list. A date outside them is not known to be a holiday.
    pub fn covers(&self) -> Option<(String, String)> {
        let (first, last) = (self.0.first_key_value()?.0, self.0.last_key_value()?.0);
        Some((first.to_string(), last.to_string()))
    }

    /// Returns all of them in order, as text.
    pub fn iter(&self) -> impl Iterator<Item = (String, &str)> {
        self.0.iter().map(|(date, name)| (date.to_string(), name.as_str()))
    }

    pub(super) fn contains(&self, date: Date) -> bool {
        self.0.contains_key(&date)
    }
}

impl TryFrom<String> for Holidays {
    type Error = HolidaysError;
    fn try_from(text: String) -> Result<Self, HolidaysError> {
        Self::parse(&text)
    }
}

impl From<Holidays> for String {
    fn from(holidays: Holidays) -> String {
        holidays.iter().map(|(date, name)| format!("{date} {name}\n")).collect()
    }
}

fn read_line(line: usize, text: &str) -> Result<(Date, String), HolidaysError> {
    let (date, name) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let wrong_date = || HolidaysError::Date { line, got: shortened(text) };
    // The parser also takes other forms, such as 20270101 or a date with a time; a list should have one.
    if date.len() != "2027-01-01".len() {
        return Err(wrong_date());
    }
    let date: Date = date.parse().map_err(|_| wrong_date())?;
    let name = name.trim();
    let is_printable =
        !name.is_empty() && name.len() <= HOLIDAY_NAME_BYTES_MAX && !name.chars().any(char::is_control);
    if is_printable {
        Ok((date, name.to_owned()))
    } else {
        Err(HolidaysError::Name { line, got: shortened(name) })
    }
}
