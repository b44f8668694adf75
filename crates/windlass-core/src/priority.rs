//! The priority of a job: a whole number from 0 (most urgent) to 10, and the labels that people use for
//! the numbers.

use std::collections::BTreeMap;
use std::fmt;

use crate::names::PriorityLabel;

/// A priority from 0 to 10; lower is more urgent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "i64", into = "i64")]
pub struct Priority(u8);

impl Priority {
    /// The most urgent.
    pub const MOST_URGENT: Self = Self(0);
    /// The default of a queue that sets none.
    pub const NORMAL: Self = Self(5);
    /// The least urgent.
    pub const LEAST_URGENT: Self = Self(10);

    /// Checks a number.
    pub fn new(number: i64) -> Result<Self, PriorityError> {
        match u8::try_from(number) {
            Ok(level @ 0..=10) => Ok(Self(level)),
            _ => Err(PriorityError::OutOfRange { got: number }),
        }
    }

    /// Returns the number.
    pub fn level(self) -> u8 {
        self.0
    }

    /// Returns all eleven, most urgent first.
    pub fn all() -> impl DoubleEndedIterator<Item = Self> {
        (0..=10).map(Self)
    }

    /// Returns this priority after rising by `steps`.
    pub fn risen_by(self, steps: u64) -> Self {
        Self(self.0.saturating_sub(u8::try_from(steps).unwrap_or(u8::MAX)))
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl TryFrom<i64> for Priority {
    type Error = PriorityError;
    fn try_from(number: i64) -> Result<Self, PriorityError> {
        Self::new(number)
    }
}

impl From<Priority> for i64 {
    fn from(priority: Priority) -> i64 {
        priority.0.into()
    }
}

/// Why a priority was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PriorityError {
    /// The number is not from 0 to 10.
    #[error("expected a priority from 0 (most urgent) to 10, got {got}")]
    OutOfRange {
        /// The number.
        got: i64,
    },
    /// The label is not configured.
    #[error(
        "expected a priority label out of {known}, got {got:?}; labels are configured under [priorities]"
    )]
    UnknownLabel {
        /// The label.
        got: String,
        /// The configured labels.
        known: String,
    },
}

/// The labels of this installation and what they mean.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct PriorityLabels(BTreeMap<PriorityLabel, Priority>);

impl PriorityLabels {
    /// Creates a set of exactly the given labels.
    pub fn new(labels: BTreeMap<PriorityLabel, Priority>) -> Self {
        Self(labels)
    }

    /// Returns the current meaning of a label. Case does not matter.
    pub fn resolve(&self, label: &str) -> Result<(PriorityLabel, Priority), PriorityError> {
        let unknown =
            || PriorityError::UnknownLabel { got: label.chars().take(64).collect(), known: self.known() };
        let label = PriorityLabel::parse(label).map_err(|_| unknown())?;
        let priority = *self.0.get(&label).ok_or_else(unknown)?;
        Ok((label, priority))
    }

    fn known(&self) -> String {
        self.0.keys().map(PriorityLabel::as_str).collect::<Vec<_>>().join(", ")
    }
}

impl Default for PriorityLabels {
    /// `high` 0, `normal` 5, `low` 10.
    fn default() -> Self {
        let labels = [("high", 0), ("normal", 5), ("low", 10)];
        Self(
            labels
                .into_iter()
                .map(|(label, level)| {
                    (PriorityLabel::parse(label).expect("the built-in labels are names"), Priority(level))
                })
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_numbers_from_0_to_10_are_priorities() {
        for good in 0..=10 {
            assert_eq!(i64::from(Priority::new(good).unwrap()), good);
        }
        for bad in [-1, 11, 256, i64::MIN, i64::MAX] {
            assert_eq!(Priority::new(bad), Err(PriorityError::OutOfRange { got: bad }));
        }
    }

    #[test]
    fn labels_mean_numbers_and_unknown_ones_name_the_known() {
        let labels = PriorityLabels::default();
        assert_eq!(labels.resolve("HIGH").unwrap().1, Priority::MOST_URGENT);
        assert_eq!(labels.resolve("low").unwrap().1, Priority::LEAST_URGENT);
        let error = labels.resolve("urgent").unwrap_err().to_string();
        assert!(error.contains("high, low, normal"), "{error}");
    }
}
