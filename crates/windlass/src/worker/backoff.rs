//! The back-off: how long to leave a store alone after it failed.

use std::time::Duration;

use super::Moment;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(5);

/// A pause that doubles from 50 ms to 5 s, and starts over after a success.
#[derive(Debug, Default)]
pub struct Backoff {
    failures: u32,
    until: Moment,
}

impl Backoff {
    /// The moment from which the store may be called again.
    pub fn until(&self) -> Moment {
        self.until
    }

    /// Whether the last call failed.
    pub fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// Notes that a call failed.
    pub fn failed(&mut self, now: Moment) {
        let wait = FIRST.saturating_mul(1 << self.failures.min(10)).min(LONGEST);
        self.failures += 1;
        // Processes that failed together must not come back together: up to a fifth longer, depending on
        // the moment.
        let spread = wait.mul_f64(f64::from(now.subsec_nanos() % 1000) / 5000.0);
        self.until = now + wait + spread;
    }

    /// Notes that a call succeeded.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}
