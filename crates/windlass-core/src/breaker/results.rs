//! How calls to a platform ended, singly or many at once.

use std::time::Duration;

/// How a call to a platform ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The platform worked.
    Success,
    /// The platform failed.
    Failure,
    /// The platform was called too often, which counts as a failure. Its answer may say when to come
    /// back.
    RateLimited(Option<Duration>),
}

/// The results of several calls, with as much of their order as matters: a process reports many calls to
/// a store at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Results {
    /// The number of calls.
    pub calls: u32,
    /// The number of failed calls, including rate-limit answers.
    pub failures: u32,
    /// The number of failures before the first success.
    pub first_row: u32,
    /// The most consecutive failures.
    pub longest_row: u32,
    /// The number of failures after the last success.
    pub last_row: u32,
    /// The number of rate-limit answers after the last success.
    pub rate_limits: u32,
    /// Whether any answer was a rate limit.
    pub rate_limited: bool,
    /// The longest pause that the platform requested.
    pub retry_after: Option<Duration>,
}

impl Results {
    /// Creates the results of one call.
    pub fn of(verdict: Verdict) -> Self {
        let mut results = Self::default();
        results.add(verdict);
        results
    }

    /// Adds the end of one more call.
    pub fn add(&mut self, verdict: Verdict) {
        self.calls = self.calls.saturating_add(1);
        match verdict {
            Verdict::Success => (self.last_row, self.rate_limits) = (0, 0),
            Verdict::Failure => self.add_failure(),
            Verdict::RateLimited(retry_after) => {
                self.add_failure();
                self.rate_limits += 1;
                self.rate_limited = true;
                self.retry_after = self.retry_after.max(retry_after);
            }
        }
    }

    fn add_failure(&mut self) {
        self.first_row += u32::from(self.failures == self.calls - 1);
        self.failures += 1;
        self.last_row += 1;
        self.longest_row = self.longest_row.max(self.last_row);
    }

    /// Whether a call succeeded.
    pub fn has_success(&self) -> bool {
        self.calls > self.failures
    }

    /// Whether no call ended.
    pub fn is_empty(&self) -> bool {
        self.calls == 0
    }

    /// Returns the most consecutive failures, if this number of failures came before.
    pub(super) fn longest_row_after(&self, before: u32) -> u32 {
        self.longest_row.max(before.saturating_add(self.first_row))
    }

    /// Continues the counts of consecutive failures and rate limits.
    pub(super) fn carry_on(&self, failures: &mut u32, rate_limits: &mut u32) {
        if self.has_success() {
            (*failures, *rate_limits) = (0, 0);
        }
        *failures = failures.saturating_add(self.last_row);
        *rate_limits = rate_limits.saturating_add(self.rate_limits);
    }
}
