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
//! drain. It is called on a thread of its own, within the runtime in which the worker was started: it may take its time, or hand on to a task.
//! If it panics, that is told in the log, and nothing else ends by it.

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
        alarm: ScheduleAlert,
    },
    /// A schedule cannot be read or fired, and does not run until it is removed and declared again.
    UnfitSchedule {
        /// Which.
        schedule: ScheduleName,
        /// Why.
        why: String,
    },
    /// A drain fired, and its job was refused.
    Trigger {
        /// Which.
        trigger: TriggerName,
        /// Why.
        why: Refusal,
    },
    /// A drain cannot be read, and so it does not fire.
    UnreadableTrigger {
        /// Which.
        trigger: TriggerName,
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
            Self::StartedOver { .. } => {
                f.write_str("the store did not know this worker any more; it goes on under another identity")
            }
        }
    }
}

/// So many alerts may be with the hook at once. What comes while it is busy with all of them stands in the log only.
const UNDER_WAY_MAX: usize = 64;

/// Where alerts of this process go.
#[derive(Clone, Default)]
pub(crate) struct Alerts {
    hook: Option<AlertHook>,
    /// Where the application lives. Those who notice something have threads of their own, which nobody may hold up, and on which nothing
    /// of the application could talk to anybody.
    application: Option<Handle>,
    under_way: Arc<AtomicUsize>,
}

impl Alerts {
    /// For whoever calls within the application's runtime.
    pub(crate) fn to(hook: Option<AlertHook>) -> Self {
        Self { hook, application: Handle::try_current().ok(), under_way: Arc::default() }
    }

    /// For tests: alerts, and all that is raised until nobody can raise one any more.
    #[cfg(test)]
    pub(crate) fn heard() -> (Self, tokio::sync::mpsc::Receiver<Alert>) {
        let (tell, heard) = tokio::sync::mpsc::channel(UNDER_WAY_MAX);
        let hook = move |alert: &Alert| tell.try_send(alert.clone()).expect("not so many");
        (Self::to(Some(Arc::new(hook))), heard)
    }

    /// To the log, and to whoever asked for it. What that does wrong must not end the loop that noticed something.
    pub(crate) fn raise(&self, alert: &Alert) {
        alert.log();
        let (Some(hook), Some(application)) = (self.hook.clone(), &self.application) else { return };
        if self.under_way.fetch_add(1, Ordering::SeqCst) >= UNDER_WAY_MAX {
            self.under_way.fetch_sub(1, Ordering::SeqCst);
            tracing::error!(%alert, "`on_alert` is busy with {UNDER_WAY_MAX} alerts; this one stands in the log only");
            return;
        }
        let (alert, under_way) = (alert.clone(), Arc::clone(&self.under_way));
        application.spawn_blocking(move || {
            if catch_unwind(AssertUnwindSafe(|| hook(&alert))).is_err() {
                tracing::error!(%alert, "`on_alert` panicked; the alert stands in the log");
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
        let (tell, mut heard) = mpsc::channel(UNDER_WAY_MAX);
        let alerts = Alerts::to(Some(Arc::new(move |_: &Alert| {
            tell.try_send(()).unwrap();
            panic!("it has no line to the pager");
        })));
        alerts.raise(&unfit());
        heard.recv().await.unwrap();
        alerts.raise(&unfit());
        heard.recv().await.unwrap();
    }

    /// Duties and heartbeats live on threads whose runtimes cannot talk to anybody.
    #[tokio::test]
    async fn a_hook_may_talk_to_others_whoever_has_noticed_something() {
        let pager = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = pager.local_addr().unwrap();
        let alerts = Alerts::to(Some(Arc::new(move |_: &Alert| {
            tokio::spawn(tokio::net::TcpStream::connect(address));
        })));
        std::thread::spawn(move || alerts.raise(&unfit())).join().unwrap();
        tokio::time::timeout(Duration::from_secs(30), pager.accept()).await.expect("it calls").unwrap();
    }

    #[tokio::test]
    async fn a_hook_that_does_not_return_holds_nobody_up_and_takes_only_so_many_alerts() {
        let (tell, mut heard) = mpsc::channel(2 * UNDER_WAY_MAX);
        let (go_on, wait) = std::sync::mpsc::channel::<()>();
        let wait = std::sync::Mutex::new(wait);
        let alerts = Alerts::to(Some(Arc::new(move |_: &Alert| {
            tell.try_send(()).unwrap();
            let _ = wait.lock().map(|wait| wait.recv());
        })));
        (0..=UNDER_WAY_MAX).for_each(|_| alerts.raise(&unfit()));
        drop(go_on);
        for _ in 0..UNDER_WAY_MAX {
            heard.recv().await.unwrap();
        }
        drop(alerts);
        assert_eq!(heard.recv().await, None, "and no more");
    }
}
