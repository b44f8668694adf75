//! Upkeep: what has expired is cancelled, what nobody handles is parked, what is old is deleted.

use std::collections::BTreeSet;

use windlass_core::admin::BatchDone;
use windlass_core::clock::Timestamp;
use windlass_core::gate::Gate;
use windlass_core::job::JobId;
use windlass_core::limits::UPKEEP_BATCH_MAX;

use super::state::{State, TypeAt};

/// Why a job is cancelled that was not started in time.
pub(super) const EXPIRED: &str = "expired before it started";

const DAY_SECS: u64 = 24 * 60 * 60;

impl State {
    pub(super) fn sweep(&mut self, limit: u32, now: Timestamp) -> BatchDone {
        let limit = limit.min(UPKEEP_BATCH_MAX) as usize;
        let expired = self.index.expired(limit, now);
        for id in &expired {
            self.cancel_waiting(*id, EXPIRED, now);
        }
        let parked = self.park_unhandled(limit, now);
        self.let_through_handled(limit, now);
        let more = !self.index.expired(1, now).is_empty() || !self.unhandled(1, now).is_empty();
        BatchDone { changed: (expired.len() + parked) as u64, more }
    }

    fn park_unhandled(&mut self, limit: usize, now: Timestamp) -> usize {
        let unhandled = self.unhandled(limit, now);
        for (id, gate) in &unhandled {
            self.change_waiting(*id, |_, at| *at = Some(gate.clone()));
        }
        unhandled.len()
    }

    /// What was parked while its workers seemed gone, though none of them ever noticed: after a step of the
    /// clock and back, no heartbeat finds its lease run out.
    fn let_through_handled(&mut self, limit: usize, now: Timestamp) {
        let live = self.workers.values().filter(|worker| worker.is_live(now));
        let gates: BTreeSet<_> =
            live.flat_map(|worker| worker.card.types.iter().map(Gate::no_handler)).collect();
        for gate in gates {
            self.let_through(&gate, limit);
        }
    }

    /// Jobs without a gate that wait for a handler in vain, at most `limit`, each with its gate.
    fn unhandled(&self, limit: usize, now: Timestamp) -> Vec<(JobId, Gate)> {
        let types = self.index.types().filter(|at| self.is_unhandled(*at, now));
        let jobs = types.flat_map(|at| {
            let row = self.index.type_row(at);
            let gate = Gate::no_handler(&row.spec.name);
            row.lanes.iter().map(move |id| (id, gate.clone()))
        });
        jobs.take(limit).collect()
    }

    /// Whether live workers serve the queue of a type and none of them handles it. Without any such worker
    /// nothing is known: a producer that starts first must not see its jobs parked.
    fn is_unhandled(&self, at: TypeAt, now: Timestamp) -> bool {
        let row = self.index.type_row(at);
        if row.lanes.is_empty() {
            return false;
        }
        let live = || self.workers.values().filter(|worker| worker.is_live(now));
        live().any(|worker| worker.card.queues.contains(&row.spec.queue))
            && !live().any(|worker| worker.card.types.contains(&row.spec.name))
    }

    pub(super) fn prune(&mut self, limit: u32, now: Timestamp) -> BatchDone {
        let limit = limit.min(UPKEEP_BATCH_MAX) as usize;
        let jobs = self.prune_history(limit, now);
        let receipts = self.receipts.prune(limit, now);
        self.prune_keys(limit, now);
        let more = self.index.types().any(|at| self.oldest_past_retention(at, now).is_some())
            || self.receipts.has_old(now);
        BatchDone { changed: (jobs + receipts) as u64, more }
    }

    fn prune_history(&mut self, limit: usize, now: Timestamp) -> usize {
        let mut pruned = 0;
        for at in self.index.types() {
            while let Some(id) = self.oldest_past_retention(at, now).filter(|_| pruned < limit) {
                self.index.type_row_mut(at).ended.pop_front();
                self.history.remove(&id);
                pruned += 1;
            }
        }
        pruned
    }

    /// The finished job of a type that ended first, if it has been kept long enough.
    fn oldest_past_retention(&self, at: TypeAt, now: Timestamp) -> Option<JobId> {
        let row = self.index.type_row(at);
        let kept = std::time::Duration::from_secs(u64::from(row.spec.retention_days) * DAY_SECS);
        row.ended.front().filter(|(ended_at, _)| ended_at.plus(kept) <= now).map(|(_, id)| *id)
    }
}
