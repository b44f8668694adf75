//! Names, checked once at enqueue. Past this point a name is known to be short, printable and safe in a
//! URL, a log line, an SQL parameter and a Redis key.

use std::fmt;
use std::sync::Arc;

use crate::limits::{KEY_BYTES_MAX, NAME_CHARS_MAX, TAG_BYTES_MAX};

/// Why a name was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {what} of {rule}, got {got:?}")]
pub struct NameError {
    pub(crate) what: &'static str,
    pub(crate) rule: &'static str,
    pub(crate) got: String,
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $rule:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks the text and takes it as a name.
            pub fn parse(text: &str) -> Result<Self, NameError> {
                let check: fn(&str) -> Option<Arc<str>> = $check;
                check(text).map(Self).ok_or_else(|| NameError {
                    what: $what,
                    rule: $rule,
                    got: shortened(text),
                })
            }

            /// The text of the name.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;
            fn try_from(text: String) -> Result<Self, NameError> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0.to_string()
            }
        }

        impl std::str::FromStr for $name {
            type Err = NameError;
            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::parse(text)
            }
        }
    };
}
pub(crate) use name;

name!(
    /// The name of a queue. Kept in lower case; `HIGH` and `high` are one queue.
    QueueName,
    "a queue name",
    "1 to 64 characters out of a-z 0-9 _ . -",
    |text| is_plain(text).then(|| text.to_ascii_lowercase().into())
);
name!(
    /// The name of a job type. It is what the store keeps, so renaming a Rust struct orphans nothing.
    TypeName,
    "a job type's name",
    "1 to 64 characters out of A-Z a-z 0-9 _ . -",
    |text| is_plain(text).then(|| text.into())
);
name!(
    /// A caller's key for a work item, such as `wallet:network`. Unique within its job type.
    Key,
    "a key",
    "1 to 256 bytes without control characters",
    |text| is_printable(text, KEY_BYTES_MAX).then(|| text.into())
);
name!(
    /// An ordering key of jobs that run one at a time, in the order of their enqueue. Unique within its
    /// job type.
    OrderingKey,
    "an ordering key",
    "1 to 256 bytes without control characters",
    |text| is_printable(text, KEY_BYTES_MAX).then(|| text.into())
);
name!(
    /// Whose work a job is, such as `tenant:42`: among the due jobs of a queue, fairness keys take turns.
    FairnessKey,
    "a fairness key",
    "1 to 256 bytes without control characters",
    |text| is_printable(text, KEY_BYTES_MAX).then(|| text.into())
);
name!(
    /// Ties together everything that one event caused: logs, spans, follow-up jobs.
    CorrelationId,
    "a correlation id",
    "1 to 256 bytes without control characters",
    |text| is_printable(text, KEY_BYTES_MAX).then(|| text.into())
);
name!(
    /// A group that jobs belong to, such as one import.
    GroupName,
    "a group's name",
    "1 to 256 bytes without control characters",
    |text| is_printable(text, KEY_BYTES_MAX).then(|| text.into())
);
name!(
    /// A word that a person can search for.
    Tag,
    "a tag",
    "1 to 64 bytes without control characters",
    |text| is_printable(text, TAG_BYTES_MAX).then(|| text.into())
);
name!(
    /// A priority's label, such as `high`. Kept in lower case.
    PriorityLabel,
    "a priority label",
    "1 to 64 characters out of a-z 0-9 _ . -",
    |text| is_plain(text).then(|| text.to_ascii_lowercase().into())
);

name!(
    /// The name of a circuit breaker: that of the outside platform which it protects. Kept in lower case.
    BreakerName,
    "a breaker's name",
    "1 to 64 characters out of a-z 0-9 _ . -",
    |text| is_plain(text).then(|| text.to_ascii_lowercase().into())
);
name!(
    /// The name of a rate limit. Kept in lower case.
    LimitName,
    "a rate limit's name",
    "1 to 64 characters out of a-z 0-9 _ . -",
    |text| is_plain(text).then(|| text.to_ascii_lowercase().into())
);

name!(
    /// The name of a duty that one process at a time does for all. Kept in lower case.
    DutyName,
    "a duty's name",
    "1 to 64 characters out of a-z 0-9 _ . -",
    |text| is_plain(text).then(|| text.to_ascii_lowercase().into())
);

name!(
    /// The name of a schedule. Kept in lower case.
    ScheduleName,
    "a schedule's name",
    "1 to 64 characters out of a-z 0-9 _ . -",
    |text| is_plain(text).then(|| text.to_ascii_lowercase().into())
);

name!(
    /// The name of a completion trigger. Kept in lower case.
    TriggerName,
    "a trigger's name",
    "1 to 64 characters out of a-z 0-9 _ . -",
    |text| is_plain(text).then(|| text.to_ascii_lowercase().into())
);

fn is_plain(text: &str) -> bool {
    let chars_ok = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b));
    (1..=NAME_CHARS_MAX).contains(&text.len()) && chars_ok
}

pub(crate) fn is_printable(text: &str, bytes_max: usize) -> bool {
    (1..=bytes_max).contains(&text.len()) && !text.chars().any(char::is_control)
}

/// A name that is wrong because it is huge must not make the error huge.
pub(crate) fn shortened(text: &str) -> String {
    const SHOWN: usize = 40;
    match text.char_indices().nth(SHOWN) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_names_are_matched_without_case() {
        assert_eq!(QueueName::parse("HIGH").unwrap(), QueueName::parse("high").unwrap());
    }

    #[test]
    fn odd_characters_and_lengths_are_refused_with_what_came() {
        for odd in ["", " ", "a b", "a/b", "ä", "a\0", "{tag}", "a\n", &"x".repeat(65)] {
            assert!(QueueName::parse(odd).is_err(), "{odd:?}");
            assert!(TypeName::parse(odd).is_err(), "{odd:?}");
        }
        let error = TypeName::parse("no spaces").unwrap_err().to_string();
        assert!(error.contains("\"no spaces\"") && error.contains("a-z"), "{error}");
    }

    #[test]
    fn keys_take_any_printable_text() {
        assert!(Key::parse("wallet:мережа/1").is_ok());
        assert!(Key::parse("a\tb").is_err());
        assert!(Key::parse(&"x".repeat(257)).is_err());
    }

    #[test]
    fn an_error_about_a_huge_name_stays_small() {
        assert!(Key::parse(&"x".repeat(100_000)).unwrap_err().to_string().len() < 200);
    }
}
