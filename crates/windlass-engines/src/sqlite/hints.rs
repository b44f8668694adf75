//! Hints that are sent after a commit.

use std::collections::BTreeSet;

use windlass_core::claim::Fence;
use windlass_core::engine::Hint;
use windlass_core::names::{DutyName, QueueName};

use crate::listeners::Listeners;

/// The hints that one operation or transaction sends once it is committed.
#[derive(Debug, Default, Clone)]
pub(super) struct PendingHints {
    queues: BTreeSet<QueueName>,
    cancels: Vec<Fence>,
    leases: BTreeSet<DutyName>,
    trigger: bool,
}

impl PendingHints {
    /// A job of this queue may be claimable, now or at another time than before.
    pub(super) fn queue(&mut self, queue: &QueueName) {
        if !self.queues.contains(queue) {
            self.queues.insert(queue.clone());
        }
    }

    /// A running job was asked to stop.
    pub(super) fn cancel(&mut self, fence: Fence) {
        self.cancels.push(fence);
    }

    /// A lease is free, or its holder was asked to step down.
    pub(super) fn lease(&mut self, duty: &DutyName) {
        self.leases.insert(duty.clone());
    }

    /// A completion trigger was marked.
    pub(super) fn trigger(&mut self) {
        self.trigger = true;
    }

    /// Adds the hints of another operation.
    pub(super) fn absorb(&mut self, other: Self) {
        self.queues.extend(other.queues);
        self.cancels.extend(other.cancels);
        self.leases.extend(other.leases);
        self.trigger |= other.trigger;
    }

    /// Sends the hints to all listeners, after the commit.
    pub(super) fn send(self, listeners: &Listeners) {
        self.queues.into_iter().for_each(|queue| listeners.tell(&Hint::Queue(queue)));
        self.cancels.into_iter().for_each(|fence| listeners.tell(&Hint::Cancel(fence)));
        self.leases.into_iter().for_each(|duty| listeners.tell(&Hint::Lease(duty)));
        if self.trigger {
            listeners.tell(&Hint::Trigger);
        }
    }
}
