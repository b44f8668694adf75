//! The shell around the evaluation: evaluates at once when this process has marked a trigger, and polls
//! from time to time for the marks of processes that died. No error of the store ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use windlass_core::engine::{Engine, Hint, HintListener};
use windlass_core::error::EngineError;
use windlass_core::limits::{TRIGGER_PAUSE, TRIGGERS_POLL_EVERY, TRIGGERS_POLL_IDLE};

use super::duty::{Evaluated, TriggerDuty};
use crate::alerts::Alerts;
use crate::duties::DutyContext;

/// The length of one run of the duty: a run that never ended would look stuck.
const RUN_FOR: Duration = Duration::from_secs(30);

/// How long a process that stops still evaluates after its last mark. Within one pause, any process may
/// evaluate each trigger that it marked.
const LAST_EVALUATIONS: Duration = TRIGGER_PAUSE.saturating_mul(2);

/// Evaluates triggers for a while, or until another process leads.
pub(crate) async fn evaluate_for_a_while(
    duty: Arc<TriggerDuty>,
    context: DutyContext,
) -> Result<(), EngineError> {
    let began = Instant::now();
    while !context.is_stopped() && began.elapsed() < RUN_FOR {
        let evaluated = duty.run().await?;
        context.did(u64::try_from(evaluated.jobs).unwrap_or(u64::MAX));
        let wait = wait_after(&evaluated).min(RUN_FOR.saturating_sub(began.elapsed()));
        let _ = tokio::time::timeout(wait, context.stopped()).await;
    }
    Ok(())
}

/// The pause after a run. Where there are no triggers, polls are rare.
fn wait_after(evaluated: &Evaluated) -> Duration {
    let usual = if evaluated.any { TRIGGERS_POLL_EVERY } else { TRIGGERS_POLL_IDLE };
    evaluated.next.map_or(usual, |next| next.min(usual))
}

/// Listens for marks that this process sets. However many marks there are, it notifies once.
#[derive(Default)]
struct TriggerListener {
    changed: Notify,
    was_notified: AtomicBool,
}

impl HintListener for TriggerListener {
    fn hint(&self, hint: Hint) {
        if hint == Hint::Trigger {
            self.was_notified.store(true, Ordering::SeqCst);
            self.changed.notify_one();
        }
    }
}

/// Evaluates triggers whenever this process has marked one.
pub(crate) struct TriggerPoller {
    listener: Arc<TriggerListener>,
    duty: Arc<TriggerDuty>,
    task: JoinHandle<()>,
}

impl TriggerPoller {
    pub(crate) fn start(engine: &Arc<dyn Engine>, alerts: Alerts) -> Self {
        let (listener, duty) =
            (Arc::new(TriggerListener::default()), Arc::new(TriggerDuty::new(Arc::clone(engine), alerts)));
        engine.on_hint(Arc::<TriggerListener>::downgrade(&listener));
        let task = tokio::spawn(evaluate_when_notified(Arc::clone(&listener), Arc::clone(&duty)));
        Self { listener, duty, task }
    }

    /// Evaluates a last time, if this process has marked a trigger: the last job that it ended may have
    /// been the last of a group, and perhaps no other process is running that would evaluate it. It does
    /// not go on for as long as other processes set marks: they evaluate those themselves.
    pub(crate) async fn end(self) {
        self.task.abort();
        if self.listener.was_notified.load(Ordering::SeqCst) {
            evaluate_until_nothing_is_marked(&self.duty, Some(Instant::now() + LAST_EVALUATIONS)).await;
        }
    }
}

impl Drop for TriggerPoller {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn evaluate_when_notified(listener: Arc<TriggerListener>, duty: Arc<TriggerDuty>) {
    loop {
        listener.changed.notified().await;
        evaluate_until_nothing_is_marked(&duty, None).await;
    }
}

/// Evaluates until no trigger is marked. A trigger that was just evaluated must wait a little. After a
/// failure the rest is left to the duty, and so are triggers that must wait past `until`.
async fn evaluate_until_nothing_is_marked(duty: &TriggerDuty, until: Option<Instant>) {
    let is_in_time = |next| until.is_none_or(|until| Instant::now() + next <= until);
    loop {
        match duty.run().await {
            Ok(Evaluated { next: Some(next), .. }) if next < TRIGGERS_POLL_EVERY && is_in_time(next) => {
                // may sleep: two evaluations of one trigger are some time apart, and the last mark is
                // followed by one.
                tokio::time::sleep(next).await;
            }
            // The wait is too long, or the process stops: the duty evaluates the rest.
            Ok(_) => return,
            Err(error) => {
                tracing::debug!(%error, "evaluating completion triggers failed; the next run of their duty evaluates them");
                return;
            }
        }
    }
}
