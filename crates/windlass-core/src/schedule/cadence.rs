//! How often a schedule runs.

use std::fmt;
use std::time::Duration;

use jiff::civil::Date;

use super::{Cron, TimeOfDay, Weekdays};
use crate::clock::Timestamp;

/// How often a schedule runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cadence {
    /// A cron expression.
    Cron(Cron),
    /// At an interval of elapsed time.
    Every {
        /// The interval, in whole seconds.
        interval: Duration,
        /// The instant from which it counts, and before which there is no tick. Without it, and without a
        /// window, it counts from the start of 1970 in UTC, so that all processes agree.
        from: Option<Timestamp>,
    },
    /// Every day at these times.
    Daily {
        /// The times, in order, each once.
        at: Vec<TimeOfDay>,
    },
    /// On these days of the week at these times.
    Weekly {
        /// The days.
        on: Weekdays,
        /// The times, in order, each once.
        at: Vec<TimeOfDay>,
    },
}

/// How a cadence behaves when clocks change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockRule {
    /// It ignores clocks: elapsed time counts.
    Elapsed,
    /// A beat by the time that clocks show: it runs whenever the clock shows a matching time.
    Beat,
    /// An appointment: it runs once, right after the gap if its time is left out.
    Appointment,
}

impl Cadence {
    /// Returns how it behaves when clocks change.
    pub fn clock_rule(&self) -> ClockRule {
        match self {
            Self::Every { .. } => ClockRule::Elapsed,
            Self::Cron(cron) if cron.is_beat() => ClockRule::Beat,
            Self::Cron(_) | Self::Daily { .. } | Self::Weekly { .. } => ClockRule::Appointment,
        }
    }

    /// Returns all its times of day, in order; none if it follows elapsed time.
    pub(super) fn times(&self) -> Vec<TimeOfDay> {
        match self {
            Self::Cron(cron) => cron.times(),
            Self::Every { .. } => Vec::new(),
            Self::Daily { at } | Self::Weekly { at, .. } => at.clone(),
        }
    }

    /// Whether it runs on a date, whatever its window says.
    pub(super) fn falls_on(&self, date: Date) -> bool {
        match self {
            Self::Cron(cron) => cron.falls_on(date),
            Self::Every { .. } | Self::Daily { .. } => true,
            Self::Weekly { on, .. } => on.contains(date.weekday()),
        }
    }

    /// Whether it runs in the month of a date at all, so that a search can skip whole months.
    pub(super) fn runs_in_month_of(&self, date: Date) -> bool {
        match self {
            Self::Cron(cron) => cron.runs_in(date),
            _ => true,
        }
    }
}

impl fmt::Display for Cadence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cron(cron) => write!(f, "{cron}"),
            Self::Every { interval, from: None } => write!(f, "every {}", exact(*interval)),
            Self::Every { interval, from: Some(from) } => {
                write!(f, "every {} from {}", exact(*interval), whole_seconds(*from))
            }
            Self::Daily { at } => write!(f, "daily at {}", times(at)),
            Self::Weekly { on, at } => write!(f, "weekly on {on} at {}", times(at)),
        }
    }
}

fn times(at: &[TimeOfDay]) -> String {
    at.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Returns the text of an instant of whole seconds, such as a schedule's start.
pub(super) fn whole_seconds(instant: Timestamp) -> String {
    instant.to_string().replace(".000Z", "Z")
}

/// Returns the exact span, in the largest units: `1h 30m`, `7d`.
pub(super) fn exact(interval: Duration) -> String {
    let mut left = interval.as_secs();
    let mut parts = Vec::new();
    for (unit, seconds) in [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)] {
        if left >= seconds {
            parts.push(format!("{}{unit}", left / seconds));
            left %= seconds;
        }
    }
    parts.join(" ")
}
