//! Maintenance: cancels expired jobs, parks jobs without a handler, and deletes old data.

use std::collections::BTreeSet;

use windlass_core::admin::BatchDone;
use windlass_core::clock::Timestamp;
use windlass_core::gate::Gate;
use windlass_core::job::{EXPIRED_REASON, JobId};
use windlass_core::limits::{DEAD_WORKER_KEPT, MAINTENANCE_BATCH_MAX};

use super::state::{State, TypeAt};

impl State {
    pub(super) fn sweep(&mut self, limit: u32, now: Timestamp) -> BatchDone {
        let limit = limit.min(MAINTENANCE_BATCH_MAX) as usize;
        let expired = self.index.expired(limit, now);
        for id in &expired {
            self.cancel_waiting(*id, EXPIRED_REASON, now);
        }
        let parked = self.park_unhandled(limit, now);
        self.let_through_handled(limit, now);
        let more = !self.index.expired(1, now).is_empty() || !self.unhandled(1, now).is_empty();
        BatchDone { changed: (expired.len() + parked) as u64, more }
    }

    fn park_unhandled(&mut self, limit: usize, now: Timestamp) -> usize {
        let unhandled = self.unhandled(limit, now);
        for (id, gate) in &unhandled {
            self.move_waiting(*id, now, |_, at| *at = Some(gate.clone()));
        }
        unhandled.len()
    }

    /// Lets jobs through that were parked while their workers seemed gone, though no worker noticed it:
    /// after a step of the clock and back, no heartbeat finds its lease expired.
    fn let_through_handled(&mut self, limit: usize, now: Timestamp) {
        let live = self.workers.values().filter(|worker| worker.is_live(now));
        let gates: BTreeSet<_> =
            live.flat_map(|worker| worker.card.types.iter().map(Gate::no_handler)).collect();
        for gate in gates {
            self.let_through(&gate, limit);
        }
    }

    /// Lists jobs without a gate that wait for a handler in vain, at most `limit`, each with its gate.
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
        let limit = limit.min(MAINTENANCE_BATCH_MAX) as usize;
        let jobs = self.prune_history(limit, now);
        let receipts = self.receipts.prune(limit, now);
        let tokens = self.spent_tokens.prune(limit, now);
        let workers = self.prune_workers(limit, now);
        let keys = self.prune_keys(limit, now);
        let tokens_due = self.shared.prune(limit, now);
        let more = self.index.types().any(|at| self.first_past_retention(at, now).is_some())
            || self.receipts.has_old(now)
            || self.spent_tokens.has_old(now)
            || self.keys.has_lapsed(now)
            || (workers > 0 && workers == limit)
            || tokens_due == limit;
        BatchDone { changed: (jobs + receipts + tokens + workers + keys + tokens_due) as u64, more }
    }

    /// Deletes workers that were declared dead long ago and hold no job, at most `limit`. An unknown worker
    /// is refused just as a dead one is.
    fn prune_workers(&mut self, limit: usize, now: Timestamp) -> usize {
        let past = now.minus(DEAD_WORKER_KEPT);
        let gone = self.workers.iter().filter(|(id, row)| {
            row.declared_dead && row.has_expired(past) && self.index.held_count(**id) == 0
        });
        let gone: Vec<_> = gone.map(|(id, _)| *id).take(limit).collect();
        for id in &gone {
            self.workers.remove(id);
        }
        gone.len()
    }

    fn prune_history(&mut self, limit: usize, now: Timestamp) -> usize {
        let mut pruned = 0;
        for at in self.index.types() {
            while let Some(id) = self.first_past_retention(at, now).filter(|_| pruned < limit) {
                self.index.type_row_mut(at).ended.pop_first();
                self.history.remove(&id);
                pruned += 1;
            }
        }
        pruned
    }

    /// Returns the finished job of a type whose retention ends first, if it is over.
    fn first_past_retention(&self, at: TypeAt, now: Timestamp) -> Option<JobId> {
        let ended = &self.index.type_row(at).ended;
        ended.first().filter(|(until, _)| *until <= now).map(|(_, id)| *id)
    }
}
