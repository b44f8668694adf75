//! One field of a cron expression: a list of numbers, ranges and steps.

use std::fmt;

use crate::schedule::error::{ScheduleError, shortened};
use crate::schedule::weekdays;

/// What a field takes.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) expected: &'static str,
    pub(super) min: u8,
    pub(super) max: u8,
    /// The number that a name stands for.
    pub(super) named: fn(&str) -> Option<u8>,
}

pub(super) const MINUTE: Kind = Kind {
    name: "minute",
    expected: "numbers from 0 to 59, ranges, lists, `*` or steps such as `*/5`",
    min: 0,
    max: 59,
    named: |_| None,
};
pub(super) const HOUR: Kind = Kind {
    name: "hour",
    expected: "numbers from 0 to 23, ranges, lists, `*` or steps such as `*/2`",
    min: 0,
    max: 23,
    named: |_| None,
};
pub(super) const MONTH: Kind = Kind {
    name: "month",
    expected: "numbers from 1 to 12, names such as JAN, ranges, lists, `*` or steps",
    min: 1,
    max: 12,
    named: |name| month_by_name(name),
};
pub(super) const MONTH_DAY: Kind = Kind {
    name: "day of the month",
    expected: "numbers from 1 to 31, ranges, lists, `*`, steps or L for the last day",
    min: 1,
    max: 31,
    named: |_| None,
};
pub(super) const WEEK_DAY: Kind = Kind {
    name: "day of the week",
    expected: "numbers from 0 (Sunday) to 7 (Sunday too), names such as MON, ranges, lists, `*`, steps, FRI#2 for the \
               second or FRIL for the last Friday of the month",
    min: 0,
    max: 7,
    named: weekdays::from_cron_name,
};

pub(in crate::schedule) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// One field: what was written, and the numbers that it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::schedule) struct Field {
    parts: Vec<Part>,
    bits: u64,
}

/// One piece of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Star { step: u8 },
    Range { first: u8, last: u8, step: u8 },
}

impl Field {
    pub(super) fn parse(text: &str, kind: &Kind) -> Result<Self, ScheduleError> {
        let parts = text.split(',').map(|part| Part::parse(part, kind)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self::of(parts, kind))
    }

    fn of(parts: Vec<Part>, kind: &Kind) -> Self {
        let bits = parts.iter().map(|part| part.bits(kind)).fold(0, |all, part| all | part);
        Self { parts, bits }
    }

    /// A field of which nothing was written, since all of its list meant something else.
    pub(super) fn empty() -> Self {
        Self { parts: Vec::new(), bits: 0 }
    }

    /// Whether it begins with `*`.
    pub(in crate::schedule) fn is_star(&self) -> bool {
        matches!(self.parts.first(), Some(Part::Star { .. }))
    }

    /// Whether it is `*` and nothing else, so that every number fits.
    pub(in crate::schedule) fn is_any(&self) -> bool {
        self.parts == [Part::Star { step: 1 }]
    }

    /// The step, if it is `*/n` and nothing else.
    pub(in crate::schedule) fn star_step(&self) -> Option<u8> {
        match self.parts[..] {
            [Part::Star { step }] => Some(step),
            _ => None,
        }
    }

    pub(in crate::schedule) fn contains(&self, number: u8) -> bool {
        number < 64 && self.bits & (1 << number) != 0
    }

    /// The numbers, in order.
    pub(in crate::schedule) fn values(&self) -> impl Iterator<Item = u8> {
        let bits = self.bits;
        (0..64).filter(move |number| bits & (1 << number) != 0)
    }
}

impl Part {
    fn parse(text: &str, kind: &Kind) -> Result<Self, ScheduleError> {
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => {
                (range, Some(step_of(step, kind).ok_or_else(|| wrong(kind, text, STEP_HINT))?))
            }
            None => (text, None),
        };
        if range == "*" {
            return Ok(Self::Star { step: step.unwrap_or(1) });
        }
        let number = |text: &str| number_of(text, kind);
        match range.split_once('-') {
            Some((first, last)) => {
                let ends = number(first).zip(number(last));
                let (first, last) = ends.ok_or_else(|| wrong(kind, text, ""))?;
                let step = step.unwrap_or(1);
                (first <= last)
                    .then_some(Self::Range { first, last, step })
                    .ok_or_else(|| wrong(kind, text, ORDER_HINT))
            }
            None if step.is_some() => Err(wrong(kind, text, RANGE_HINT)),
            None => {
                let only = number(range).ok_or_else(|| wrong(kind, text, ""))?;
                Ok(Self::Range { first: only, last: only, step: 1 })
            }
        }
    }

    fn bits(self, kind: &Kind) -> u64 {
        // Sunday is 0 and 7; `*` must not count it twice, or `*/7` would mean two days.
        let (first, last, step) = match self {
            Self::Star { step } => (kind.min, if kind.max == 7 { 6 } else { kind.max }, step),
            Self::Range { first, last, step } => (first, last, step),
        };
        let bits = (first..=last).step_by(usize::from(step.max(1))).fold(0_u64, |bits, n| bits | 1 << n);
        if kind.max == 7 && bits & (1 << 7) != 0 { (bits & !(1 << 7)) | 1 } else { bits }
    }
}

const STEP_HINT: &str = "; a step is a number from 1 to the largest that the field takes";
const ORDER_HINT: &str = "; a range goes from the smaller to the larger number: write 22-23,0-6 for 22-6";
const RANGE_HINT: &str = "; a step needs a range or `*` before it: write 5-59/15 for 5/15";

pub(super) fn wrong(kind: &Kind, got: &str, hint: &'static str) -> ScheduleError {
    ScheduleError::CronField { field: kind.name, expected: kind.expected, got: shortened(got), hint }
}

/// A number or a name that the field takes.
pub(super) fn number_of(text: &str, kind: &Kind) -> Option<u8> {
    let number = plain_number(text).or_else(|| (kind.named)(text))?;
    (kind.min..=kind.max).contains(&number).then_some(number)
}

fn step_of(text: &str, kind: &Kind) -> Option<u8> {
    plain_number(text).filter(|step| (1..=kind.max).contains(step))
}

/// Digits only: the parser of numbers would also take a sign.
pub(super) fn plain_number(text: &str) -> Option<u8> {
    let is_plain = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain { text.parse().ok() } else { None }
}

fn month_by_name(name: &str) -> Option<u8> {
    let is_meant = |month: &&str| name.eq_ignore_ascii_case(&month[..3]) || name.eq_ignore_ascii_case(month);
    let index = MONTHS.iter().position(is_meant)?;
    u8::try_from(index + 1).ok()
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<_> = self.parts.iter().map(ToString::to_string).collect();
        f.write_str(&parts.join(","))
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Star { step: 1 } => f.write_str("*"),
            Self::Star { step } => write!(f, "*/{step}"),
            Self::Range { first, last, .. } if first == last => write!(f, "{first}"),
            Self::Range { first, last, step: 1 } => write!(f, "{first}-{last}"),
            Self::Range { first, last, step } => write!(f, "{first}-{last}/{step}"),
        }
    }
}
