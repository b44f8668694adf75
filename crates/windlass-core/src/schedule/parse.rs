//! Reads a schedule as people write it: a cadence, then in any order a window, days, `except holidays` and a zone.

use std::time::Duration;

use super::error::{ScheduleError, shortened};
use super::{Cadence, Cron, Hours, Schedule, TimeOfDay, Weekdays, Window, Zone};
use crate::clock::Timestamp;
use crate::limits::{DELAY_MAX, INTERVAL_MIN, SCHEDULE_BYTES_MAX, SCHEDULE_TIMES_MAX};
use crate::span::{parse_span, show_span};

/// Reads the text. Names of zones in it go before `zone`, which is that of the surroundings.
pub(super) fn parse(text: &str, zone: Option<Zone>) -> Result<Schedule, ScheduleError> {
    check_text(text)?;
    // People paste dashes that word processors made.
    let text = text.replace(['–', '—'], "-");
    let mut words = Words::of(text.trim());
    let cadence = read_cadence(&mut words, &text)?;
    let schedule = read_parts(&mut words, cadence, zone)?;
    check_interval(&schedule)?;
    check_text(&schedule.to_string())?;
    check_that_it_runs(schedule)
}

fn check_text(text: &str) -> Result<(), ScheduleError> {
    if text.len() > SCHEDULE_BYTES_MAX {
        return Err(ScheduleError::TooLong { got: text.len() });
    }
    let odd = text.chars().enumerate().find(|(_, c)| c.is_control());
    odd.map_or(Ok(()), |(index, got)| Err(ScheduleError::Unprintable { got, at: index + 1 }))
}

/// The words that are left.
struct Words<'a> {
    left: std::collections::VecDeque<&'a str>,
}

impl<'a> Words<'a> {
    /// Commas part words too, but in the fields of a cron expression they make lists.
    fn of(text: &'a str) -> Self {
        let fields: Vec<_> = text.split_whitespace().collect();
        let is_cron = text.starts_with(|c: char| c.is_ascii_digit() || c == '*');
        let kept = if is_cron { fields.len().min(CRON_FIELDS) } else { 0 };
        let rest = fields[kept..].iter().flat_map(|word| word.split(',')).filter(|word| !word.is_empty());
        let kept = fields[..kept].iter().map(|field| field.trim_end_matches(','));
        Self { left: kept.chain(rest).collect() }
    }

    fn next(&mut self) -> Option<&'a str> {
        self.left.pop_front()
    }

    fn peek(&self) -> &'a str {
        self.left.front().copied().unwrap_or("")
    }

    fn starts_with(&self, wanted: &[&str]) -> bool {
        self.left.len() >= wanted.len()
            && self.left.iter().zip(wanted).all(|(word, wanted)| word.eq_ignore_ascii_case(wanted))
    }

    fn skip(&mut self, word: &str) -> bool {
        let is_there = self.peek().eq_ignore_ascii_case(word);
        if is_there {
            self.next();
        }
        is_there
    }

    /// Takes words as long as they can be read.
    fn take_while<T>(&mut self, read: impl Fn(&str) -> Option<T>) -> Vec<T> {
        let mut taken = Vec::new();
        while let Some(value) = self.left.front().and_then(|word| read(word)) {
            self.next();
            taken.push(value);
        }
        taken
    }
}

const CRON_FIELDS: usize = 5;

fn read_cadence(words: &mut Words<'_>, text: &str) -> Result<Cadence, ScheduleError> {
    let unknown = || ScheduleError::UnknownCadence { got: shortened(text.trim()) };
    let first = words.peek();
    if first.starts_with(|c: char| c.is_ascii_digit() || c == '*') {
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
    // A sixth field is what people write who count seconds.
    let more = words.left.iter().take_while(|word| is_cron_like(word)).count();
    if fields.len() < CRON_FIELDS || more > 0 {
        return Err(ScheduleError::CronFields { got: fields.len() + more });
    }
    Ok(Cadence::Cron(Cron::parse(&fields)?))
}

fn is_cron_like(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit() || c == '*') && !word.contains(':')
}

fn read_interval(words: &mut Words<'_>) -> Result<Cadence, ScheduleError> {
    let written = words.take_while(|word| span_word(word)).join(" ");
    let refused = |got: &str| ScheduleError::Interval { got: shortened(got) };
    if written.is_empty() {
        return Err(refused(words.peek()));
    }
    // `every minute` is `every 1m`.
    let counted = if written.starts_with(|c: char| c.is_ascii_digit()) {
        written.clone()
    } else {
        format!("1{written}")
    };
    let interval = parse_span(&counted).map_err(|_| refused(format!("{written} {}", words.peek()).trim()))?;
    let is_whole = interval.subsec_nanos() == 0;
    if !is_whole || !(INTERVAL_MIN..=DELAY_MAX).contains(&interval) {
        return Err(ScheduleError::IntervalOutOfRange { got: written });
    }
    let from = if words.skip("from") { Some(read_instant(words)?) } else { None };
    Ok(Cadence::Every { interval, from })
}

/// A word of a span, with its unit in short: `5`, `5m`, `minutes` as `m`.
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
    let days = words
        .take_while(|word| if word == "and" { Some(Weekdays::NONE) } else { Weekdays::parse_word(word) });
    let on = days.into_iter().fold(Weekdays::NONE, Weekdays::with);
    if on.is_empty() {
        return Err(ScheduleError::Days { got: shortened(words.peek()) });
    }
    Ok(Cadence::Weekly { on, at: read_times(words)? })
}

fn read_times(words: &mut Words<'_>) -> Result<Vec<TimeOfDay>, ScheduleError> {
    words.skip("at");
    let mut times = Vec::new();
    while times.is_empty() || words.skip("and") || is_time(words.peek()) {
        let got = words.next().unwrap_or_default();
        let time = TimeOfDay::parse(got).filter(|time| *time != TimeOfDay::END_OF_DAY);
        times.push(time.ok_or_else(|| ScheduleError::Time { got: shortened(got) })?);
    }
    times.sort_unstable();
    times.dedup();
    if times.len() > SCHEDULE_TIMES_MAX {
        Err(ScheduleError::TooManyTimes { got: times.len() })
    } else {
        Ok(times)
    }
}

fn is_time(word: &str) -> bool {
    word.contains(':') && !word.contains('-')
}

fn read_parts(
    words: &mut Words<'_>,
    cadence: Cadence,
    surroundings: Option<Zone>,
) -> Result<Schedule, ScheduleError> {
    let mut window = Window { days: Weekdays::NONE, ..Window::default() };
    let mut zone = None;
    while let Some(word) = words.next() {
        let twice = |what| ScheduleError::Twice { what, got: shortened(word) };
        if ["in", "on", "and"].iter().any(|filler| word.eq_ignore_ascii_case(filler)) {
            continue;
        } else if word.eq_ignore_ascii_case("except") {
            read_holidays(words)?;
            window.except_holidays = true;
        } else if let Some(days) = Weekdays::parse_word(word) {
            window.days = window.days.with(days);
        } else if word.contains(':') {
            let hours = Hours::parse(word).ok_or_else(|| ScheduleError::Window { got: shortened(word) })?;
            window.hours.replace(hours).map_or(Ok(()), |_| Err(twice("window of hours")))?;
        } else {
            let named = read_zone(word)?;
            zone.replace(named).map_or(Ok(()), |_| Err(twice("time zone")))?;
        }
    }
    if window.days.is_empty() {
        window.days = Weekdays::ALL;
    }
    if let (Some(zone), Some(other)) = (&zone, &surroundings)
        && zone != other
    {
        return Err(ScheduleError::Twice { what: "time zone", got: format!("{zone} beside {other}") });
    }
    let zone = zone.or(surroundings).unwrap_or_else(Zone::utc);
    Ok(Schedule { cadence, window, zone })
}

fn read_holidays(words: &mut Words<'_>) -> Result<(), ScheduleError> {
    let got = words.next().unwrap_or_default();
    let nearest = Some("except holidays".to_owned());
    let known = got.eq_ignore_ascii_case("holidays");
    if known {
        Ok(())
    } else {
        Err(ScheduleError::UnknownPart { got: format!("except {}", shortened(got)), nearest })
    }
}

/// A word with a slash can only be meant as a zone; any other may be a slip in something else.
fn read_zone(word: &str) -> Result<Zone, ScheduleError> {
    Zone::parse(word).map_err(|error| match error {
        ScheduleError::UnknownZone { got, nearest } if !word.contains('/') => {
            ScheduleError::UnknownPart { got, nearest }
        }
        other => other,
    })
}

fn check_interval(schedule: &Schedule) -> Result<(), ScheduleError> {
    let Cadence::Every { interval, from } = schedule.cadence else { return Ok(()) };
    if schedule.window.is_always() {
        return Ok(());
    }
    if from.is_some() {
        return Err(ScheduleError::FromWithWindow);
    }
    let open = Duration::from_secs(60 * schedule.window.hours_or_all_day().minutes());
    if interval > open {
        let (interval, window) = (show_span(interval), show_span(open));
        return Err(ScheduleError::IntervalOverWindow { interval, window });
    }
    Ok(())
}

/// Any schedule that ever runs does so within the time that is searched, whatever day it is now.
fn check_that_it_runs(schedule: Schedule) -> Result<Schedule, ScheduleError> {
    /// The start of 2026. A fixed instant, so that the answer does not depend on the day on which it is asked.
    const SINCE: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);
    let since = match schedule.cadence {
        Cadence::Every { from: Some(from), .. } => from.minus(Duration::from_secs(1)),
        _ => SINCE,
    };
    if schedule.ticks_after(since, &super::Holidays::default()).next().is_some() {
        return Ok(schedule);
    }
    let hint = match (schedule.window.is_always(), &schedule.cadence) {
        (true, Cadence::Cron(_)) => "look at its day and month: there is no 30 February and no 31 April",
        (true, _) => "look at its start",
        (false, _) => "its times and days all lie outside of its window: change one of them",
    };
    Err(ScheduleError::NeverRuns { got: schedule.to_string(), hint })
}
