//! The timing of leases: how often they are renewed, for how long they are good, and for how long they
//! are trusted.

use std::time::Duration;

use crate::error::EngineError;
use crate::limits::{DUTY_EXPIRY, DUTY_EXPIRY_MAX, DUTY_EXPIRY_MIN, DUTY_HEARTBEAT};

/// The margin is this part of the expiry, because the clocks of two machines do not run equally fast.
const MARGIN_PART: u32 = 10;
/// A failed call is repeated after this part of a heartbeat.
pub(super) const AGAIN_PART: u32 = 4;

/// The timing of leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTiming {
    /// A holder renews this often.
    pub heartbeat: Duration,
    /// A lease is good for this long after a heartbeat.
    pub expiry: Duration,
}

impl Default for LeaseTiming {
    fn default() -> Self {
        Self { heartbeat: DUTY_HEARTBEAT, expiry: DUTY_EXPIRY }
    }
}

impl LeaseTiming {
    /// Refuses a timing that cannot work: two heartbeats must fit into an expiry, so that one may fail.
    pub fn check(self) -> Result<(), EngineError> {
        let (heartbeat, expiry) = (self.heartbeat, self.expiry);
        if !(DUTY_EXPIRY_MIN..=DUTY_EXPIRY_MAX).contains(&expiry) {
            return Err(EngineError::Refused(format!(
                "expected leases to expire after {DUTY_EXPIRY_MIN:?} to {DUTY_EXPIRY_MAX:?}, got {expiry:?}"
            )));
        }
        if heartbeat.is_zero() || heartbeat.saturating_mul(2) > self.trust() {
            return Err(EngineError::Refused(format!(
                "expected heartbeats of leases so often that two fit into {:?}, got one each {heartbeat:?}; beat more often, \
                 or let leases expire later",
                self.trust()
            )));
        }
        Ok(())
    }

    /// Returns for how long a lease is trusted after its request left. An answer that takes longer is of
    /// no use, so this is also the deadline of every call about leases.
    pub fn trust(self) -> Duration {
        self.expiry - self.expiry / MARGIN_PART
    }

    /// Returns how long to wait before a failed call is repeated.
    pub(super) fn again_after(self) -> Duration {
        self.heartbeat / AGAIN_PART
    }

    /// Returns how long to wait after this number of consecutive failures. The wait doubles each time, up
    /// to the expiry. It is up to half as much longer or shorter, depending on the ring position of this
    /// process, so that many processes do not call at once.
    pub(super) fn backoff(self, first: Duration, failures: u32, ring_position: u16) -> Duration {
        let doubled = first.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(self.expiry);
        doubled / 2 + doubled.mul_f64(f64::from(ring_position) / f64::from(1 << 16))
    }
}
