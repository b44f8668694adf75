//! Notifications: how this process learns that there are jobs to claim.
//!
//! Its own writes reach it at once. Writes of other processes wake it by a notification, if it has recorded
//! that it waits. Each notification costs the whole server a lock at commit, so no process sends one that
//! no worker waits for. The periodic scan backs up both.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant as Moment};

use windlass_core::claim::{ClaimRequest, NextDue, Suspects};
use windlass_core::engine::Hint;
use windlass_core::names::{QueueName, TypeName};

use super::Store;
use super::store_error::StoreResult;
use super::value::{text, texts};
use crate::kit::to_json;

/// A mark is written again after this time, before other processes take it for a forgotten one.
const MARK_AGAIN: Duration = Duration::from_secs(20);
/// Another process is woken at most this often for one queue.
const WAKE_NEXT_EVERY: Duration = Duration::from_millis(20);

/// The queues for which this process waits, as far as it has recorded them in the store.
#[derive(Debug, Default)]
pub(super) struct IdleRegistry {
    /// Queues whose last claim was not full, and the types that it asked for.
    idle: HashMap<QueueName, BTreeSet<TypeName>>,
    /// Queues that are marked in the store, and since when.
    marked: HashMap<QueueName, Moment>,
    /// When another process was last woken for a queue.
    woke_next: HashMap<QueueName, Moment>,
}

/// A change of the marks, to be written to the store.
#[derive(Debug, Default, PartialEq, Eq)]
struct Notified {
    mark: Vec<QueueName>,
    unmark: Vec<QueueName>,
    /// Queues for which other processes are to be woken, and the types that the claim asked for, as JSON.
    wake_next: Vec<(QueueName, String)>,
}

impl IdleRegistry {
    /// Notes whether a claim of these queues was full.
    fn note_claim(&mut self, request: &ClaimRequest, is_full: bool, more: bool, now: Moment) -> Notified {
        let mut change = Notified::default();
        for queue in &request.queues {
            if is_full {
                self.marked.remove(queue);
                // Whether or not this process still knows of a mark: it may be forgotten here and not in the
                // store.
                if self.idle.remove(queue).is_some() {
                    change.unmark.push(queue.clone());
                }
                if more && self.may_wake_next(queue, now) {
                    change.wake_next.push((queue.clone(), to_json(&request.types)));
                }
            } else if self.wants_more(queue, &request.types) || self.is_mark_old(queue, now) {
                self.marked.insert(queue.clone(), now);
                change.mark.push(queue.clone());
            }
        }
        change
    }

    /// Notes the requested types. Returns whether there are more of them than before.
    fn wants_more(&mut self, queue: &QueueName, types: &[TypeName]) -> bool {
        let wanted = self.idle.entry(queue.clone()).or_default();
        let before = wanted.len();
        wanted.extend(types.iter().cloned());
        wanted.len() > before
    }

    fn is_mark_old(&self, queue: &QueueName, now: Moment) -> bool {
        self.marked.get(queue).is_none_or(|since| now.duration_since(*since) >= MARK_AGAIN)
    }

    fn may_wake_next(&mut self, queue: &QueueName, now: Moment) -> bool {
        let last = self.woke_next.get(queue);
        let may = last.is_none_or(|last| now.duration_since(*last) >= WAKE_NEXT_EVERY);
        if may {
            self.woke_next.insert(queue.clone(), now);
        }
        may
    }

    /// Returns the queues whose marks must be written again, and counts them as written.
    fn old_marks(&mut self, now: Moment) -> Vec<QueueName> {
        let old: Vec<_> = self.idle.keys().filter(|queue| self.is_mark_old(queue, now)).cloned().collect();
        old.iter().for_each(|queue| _ = self.marked.insert(queue.clone(), now));
        old
    }

    /// Notes that no worker of this process waits any more. Returns the queues whose marks must go.
    fn stop(&mut self) -> Vec<QueueName> {
        self.marked.clear();
        self.idle.drain().map(|(queue, _)| queue).collect()
    }

    /// Forgets all marks: they are gone with a crash of the server, or with a connection that may have been
    /// to another server.
    pub(super) fn forget_marks(&mut self) {
        self.marked.clear();
    }

    /// Whether this process waits for jobs of a type and has recorded it in the store.
    fn waits_for(&self, queue: &QueueName, job_type: &str) -> bool {
        let types = self.idle.get(queue).filter(|_| self.marked.contains_key(queue));
        types.is_some_and(|types| types.iter().any(|wanted| wanted.as_str() == job_type))
    }

    /// The part that still holds. A queue that changed state meanwhile is written by the call that changed
    /// it.
    fn still_true(&self, change: &Notified) -> Notified {
        let waits = |queue: &&QueueName| self.idle.contains_key(*queue);
        Notified {
            mark: change.mark.iter().filter(waits).cloned().collect(),
            unmark: change.unmark.iter().filter(|queue| !waits(queue)).cloned().collect(),
            wake_next: change.wake_next.clone(),
        }
    }

    /// The types that workers wait for in a queue, as the store takes them.
    fn types_of(&self, queue: &QueueName) -> String {
        to_json(&self.idle.get(queue).cloned().unwrap_or_default())
    }
}

impl Store {
    /// Whether an enqueue of this type wakes this very process, so that no other has to be woken.
    pub(super) fn wakes_itself(&self, queue: &QueueName, job_type: &str) -> bool {
        self.idle_registry().waits_for(queue, job_type)
    }

    /// Notes whether a claim was full, and writes to the store if that changes anything.
    pub(super) fn note_idle(&self, request: &ClaimRequest, is_full: bool, peek: NextDue) {
        if !self.listens || request.suspects != Suspects::LeaveOut || request.limit == 0 {
            return;
        }
        let change = self.idle_registry().note_claim(request, is_full, peek.more_due, Moment::now());
        if change != Notified::default()
            && let Some(store) = self.myself.upgrade()
        {
            tokio::spawn(async move { store.write_change(change).await });
        }
    }

    async fn write_change(self: Arc<Self>, change: Notified) {
        let done = self.write_idle(&change).await;
        if let Err(fault) = done {
            // Polling finds the jobs for which no notification comes.
            tracing::debug!(
                ?fault,
                "writing which queues this process waits for failed; polling finds their jobs"
            );
            self.idle_registry().forget_marks();
        }
        for queue in &change.mark {
            self.listeners.tell(&Hint::Queue(queue.clone()));
        }
        if change.mark.is_empty() {
            return;
        }
        let mut waited = Duration::ZERO;
        for after in &self.scans_after_idle {
            // may sleep: a caller may have looked for marks just before ours was there, and commits a
            // little later.
            tokio::time::sleep(after.saturating_sub(waited)).await;
            waited = *after;
            change.mark.iter().for_each(|queue| self.listeners.tell(&Hint::Queue(queue.clone())));
        }
    }

    /// Writes one change at a time, each with what holds by then: two that cross would leave the older
    /// state in the store.
    async fn write_idle(&self, change: &Notified) -> StoreResult<()> {
        let conn = self.work.get().await?;
        let _turn = self.idle_writes.lock().await;
        let change = self.idle_registry().still_true(change);
        let own = self.channels.own();
        let names = |queues: &[QueueName]| queues.iter().map(ToString::to_string).collect::<Vec<_>>();
        if !change.mark.is_empty() {
            let queues = names(&change.mark);
            let types: Vec<_> =
                change.mark.iter().map(|queue| self.idle_registry().types_of(queue)).collect();
            let params = [texts(&queues), text(&own), texts(&types)];
            conn.execute(&self.sql.mark_waiting, &params).await?;
        }
        if !change.unmark.is_empty() {
            conn.execute(&self.sql.unmark_waiting, &[texts(&names(&change.unmark)), text(&own)]).await?;
        }
        for (queue, types) in &change.wake_next {
            conn.execute(&self.sql.wake_next, &[text(&queue.as_str()), text(&own), text(types)]).await?;
        }
        Ok(())
    }

    /// Removes the marks when a worker leaves: a notification that is sent to it would wake no worker. If
    /// another worker of this process goes on, it marks itself again when it next finds nothing.
    pub(super) async fn stop_waiting(&self) {
        let unmark = self.idle_registry().stop();
        if unmark.is_empty() {
            return;
        }
        if let Err(fault) = self.write_idle(&Notified { unmark, ..Notified::default() }).await {
            tracing::debug!(?fault, "removing the marks of a stopped worker failed; they expire");
        }
    }

    /// Writes marks again that other processes would soon take for forgotten ones.
    pub(super) async fn mark_again(&self) {
        let old = self.idle_registry().old_marks(Moment::now());
        if old.is_empty() {
            return;
        }
        if let Err(fault) = self.write_idle(&Notified { mark: old, ..Notified::default() }).await {
            tracing::debug!(?fault, "renewing the marks of waiting queues failed; polling finds their jobs");
            self.idle_registry().forget_marks();
        }
    }
}
