//! Days of the week: a set, read from and written as `mon-fri` or `tue,thu`.

use std::fmt;

use jiff::civil::Weekday;

/// The short and the long name of each day, Monday first.
const NAMES: [(&str, &str); 7] = [
    ("mon", "Monday"),
    ("tue", "Tuesday"),
    ("wed", "Wednesday"),
    ("thu", "Thursday"),
    ("fri", "Friday"),
    ("sat", "Saturday"),
    ("sun", "Sunday"),
];

/// Some days of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weekdays(u8);

impl Weekdays {
    /// All seven.
    pub const ALL: Self = Self(0b111_1111);
    /// No day, as the start of a union.
    pub(super) const NONE: Self = Self(0);
    const MONDAY_TO_FRIDAY: Self = Self(0b001_1111);
    const SATURDAY_AND_SUNDAY: Self = Self(0b110_0000);

    /// Parses one word: a day (`mon`, `Monday`), a range (`mon-fri`, `fri-mon`), `weekdays` or
    /// `weekends`.
    pub(super) fn parse_word(word: &str) -> Option<Self> {
        let word = word.to_ascii_lowercase();
        match word.as_str() {
            "weekday" | "weekdays" => return Some(Self::MONDAY_TO_FRIDAY),
            "weekend" | "weekends" => return Some(Self::SATURDAY_AND_SUNDAY),
            _ => {}
        }
        match word.split_once('-') {
            None => Some(Self(1 << index(&word)?)),
            Some((first, last)) => Some(Self::range(index(first)?, index(last)?)),
        }
    }

    /// Returns the days from one day to another, over the end of the week if necessary.
    fn range(first: usize, last: usize) -> Self {
        let length = (last + 7 - first) % 7;
        (0..=length).map(|step| Self(1 << ((first + step) % 7))).fold(Self::NONE, Self::with)
    }

    pub(super) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn contains(self, day: Weekday) -> bool {
        self.0 & (1 << day.to_monday_zero_offset()) != 0
    }

    pub(super) fn of(days: impl IntoIterator<Item = Weekday>) -> Self {
        days.into_iter().map(|day| Self(1 << day.to_monday_zero_offset())).fold(Self::NONE, Self::with)
    }

    /// Describes the set in words: `Monday to Friday`, `Tuesday and Thursday`.
    pub fn words(self) -> String {
        let runs = self.runs().into_iter().flat_map(|(first, last)| match last - first {
            0 => vec![NAMES[first].1.to_owned()],
            1 => vec![NAMES[first].1.to_owned(), NAMES[last].1.to_owned()],
            _ => vec![format!("{} to {}", NAMES[first].1, NAMES[last].1)],
        });
        super::words::list(&runs.collect::<Vec<_>>())
    }

    /// Returns the runs of consecutive days, Monday first.
    fn runs(self) -> Vec<(usize, usize)> {
        super::words::runs((0..7).filter(|index| self.0 & (1 << index) != 0))
    }
}

impl fmt::Display for Weekdays {
    /// Writes the canonical text: `mon-fri`, `tue,thu`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.runs().into_iter().map(|(first, last)| match first == last {
            true => NAMES[first].0.to_owned(),
            false => format!("{}-{}", NAMES[first].0, NAMES[last].0),
        });
        f.write_str(&runs.collect::<Vec<_>>().join(","))
    }
}

/// Returns the index of a day; Monday is 0. Accepts `mon` and `monday`.
fn index(word: &str) -> Option<usize> {
    NAMES.iter().position(|(short, long)| word == *short || word.eq_ignore_ascii_case(long))
}

/// Returns the number of a day in cron; Sunday is 0.
pub(super) fn from_cron_name(word: &str) -> Option<u8> {
    const SUNDAY_FIRST: [u8; 7] = [1, 2, 3, 4, 5, 6, 0];
    index(&word.to_ascii_lowercase()).map(|index| SUNDAY_FIRST[index])
}

pub(super) fn abbreviation(day: Weekday) -> &'static str {
    &name(day)[..3]
}

pub(super) fn name(day: Weekday) -> &'static str {
    NAMES[usize::from(day.to_monday_zero_offset().unsigned_abs())].1
}
