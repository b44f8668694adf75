//! Parses the parts after the cadence: hours, days, `except holidays`, a zone; in any order.

use super::words::Words;
use crate::schedule::error::{ScheduleError, shortened};
use crate::schedule::{Hours, Weekdays, Window, Zone};

/// Parses all remaining words.
pub(super) fn read(words: &mut Words<'_>, apart: Option<Zone>) -> Result<(Window, Zone), ScheduleError> {
    let mut parts = Parts { hours: None, days: Weekdays::NONE, except_holidays: false, zone: None };
    while let Some(word) = words.next() {
        parts.take(word, words)?;
    }
    let days = if parts.days.is_empty() { Weekdays::ALL } else { parts.days };
    let window = Window { hours: parts.hours, days, except_holidays: parts.except_holidays };
    Ok((window, one_zone(parts.zone, apart)?))
}

/// The parts that were parsed so far.
struct Parts {
    hours: Option<Hours>,
    days: Weekdays,
    except_holidays: bool,
    zone: Option<Zone>,
}

impl Parts {
    fn take(&mut self, word: &str, words: &mut Words<'_>) -> Result<(), ScheduleError> {
        let is = |known: &str| word.eq_ignore_ascii_case(known);
        if is("in") || is("on") || is("and") {
            return Ok(());
        }
        if is("except") {
            self.except_holidays = true;
            return read_holidays(words);
        }
        if let Some(days) = Weekdays::parse_word(word) {
            self.days = self.days.with(days);
            return Ok(());
        }
        match word.contains(':') {
            true => once(&mut self.hours, Hours::parse(word)?, "window of hours", word),
            false => once(&mut self.zone, read_zone(word)?, "time zone", word),
        }
    }
}

fn once<T>(place: &mut Option<T>, value: T, what: &'static str, word: &str) -> Result<(), ScheduleError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(ScheduleError::Twice { what, got: shortened(word) }),
    }
}

fn read_holidays(words: &mut Words<'_>) -> Result<(), ScheduleError> {
    if words.skip("holidays") {
        return Ok(());
    }
    let got = format!("except {}", shortened(words.peek()));
    Err(ScheduleError::UnknownPart { got, nearest: Some("except holidays".to_owned()) })
}

/// Parses a zone. A word with a slash can only be meant as a zone; any other may be a typo in another
/// part.
fn read_zone(word: &str) -> Result<Zone, ScheduleError> {
    Zone::parse(word).map_err(|error| match error {
        ScheduleError::UnknownZone { got, nearest } if !word.contains('/') => {
            ScheduleError::UnknownPart { got, nearest }
        }
        other => other,
    })
}

/// Returns the zone of the text, or the one that was given separately; refuses two different ones.
fn one_zone(of_the_text: Option<Zone>, apart: Option<Zone>) -> Result<Zone, ScheduleError> {
    match (of_the_text, apart) {
        (Some(one), Some(other)) if one != other => {
            Err(ScheduleError::Twice { what: "time zone", got: format!("{one} beside {other}") })
        }
        (one, other) => Ok(one.or(other).unwrap_or_else(Zone::utc)),
    }
}
