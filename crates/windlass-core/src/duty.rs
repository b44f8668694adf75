//! Duties: periodic work that is done for all, such as pruning or firing schedules. A duty has a name, an
//! interval and a mode, which says which process does it:
//!
//! - *every worker*: each process, independently. For work that is cheap, or about the process itself.
//! - *work stealing*: each process too, but each run takes a part of the work that no other run has
//!   locked. For much work that can be split.
//! - *advisory lock*: the process that holds a lock of a PostgreSQL session. The lock is free at once
//!   when the session ends, but has no fence.
//! - *lease*, the default: the process that holds the duty's [lease](crate::lease). It has a fence, and
//!   works on every engine.
//!
//! In every mode, what a duty does must be right if two processes do it at once. [`runner`] decides when
//! a process begins a run and when it stops one.

pub mod runner;

use std::fmt;
use std::time::Duration;

use crate::error::EngineError;
use crate::limits::{DUTY_INTERVAL_MIN, DUTY_STUCK_AFTER_MIN, INTERVAL_MAX};
use crate::names::DutyName;

/// Which process does a duty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DutyMode {
    /// Each process, independently.
    EveryWorker,
    /// The process that holds a lock of a session.
    AdvisoryLock,
    /// Each process, each with its own part of the work.
    WorkStealing,
    /// The process that holds the lease.
    #[default]
    Lease,
}

impl DutyMode {
    /// Whether one process at a time does the duty.
    pub fn has_one_leader(self) -> bool {
        matches!(self, Self::AdvisoryLock | Self::Lease)
    }

    /// Returns this mode if an engine has it, and otherwise the lease mode, which every engine has.
    pub fn or_lease(self, modes: DutyModes) -> Self {
        if modes.has(self) { self } else { Self::Lease }
    }
}

impl fmt::Display for DutyMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EveryWorker => "every worker",
            Self::AdvisoryLock => "advisory lock",
            Self::WorkStealing => "work stealing",
            Self::Lease => "lease",
        })
    }
}

/// The modes that an engine has. Every engine has leases, and lets every worker do a duty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DutyModes {
    /// It has locks that end with a session, and a connection of its own to hold them.
    pub advisory_lock: bool,
    /// It lets a process take rows that no other process has locked.
    pub work_stealing: bool,
}

impl DutyModes {
    /// Every existing mode.
    pub const ALL: Self = Self { advisory_lock: true, work_stealing: true };

    /// Whether the engine has this mode.
    pub fn has(self, mode: DutyMode) -> bool {
        match mode {
            DutyMode::AdvisoryLock => self.advisory_lock,
            DutyMode::WorkStealing => self.work_stealing,
            DutyMode::EveryWorker | DutyMode::Lease => true,
        }
    }
}

/// A duty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DutySpec {
    /// Its name, which is also that of its lease.
    pub name: DutyName,
    /// From the start of one run to the start of the next.
    pub interval: Duration,
    /// Which process does it.
    pub mode: DutyMode,
    /// A process that has led for this long gives way between two runs. Only where there is a leader.
    pub rotation: Option<Duration>,
}

impl DutySpec {
    /// Refuses a duty that cannot work at all, or not on this engine.
    pub fn check(&self, modes: DutyModes) -> Result<(), EngineError> {
        let Self { name, interval, mode, rotation } = self;
        if !(DUTY_INTERVAL_MIN..=INTERVAL_MAX).contains(interval) {
            return Err(EngineError::Refused(format!(
                "expected an interval of {DUTY_INTERVAL_MIN:?} to ten years for {name}, got {interval:?}"
            )));
        }
        if rotation.is_some_and(|rotation| rotation < *interval || !mode.has_one_leader()) {
            return Err(EngineError::Refused(format!(
                "expected a rotation of {name} no shorter than its interval, and only with `lease` or `advisory lock`; leave it \
                 out otherwise"
            )));
        }
        self.check_mode(modes)
    }

    fn check_mode(&self, modes: DutyModes) -> Result<(), EngineError> {
        if modes.has(self.mode) {
            return Ok(());
        }
        Err(EngineError::Refused(format!(
            "expected a mode for {} that this engine has, got `{}`, which needs PostgreSQL (and a direct address, for a lock); \
             use `lease`",
            self.name, self.mode
        )))
    }

    /// Returns after how long without the end of a run a leader is stuck.
    pub fn stuck_after(&self) -> Duration {
        self.interval.saturating_mul(3).max(DUTY_STUCK_AFTER_MIN)
    }
}
