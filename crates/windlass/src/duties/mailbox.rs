//! Messages to the duties of a process: answers to heartbeats, hints, and the request to stop. There is a
//! place for each kind rather than a channel: two messages of a kind are one, and no queue can fill up. In
//! return the duties publish the standing of this process.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::{Notify, watch};
use windlass_core::clock::Timestamp;
use windlass_core::lease::membership::MemberCount;
use windlass_core::lease_watch::Own;
use windlass_core::limits::DUTIES_MAX;
use windlass_core::names::DutyName;
use windlass_core::worker::WorkerId;

/// The mailbox of a process's duties. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Mailbox(Arc<Inner>);

#[derive(Default)]
struct Inner {
    mail: Mutex<Mail>,
    came: Notify,
    reborn: Notify,
    standing: Standing,
    worker: Mutex<Option<WorkerId>>,
    failed: AtomicU64,
    stopped: watch::Sender<bool>,
}

/// The messages that have arrived.
#[derive(Default)]
pub(super) struct Mail {
    pub(super) heartbeat_answer: Option<HeardHeartbeat>,
    pub(super) hints: BTreeSet<DutyName>,
    pub(super) hint_of_anything: bool,
    pub(super) stop: bool,
}

/// The store's answer to a heartbeat.
pub(crate) struct HeardHeartbeat {
    pub(crate) worker: WorkerId,
    pub(crate) members: MemberCount,
    pub(crate) store_now: Timestamp,
    pub(crate) at: Instant,
}

/// The standing of this process among the others.
#[derive(Default)]
pub(crate) struct Standing {
    /// It takes over rescue as soon as the leader could be gone.
    pub(super) stands_by: AtomicBool,
    /// It leads the rescue duty.
    pub(super) leads: AtomicBool,
    /// The number of live workers.
    pub(super) live: AtomicU32,
}

impl Standing {
    /// Whether this process watches other workers though another process rescues their jobs.
    pub(crate) fn watches(&self) -> bool {
        self.stands_by.load(Ordering::SeqCst) && !self.leads.load(Ordering::SeqCst)
    }
}

impl Mailbox {
    /// Passes on the answer to a heartbeat.
    pub(crate) fn heartbeat_with_members(&self, heartbeat_answer: HeardHeartbeat) {
        *self.0.worker.lock().unwrap_or_else(PoisonError::into_inner) = Some(heartbeat_answer.worker);
        self.put(|mail| mail.heartbeat_answer = Some(heartbeat_answer));
    }

    /// Notes that the lease of this duty is free, or that its holder was asked to give way.
    pub(crate) fn hint(&self, duty: DutyName) {
        self.put(|mail| {
            if mail.hints.len() < DUTIES_MAX as usize {
                mail.hints.insert(duty);
            }
        });
    }

    /// Notes that anything in the store may have changed.
    pub(crate) fn hint_of_anything(&self) {
        self.put(|mail| mail.hint_of_anything = true);
    }

    /// Notes that the store no longer knew this worker, and that the worker has registered under a new
    /// identity.
    pub(crate) fn was_reborn(&self) {
        self.0.reborn.notify_one();
    }

    /// Waits until the worker has registered under a new identity. Only one task waits for it, and the
    /// duties do not.
    pub(crate) async fn reborn(&self) {
        self.0.reborn.notified().await;
    }

    /// Asks the duties to release all leases and locks and to stop.
    pub(crate) fn stop(&self) {
        self.0.stopped.send_replace(true);
        self.put(|mail| mail.stop = true);
    }

    /// Waits until [`stop`](Self::stop) was called.
    pub(crate) async fn stopped(&self) {
        // The sender lives as long as this mailbox.
        let _ = self.0.stopped.subscribe().wait_for(|stopped| *stopped).await;
    }

    /// The number of live workers that could do duties.
    pub(crate) fn live(&self) -> u32 {
        self.0.standing.live.load(Ordering::SeqCst).max(1)
    }

    /// Notes that a heartbeat failed, or was not answered in time.
    pub(crate) fn heartbeat_failed(&self) {
        self.0.failed.fetch_add(1, Ordering::SeqCst);
    }

    /// The identity of this process in the store, and the number of its failed heartbeats. No duty begins
    /// before the first heartbeat was answered.
    pub(super) fn own(&self) -> Option<Own> {
        let worker = *self.0.worker.lock().unwrap_or_else(PoisonError::into_inner);
        worker.map(|worker| Own { worker, failed: self.0.failed.load(Ordering::SeqCst) })
    }

    pub(super) fn standing(&self) -> &Standing {
        &self.0.standing
    }

    pub(super) fn take(&self) -> Mail {
        std::mem::take(&mut *self.lock())
    }

    pub(super) async fn came(&self) {
        self.0.came.notified().await;
    }

    fn put(&self, what: impl FnOnce(&mut Mail)) {
        what(&mut self.lock());
        self.0.came.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Mail> {
        self.0.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
