//! Job types: each belongs to one queue, for good, and has the defaults of its jobs.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::limits::{RETENTION_DAYS_DEFAULT, RETENTION_DAYS_MAX, TIMEOUT_DEFAULT, TIMEOUT_MAX};
use crate::names::{QueueName, TypeName};
use crate::priority::Priority;
use crate::retry::{RetryPolicy, RetryPolicyError};
use crate::span;
use crate::stored::StoredSpec;

/// A job type as workers and configuration register it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TypeSpec {
    /// Its name, which the store keeps with every job.
    pub name: TypeName,
    /// The one queue it belongs to.
    pub queue: QueueName,
    /// What happens after a failure.
    #[serde(default)]
    pub retry: RetryPolicy,
    /// How long a handler may run.
    #[serde(with = "span::text", default = "default_timeout")]
    pub timeout: Duration,
    /// The priority of its jobs where they name none; otherwise the queue's.
    #[serde(default)]
    pub priority: Option<Priority>,
    /// For how many days a finished job is kept; 0 keeps none.
    #[serde(default = "default_retention_days")]
    pub retention_days: u32,
    /// Whether results are kept with finished jobs.
    #[serde(default)]
    pub keep_result: bool,
}

impl TypeSpec {
    /// Creates a type with the defaults.
    pub fn new(name: TypeName, queue: QueueName) -> Self {
        Self {
            name,
            queue,
            retry: RetryPolicy::default(),
            timeout: default_timeout(),
            priority: None,
            retention_days: default_retention_days(),
            keep_result: false,
        }
    }

    /// Reads the stored declaration of the type with this name, which belongs to this queue.
    pub fn from_store(name: &TypeName, queue: &QueueName, text: String) -> StoredSpec<Self> {
        let base = Self::new(name.clone(), queue.clone());
        let contradicts = |read: &Self, row: &Self| match read.name == row.name {
            true => (read.queue != row.queue).then_some("queue"),
            false => Some("name"),
        };
        StoredSpec::read(text, format!("job type {name}"), base, contradicts)
    }

    /// Checks what types cannot express.
    pub fn check(&self) -> Result<(), TypeSpecError> {
        if self.timeout.is_zero() || self.timeout > TIMEOUT_MAX {
            return Err(TypeSpecError::Timeout { name: self.name.clone() });
        }
        if self.retention_days > RETENTION_DAYS_MAX {
            return Err(TypeSpecError::Retention { name: self.name.clone(), got: self.retention_days });
        }
        self.retry.check().map_err(|why| TypeSpecError::Retry { name: self.name.clone(), why })
    }

    /// Returns until when a job that ends now is kept; `None` if it is not kept at all. Fixed when the
    /// job ends: another retention counts only for jobs that end later.
    pub fn keep_until(&self, ended_at: Timestamp) -> Option<Timestamp> {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        (self.retention_days > 0).then(|| ended_at.plus(DAY * self.retention_days))
    }

    /// Checks that a new declaration does not move a type to another queue.
    pub fn may_follow(&self, registered: &Self) -> Result<(), TypeSpecError> {
        if self.queue == registered.queue {
            return Ok(());
        }
        Err(TypeSpecError::OtherQueue {
            name: self.name.clone(),
            registered: registered.queue.clone(),
            got: self.queue.clone(),
        })
    }
}

/// Why a job type was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TypeSpecError {
    /// It belongs to another queue already.
    #[error(
        "expected job type {name} in queue {registered}, where it is registered, got queue {got}; a type belongs to one queue permanently, so use a new name"
    )]
    OtherQueue {
        /// The type.
        name: TypeName,
        /// The queue in which it is registered.
        registered: QueueName,
        /// The queue that the declaration names.
        got: QueueName,
    },
    /// Its queue is not declared.
    #[error("expected the queue of job type {name} to be declared, got {queue}, which is not declared")]
    UnknownQueue {
        /// The type.
        name: TypeName,
        /// The queue.
        queue: QueueName,
    },
    /// Its time-out is zero or too long.
    #[error("expected `timeout` of job type {name} between 1 microsecond and 30 days")]
    Timeout {
        /// The type.
        name: TypeName,
    },
    /// Its retention is too long.
    #[error("expected `retention_days` of job type {name} of at most {RETENTION_DAYS_MAX}, got {got}")]
    Retention {
        /// The type.
        name: TypeName,
        /// The given value.
        got: u32,
    },
    /// Its retry policy is invalid.
    #[error("the retry policy of job type {name} is wrong")]
    Retry {
        /// The type.
        name: TypeName,
        /// Why.
        #[source]
        why: RetryPolicyError,
    },
}

fn default_timeout() -> Duration {
    TIMEOUT_DEFAULT
}
fn default_retention_days() -> u32 {
    RETENTION_DAYS_DEFAULT
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(queue: &str) -> TypeSpec {
        TypeSpec::new(TypeName::parse("mail.send").unwrap(), QueueName::parse(queue).unwrap())
    }

    #[test]
    fn a_type_stays_in_its_queue_and_the_error_names_both() {
        assert_eq!(spec("high").may_follow(&spec("high")), Ok(()));
        let error = spec("low").may_follow(&spec("high")).unwrap_err().to_string();
        assert!(error.contains("high") && error.contains("low"), "{error}");
    }

    #[test]
    fn absurd_settings_are_refused() {
        assert!(spec("high").check().is_ok());
        assert!(TypeSpec { timeout: Duration::ZERO, ..spec("high") }.check().is_err());
        assert!(TypeSpec { timeout: TIMEOUT_MAX * 2, ..spec("high") }.check().is_err());
        assert!(TypeSpec { retention_days: RETENTION_DAYS_MAX + 1, ..spec("high") }.check().is_err());
    }
}
