//! Rate limits: a number of tokens per period for each key, and a burst. Only one instant is stored for a
//! key: when its next token falls due if no tokens were ever saved (known elsewhere as GCRA).
//!
//! A process that shares a limit with other processes takes tokens in batches, so that it does not query
//! the store for each job. A batch is at most the tokens of 100 ms, and lapses after 200 ms, whatever is
//! left of it. Tokens that may lie unused in batches or be in flight are taken off the burst, so that the
//! promise stays: in no span of time as long as the period are more than limit + burst used, while the
//! store answers in time ([`RateLimit::answer_within`]).

use std::time::Duration;

use crate::clock::Timestamp;
use crate::limits::{DELAY_MAX, KEY_BYTES_MAX, RATE_MAX};
use crate::names::GroupName;
use crate::outcome::bounded;
use crate::payload::Payload;

/// A token batch holds at most the tokens of this span.
pub const TOKEN_BATCH_SPAN: Duration = Duration::from_millis(100);
/// The remaining tokens of a batch lapse after this span.
pub const TOKEN_BATCH_LAPSE: Duration = Duration::from_millis(200);

/// A number of tokens per period, and a burst.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimit {
    /// Tokens of each period.
    pub limit: u32,
    /// The period.
    pub per: Duration,
    /// The maximum number of unused tokens that are saved.
    pub burst: u32,
    /// Which jobs have tokens of their own.
    pub by: KeyBy,
}

/// The key by which jobs are told apart: each key has tokens of its own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum KeyBy {
    /// No key: all jobs share the tokens.
    #[default]
    Nothing,
    /// The group of the job.
    Group,
    /// A value in the payload, named by a JSON pointer such as `/tenant`.
    Payload(String),
}

impl RateLimit {
    /// Creates a limit of a number of tokens per period, which may all be saved, for all jobs together.
    pub fn new(limit: u32, per: Duration) -> Self {
        Self { limit, per, burst: limit, by: KeyBy::Nothing }
    }

    /// Checks what types cannot express.
    pub fn check(&self) -> Result<(), RateLimitError> {
        if !(1..=RATE_MAX).contains(&self.limit) {
            return Err(RateLimitError::Limit { got: self.limit });
        }
        if !(1..=RATE_MAX).contains(&self.burst) {
            return Err(RateLimitError::Burst { got: self.burst });
        }
        if self.per < Duration::from_millis(1) || self.per > DELAY_MAX {
            return Err(RateLimitError::Per { got: self.per });
        }
        match &self.by {
            KeyBy::Payload(pointer) if !pointer.starts_with('/') => {
                Err(RateLimitError::Pointer { got: pointer.chars().take(40).collect() })
            }
            _ => Ok(()),
        }
    }

    /// Returns the pace of a limit that one process keeps for itself.
    pub fn pace(&self) -> Pace {
        let every = micros(self.per).div_euclid(i64::from(self.limit.max(1)));
        let rest = i64::from(micros(self.per) % i64::from(self.limit.max(1)) > 0);
        let every = (every + rest).max(1);
        // No key saves tokens for longer than ten years, and sums of instants stay in range.
        let tolerance = every.saturating_mul(i64::from(self.burst.max(1)) - 1).min(micros(DELAY_MAX));
        Pace { every, tolerance, batch: 1 }
    }

    /// Returns the pace of a limit that processes share. Tokens of slow limits are requested one by one.
    pub fn shared_pace(&self) -> Pace {
        let pace = self.pace();
        let batch = u32::try_from(micros(TOKEN_BATCH_SPAN) / pace.every).unwrap_or(u32::MAX);
        let lapse = micros(TOKEN_BATCH_LAPSE);
        if batch >= 2 && pace.tolerance >= lapse {
            return Pace { tolerance: pace.tolerance - lapse, batch, ..pace };
        }
        // A single token is in flight for a while, too: two tokens that were granted a period apart may
        // be used closer together.
        let late = micros(self.answer_within()) - pace.every;
        Pace { tolerance: pace.tolerance - late.max(0), ..pace }
    }

    /// Returns the answer time of the store within which the promise holds: processes that share the
    /// limit use no more than limit + burst in any period. The time is taken off the burst, of which at
    /// least half is left; so it is shorter for a small burst of a fast limit.
    pub fn answer_within(&self) -> Duration {
        let pace = self.pace();
        if micros(TOKEN_BATCH_SPAN) / pace.every >= 2 && pace.tolerance >= micros(TOKEN_BATCH_LAPSE) {
            return TOKEN_BATCH_LAPSE;
        }
        Duration::from_micros(pace.tolerance.saturating_add(pace.every).unsigned_abs() / 2)
            .min(TOKEN_BATCH_LAPSE)
    }
}

impl KeyBy {
    /// Returns the key of a job. Jobs without such a value share the empty key.
    pub fn key_of(&self, payload: &Payload, group: Option<&GroupName>) -> String {
        let key = match self {
            Self::Nothing => String::new(),
            Self::Group => group.map(|group| group.as_str().to_owned()).unwrap_or_default(),
            Self::Payload(pointer) => value_at(payload, pointer),
        };
        bounded(key.replace(char::is_control, " "), KEY_BYTES_MAX)
    }
}

/// Returns a text as it is, anything else as JSON.
fn value_at(payload: &Payload, pointer: &str) -> String {
    let value = payload.decode::<serde_json::Value>().unwrap_or_default();
    match value.pointer(pointer) {
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(serde_json::Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

/// How tokens fall due, in microseconds. This is what a store needs to know of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// The time between two tokens.
    pub every: i64,
    /// How far ahead of their due time tokens may be taken.
    pub tolerance: i64,
    /// The maximum number of tokens that may be taken at once, to be used a little later.
    pub batch: u32,
}

/// The result of a request for tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// The number of granted tokens.
    pub granted: u32,
    /// The stored instant of the key: before this instant, tokens are taken from the saved ones.
    pub due: Timestamp,
    /// The time until the next token falls due; `None` if one was granted.
    pub retry_after: Option<Duration>,
}

impl Taken {
    /// Whether a new instant must be stored: tokens were taken, or the stored instant lies further ahead
    /// than this limit can bring it. If that stayed, a key would wait as long as an earlier, slower limit
    /// would have made it.
    pub fn is_news(&self, remembered: Option<Timestamp>) -> bool {
        self.granted > 0 || remembered.is_some_and(|due| due > self.due)
    }
}

/// Decides how many tokens a request gets. `due` is the stored instant of the key.
pub fn take(pace: Pace, due: Option<Timestamp>, wanted: u32, now: Timestamp) -> Taken {
    let now = now.as_micros();
    // An instant further ahead than a limit can bring it was written by another clock, or under another
    // limit.
    let furthest = now.saturating_add(pace.tolerance).saturating_add(pace.every);
    let from = due.map_or(now, |due| due.as_micros().clamp(now, furthest));
    let room = now.saturating_add(pace.tolerance) - from;
    let there = if room < 0 { 0 } else { room / pace.every + 1 };
    let granted = there.min(i64::from(wanted));
    Taken {
        granted: u32::try_from(granted).unwrap_or(0),
        due: Timestamp::from_micros(from + granted * pace.every),
        retry_after: (there == 0).then(|| Duration::from_micros(room.unsigned_abs())),
    }
}

/// Tokens that were taken and not used yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenBatch {
    left: u32,
    lapses_at: Timestamp,
    lapsed: bool,
}

impl TokenBatch {
    /// Creates the batch that a request returned which was sent at this instant of the requesting
    /// process's clock.
    pub fn new(granted: u32, sent_at: Timestamp) -> Self {
        Self { left: granted, lapses_at: sent_at.plus(TOKEN_BATCH_LAPSE), lapsed: false }
    }

    /// Whether some tokens were left when they lapsed.
    pub fn has_lapsed(&self) -> bool {
        self.lapsed
    }

    /// Whether a token is left and has not lapsed.
    pub fn has_some(&self, now: Timestamp) -> bool {
        self.left > 0 && now <= self.lapses_at
    }

    /// Uses a token, if one is left and has not lapsed.
    pub fn take(&mut self, now: Timestamp) -> bool {
        if now > self.lapses_at {
            self.lapsed |= self.left > 0;
            self.left = 0;
        }
        let is_there = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_there
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// Why a rate limit is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RateLimitError {
    /// The limit is zero or too high.
    #[error("expected `limit` between 1 and {RATE_MAX}, got {got}")]
    Limit {
        /// The given value.
        got: u32,
    },
    /// The burst is zero or too high.
    #[error("expected `burst` between 1 and {RATE_MAX}, got {got}")]
    Burst {
        /// The given value.
        got: u32,
    },
    /// The period is too short or too long.
    #[error("expected `per` between 1 ms and ten years, got {got:?}")]
    Per {
        /// The given value.
        got: Duration,
    },
    /// The pointer is not a JSON pointer.
    #[error("expected a JSON pointer that begins with a slash, such as /tenant, got {got:?}")]
    Pointer {
        /// The given value.
        got: String,
    },
}

#[cfg(test)]
mod tests;
