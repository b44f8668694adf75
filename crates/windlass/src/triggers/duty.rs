//! Evaluating completion triggers: all that are marked and may be evaluated. The result is correct if many
//! processes do it at once.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use windlass_core::engine::Engine;
use windlass_core::enqueue::EnqueueAnswer;
use windlass_core::error::EngineError;
use windlass_core::limits::{TRIGGER_PAUSE, TRIGGERS_PER_CALL_MAX};
use windlass_core::names::TriggerName;
use windlass_core::triggers::acts;
use windlass_core::triggers::{TriggerFired, TriggerFiring, WhichTriggers};

use super::{fire, read};
use crate::alerts::{Alert, Alerts};
use crate::random;

/// The most rounds of one run, because another process was faster or more triggers were marked. Triggers
/// left after that wait for the next run.
const ROUNDS_MAX: u32 = 5;

/// Evaluates completion triggers.
pub(crate) struct TriggerDuty {
    engine: Arc<dyn Engine>,
    alerts: Alerts,
    /// Completion triggers that cannot be read, and for which an alert was raised.
    alerted: Mutex<BTreeSet<TriggerName>>,
}

/// The result of a run, and when the next should be.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Evaluated {
    /// The number of jobs that were enqueued.
    pub(crate) jobs: usize,
    /// The time until a marked trigger may be evaluated; none if no trigger is marked.
    pub(crate) next: Option<Duration>,
    /// Whether the store has any triggers.
    pub(crate) any: bool,
}

impl TriggerDuty {
    pub(crate) fn new(engine: Arc<dyn Engine>, alerts: Alerts) -> Self {
        Self { engine, alerts, alerted: Mutex::default() }
    }

    /// Evaluates all triggers that are marked and may be evaluated now.
    pub(crate) async fn run(&self) -> Result<Evaluated, EngineError> {
        let mut evaluated = Evaluated::default();
        for _ in 0..ROUNDS_MAX {
            let marked = read(&self.engine, WhichTriggers::Marked(TRIGGERS_PER_CALL_MAX as u32)).await?;
            evaluated.any = marked.any;
            evaluated.next = marked.next.map(|next| next.since(marked.now));
            marked.damaged.iter().for_each(|(name, _)| self.alert_damaged(name));
            if marked.triggers.is_empty() {
                return Ok(evaluated);
            }
            let firings: Vec<_> =
                marked.triggers.iter().map(|trigger| acts::fire(trigger, marked.now)).collect();
            let answers = self.fire(firings, &mut evaluated.jobs).await?;
            // Other processes evaluate all of them: asking again at once would go on until they are done.
            if answers.iter().all(|fired| *fired == TriggerFired::Later) {
                let pause = random::part_of(TRIGGER_PAUSE);
                evaluated.next = Some(evaluated.next.map_or(pause, |next| next.min(pause)));
                return Ok(evaluated);
            }
        }
        evaluated.next.get_or_insert(Duration::ZERO);
        Ok(evaluated)
    }

    /// Raises an alert once for each unreadable trigger, not in every round.
    fn alert_damaged(&self, trigger: &TriggerName) {
        let mut alerted = self.alerted.lock().unwrap_or_else(PoisonError::into_inner);
        if alerted.insert(trigger.clone()) {
            self.alerts.raise(&Alert::UnreadableTrigger { trigger: trigger.clone() });
        }
    }

    async fn fire(
        &self,
        firings: Vec<TriggerFiring>,
        jobs: &mut usize,
    ) -> Result<Vec<TriggerFired>, EngineError> {
        let answers = fire(&self.engine, firings.clone()).await?;
        *jobs += firings.iter().zip(&answers).filter(|(firing, fired)| self.report(firing, fired)).count();
        Ok(answers)
    }

    /// Reports a firing. Returns whether a job was enqueued.
    fn report(&self, firing: &TriggerFiring, fired: &TriggerFired) -> bool {
        let trigger = &firing.name;
        match fired {
            TriggerFired::Fired { job: EnqueueAnswer::Refused(why), .. } => {
                self.alerts.raise(&Alert::Trigger { trigger: trigger.clone(), why: why.clone() });
                false
            }
            TriggerFired::Fired { job, .. } => {
                let job = job.job().map_or(0, |id| id.0);
                tracing::debug!(%trigger, job.id = job, "a completion trigger enqueued its job");
                true
            }
            TriggerFired::Held | TriggerFired::Unmarked | TriggerFired::Later | TriggerFired::Changed => {
                false
            }
        }
    }
}
