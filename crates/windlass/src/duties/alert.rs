//! Alerts about duties.

use std::fmt;
use std::time::Duration;

use windlass_core::names::DutyName;

/// A fault of a duty that does not pass by itself. It is logged as a warning. That a leader was stuck is
/// also kept in the metadata of the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DutyAlert {
    /// This process leads, and no run of the duty has ended for this long. It gives way.
    Stuck {
        /// The duty.
        duty: DutyName,
        /// How long the fault has lasted.
        lasting: Duration,
    },
    /// No process holds the lease, and yet it could not be taken for this long: an operation under its last
    /// term is not finished, such as an open transaction.
    Blocked {
        /// The duty.
        duty: DutyName,
        /// How long the fault has lasted.
        lasting: Duration,
    },
    /// The lease could not be taken for this long, because the store has reached its limit of leases.
    NoRoom {
        /// The duty.
        duty: DutyName,
        /// How long the fault has lasted.
        lasting: Duration,
    },
}

impl DutyAlert {
    /// The duty that the alert is about.
    pub fn duty(&self) -> &DutyName {
        match self {
            Self::Stuck { duty, .. } | Self::Blocked { duty, .. } | Self::NoRoom { duty, .. } => duty,
        }
    }

    /// How long the fault has lasted.
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
                "a duty is blocked: no process holds its lease, and an unfinished operation under its last term keeps others from taking it"
            }
            Self::NoRoom { .. } => {
                "a duty is not done: the store has reached its limit of leases; remove old duties or use fewer names"
            }
        })
    }
}
