//! Why a text is not a schedule: the expected and the given text, and what to do.

use crate::limits::{INTERVAL_MAX, INTERVAL_MIN, SCHEDULE_BYTES_MAX, SCHEDULE_TIMES_MAX};
use crate::span::show_span;

/// Why a schedule was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The text is too long.
    #[error(
        "expected a schedule of at most {SCHEDULE_BYTES_MAX} bytes, got {got}; split it into several schedules"
    )]
    TooLong {
        /// Its size in bytes.
        got: usize,
    },
    /// A character that is not visible.
    #[error("expected a schedule of printable characters, got {got:?} at character {at}; type it again")]
    Unprintable {
        /// The character.
        got: char,
        /// Its position, counted from 1.
        at: usize,
    },
    /// It begins with no known word.
    #[error(
        "expected a schedule such as `*/5 9-16 * * 1-5`, `every 15m`, `daily at 02:00` or `weekly on mon at 09:00`, \
         got {got:?}"
    )]
    UnknownCadence {
        /// The given text.
        got: String,
    },
    /// A cron expression with too few or too many fields.
    #[error(
        "expected the five fields of a cron expression (minute, hour, day of the month, month, day of the week), got \
         {got}{}", seconds_hint(*.got)
    )]
    CronFields {
        /// The number of fields.
        got: usize,
    },
    /// A field of a cron expression that cannot be read.
    #[error("expected {expected} in the {field} field of the cron expression, got {got:?}{hint}")]
    CronField {
        /// Which field.
        field: &'static str,
        /// The values that it accepts.
        expected: &'static str,
        /// The given text.
        got: String,
        /// What to write instead; may be empty.
        hint: &'static str,
    },
    /// `every` without a span of time.
    #[error("expected a span of time after `every`, such as 30s, 15m, 1h 30m or 7d, got {got:?}")]
    Interval {
        /// The given text.
        got: String,
    },
    /// An interval that is too short or too long.
    #[error(
        "expected an interval of whole seconds from {} to {}, got {got}",
        show_span(INTERVAL_MIN),
        show_span(INTERVAL_MAX)
    )]
    IntervalOutOfRange {
        /// The given text.
        got: String,
    },
    /// An interval that does not fit into the window in which it runs.
    #[error(
        "expected an interval that comes a second time before its window closes ({window}), got {interval}; it would \
         only run when the window opens: write `daily at` or `weekly on` instead"
    )]
    IntervalOverWindow {
        /// The interval.
        interval: String,
        /// For how long the window is open.
        window: String,
    },
    /// `from` without a valid instant.
    #[error("expected an instant after `from`, such as 2027-01-04T09:00:00Z, got {got:?}")]
    From {
        /// The given text.
        got: String,
    },
    /// `from` together with a window: an interval can count from one of them only.
    #[error(
        "expected `from` or a window, got both; an interval with a window or days counts from each opening"
    )]
    FromWithWindow,
    /// A text that is no time of day.
    #[error(
        "expected a time of day from 00:00 to 23:59, such as 02:00 or 9:30 (24:00 only ends a window), got {got:?}"
    )]
    Time {
        /// The given text.
        got: String,
    },
    /// Too many times of day.
    #[error(
        "expected at most {SCHEDULE_TIMES_MAX} times of day, got {got}; write `every` with a window instead"
    )]
    TooManyTimes {
        /// The number of times.
        got: usize,
    },
    /// The days of the week are missing.
    #[error("expected days after `weekly on`, such as `mon`, `mon-fri` or `tue,thu`, got {got:?}")]
    Days {
        /// The given text.
        got: String,
    },
    /// Days of the week both in a cron expression and after it.
    #[error(
        "expected days of the week in the cron expression or behind it, got both ({got} behind it); write a list without \
         spaces, such as `0 9 * * mon,wed`, or `*` in the fifth field"
    )]
    DaysTwice {
        /// The days after the expression.
        got: String,
    },
    /// A window that cannot be read, or that is empty.
    #[error("expected a window of two different times from 00:00 to 24:00, such as 09:30-16:00, got {got:?}")]
    Window {
        /// The given text.
        got: String,
    },
    /// A word that is no known part of a schedule.
    #[error(
        "expected a window such as 09:30-16:00, days such as mon-fri, `except holidays` or a time zone such as \
         Europe/Berlin, got {got:?}{}", did_you_mean(.nearest.as_deref())
    )]
    UnknownPart {
        /// The given text.
        got: String,
        /// A suggestion.
        nearest: Option<String>,
    },
    /// The time zone does not exist.
    #[error(
        "expected a time zone such as America/New_York or UTC, got {got:?}{}", did_you_mean(.nearest.as_deref())
    )]
    UnknownZone {
        /// The given text.
        got: String,
        /// A suggestion.
        nearest: Option<String>,
    },
    /// A part that may occur once occurs twice.
    #[error("expected one {what}, got a second one: {got:?}")]
    Twice {
        /// The kind of part.
        what: &'static str,
        /// The second one.
        got: String,
    },
    /// It can be parsed, but no day and time ever match it.
    #[error(
        "expected a schedule that runs some day, got {got:?}, which does not run within fifty years; {hint}"
    )]
    NeverRuns {
        /// The schedule.
        got: String,
        /// What to check.
        hint: &'static str,
    },
}

fn seconds_hint(fields: usize) -> &'static str {
    match fields {
        6.. => "; there is no field for seconds: write `every 10s` for less than a minute",
        _ => "",
    }
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

/// Shortens a text. A text that is invalid because it is huge must not make the error huge.
pub(super) fn shortened(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}
