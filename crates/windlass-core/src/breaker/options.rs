//! When a breaker opens, and for how long.

use std::time::Duration;

use crate::limits::{DELAY_MAX, PROBES_MAX};

/// When a breaker opens, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerOptions {
    /// The number of consecutive failures that opens it; `None` if only the failure rate does.
    pub failures_in_a_row: Option<u32>,
    /// The failure rate that opens it.
    pub failure_rate: Option<FailureRate>,
    /// For how long no claim calls the platform.
    pub open_cooldown: Duration,
    /// The number of calls at once afterwards, to find out whether the platform is available again.
    pub half_open_probe_count: u32,
    /// The pause after a rate-limit answer that requests none. It doubles with each consecutive answer.
    pub rate_limit_pause: Duration,
    /// The longest such pause. A pause that the platform requests itself counts up to a day.
    pub rate_limit_pause_max: Duration,
}

/// A percentage of failures within a window of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailureRate {
    /// The percentage, from 1 to 100.
    pub percent: u8,
    /// How far back calls count.
    pub window: Duration,
    /// The smallest number of calls for which the percentage counts.
    pub calls_min: u32,
}

impl Default for BreakerOptions {
    /// Opens after 5 failures in a row, for 30 s, with one probe.
    fn default() -> Self {
        Self {
            failures_in_a_row: Some(5),
            failure_rate: None,
            open_cooldown: Duration::from_secs(30),
            half_open_probe_count: 1,
            rate_limit_pause: Duration::from_secs(1),
            rate_limit_pause_max: Duration::from_secs(60 * 60),
        }
    }
}

impl BreakerOptions {
    /// Checks what types cannot express.
    pub fn check(&self) -> Result<(), BreakerOptionsError> {
        if self.failures_in_a_row.is_none() && self.failure_rate.is_none() {
            return Err(BreakerOptionsError::NeverOpens);
        }
        if self.failures_in_a_row == Some(0) {
            return Err(BreakerOptionsError::Failures);
        }
        if !(1..=PROBES_MAX).contains(&self.half_open_probe_count) {
            return Err(BreakerOptionsError::Probes { got: self.half_open_probe_count });
        }
        check_span("open_cooldown_seconds", self.open_cooldown)?;
        check_span("rate_limit_pause", self.rate_limit_pause)?;
        check_span("rate_limit_pause_max", self.rate_limit_pause_max)?;
        self.failure_rate.as_ref().map_or(Ok(()), FailureRate::check)
    }
}

impl FailureRate {
    fn check(&self) -> Result<(), BreakerOptionsError> {
        if !(1..=100).contains(&self.percent) {
            return Err(BreakerOptionsError::Percent { got: self.percent });
        }
        check_span("window", self.window)
    }
}

fn check_span(option: &'static str, got: Duration) -> Result<(), BreakerOptionsError> {
    let fits = got >= Duration::from_millis(1) && got <= DELAY_MAX;
    fits.then_some(()).ok_or(BreakerOptionsError::Span { option, got })
}

/// Why a breaker's options are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BreakerOptionsError {
    /// It has no threshold.
    #[error("expected `failures_in_a_row` or `failure_rate`, got neither; such a breaker never opens")]
    NeverOpens,
    /// It would be open from the start.
    #[error("expected `failures_in_a_row` of at least 1, got 0")]
    Failures,
    /// It would never close again, or would let every claim probe.
    #[error("expected `half_open_probe_count` between 1 and {PROBES_MAX}, got {got}")]
    Probes {
        /// The given value.
        got: u32,
    },
    /// The percentage is out of range.
    #[error("expected `percent` of the failure rate between 1 and 100, got {got}")]
    Percent {
        /// The given value.
        got: u8,
    },
    /// A time that is too short or too long to make sense.
    #[error("expected `{option}` between 1 ms and ten years, got {got:?}")]
    Span {
        /// The option.
        option: &'static str,
        /// The given value.
        got: Duration,
    },
}
