//! What somebody should look at.

use std::fmt;
use std::time::Duration;

use windlass_core::names::DutyName;

/// Something is wrong with a duty, and does not mend by itself. It is logged as a warning; that a leader was stuck also stands in the
/// metadata of the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DutyAlert {
    /// This process leads, and no run of the duty has ended for so long. It gives way.
    Stuck {
        /// Which.
        duty: DutyName,
        /// For how long.
        lasting: Duration,
    },
    /// Nobody holds the lease, and yet it could not be taken for so long: something under its last term is not finished, such as an
    /// open transaction.
    Blocked {
        /// Which.
        duty: DutyName,
        /// For how long.
        lasting: Duration,
    },
    /// The lease could not be taken for so long, because the store keeps as many as it may.
    NoRoom {
        /// Which.
        duty: DutyName,
        /// For how long.
        lasting: Duration,
    },
}

impl DutyAlert {
    /// Of which duty.
    pub fn duty(&self) -> &DutyName {
        match self {
            Self::Stuck { duty, .. } | Self::Blocked { duty, .. } | Self::NoRoom { duty, .. } => duty,
        }
    }

    /// For how long it has been so.
    pub fn lasting(&self) -> Duration {
        match self {
            Self::Stuck { lasting, .. } | Self::Blocked { lasting, .. } | Self::NoRoom { lasting, .. } => {
                *lasting
            }
        }
    }

    pub(crate) fn log(&self) {
        tracing::warn!(duty = %self.duty(), lasting = ?self.lasting(), "{self}");
    }
}

impl fmt::Display for DutyAlert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stuck { .. } => "a duty is stuck: no run of it has ended for too long; its leader gives way",
            Self::Blocked { .. } => {
                "a duty is blocked: nobody holds its lease, and something unfinished keeps others from taking it"
            }
            Self::NoRoom { .. } => {
                "a duty is not done: the store keeps as many leases as it may; give old duties up or use fewer names"
            }
        })
    }
}
