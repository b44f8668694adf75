//! Rescue: declares silent workers dead, for ever, and takes their jobs back.

use rusqlite::params;
use windlass_core::admin::AttemptEnding;
use windlass_core::claim::Fence;
use windlass_core::engine::{RescueRequest, Rescued};
use windlass_core::job::JobId;
use windlass_core::lease_watch::Suspicion;
use windlass_core::limits::MAINTENANCE_BATCH_MAX;
use windlass_core::settle::{NewState, after_crash, crash_error};
use windlass_core::worker::ProofOfLife;

use super::apply::{AttemptEnd, EndedAttempt};
use super::locks::Locks;
use super::row::{lossy, token};
use super::sql::sql;
use super::store_error::StoreResult;
use super::work::Work;
use crate::kit::to_json;

/// A running job without a live worker, and the jobs that the worker held when it died.
struct Orphan {
    fence: Fence,
    held: Vec<JobId>,
}

impl Work<'_> {
    pub(super) fn rescue(&mut self, request: &RescueRequest, locks: &Locks) -> StoreResult<Rescued> {
        for suspicion in &request.silent {
            self.declare_dead(suspicion, locks)?;
        }
        let limit = request.limit.min(MAINTENANCE_BATCH_MAX);
        let mut rescued = Rescued::default();
        for orphan in self.orphans(limit)? {
            self.take_back(&orphan, request.crashes_max, &mut rescued)?;
        }
        rescued.more = !self.orphans(1)?.is_empty();
        Ok(rescued)
    }

    /// Declares a worker dead, only if it has sent no heartbeat since it was read, and either its lease has
    /// expired by this clock too or its lock proves that its process is gone.
    fn declare_dead(&mut self, suspicion: &Suspicion, locks: &Locks) -> StoreResult<()> {
        let Some(life) = self.life(suspicion.worker)? else { return Ok(()) };
        if life.is_dead || life.beats != suspicion.beats {
            return Ok(());
        }
        if life.expires_at > self.now && locks.proof(suspicion.worker) != ProofOfLife::Gone {
            return Ok(());
        }
        let held: Vec<_> = self.held_by(suspicion.worker)?.into_iter().map(|fence| fence.job).collect();
        let beats = i64::try_from(suspicion.beats).unwrap_or(i64::MAX);
        let mut statement = self.conn.prepare_cached(sql!("declare_dead"))?;
        statement.execute(params![suspicion.worker.to_bytes(), beats, to_json(&held)])?;
        self.did.gone.push(suspicion.worker);
        Ok(())
    }

    fn orphans(&self, limit: u32) -> StoreResult<Vec<Orphan>> {
        let mut statement = self.conn.prepare_cached(sql!("orphans"))?;
        let orphans = statement.query_map([limit], |row| {
            let fence = Fence { job: JobId(row.get(0)?), token: token(row.get(1)?) };
            let held = lossy(row, 3)?.and_then(|held| serde_json::from_str(&held).ok()).unwrap_or_default();
            Ok(Orphan { fence, held })
        })?;
        Ok(orphans.collect::<Result<_, _>>()?)
    }

    fn take_back(&mut self, orphan: &Orphan, crashes_max: u32, rescued: &mut Rescued) -> StoreResult<()> {
        let fence = orphan.fence;
        let Some(held) = self.held_job(fence.job, fence.token)? else { return Ok(()) };
        let beside: Vec<_> = orphan.held.iter().copied().filter(|other| *other != fence.job).collect();
        let attempt_end = AttemptEnd {
            attempt: Some(EndedAttempt {
                number: held.counters.attempts,
                worker: held.worker,
                started_at: held.since,
                ended_at: self.now,
                ending: AttemptEnding::Crashed,
                error: Some(crash_error()),
                output: None,
            }),
            last_error: Some(crash_error()),
            ..AttemptEnd::default()
        };
        let applied = after_crash(held.counters, held.due, crashes_max, &beside)
            .or_cancelled(held.cancel_requested.as_deref());
        match applied.state {
            NewState::Dead { .. } => rescued.buried.push(fence.job),
            _ => rescued.returned.push(fence.job),
        }
        self.apply(&held, applied, &attempt_end)
    }
}
