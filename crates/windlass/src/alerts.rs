//! Alerts: events that a person should act on, because they do not pass by themselves. Each alert is a log
//! line at `warn` or `error`, and is passed to the application's hook,
//! [`WorkerOptions::on_alert`](crate::WorkerOptions::on_alert), such as a pager:
//!
//! ```
//! use std::sync::Arc;
//! use windlass::alerts::Alert;
//! use windlass::WorkerOptions;
//!
//! let on_alert = |alert: &Alert| match alert {
//!     Alert::Schedule { schedule, what } => eprintln!("{schedule}: {what}"),
//!     other => eprintln!("{other}"),
//! };
//! let options = WorkerOptions { on_alert: Some(Arc::new(on_alert)), ..WorkerOptions::default() };
//! # assert!(options.on_alert.is_some());
//! ```
//!
//! The hook is called once, in the process that noticed the event. Facts that other processes must see as
//! well are kept in the store: with a lease, a schedule or a completion trigger. The hook runs on a thread
//! of its own, within the runtime in which the worker was started: it may take its time, or spawn a task.
//! If it panics, the panic is logged, and nothing else ends because of it.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::Handle;
use windlass_core::enqueue::Refusal;
use windlass_core::names::{ScheduleName, TriggerName};
use windlass_core::schedules::ScheduleAlert;
use windlass_core::worker::WorkerId;

use crate::duties::DutyAlert;

/// An event that a person should act on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Alert {
    /// A duty is not done as it should be.
    Duty(DutyAlert),
    /// A schedule did not run when it should have: no process saw its tick in time, its job was refused, or
    /// its last job is still live.
    Schedule {
        /// The schedule.
        schedule: ScheduleName,
        /// What happened.
        what: ScheduleAlert,
    },
    /// A schedule cannot be read or fired, and does not run until it is removed and declared again.
    UnfitSchedule {
        /// The schedule.
        schedule: ScheduleName,
        /// The reason.
        why: String,
    },
    /// A completion trigger fired, and its job was refused.
    Trigger {
        /// The trigger.
        trigger: TriggerName,
        /// The reason.
        why: Refusal,
    },
    /// A completion trigger cannot be read, and so it does not fire.
    UnreadableTrigger {
        /// The trigger.
        trigger: TriggerName,
    },
    /// The store no longer knows this worker, and the worker goes on under another identity: its heartbeats
    /// were missing for too long, or the store was emptied or replaced. Other workers run its jobs again.
    StartedOver {
        /// The new identity.
        worker: WorkerId,
    },
}

/// The function that is called with each alert.
pub type AlertHook = Arc<dyn Fn(&Alert) + Send + Sync>;

impl Alert {
    fn log(&self) {
        match self {
            Self::Duty(alert) => alert.log(),
            Self::Schedule { schedule, what } => tracing::warn!(%schedule, %what, "{self}"),
            Self::UnfitSchedule { schedule, why } => tracing::error!(%schedule, why, "{self}"),
            Self::Trigger { trigger, why } => tracing::warn!(%trigger, %why, "{self}"),
            Self::UnreadableTrigger { trigger } => tracing::error!(%trigger, "{self}"),
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
            Self::Trigger { .. } => f.write_str("a completion trigger fired, and its job was refused"),
            Self::UnreadableTrigger { .. } => {
                f.write_str("a completion trigger cannot be read, and so it does not fire")
            }
            Self::StartedOver { .. } => f.write_str(
                "the store no longer knows this worker; the worker goes on under another identity",
            ),
        }
    }
}

/// The most alerts that may be with the hook at once. An alert that arrives while the hook is busy with all
/// of them is only logged.
const UNDER_WAY_MAX: usize = 64;

/// The destination of this process's alerts.
#[derive(Clone, Default)]
pub(crate) struct Alerts {
    hook: Option<AlertHook>,
    /// The runtime of the application. The threads that notice events must not be blocked by the hook, and
    /// on their runtimes the application's code could not use the network.
    application: Option<Handle>,
    under_way: Arc<AtomicUsize>,
}

impl Alerts {
    /// Alerts for a hook; the caller runs within the application's runtime.
    pub(crate) fn to(hook: Option<AlertHook>) -> Self {
        Self { hook, application: Handle::try_current().ok(), under_way: Arc::default() }
    }

    /// For tests: alerts, and a receiver of all alerts until the last sender is dropped.
    #[cfg(test)]
    pub(crate) fn captured() -> (Self, tokio::sync::mpsc::Receiver<Alert>) {
        let (sender, receiver) = tokio::sync::mpsc::channel(UNDER_WAY_MAX);
        let hook = move |alert: &Alert| sender.try_send(alert.clone()).expect("the channel has room");
        (Self::to(Some(Arc::new(hook))), receiver)
    }

    /// Logs an alert and passes it to the hook. A panic of the hook must not end the loop that noticed the
    /// event.
    pub(crate) fn raise(&self, alert: &Alert) {
        alert.log();
        let (Some(hook), Some(application)) = (self.hook.clone(), &self.application) else { return };
        if self.under_way.fetch_add(1, Ordering::SeqCst) >= UNDER_WAY_MAX {
            self.under_way.fetch_sub(1, Ordering::SeqCst);
            tracing::error!(%alert, "`on_alert` is busy with {UNDER_WAY_MAX} alerts; this one is only logged");
            return;
        }
        let (alert, under_way) = (alert.clone(), Arc::clone(&self.under_way));
        application.spawn_blocking(move || {
            if catch_unwind(AssertUnwindSafe(|| hook(&alert))).is_err() {
                tracing::error!(%alert, "`on_alert` panicked; the alert is in the log");
            }
            under_way.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::net::TcpListener;
    use tokio::sync::mpsc;

    use super::*;

    fn unfit() -> Alert {
        Alert::UnreadableTrigger { trigger: TriggerName::parse("hook").unwrap() }
    }

    #[tokio::test]
    async fn a_hook_that_panics_ends_nothing_and_hears_of_the_next_alert() {
        let (sender, mut called) = mpsc::channel(UNDER_WAY_MAX);
        let alerts = Alerts::to(Some(Arc::new(move |_: &Alert| {
            sender.try_send(()).unwrap();
            panic!("the pager cannot be reached");
        })));
        alerts.raise(&unfit());
        called.recv().await.unwrap();
        alerts.raise(&unfit());
        called.recv().await.unwrap();
    }

    /// Duties and heartbeats run on threads whose runtimes have no network I/O.
    #[tokio::test]
    async fn a_hook_may_talk_to_others_whichever_thread_has_noticed_something() {
        let pager = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = pager.local_addr().unwrap();
        let alerts = Alerts::to(Some(Arc::new(move |_: &Alert| {
            tokio::spawn(tokio::net::TcpStream::connect(address));
        })));
        std::thread::spawn(move || alerts.raise(&unfit())).join().unwrap();
        tokio::time::timeout(Duration::from_secs(30), pager.accept())
            .await
            .expect("the hook connects")
            .unwrap();
    }

    #[tokio::test]
    async fn a_hook_that_does_not_return_holds_no_thread_up_and_takes_only_a_limited_number_of_alerts() {
        let (sender, mut called) = mpsc::channel(2 * UNDER_WAY_MAX);
        let (go_on, wait) = std::sync::mpsc::channel::<()>();
        let wait = std::sync::Mutex::new(wait);
        let alerts = Alerts::to(Some(Arc::new(move |_: &Alert| {
            sender.try_send(()).unwrap();
            let _ = wait.lock().map(|wait| wait.recv());
        })));
        (0..=UNDER_WAY_MAX).for_each(|_| alerts.raise(&unfit()));
        drop(go_on);
        for _ in 0..UNDER_WAY_MAX {
            called.recv().await.unwrap();
        }
        drop(alerts);
        assert_eq!(called.recv().await, None, "and no more");
    }
}
