//! Hints: possible changes, collected while the state is locked and sent afterwards.

use windlass_core::claim::Fence;
use windlass_core::engine::Hint;
use windlass_core::names::{DutyName, QueueName};

/// The hints that one call sends, each once.
#[derive(Debug, Default)]
pub(super) struct HintsDue(Vec<Hint>);

impl HintsDue {
    pub(super) fn queue(&mut self, name: &QueueName) {
        let is_known = |hint: &Hint| matches!(hint, Hint::Queue(known) if known == name);
        if !self.0.iter().any(is_known) {
            self.0.push(Hint::Queue(name.clone()));
        }
    }

    pub(super) fn cancel(&mut self, fence: Fence) {
        self.0.push(Hint::Cancel(fence));
    }

    pub(super) fn lease(&mut self, duty: &DutyName) {
        self.0.push(Hint::Lease(duty.clone()));
    }

    pub(super) fn trigger(&mut self) {
        if !self.0.contains(&Hint::Trigger) {
            self.0.push(Hint::Trigger);
        }
    }

    pub(super) fn take(&mut self) -> Vec<Hint> {
        std::mem::take(&mut self.0)
    }
}
