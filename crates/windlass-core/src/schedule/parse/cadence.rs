//! Parses the cadence: the beginning of a schedule.

use super::words::{CRON_FIELDS, Words, looks_like_cron};
use crate::clock::Timestamp;
use crate::limits::{INTERVAL_MAX, INTERVAL_MIN, SCHEDULE_TIMES_MAX};
use crate::schedule::error::{ScheduleError, shortened};
use crate::schedule::{Cadence, Cron, TimeOfDay, Weekdays};
use crate::span::parse_span;

/// Parses the cadence; the remaining words are the parts after it.
pub(super) fn read(words: &mut Words<'_>, text: &str) -> Result<Cadence, ScheduleError> {
    let unknown = || ScheduleError::UnknownCadence { got: shortened(text) };
    let first = words.peek();
    if looks_like_cron(first) {
        return read_cron(words);
    }
    words.next();
    match first.to_ascii_lowercase().as_str() {
        "every" if Weekdays::parse_word(words.peek()).is_some() => read_weekly(words),
        "every" if words.starts_with(&["day", "at"]) => {
            words.next();
            Ok(Cadence::Daily { at: read_times(words)? })
        }
        "every" => read_interval(words),
        "daily" => Ok(Cadence::Daily { at: read_times(words)? }),
        "weekly" => read_weekly(words),
        nickname => {
            let fields: Vec<_> = Cron::nickname(nickname).ok_or_else(unknown)?.split(' ').collect();
            Ok(Cadence::Cron(Cron::parse(&fields)?))
        }
    }
}

fn read_cron(words: &mut Words<'_>) -> Result<Cadence, ScheduleError> {
    let fields: Vec<_> = words.left.drain(..words.left.len().min(CRON_FIELDS)).collect();
    // A sixth field comes from people who write seconds.
    let more = words.left.iter().take_while(|word| looks_like_cron(word) && !word.contains(':')).count();
    if fields.len() < CRON_FIELDS || more > 0 {
        return Err(ScheduleError::CronFields { got: fields.len() + more });
    }
    Ok(Cadence::Cron(Cron::parse(&fields)?))
}

fn read_interval(words: &mut Words<'_>) -> Result<Cadence, ScheduleError> {
    let written = words.take_while(span_word).join(" ");
    // `every minute` is `every 1m`.
    let counted =
        if written.starts_with(|c: char| c.is_ascii_alphabetic()) { format!("1{written}") } else { written };
    let got = || shortened(format!("{counted} {}", words.peek()).trim());
    let interval = parse_span(&counted).map_err(|_| ScheduleError::Interval { got: got() })?;
    if interval.subsec_nanos() != 0 || !(INTERVAL_MIN..=INTERVAL_MAX).contains(&interval) {
        return Err(ScheduleError::IntervalOutOfRange { got: shortened(&counted) });
    }
    let from = if words.skip("from") { Some(read_instant(words)?) } else { None };
    Ok(Cadence::Every { interval, from })
}

/// Parses a word of a span, and shortens its unit: `5`, `5m`, `minutes` as `m`.
fn span_word(word: &str) -> Option<String> {
    const UNITS: [(&str, &[&str]); 4] = [
        ("s", &["s", "sec", "secs", "second", "seconds"]),
        ("m", &["m", "min", "mins", "minute", "minutes"]),
        ("h", &["h", "hr", "hrs", "hour", "hours"]),
        ("d", &["d", "day", "days"]),
    ];
    let word = word.to_ascii_lowercase();
    let (number, unit) = word.split_at(word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len()));
    let short = UNITS.iter().find(|(_, names)| names.contains(&unit)).map(|(short, _)| *short);
    match short {
        Some(short) => Some(format!("{number}{short}")),
        None if !number.is_empty() && unit.chars().all(|c| c.is_ascii_alphanumeric() || c == '.') => {
            Some(word)
        }
        None => None,
    }
}

fn read_instant(words: &mut Words<'_>) -> Result<Timestamp, ScheduleError> {
    let got = words.next().unwrap_or_default();
    let whole = |instant: &Timestamp| instant.as_micros().rem_euclid(1_000_000) == 0;
    let instant = Timestamp::parse(&got.to_ascii_uppercase()).ok().filter(whole);
    instant.ok_or_else(|| ScheduleError::From { got: shortened(got) })
}

fn read_weekly(words: &mut Words<'_>) -> Result<Cadence, ScheduleError> {
    words.skip("on");
    let day = |word: &str| if word == "and" { Some(Weekdays::NONE) } else { Weekdays::parse_word(word) };
    let days = words.take_while(day);
    let on = days.into_iter().fold(Weekdays::NONE, Weekdays::with);
    if on.is_empty() {
        return Err(ScheduleError::Days { got: shortened(words.peek()) });
    }
    let at = read_times(words)?;
    if on == Weekdays::ALL { Ok(Cadence::Daily { at }) } else { Ok(Cadence::Weekly { on, at }) }
}

fn read_times(words: &mut Words<'_>) -> Result<Vec<TimeOfDay>, ScheduleError> {
    words.skip("at");
    let mut times = Vec::new();
    while times.is_empty() || words.skip("and") || is_time(words.peek()) {
        let got = words.next().unwrap_or_default();
        times.push(TimeOfDay::parse_start(got)?);
    }
    times.sort_unstable();
    times.dedup();
    match times.len() {
        ..=SCHEDULE_TIMES_MAX => Ok(times),
        got => Err(ScheduleError::TooManyTimes { got }),
    }
}

fn is_time(word: &str) -> bool {
    word.contains(':') && !word.contains('-')
}
