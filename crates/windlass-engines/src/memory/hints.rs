//! Hints: what may have changed, gathered while the state is locked and told afterwards.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use windlass_core::claim::Fence;
use windlass_core::engine::{Hint, HintListener};
use windlass_core::names::QueueName;

/// What one call has to tell, each thing once.
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

    pub(super) fn take(&mut self) -> Vec<Hint> {
        std::mem::take(&mut self.0)
    }
}

/// Whoever wants hints.
#[derive(Default)]
pub(super) struct Listeners(RwLock<Vec<Arc<dyn HintListener>>>);

impl Listeners {
    pub(super) fn add(&self, listener: Arc<dyn HintListener>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).push(listener);
    }

    /// Calls everybody, holding no lock, so that a listener may call the engine or add another listener.
    pub(super) fn tell(&self, hints: Vec<Hint>) {
        if hints.is_empty() {
            return;
        }
        let listeners = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        for listener in listeners {
            hints.iter().for_each(|hint| listener.hint(hint.clone()));
        }
    }
}

impl fmt::Debug for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listeners")
    }
}
