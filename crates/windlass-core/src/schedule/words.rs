//! A schedule in plain words, so that a reader need not know cron.

use std::time::Duration;

use super::cadence::{exact, whole_seconds};
use super::{Cadence, Cron, Hours, Schedule, TimeOfDay, Weekdays, Window, Zone};
use crate::clock::Timestamp;

mod cron;

/// The maximum length of a list that is shown in full; longer lists are shown by their beginning and
/// their end.
const LISTED_MAX: usize = 8;

pub(super) fn schedule(schedule: &Schedule) -> String {
    let Schedule { cadence, window, zone } = schedule;
    let mut parts = match cadence {
        Cadence::Every { interval, from } => {
            vec![interval_words(&exact(*interval), window.hours), from_words(schedule, *interval, *from)]
        }
        Cadence::Daily { at } => {
            vec![times_words(at, window.days == Weekdays::ALL), hours_words(window.hours)]
        }
        Cadence::Weekly { on, at } => vec![weekly_words(*on, at), hours_words(window.hours)],
        Cadence::Cron(cron) => cron_parts(cron, window),
    };
    if window.days != Weekdays::ALL {
        parts.push(only_on(cadence, window.days));
    }
    if window.except_holidays {
        parts.push("except on holidays".to_owned());
    }
    parts.push(zone.words());
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

fn cron_parts(cron: &Cron, window: &Window) -> Vec<String> {
    let days = cron::days(cron);
    let every_day = days.is_empty() && window.days == Weekdays::ALL;
    vec![cron::times(cron, every_day), days, hours_words(window.hours)]
}

/// Describes the days of the window. If the cadence has days, too, the word "only" tells the two apart.
fn only_on(cadence: &Cadence, days: Weekdays) -> String {
    let has_days = match cadence {
        Cadence::Weekly { .. } => true,
        Cadence::Cron(cron) => !cron::days(cron).is_empty(),
        _ => false,
    };
    if has_days { format!("only {}", days.words()) } else { days.words() }
}

fn interval_words(exact: &str, hours: Option<Hours>) -> String {
    let units = exact.split(' ').map(|part| {
        let (number, unit) = part.split_at(part.len() - 1);
        let name = match unit {
            "d" => "day",
            "h" => "hour",
            "m" => "minute",
            _ => "second",
        };
        if number == "1" { format!("1 {name}") } else { format!("{number} {name}s") }
    });
    let units = units.collect::<Vec<_>>().join(" ");
    let lone = units.strip_prefix("1 ").filter(|name| !name.contains(' '));
    let span = match hours {
        Some(hours) => format!(" from {} to {}{}", hours.opens(), hours.closes(), next_day(hours)),
        None => String::new(),
    };
    format!("every {}{span}", lone.unwrap_or(&units))
}

/// Describes what an interval counts from, unless clocks of the zone show the same times every day:
/// `every 1d, Asia/Tokyo` is not midnight in Tokyo, and the times of `every 7h` are not obvious.
fn from_words(schedule: &Schedule, interval: Duration, from: Option<Timestamp>) -> String {
    /// Clocks of all zones differ from UTC by a multiple of this.
    const COMMON: u64 = 15 * 60;
    let divides = |span: u64| span.is_multiple_of(interval.as_secs());
    let is_plain = divides(COMMON) || (schedule.zone == Zone::utc() && divides(12 * 60 * 60));
    match from {
        None if is_plain || !schedule.window.is_always() => String::new(),
        from => format!("counted from {}", whole_seconds(from.unwrap_or(Timestamp::EPOCH))),
    }
}

fn times_words(at: &[TimeOfDay], every_day: bool) -> String {
    let times = list(&at.iter().map(ToString::to_string).collect::<Vec<_>>());
    if every_day { format!("every day at {times}") } else { format!("at {times}") }
}

/// Writes `every Monday at 09:00`, but `at 09:00, Monday to Friday`: English does not say "every Monday
/// to Friday".
fn weekly_words(on: Weekdays, at: &[TimeOfDay]) -> String {
    let (days, times) = (on.words(), times_words(at, false));
    if days.contains(" to ") { format!("{times}, {days}") } else { format!("every {days} {times}") }
}

fn hours_words(hours: Option<Hours>) -> String {
    let words =
        |hours: Hours| format!("only between {} and {}{}", hours.opens(), hours.closes(), next_day(hours));
    hours.map(words).unwrap_or_default()
}

fn next_day(hours: Hours) -> &'static str {
    if hours.closes() < hours.opens() { " the next day" } else { "" }
}

/// Joins items: `a`, `a and b`, `a, b and c`; of a long list the first and the last.
pub(super) fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [first, second, third, .., last] if items.len() > LISTED_MAX => {
            format!("{first}, {second}, {third} … {last}")
        }
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// Returns the runs of consecutive numbers, as first and last.
pub(super) fn runs(numbers: impl Iterator<Item = usize>) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    runs
}

/// Describes numbers: `1, 3 and 5 to 7`.
fn number_words(numbers: impl Iterator<Item = u8>) -> String {
    let runs = runs(numbers.map(usize::from)).into_iter().flat_map(|(first, last)| match last - first {
        0 => vec![first.to_string()],
        1 => vec![first.to_string(), last.to_string()],
        _ => vec![format!("{first} to {last}")],
    });
    list(&runs.collect::<Vec<_>>())
}
