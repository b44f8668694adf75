//! One field of a cron expression: a list of numbers, ranges and steps.

use std::fmt;

use crate::schedule::error::{ScheduleError, shortened};
use crate::schedule::weekdays;

/// The values that a field accepts.
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

/// One field: the numbers that match, and whether it was written with a leading `*`, on which some rules
/// depend.
///
/// Other details of the text are not kept, so that fields with the same meaning are equal and have one
/// text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::schedule) struct Field {
    begins_with_star: bool,
    bits: u64,
    min: u8,
    max: u8,
}

/// One part of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Star { step: u8 },
    Range { first: u8, last: u8, step: u8 },
}

impl Field {
    pub(super) fn parse(text: &str, kind: &Kind) -> Result<Self, ScheduleError> {
        let parts = text.split(',').map(|part| Part::parse(part, kind)).collect::<Result<Vec<_>, _>>()?;
        let begins_with_star = matches!(parts.first(), Some(Part::Star { .. }));
        let bits = parts.iter().map(|part| part.bits(kind)).fold(0, |all, part| all | part);
        Ok(Self { begins_with_star, bits, ..Self::empty(kind) })
    }

    /// Returns an empty field, for a list whose parts all had another meaning.
    pub(super) fn empty(kind: &Kind) -> Self {
        Self { begins_with_star: false, bits: 0, min: kind.min, max: kind.largest() }
    }

    /// Whether it begins with `*`.
    pub(in crate::schedule) fn is_star(&self) -> bool {
        self.begins_with_star
    }

    /// Whether every number matches, however that was written.
    pub(in crate::schedule) fn is_every(&self) -> bool {
        self.bits == self.stepping(1)
    }

    /// Whether it is `*` and nothing else.
    pub(in crate::schedule) fn is_any(&self) -> bool {
        self.is_star() && self.is_every()
    }

    /// Returns the step, if it is `*/n` and nothing else.
    pub(in crate::schedule) fn star_step(&self) -> Option<u8> {
        self.first_step().filter(|step| self.stepping(*step) == self.bits)
    }

    /// Returns the smallest step whose numbers are all in the field, if it begins with `*`.
    fn first_step(&self) -> Option<u8> {
        let has_all = |step: &u8| self.stepping(*step) & !self.bits == 0;
        // `*/7` as the days of the week is one more than the largest of them.
        self.is_star().then(|| (1..=self.max + 1).find(has_all)).flatten()
    }

    fn stepping(&self, step: u8) -> u64 {
        bits_of(self.min, self.max, step)
    }

    pub(in crate::schedule) fn contains(&self, number: u8) -> bool {
        number < 64 && self.bits & (1 << number) != 0
    }

    /// Returns the numbers, in order.
    pub(in crate::schedule) fn values(&self) -> impl Iterator<Item = u8> + use<> {
        numbers_of(self.bits)
    }
}

fn bits_of(first: u8, last: u8, step: u8) -> u64 {
    (first..=last).step_by(usize::from(step)).fold(0_u64, |bits, number| bits | 1 << number)
}

fn numbers_of(bits: u64) -> impl Iterator<Item = u8> {
    (0..64).filter(move |number| bits & (1 << number) != 0)
}

impl Kind {
    /// Returns the largest distinct number: Sunday is 0 and 7, and `*` must not count it twice, or `*/7`
    /// would mean two days.
    fn largest(&self) -> u8 {
        if self.counts_sunday_twice() { 6 } else { self.max }
    }

    fn counts_sunday_twice(&self) -> bool {
        self.max == 7
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
        let bits = match self {
            Self::Star { step } => bits_of(kind.min, kind.largest(), step),
            Self::Range { first, last, step } => bits_of(first, last, step),
        };
        let has_seven = kind.counts_sunday_twice() && bits & (1 << 7) != 0;
        if has_seven { (bits & !(1 << 7)) | 1 } else { bits }
    }
}

const STEP_HINT: &str = "; a step is a number from 1 to the largest that the field takes";
const ORDER_HINT: &str = "; a range goes from the smaller to the larger number: write 22-23,0-6 for 22-6";
const RANGE_HINT: &str = "; a step needs a range or `*` before it: write 5-59/15 for 5/15";

pub(super) fn wrong(kind: &Kind, got: &str, hint: &'static str) -> ScheduleError {
    ScheduleError::CronField { field: kind.name, expected: kind.expected, got: shortened(got), hint }
}

/// Parses a number or a name that the field accepts.
pub(super) fn number_of(text: &str, kind: &Kind) -> Option<u8> {
    let number = plain_number(text).or_else(|| (kind.named)(text))?;
    (kind.min..=kind.max).contains(&number).then_some(number)
}

fn step_of(text: &str, kind: &Kind) -> Option<u8> {
    plain_number(text).filter(|step| (1..=kind.max).contains(step))
}

/// Parses digits only: the standard number parser would also accept a sign.
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
    /// Writes the canonical text: a star with its step if the field began with one, then all other
    /// numbers in order.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = self.first_step();
        let star = step.map(|step| if step == 1 { "*".to_owned() } else { format!("*/{step}") });
        let others = numbers_of(self.bits & !step.map_or(0, |step| self.stepping(step)));
        let ranges = ranges(&others.collect::<Vec<_>>());
        f.write_str(&star.into_iter().chain(ranges).collect::<Vec<_>>().join(","))
    }
}

/// Returns numbers as text: three or more with the same step between them are a range.
fn ranges(mut numbers: &[u8]) -> Vec<String> {
    let mut ranges = Vec::new();
    while let [first, rest @ ..] = numbers {
        let step = rest.first().map_or(0, |second| second - first);
        let even = 1 + numbers.windows(2).take_while(|pair| pair[1] - pair[0] == step).count();
        let (taken, last) = if even >= 3 { (even, numbers[even - 1]) } else { (1, *first) };
        ranges.push(match (taken, step) {
            (1, _) => first.to_string(),
            (_, 1) => format!("{first}-{last}"),
            _ => format!("{first}-{last}/{step}"),
        });
        numbers = &numbers[taken..];
    }
    ranges
}
