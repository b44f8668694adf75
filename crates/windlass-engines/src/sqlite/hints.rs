//! Hints: what waits to be told after a commit, and who wants to know.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use windlass_core::claim::Fence;
use windlass_core::engine::{Hint, HintListener};
use windlass_core::names::QueueName;

/// What one operation or transaction has to tell once it is committed.
#[derive(Debug, Default)]
pub(super) struct PendingHints {
    queues: BTreeSet<QueueName>,
    cancels: Vec<Fence>,
}

impl PendingHints {
    /// Something in this queue may be claimable, now or at another time than before.
    pub(super) fn queue(&mut self, queue: &QueueName) {
        if !self.queues.contains(queue) {
            self.queues.insert(queue.clone());
        }
    }

    /// A running job was asked to stop.
    pub(super) fn cancel(&mut self, fence: Fence) {
        self.cancels.push(fence);
    }

    /// Takes in what another operation has to tell.
    pub(super) fn absorb(&mut self, other: Self) {
        self.queues.extend(other.queues);
        self.cancels.extend(other.cancels);
    }
}

/// Whoever wants hints.
#[derive(Default)]
pub(super) struct Listeners(Mutex<Vec<Arc<dyn HintListener>>>);

impl Listeners {
    /// One more.
    pub(super) fn add(&self, listener: Arc<dyn HintListener>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(listener);
    }

    /// Tells all of one thing.
    pub(super) fn tell(&self, hint: &Hint) {
        // The lock is not held while listeners run: one of them may add another.
        let listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        listeners.iter().for_each(|listener| listener.hint(hint.clone()));
    }

    /// Tells all of what a transaction did.
    pub(super) fn tell_all(&self, pending: PendingHints) {
        pending.queues.into_iter().for_each(|queue| self.tell(&Hint::Queue(queue)));
        pending.cancels.into_iter().for_each(|fence| self.tell(&Hint::Cancel(fence)));
    }
}
