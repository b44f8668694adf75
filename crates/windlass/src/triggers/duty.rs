//! Looking at triggers: all that have a mark and may be looked at. It is right if many do it at once.

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

/// How often one run looks again, because somebody was faster or more came in. What is left then waits for the next.
const ROUNDS_MAX: u32 = 5;

/// Looks at triggers.
pub(crate) struct TriggerDuty {
    engine: Arc<dyn Engine>,
    alerts: Alerts,
    /// CompletionTriggers that cannot be read, and of which that was told.
    told_of: Mutex<BTreeSet<TriggerName>>,
}

/// What a run did, and when the next should be.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Looked {
    /// Jobs that were made.
    pub(crate) jobs: usize,
    /// In which time a trigger that has a mark may be looked at; nothing if none has one.
    pub(crate) next: Option<Duration>,
    /// Whether there are triggers at all.
    pub(crate) any: bool,
}

impl TriggerDuty {
    pub(crate) fn new(engine: Arc<dyn Engine>, alerts: Alerts) -> Self {
        Self { engine, alerts, told_of: Mutex::default() }
    }

    /// Looks at all that is marked and may be looked at now.
    pub(crate) async fn run(&self) -> Result<Looked, EngineError> {
        let mut looked = Looked::default();
        for _ in 0..ROUNDS_MAX {
            let marked = read(&self.engine, WhichTriggers::Marked(TRIGGERS_PER_CALL_MAX as u32)).await?;
            looked.any = marked.any;
            looked.next = marked.next.map(|next| next.since(marked.now));
            marked.damaged.iter().for_each(|(name, _)| self.tell_of_damaged(name));
            if marked.triggers.is_empty() {
                return Ok(looked);
            }
            let firings: Vec<_> =
                marked.triggers.iter().map(|trigger| acts::fire(trigger, marked.now)).collect();
            let answers = self.fire(firings, &mut looked.jobs).await?;
            // Others are at all of them: whoever asked again at once would do so until they are done.
            if answers.iter().all(|fired| *fired == TriggerFired::Later) {
                let pause = random::part_of(TRIGGER_PAUSE);
                looked.next = Some(looked.next.map_or(pause, |next| next.min(pause)));
                return Ok(looked);
            }
        }
        looked.next.get_or_insert(Duration::ZERO);
        Ok(looked)
    }

    /// Once, not with every look.
    fn tell_of_damaged(&self, trigger: &TriggerName) {
        let mut told_of = self.told_of.lock().unwrap_or_else(PoisonError::into_inner);
        if told_of.insert(trigger.clone()) {
            self.alerts.raise(&Alert::UnreadableTrigger { trigger: trigger.clone() });
        }
    }

    async fn fire(
        &self,
        firings: Vec<TriggerFiring>,
        jobs: &mut usize,
    ) -> Result<Vec<TriggerFired>, EngineError> {
        let answers = fire(&self.engine, firings.clone()).await?;
        *jobs += firings.iter().zip(&answers).filter(|(firing, fired)| self.tell(firing, fired)).count();
        Ok(answers)
    }

    /// Tells of what was done, and whether a job was made.
    fn tell(&self, firing: &TriggerFiring, fired: &TriggerFired) -> bool {
        let trigger = &firing.name;
        match fired {
            TriggerFired::Fired { job: EnqueueAnswer::Refused(why), .. } => {
                self.alerts.raise(&Alert::Trigger { trigger: trigger.clone(), why: why.clone() });
                false
            }
            TriggerFired::Fired { job, .. } => {
                let job = job.job().map_or(0, |id| id.0);
                tracing::debug!(%trigger, job.id = job, "a completion trigger made its job");
                true
            }
            TriggerFired::Held | TriggerFired::Unmarked | TriggerFired::Later | TriggerFired::Changed => {
                false
            }
        }
    }
}
