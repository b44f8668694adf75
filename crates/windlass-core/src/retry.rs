//! Decides when a failed job is retried. Each policy is a pure function of (policy, failures, age, seed),
//! so that its timetable can be printed before anything fails.

use std::time::Duration;

use crate::limits::{DELAY_MAX, FAILURES_MAX};
use crate::span;

mod timetable;

pub use timetable::{Planned, timetable};

/// The policy after failures. `attempts` counts all attempts: a job with 5 attempts is dead after its
/// fifth failure.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "policy", rename_all = "kebab-case")]
pub enum RetryPolicy {
    /// `2^(failures−1) × base`, times a jitter between 0.75 and 1.25. The default of every type.
    Exponential {
        /// The delay after the first failure, before jitter.
        #[serde(with = "span::text", default = "default_base")]
        base: Duration,
        /// No delay is longer than this, before jitter.
        #[serde(with = "span::text", default = "default_exponential_max")]
        max: Duration,
        /// The maximum number of attempts.
        #[serde(default = "default_attempts")]
        attempts: u32,
    },
    /// `min(base × 2^(failures−1), max)`, plus up to 25 % jitter after the cap.
    Backfill {
        /// The delay after the first failure.
        #[serde(with = "span::text", default = "default_backfill_base")]
        base: Duration,
        /// The cap, before jitter.
        #[serde(with = "span::text", default = "default_backfill_max")]
        max: Duration,
        /// The maximum number of attempts.
        #[serde(default = "default_attempts")]
        attempts: u32,
    },
    /// `fib(failures)` units: 1, 1, 2, 3, 5, 8 … No jitter.
    Fibonacci {
        /// One unit.
        #[serde(with = "span::text", default = "default_unit")]
        unit: Duration,
        /// The maximum number of attempts.
        #[serde(default = "default_fibonacci_attempts")]
        attempts: u32,
    },
    /// By the age of the job: young jobs often, old jobs rarely, dead past the last tier.
    Progressive {
        /// From young to old.
        #[serde(default = "default_tiers")]
        tiers: Vec<Tier>,
    },
    /// The same delay each time.
    Fixed {
        /// The delay.
        #[serde(with = "span::text")]
        every: Duration,
        /// The maximum number of attempts.
        #[serde(default = "default_attempts")]
        attempts: u32,
    },
    /// These delays, one after each failure; after the last one the job is dead.
    List {
        /// The delays.
        delays: Vec<Delay>,
    },
    /// The first failure is the last.
    Never,
}

/// One step of a progressive policy: jobs younger than `max_age` are retried every `interval`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Tier {
    /// Up to this age.
    #[serde(with = "span::text")]
    pub max_age: Duration,
    /// The time between two attempts.
    #[serde(with = "span::text")]
    pub interval: Duration,
}

/// A delay in a list, written as a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Delay(#[serde(with = "span::text")] pub Duration);

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::Exponential {
            base: default_base(),
            max: default_exponential_max(),
            attempts: default_attempts(),
        }
    }
}

impl RetryPolicy {
    /// Creates `backfill` with its defaults: 2 min doubling to 60 min, five attempts.
    pub fn backfill() -> Self {
        Self::Backfill {
            base: default_backfill_base(),
            max: default_backfill_max(),
            attempts: default_attempts(),
        }
    }

    /// Creates `fibonacci` with its default unit of a minute.
    pub fn fibonacci() -> Self {
        Self::Fibonacci { unit: default_unit(), attempts: default_fibonacci_attempts() }
    }

    /// Creates `progressive` with its default tiers.
    pub fn progressive() -> Self {
        Self::Progressive { tiers: default_tiers() }
    }

    /// Returns how long to wait after the given number of failures, or `None` if the job is dead. `age`
    /// is the time since the job was enqueued, `seed` sets the jitter.
    pub fn delay_after(&self, failures: u32, age: Duration, seed: u64) -> Option<Duration> {
        let band = self.band_after(failures, age)?;
        Some(band.at(unit_fraction(seed, failures)))
    }

    /// Returns the shortest and the longest delay that jitter allows, or `None` if the job is dead.
    pub fn band_after(&self, failures: u32, age: Duration) -> Option<Band> {
        let failures = failures.max(1);
        if failures >= FAILURES_MAX {
            return None;
        }
        let band = match self {
            Self::Exponential { base, max, attempts } => {
                let delay = doubled(*base, failures).min(*max).min(DELAY_MAX);
                (failures < *attempts)
                    .then(|| Band { shortest: delay * 3 / 4, longest: delay.saturating_mul(5) / 4 })
            }
            Self::Backfill { base, max, attempts } => {
                let delay = doubled(*base, failures).min(*max).min(DELAY_MAX);
                (failures < *attempts).then(|| Band { shortest: delay, longest: delay.saturating_mul(5) / 4 })
            }
            Self::Fibonacci { unit, attempts } => {
                (failures < *attempts).then(|| Band::exactly(unit.saturating_mul(fibonacci(failures))))
            }
            Self::Progressive { tiers } => {
                tiers.iter().find(|tier| age < tier.max_age).map(|tier| Band::exactly(tier.interval))
            }
            Self::Fixed { every, attempts } => (failures < *attempts).then(|| Band::exactly(*every)),
            Self::List { delays } => delays.get(failures as usize - 1).map(|delay| Band::exactly(delay.0)),
            Self::Never => None,
        }?;
        Some(Band { shortest: band.shortest.min(DELAY_MAX), longest: band.longest.min(DELAY_MAX) })
    }

    /// Returns the maximum number of attempts, where the policy counts them; otherwise as many as any
    /// policy allows.
    pub fn attempts_max(&self) -> u32 {
        match self {
            Self::Exponential { attempts, .. }
            | Self::Backfill { attempts, .. }
            | Self::Fibonacci { attempts, .. }
            | Self::Fixed { attempts, .. } => *attempts,
            Self::List { delays } => u32::try_from(delays.len() + 1).unwrap_or(FAILURES_MAX),
            Self::Progressive { .. } => FAILURES_MAX,
            Self::Never => 1,
        }
    }

    /// Returns the policy with another number of attempts, where the policy counts them.
    #[must_use]
    pub fn with_attempts(mut self, new: u32) -> Self {
        match &mut self {
            Self::Exponential { attempts, .. }
            | Self::Backfill { attempts, .. }
            | Self::Fibonacci { attempts, .. }
            | Self::Fixed { attempts, .. } => *attempts = new,
            Self::Progressive { .. } | Self::List { .. } | Self::Never => {}
        }
        self
    }

    /// Returns the name of the policy, as configuration writes it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Exponential { .. } => "exponential",
            Self::Backfill { .. } => "backfill",
            Self::Fibonacci { .. } => "fibonacci",
            Self::Progressive { .. } => "progressive",
            Self::Fixed { .. } => "fixed",
            Self::List { .. } => "list",
            Self::Never => "never",
        }
    }

    /// Checks what types cannot express: attempts within limits, tiers in order.
    pub fn check(&self) -> Result<(), RetryPolicyError> {
        match self {
            Self::Exponential { attempts, .. }
            | Self::Backfill { attempts, .. }
            | Self::Fibonacci { attempts, .. }
            | Self::Fixed { attempts, .. }
                if !(1..=FAILURES_MAX).contains(attempts) =>
            {
                Err(RetryPolicyError::Attempts { got: *attempts })
            }
            _ if self.longest_span() > DELAY_MAX => Err(RetryPolicyError::TooLong),
            Self::Progressive { tiers } if tiers.is_empty() => Err(RetryPolicyError::NoTiers),
            Self::Progressive { tiers } if !tiers.is_sorted_by(|a, b| a.max_age < b.max_age) => {
                Err(RetryPolicyError::TiersOutOfOrder)
            }
            Self::List { delays } if delays.len() >= FAILURES_MAX as usize => {
                Err(RetryPolicyError::Attempts { got: u32::try_from(delays.len()).unwrap_or(u32::MAX) })
            }
            _ => Ok(()),
        }
    }
}

impl RetryPolicy {
    fn longest_span(&self) -> Duration {
        match self {
            Self::Exponential { base, max, .. } | Self::Backfill { base, max, .. } => (*base).max(*max),
            Self::Fibonacci { unit, .. } => *unit,
            Self::Fixed { every, .. } => *every,
            Self::Progressive { tiers } => tiers.iter().map(|tier| tier.interval).max().unwrap_or_default(),
            Self::List { delays } => delays.iter().map(|delay| delay.0).max().unwrap_or_default(),
            Self::Never => Duration::ZERO,
        }
    }
}

/// Why a policy was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RetryPolicyError {
    /// Too few or too many attempts.
    #[error("expected a retry policy with 1 to {FAILURES_MAX} attempts, got {got}")]
    Attempts {
        /// The given value.
        got: u32,
    },
    /// A delay of more than ten years.
    #[error("expected the delays of a retry policy of at most ten years")]
    TooLong,
    /// A progressive policy without a tier.
    #[error("expected a progressive policy with at least one tier, got none")]
    NoTiers,
    /// Tiers that do not rise.
    #[error(
        "expected the tiers of a progressive policy from young to old, got a `max_age` that does not rise"
    )]
    TiersOutOfOrder,
}

/// The limits between which jitter chooses a delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Band {
    /// The shortest delay.
    pub shortest: Duration,
    /// The longest delay.
    pub longest: Duration,
}

impl Band {
    fn exactly(delay: Duration) -> Self {
        Self { shortest: delay, longest: delay }
    }

    fn at(self, fraction: f64) -> Duration {
        self.shortest + (self.longest - self.shortest).mul_f64(fraction)
    }
}

fn doubled(base: Duration, failures: u32) -> Duration {
    base.saturating_mul(1_u32.checked_shl(failures - 1).unwrap_or(u32::MAX))
}

fn fibonacci(n: u32) -> u32 {
    let (mut current, mut next) = (0_u32, 1_u32);
    for _ in 0..n {
        (current, next) = (next, current.saturating_add(next));
    }
    current
}

/// Returns a fraction from 0 to 1 computed from the seed: the finaliser of SplitMix64, which spreads
/// neighbouring seeds (job ids are neighbours) over the whole range.
fn unit_fraction(seed: u64, failures: u32) -> f64 {
    let mut mixed = seed ^ (u64::from(failures) << 48) ^ 0x9e37_79b9_7f4a_7c15;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    #[allow(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
    let fraction = (mixed >> 11) as f64 / (1_u64 << 53) as f64;
    fraction
}

const fn minutes(n: u64) -> Duration {
    Duration::from_secs(n * 60)
}

const fn hours(n: u64) -> Duration {
    minutes(n * 60)
}

fn default_base() -> Duration {
    Duration::from_secs(30)
}
fn default_exponential_max() -> Duration {
    hours(24)
}
fn default_attempts() -> u32 {
    5
}
fn default_backfill_base() -> Duration {
    minutes(2)
}
fn default_backfill_max() -> Duration {
    minutes(60)
}
fn default_unit() -> Duration {
    minutes(1)
}
fn default_fibonacci_attempts() -> u32 {
    20
}
fn default_tiers() -> Vec<Tier> {
    [(1, minutes(5)), (7, hours(1)), (14, hours(12)), (30, hours(24)), (180, hours(96)), (360, hours(192))]
        .into_iter()
        .map(|(days, interval)| Tier { max_age: hours(24 * days), interval })
        .collect()
}

#[cfg(test)]
mod tests;
