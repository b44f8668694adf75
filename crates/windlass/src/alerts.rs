//! Alerts: what somebody should look at, and what does not mend by itself. Each is a line of the log, at `warn` or `error`, and is
//! handed to whoever asked for alerts by [`WorkerOptions::on_alert`](crate::WorkerOptions::on_alert), such as a pager:
//!
//! ```
//! use std::sync::Arc;
//! use windlass::alerts::Alert;
//! use windlass::WorkerOptions;
//!
//! let on_alert = |alert: &Alert| match alert {
//!     Alert::Schedule { schedule, alarm } => eprintln!("{schedule}: {alarm}"),
//!     other => eprintln!("{other}"),
//! };
//! let options = WorkerOptions { on_alert: Some(Arc::new(on_alert)), ..WorkerOptions::default() };
//! # assert!(options.on_alert.is_some());
//! ```
//!
//! It is called in the process that noticed, once; what must be seen by others, too, is kept in the store: with a lease, a schedule or a
//! drain. It must not block: hand on what takes time. If it panics, that is told in the log, and nothing else ends by it.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use windlass_core::enqueue::Refusal;
use windlass_core::names::{DrainName, ScheduleName};
use windlass_core::schedules::Alarm;
use windlass_core::worker::WorkerId;

use crate::duties::DutyAlert;

/// What somebody should look at.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Alert {
    /// Something is wrong with a duty.
    Duty(DutyAlert),
    /// A schedule did not run when it should have: nobody saw its tick in time, its job was refused, or its last job is still live.
    Schedule {
        /// Which.
        schedule: ScheduleName,
        /// What happened.
        alarm: Alarm,
    },
    /// A schedule cannot be read or fired, and does not run until it is removed and declared again.
    UnfitSchedule {
        /// Which.
        schedule: ScheduleName,
        /// Why.
        why: String,
    },
    /// A drain fired, and its job was refused.
    Drain {
        /// Which.
        drain: DrainName,
        /// Why.
        why: Refusal,
    },
    /// A drain cannot be read, and so it does not fire.
    UnfitDrain {
        /// Which.
        drain: DrainName,
    },
    /// The store does not know this worker any more, and it goes on under another identity: it was silent for too long, or the store was
    /// emptied or replaced. What it ran is run again by others.
    StartedOver {
        /// As whom it goes on.
        worker: WorkerId,
    },
}

/// What is called with each alert.
pub type AlertHook = Arc<dyn Fn(&Alert) + Send + Sync>;

impl Alert {
    fn log(&self) {
        match self {
            Self::Duty(alert) => alert.log(),
            Self::Schedule { schedule, alarm } => tracing::warn!(%schedule, %alarm, "{self}"),
            Self::UnfitSchedule { schedule, why } => tracing::error!(%schedule, why, "{self}"),
            Self::Drain { drain, why } => tracing::warn!(%drain, %why, "{self}"),
            Self::UnfitDrain { drain } => tracing::error!(%drain, "{self}"),
            Self::StartedOver { worker } => tracing::warn!(%worker, "{self}"),
        }
    }
}

impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duty(alert) => write!(f, "{alert}"),
            Self::Schedule { .. } => f.write_str("a schedule did not run when it should have"),
            Self::UnfitSchedule { .. } => {
                f.write_str("a schedule does not run until it is removed and declared again")
            }
            Self::Drain { .. } => f.write_str("a drain fired, and its job was refused"),
            Self::UnfitDrain { .. } => f.write_str("a drain cannot be read, and so it does not fire"),
            Self::StartedOver { .. } => {
                f.write_str("the store did not know this worker any more; it goes on under another identity")
            }
        }
    }
}

/// Where alerts of this process go.
#[derive(Clone, Default)]
pub(crate) struct Alerts(Option<AlertHook>);

impl Alerts {
    pub(crate) fn to(hook: Option<AlertHook>) -> Self {
        Self(hook)
    }

    /// To the log, and to whoever asked for it. What that does wrong must not end the loop that noticed something.
    pub(crate) fn raise(&self, alert: &Alert) {
        alert.log();
        let Some(hook) = &self.0 else { return };
        if catch_unwind(AssertUnwindSafe(|| hook(alert))).is_err() {
            tracing::error!(%alert, "`on_alert` panicked; the alert stands in the log");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_hook_that_panics_ends_nothing_and_hears_of_the_next_alert() {
        let heard = Arc::new(Mutex::new(0));
        let count = Arc::clone(&heard);
        let alerts = Alerts::to(Some(Arc::new(move |_: &Alert| {
            *count.lock().unwrap_or_else(std::sync::PoisonError::into_inner) += 1;
            panic!("it has no line to the pager");
        })));
        let drain = DrainName::parse("hook").unwrap();
        alerts.raise(&Alert::UnfitDrain { drain: drain.clone() });
        alerts.raise(&Alert::UnfitDrain { drain });
        assert_eq!(*heard.lock().unwrap_or_else(std::sync::PoisonError::into_inner), 2);
    }
}
