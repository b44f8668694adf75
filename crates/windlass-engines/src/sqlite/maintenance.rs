//! Maintenance: cancels expired jobs, parks jobs without a handler, and deletes old data.

use std::collections::HashSet;

use rusqlite::params;
use windlass_core::admin::BatchDone;
use windlass_core::gate::Gate;
use windlass_core::job::{EXPIRED_REASON, JobId};
use windlass_core::limits::{CLAIM_TOMBSTONE_TTL, DEAD_WORKER_KEPT, MAINTENANCE_BATCH_MAX, RECEIPT_TTL};
use windlass_core::names::{QueueName, TypeName};

use super::counts;
use super::sql::sql;
use super::store_error::StoreResult;
use super::work::Work;
use super::workers::sightings;

/// The queues and types of live workers.
#[derive(Debug, Default)]
struct Served {
    queues: HashSet<QueueName>,
    types: HashSet<TypeName>,
}

impl Work<'_> {
    pub(super) fn sweep(&mut self, limit: u32) -> StoreResult<BatchDone> {
        let limit = limit.min(MAINTENANCE_BATCH_MAX);
        let expired = self.expired(limit)?;
        for id in &expired {
            if let Some(job) = self.live_job(*id)? {
                self.cancel_waiting(&job, EXPIRED_REASON)?;
            }
        }
        let served = self.served()?;
        let unhandled = self.unhandled(limit, &served)?;
        for (id, gate) in &unhandled {
            if let Some(job) = self.live_job(*id)? {
                self.change_waiting(&job, job.due, Some(gate))?;
            }
        }
        self.let_through_rest(limit, &served)?;
        counts::fold(self.conn, self.now)?;
        let more = !self.expired(1)?.is_empty() || !self.unhandled(1, &served)?.is_empty();
        Ok(BatchDone { changed: (expired.len() + unhandled.len()) as u64, more })
    }

    fn expired(&self, limit: u32) -> StoreResult<Vec<JobId>> {
        self.ids(sql!("expired"), params![self.now.as_micros(), limit])
    }

    fn served(&self) -> StoreResult<Served> {
        let mut served = Served::default();
        for worker in sightings(self.conn, self.now)?.into_iter().filter(|worker| !worker.expired) {
            served.queues.extend(worker.card.queues);
            served.types.extend(worker.card.types);
        }
        Ok(served)
    }

    /// Lists jobs without a gate whose queue is served by live workers of which none handles their type, at
    /// most `limit`, each with its gate. Without any such worker nothing is known: a producer that starts
    /// first must not see its jobs parked.
    fn unhandled(&self, limit: u32, served: &Served) -> StoreResult<Vec<(JobId, Gate)>> {
        let mut found = Vec::new();
        for kind in self.catalogue.types() {
            let left = limit.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX));
            let is_unhandled =
                served.queues.contains(&kind.spec.queue) && !served.types.contains(&kind.spec.name);
            if left > 0 && is_unhandled {
                let gate = Gate::no_handler(&kind.spec.name);
                let ids = self.ids(sql!("waiting_of_type"), params![kind.id, left])?;
                found.extend(ids.into_iter().map(|id| (id, gate.clone())));
            }
        }
        Ok(found)
    }

    /// Lets jobs through that a new worker handles and did not let through itself, because there were too
    /// many.
    fn let_through_rest(&mut self, limit: u32, served: &Served) -> StoreResult<()> {
        for name in &served.types {
            self.let_through(&Gate::no_handler(name), limit)?;
        }
        Ok(())
    }

    pub(super) fn prune(&mut self, limit: u32) -> StoreResult<BatchDone> {
        let limit = limit.min(MAINTENANCE_BATCH_MAX);
        let jobs = self.past_retention(limit)?;
        let mut forget = self.conn.prepare_cached(sql!("forget_ended"))?;
        let mut forget_attempts = self.conn.prepare_cached(sql!("forget_attempts"))?;
        for id in &jobs {
            forget.execute([id.0])?;
            forget_attempts.execute([id.0])?;
        }
        let lapsed = self.now.minus(RECEIPT_TTL).as_micros();
        let delete = |sql: &str, past: i64| -> StoreResult<usize> {
            Ok(self.conn.prepare_cached(sql)?.execute(params![past, limit])?)
        };
        let receipts = delete(sql!("prune_receipts"), lapsed)?;
        let spent = self.now.minus(CLAIM_TOMBSTONE_TTL).as_micros();
        let tokens = delete(sql!("prune_spent_tokens"), spent)?;
        let traces = delete(sql!("prune_traces"), lapsed)?;
        let workers = delete(sql!("prune_workers"), self.now.minus(DEAD_WORKER_KEPT).as_micros())?;
        let keys = self.prune_keys(limit)?;
        let limits = delete(sql!("prune_rate_limits"), self.now.as_micros())?;
        let is_full = |count: usize| count > 0 && count == limit as usize;
        let more = is_full(workers)
            || is_full(keys)
            || is_full(limits)
            || self.is_more_to_prune(limit, lapsed, spent)?;
        Ok(BatchDone {
            changed: (jobs.len() + receipts + tokens + traces + workers + keys + limits) as u64,
            more,
        })
    }

    /// Whether there are jobs, receipts, tokens or traces that the next prune would delete.
    fn is_more_to_prune(&self, limit: u32, lapsed: i64, spent: i64) -> StoreResult<bool> {
        let is_old = |sql: &str, past: i64| -> StoreResult<bool> {
            Ok(self.conn.prepare_cached(sql)?.query_row([past], |row| row.get(0))?)
        };
        let receipts = is_old(sql!("old_receipts"), lapsed)?;
        let tokens = is_old(sql!("old_spent_tokens"), spent)?;
        let traces: bool = self
            .conn
            .prepare_cached(sql!("old_traces"))?
            .query_row(params![lapsed, limit], |row| row.get(0))?;
        Ok(receipts || tokens || traces || !self.past_retention(1)?.is_empty())
    }

    fn past_retention(&self, limit: u32) -> StoreResult<Vec<JobId>> {
        self.ids(sql!("past_retention"), params![self.now.as_micros(), limit])
    }

    /// Reads the ids that a statement finds.
    pub(super) fn ids(&self, sql: &str, params: impl rusqlite::Params) -> StoreResult<Vec<JobId>> {
        let mut statement = self.conn.prepare_cached(sql)?;
        let ids = statement.query_map(params, |row| row.get(0).map(JobId))?;
        Ok(ids.collect::<Result<_, _>>()?)
    }
}
