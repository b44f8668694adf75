//! The shell around looking: at once when this process has marked a trigger, and from time to time for those whose process died. No error
//! of the store ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use windlass_core::engine::{Engine, Hint, HintListener};
use windlass_core::error::EngineError;
use windlass_core::limits::{TRIGGER_PAUSE, TRIGGERS_POLL_EVERY, TRIGGERS_POLL_IDLE};

use super::duty::{Looked, TriggerDuty};
use crate::alerts::Alerts;
use crate::duties::DutyContext;

/// One run of the duty lasts so long: one that never ended would look like one that is stuck.
const RUN_FOR: Duration = Duration::from_secs(30);

/// A process that stops looks for so long after its last mark. Each drain that it marked may be looked at within one pause, by whomever.
const LAST_LOOKS: Duration = TRIGGER_PAUSE.saturating_mul(2);

/// Looks for a while, or until another process leads.
pub(crate) async fn look_for_a_while(
    duty: Arc<TriggerDuty>,
    context: DutyContext,
) -> Result<(), EngineError> {
    let began = Instant::now();
    while !context.is_stopped() && began.elapsed() < RUN_FOR {
        let looked = duty.run().await?;
        context.did(u64::try_from(looked.jobs).unwrap_or(u64::MAX));
        let wait = wait_after(&looked).min(RUN_FOR.saturating_sub(began.elapsed()));
        let _ = tokio::time::timeout(wait, context.stopped()).await;
    }
    Ok(())
}

/// Where there are no triggers, looks are rare.
fn wait_after(looked: &Looked) -> Duration {
    let usual = if looked.any { TRIGGERS_POLL_EVERY } else { TRIGGERS_POLL_IDLE };
    looked.next.map_or(usual, |next| next.min(usual))
}

/// Hears that this process has marked a trigger. However many marks there are, it rings once.
#[derive(Default)]
struct Bell {
    rung: Notify,
    has_rung: AtomicBool,
}

impl HintListener for Bell {
    fn hint(&self, hint: Hint) {
        if hint == Hint::Trigger {
            self.has_rung.store(true, Ordering::SeqCst);
            self.rung.notify_one();
        }
    }
}

/// Looks whenever this process has marked a trigger.
pub(crate) struct TriggerPoller {
    bell: Arc<Bell>,
    duty: Arc<TriggerDuty>,
    task: JoinHandle<()>,
}

impl TriggerPoller {
    pub(crate) fn start(engine: &Arc<dyn Engine>, alerts: Alerts) -> Self {
        let (bell, duty) =
            (Arc::new(Bell::default()), Arc::new(TriggerDuty::new(Arc::clone(engine), alerts)));
        engine.on_hint(Arc::<Bell>::downgrade(&bell));
        let task = tokio::spawn(look_when_rung(Arc::clone(&bell), Arc::clone(&duty)));
        Self { bell, duty, task }
    }

    /// Looks a last time, if this process has marked anything: what it ended last may have been the last of a group, and perhaps no other
    /// process is there that would look. Not for as long as others leave marks: those look for themselves.
    pub(crate) async fn end(self) {
        self.task.abort();
        if self.bell.has_rung.load(Ordering::SeqCst) {
            look_until_nothing_is_marked(&self.duty, Some(Instant::now() + LAST_LOOKS)).await;
        }
    }
}

impl Drop for TriggerPoller {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn look_when_rung(bell: Arc<Bell>, duty: Arc<TriggerDuty>) {
    loop {
        bell.rung.notified().await;
        look_until_nothing_is_marked(&duty, None).await;
    }
}

/// A trigger that was looked at a moment ago must wait a little. What fails is left to the duty, and so is what must wait longer than until
/// then.
async fn look_until_nothing_is_marked(duty: &TriggerDuty, until: Option<Instant>) {
    let is_in_time = |next| until.is_none_or(|until| Instant::now() + next <= until);
    loop {
        match duty.run().await {
            Ok(Looked { next: Some(next), .. }) if next < TRIGGERS_POLL_EVERY && is_in_time(next) => {
                // may sleep: two looks at one trigger are some time apart, and the last mark is followed by one.
                tokio::time::sleep(next).await;
            }
            // It took so long that it must wait longer, or we stop: the duty comes back to it.
            Ok(_) => return,
            Err(error) => {
                tracing::debug!(%error, "triggers are looked at by the next run of their duty");
                return;
            }
        }
    }
}
