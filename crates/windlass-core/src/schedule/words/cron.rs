//! A cron expression in plain words.

use super::{LISTED_MAX, list, number_words, runs};
use crate::schedule::cron::{Counted, Cron, MONTHS};
use crate::schedule::{TimeOfDay, Weekdays, weekdays};

/// Describes the times of day. `every_day` says that no day is left out.
pub(super) fn times(cron: &Cron, every_day: bool) -> String {
    let minutes: Vec<_> = cron.minute.values().collect();
    let even = cron.minute.star_step().filter(|step| 60 % step == 0);
    match (even, &minutes[..]) {
        (Some(step), _) => every_minutes(cron, step),
        (None, [minute]) => at_minute(cron, *minute, every_day),
        _ if !cron.hour.is_star() && cron.times().len() <= LISTED_MAX => at_times(&cron.times(), every_day),
        _ => format!("at minutes {} past {}", number_words(minutes.into_iter()), hours(cron)),
    }
}

fn every_minutes(cron: &Cron, step: u8) -> String {
    let beat = match step {
        1 => "every minute".to_owned(),
        _ => format!("every {step} minutes"),
    };
    if cron.hour.is_any() {
        return beat;
    }
    let last_minute = 60 - step;
    let spans: Vec<_> = runs(cron.hour.values().map(usize::from))
        .into_iter()
        .map(|(first, last)| format!("from {first:02}:00 to {last:02}:{last_minute:02}"))
        .collect();
    if spans.len() > 3 { format!("{beat} of {}", hours(cron)) } else { format!("{beat} {}", list(&spans)) }
}

fn at_minute(cron: &Cron, minute: u8, every_day: bool) -> String {
    let at = |hour: usize| format!("{hour:02}:{minute:02}");
    if cron.hour.is_any() {
        return format!("every hour at minute {minute}");
    }
    if let Some(step) = cron.hour.star_step().filter(|step| 24 % step == 0) {
        return format!("every {step} hours from {} to {}", at(0), at(usize::from(24 - step)));
    }
    match runs(cron.hour.values().map(usize::from))[..] {
        [(first, last)] if last - first >= 3 => format!("every hour from {} to {}", at(first), at(last)),
        _ => at_times(&cron.times(), every_day),
    }
}

fn at_times(times: &[TimeOfDay], every_day: bool) -> String {
    super::times_words(times, every_day)
}

fn hours(cron: &Cron) -> String {
    if cron.hour.is_any() {
        return "every hour".to_owned();
    }
    format!("the hours {}", number_words(cron.hour.values()))
}

/// Describes the days; empty if it runs on all days.
pub(super) fn days(cron: &Cron) -> String {
    let (by_month, by_week) = (month_days(cron), week_days(cron));
    let days = match (by_month.is_empty(), by_week.is_empty()) {
        (true, _) => by_week,
        (_, true) => format!("on {by_month}"),
        _ if cron.either_day() => format!("on {by_month} or {by_week}"),
        _ => format!("on {by_month} if that is {by_week}"),
    };
    let months = months(cron);
    [days, months].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

fn month_days(cron: &Cron) -> String {
    let days = &cron.month_days;
    let numbers: Vec<_> = days.numbers.values().collect();
    let counted = match numbers.len() {
        0 => None,
        _ if days.numbers.is_any() => return String::new(),
        1 => Some(format!("day {} of the month", numbers[0])),
        _ => Some(format!("days {} of the month", number_words(numbers.into_iter()))),
    };
    let last = days.last.then(|| "the last day of the month".to_owned());
    list(&counted.into_iter().chain(last).collect::<Vec<_>>())
}

fn week_days(cron: &Cron) -> String {
    let days = &cron.week_days;
    if days.every.is_any() {
        return String::new();
    }
    let weekly = Some(Weekdays::of(days.weekly())).filter(|days| !days.is_empty()).map(Weekdays::words);
    let counted = days.counted.iter().map(|day| nth(*day));
    list(&weekly.into_iter().chain(counted).collect::<Vec<_>>())
}

fn nth(day: Counted) -> String {
    let which = match day.nth {
        Some(1) => "first",
        Some(2) => "second",
        Some(3) => "third",
        Some(4) => "fourth",
        Some(_) => "fifth",
        None => "last",
    };
    format!("the {which} {} of the month", weekdays::name(day.weekday()))
}

fn months(cron: &Cron) -> String {
    if cron.month.is_any() {
        return String::new();
    }
    let name = |index: usize| MONTHS[index - 1].to_owned();
    let runs =
        runs(cron.month.values().map(usize::from)).into_iter().flat_map(|(first, last)| match last - first {
            0 => vec![name(first)],
            1 => vec![name(first), name(last)],
            _ => vec![format!("{} to {}", name(first), name(last))],
        });
    format!("in {}", list(&runs.collect::<Vec<_>>()))
}
