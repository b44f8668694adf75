//! Queues as they are declared, and the five that are built in.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::limits::{CONCURRENCY_DEFAULT, CONCURRENCY_MAX};
use crate::names::QueueName;
use crate::priority::Priority;
use crate::span;
use crate::stored::StoredSpec;

/// A queue as configuration declares it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct QueueSpec {
    /// Its name.
    pub name: QueueName,
    /// The priority of its jobs where they name none, and its rank where one pool serves several queues.
    #[serde(default = "default_priority")]
    pub priority: Priority,
    /// How many of its jobs one process runs at once.
    #[serde(default = "default_concurrency")]
    pub concurrency: u32,
    /// How often to poll for jobs if no hint comes; only a safety net.
    #[serde(with = "span::text", default = "default_poll_interval")]
    pub poll_interval: Duration,
    /// 95 of 100 jobs should start within this time after they fall due.
    #[serde(with = "span::optional_text", default)]
    pub p95_target: Option<Duration>,
    /// How pages and tables show it.
    #[serde(default)]
    pub colour: Colour,
    /// The channel for a notification when one of its jobs is dead.
    #[serde(default)]
    pub escalation: Escalation,
    /// The maximum number of unfinished jobs; further jobs are refused.
    #[serde(default)]
    pub capacity: Option<u64>,
    /// A warning is logged when more than this are unfinished.
    #[serde(default)]
    pub warn_depth: Option<u64>,
}

impl QueueSpec {
    /// Creates a queue with the defaults of an unconfigured one.
    pub fn new(name: QueueName) -> Self {
        Self {
            name,
            priority: default_priority(),
            concurrency: default_concurrency(),
            poll_interval: default_poll_interval(),
            p95_target: None,
            colour: Colour::default(),
            escalation: Escalation::default(),
            capacity: None,
            warn_depth: None,
        }
    }

    /// Reads the stored declaration of the queue with this name.
    pub fn from_store(name: &QueueName, text: String) -> StoredSpec<Self> {
        StoredSpec::read(text, format!("queue {name}"), Self::new(name.clone()), |read, row| {
            (read.name != row.name).then_some("name")
        })
    }

    /// Checks what types cannot express.
    pub fn check(&self) -> Result<(), QueueSpecError> {
        if !(1..=CONCURRENCY_MAX).contains(&self.concurrency) {
            return Err(QueueSpecError::Concurrency { queue: self.name.clone(), got: self.concurrency });
        }
        if self.poll_interval < POLL_INTERVAL_MIN {
            return Err(QueueSpecError::PollInterval { queue: self.name.clone() });
        }
        Ok(())
    }

    /// Returns the five built-in queues: high, default, screenshot, low and bulk.
    pub fn built_in() -> Vec<Self> {
        let minutes = |n: u64| Duration::from_secs(60 * n);
        let secs = Duration::from_secs;
        [
            ("high", 0, 20, secs(5), Some(secs(30)), Colour::Salmon, Escalation::Page),
            ("default", 5, 10, secs(10), Some(minutes(5)), Colour::Blue, Escalation::Chat),
            ("screenshot", 6, 3, secs(10), Some(minutes(2)), Colour::Lavender, Escalation::Chat),
            ("low", 7, 5, secs(30), Some(minutes(30)), Colour::Green, Escalation::Digest),
            ("bulk", 8, 8, secs(60), None, Colour::Yellow, Escalation::Digest),
        ]
        .into_iter()
        .map(|(name, priority, concurrency, poll_interval, p95_target, colour, escalation)| Self {
            priority: Priority::new(priority).expect("the built-in priorities lie between 0 and 10"),
            concurrency,
            poll_interval,
            p95_target,
            colour,
            escalation,
            ..Self::new(QueueName::parse(name).expect("the built-in queues have plain names"))
        })
        .collect()
    }
}

/// The shortest poll interval: polling is a safety net, not a way to find work.
pub const POLL_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Why a queue was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueueSpecError {
    /// Too few or too many slots.
    #[error("expected `concurrency` of queue {queue} between 1 and {CONCURRENCY_MAX}, got {got}")]
    Concurrency {
        /// The queue.
        queue: QueueName,
        /// The given value.
        got: u32,
    },
    /// Too frequent polling.
    #[error(
        "expected `poll_interval` of queue {queue} of at least 100ms; new jobs wake workers at once, polling is only a safety net"
    )]
    PollInterval {
        /// The queue.
        queue: QueueName,
    },
}

/// A queue's colour on pages and in tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "colours need no words")]
pub enum Colour {
    #[default]
    Grey,
    Salmon,
    Blue,
    Lavender,
    Green,
    Yellow,
}

/// The channel for a notification when a job of the queue is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Escalation {
    /// No notification.
    #[default]
    None,
    /// The person on call, at once.
    Page,
    /// A chat channel.
    Chat,
    /// A daily digest.
    Digest,
}

/// The pause of a queue: none of its jobs is claimed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Pause {
    /// Since when.
    pub since: Timestamp,
    /// Why, in the words of the person who paused it.
    pub reason: Option<String>,
    /// When it ends by itself.
    pub until: Option<Timestamp>,
}

impl Pause {
    /// Creates a pause in place of one that cannot be read: the queue stays paused until it is resumed,
    /// and shows why.
    pub fn unreadable(why: &str) -> Self {
        let reason = format!("the stored pause cannot be read: {why}; resume the queue to replace it");
        Self { since: Timestamp::EPOCH, reason: Some(reason), until: None }
    }

    /// Reads the JSON that a store keeps.
    pub fn from_store(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_else(|why| Self::unreadable(&why.to_string()))
    }

    /// Whether it still holds.
    pub fn holds(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| until > now)
    }
}

fn default_priority() -> Priority {
    Priority::NORMAL
}
fn default_concurrency() -> u32 {
    CONCURRENCY_DEFAULT
}
fn default_poll_interval() -> Duration {
    Duration::from_secs(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_five_built_in_queues_are_as_declared() {
        let built_in = QueueSpec::built_in();
        let row = |q: &QueueSpec| {
            (q.name.to_string(), q.priority.level(), q.concurrency, q.p95_target.map(|t| t.as_secs()))
        };
        let rows: Vec<_> = built_in.iter().map(row).collect();
        let expected = [
            ("high", 0, 20, Some(30)),
            ("default", 5, 10, Some(300)),
            ("screenshot", 6, 3, Some(120)),
            ("low", 7, 5, Some(1800)),
            ("bulk", 8, 8, None),
        ];
        assert_eq!(rows, expected.map(|(name, p, c, t)| (name.to_owned(), p, c, t)));
        assert!(built_in.iter().all(|queue| queue.check().is_ok()));
    }

    #[test]
    fn an_unconfigured_queue_has_four_slots() {
        assert_eq!(QueueSpec::new(QueueName::parse("new").unwrap()).concurrency, 4);
    }

    #[test]
    fn a_pause_with_an_end_ends() {
        let now = Timestamp::EPOCH;
        let pause = Pause { since: now, reason: None, until: Some(now.plus(Duration::from_secs(1))) };
        assert!(pause.holds(now));
        assert!(!pause.holds(now.plus(Duration::from_secs(1))));
    }
}
