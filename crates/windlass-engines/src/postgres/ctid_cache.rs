//! The ctid cache: what this process remembers of the rows of jobs that it claimed.
//!
//! It remembers the ctids of rows. A row that is read by its ctid needs no index, in which entries for
//! versions that a retry or a gate left behind may have to be skipped first.
//!
//! It also remembers their contents. Every write moves a row. So a row that still has its ctid is as it was
//! written, and need not be read before it is written again.
//!
//! All this is a hint: a row that is not found by its ctid is found by its id.

use std::collections::HashMap;

use tokio_postgres::Row;
use windlass_core::claim::{ClaimToken, Claimed, Fence};
use windlass_core::clock::Timestamp;
use windlass_core::job::{Counters, JobId};
use windlass_core::names::{QueueName, TypeName};
use windlass_core::priority::Priority;
use windlass_core::worker::WorkerId;

use super::Store;
use super::apply::Live;
use super::store_error::StoreResult;
use super::value::Ctid;
use crate::kit::JobOptions;

/// How many rows are remembered: some jobs end without this process knowing, and their rows would pile up.
const ROWS_MAX: usize = 100_000;

/// The remembered rows by job.
#[derive(Debug, Default)]
pub(super) struct CtidCache {
    of_jobs: HashMap<JobId, Remembered>,
}

#[derive(Debug)]
struct Remembered {
    ctid: Ctid,
    held: Option<Held>,
}

/// The fields that moving a claimed job needs, if it has neither a key nor an ordering key: those are
/// locked before they move.
#[derive(Debug)]
struct Held {
    job_type: TypeName,
    queue: QueueName,
    priority: Priority,
    due: Timestamp,
    counters: Counters,
    token: ClaimToken,
    worker: WorkerId,
    since: Timestamp,
}

impl Held {
    fn by(worker: WorkerId, since: Timestamp, claimed: &Claimed) -> Option<Self> {
        let job = &claimed.job;
        let is_free = job.key.is_none() && job.ordering_key.is_none();
        is_free.then(|| Self {
            job_type: job.job_type.clone(),
            queue: job.queue.clone(),
            priority: job.priority,
            due: job.due,
            counters: job.counters,
            token: claimed.token,
            worker,
            since,
        })
    }

    fn live(self, id: JobId) -> Live {
        Live {
            id,
            job_type: self.job_type,
            queue: self.queue,
            priority: Some(self.priority),
            due: self.due,
            counters: self.counters,
            key: None,
            gate: None,
            token: Some(self.token),
            worker: Some(self.worker),
            since: self.since,
            cancel_requested: None,
            options: JobOptions::default(),
            runs: true,
        }
    }
}

impl CtidCache {
    fn note(&mut self, job: JobId, ctid: Ctid) {
        if self.of_jobs.len() >= ROWS_MAX {
            self.of_jobs.clear();
        }
        // Its ctid has changed by a write of this process, which touches none of the fields that are held
        // here.
        let held = self.of_jobs.remove(&job).and_then(|before| before.held);
        self.of_jobs.insert(job, Remembered { ctid, held });
    }

    fn take(&mut self, job: JobId) -> Option<Ctid> {
        Some(self.of_jobs.remove(&job)?.ctid)
    }

    /// Returns a job as this claim has left it, with the ctid of its row, and forgets it.
    fn take_live(&mut self, job: JobId, token: ClaimToken) -> Option<(Live, Ctid)> {
        let is_of_claim = |known: &Remembered| known.held.as_ref().is_some_and(|held| held.token == token);
        if !self.of_jobs.get(&job).is_some_and(is_of_claim) {
            return None;
        }
        let Remembered { ctid, held } = self.of_jobs.remove(&job)?;
        Some((held?.live(job), ctid))
    }
}

impl Store {
    /// Remembers the ctids of rows that were just written, by the columns that hold job and ctid.
    pub(super) fn note_ctids(&self, rows: &[Row], job: usize, ctid: usize) -> StoreResult<()> {
        let mut cache = self.ctid_cache();
        for row in rows {
            if let Some(id) = row.try_get::<_, Option<i64>>(job)? {
                cache.note(JobId(id), row.try_get(ctid)?);
            }
        }
        Ok(())
    }

    /// Remembers the contents of rows that were just claimed, if their ctids are known.
    pub(super) fn remember_claimed(&self, worker: WorkerId, since: Timestamp, jobs: &[Claimed]) {
        let mut cache = self.ctid_cache();
        for claimed in jobs {
            if let Some(remembered) = cache.of_jobs.get_mut(&claimed.job.id) {
                remembered.held = Held::by(worker, since, claimed);
            }
        }
    }

    /// Returns the job of a claim as its row was when this process last wrote it, with its ctid. Then
    /// forgets it.
    pub(super) fn take_as_claimed(&self, fence: Fence) -> Option<(Live, Ctid)> {
        self.ctid_cache().take_live(fence.job, fence.token)
    }

    /// Returns the ctids of the rows of these jobs, as far as this process knows them. Then forgets them: a
    /// job ends once.
    pub(super) fn take_ctids(&self, jobs: &[i64]) -> Vec<Option<Ctid>> {
        let mut cache = self.ctid_cache();
        jobs.iter().map(|job| cache.take(JobId(*job))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ctids_that_no_settle_asks_for_do_not_gather_without_end() {
        let mut cache = CtidCache::default();
        (0..=ROWS_MAX).for_each(|n| cache.note(JobId(n as i64), Ctid::default()));
        assert_eq!(cache.of_jobs.len(), 1);
    }
}
