//! Rescue: declares silent workers dead, for ever, and takes back their jobs.

use std::collections::HashMap;

use tokio_postgres::Row;
use windlass_core::admin::AttemptEnding;
use windlass_core::clock::Timestamp;
use windlass_core::engine::{RescueRequest, Rescued};
use windlass_core::job::JobId;
use windlass_core::lease_watch::Suspicion;
use windlass_core::limits::MAINTENANCE_BATCH_MAX;
use windlass_core::settle::{NewState, after_crash, crash_error};
use windlass_core::worker::WorkerId;

use super::Store;
use super::apply::{AttemptEnd, EndedAttempt, Live, Move, Moved};
use super::conn::Tx;
use super::store_error::StoreResult;
use super::value::{Bits, instant, int4, number, small_number, uuid};

/// A running job without a live worker.
struct Orphan {
    job: JobId,
    /// The dead worker that still holds it.
    worker: WorkerId,
    /// The jobs that this worker held when it died.
    held: Vec<i64>,
}

impl Store {
    pub(super) async fn rescue(&self, request: RescueRequest) -> StoreResult<Rescued> {
        if !request.silent.is_empty() {
            self.fold_claims_if_possible().await;
        }
        for suspicion in &request.silent {
            self.declare_dead(suspicion).await?;
        }
        let orphans = self.orphans(request.limit.min(MAINTENANCE_BATCH_MAX)).await?;
        let mut rescued = self.take_back_in_parts(&orphans, request.crashes_max).await?;
        let is_stuck = rescued.returned.is_empty() && rescued.buried.is_empty();
        rescued.more = !is_stuck && !self.orphans(1).await?.is_empty();
        Ok(rescued)
    }

    /// Declares a worker dead, but only if it is still as silent as it was seen, and its lease has expired
    /// by this clock, too.
    async fn declare_dead(&self, suspicion: &Suspicion) -> StoreResult<()> {
        let (worker, now) = (Bits::from(suspicion.worker), self.now_param());
        let beats = i64::try_from(suspicion.beats).unwrap_or(i64::MAX);
        let conn = self.work.get().await?;
        conn.execute(&self.sql.declare_dead, &[instant(&now), uuid(&worker), number(&beats)]).await?;
        Ok(())
    }

    /// Takes all jobs back at once; but half by half if the server refuses a row. A row that cannot be
    /// written stays where it is, and holds up none of the others.
    async fn take_back_in_parts(&self, orphans: &[Orphan], crashes_max: u32) -> StoreResult<Rescued> {
        match (self.take_back(orphans, crashes_max).await, orphans) {
            (Err(fault), [bad]) if fault.is_about_data() => {
                tracing::error!(
                    job.id = bad.job.0,
                    ?fault,
                    "taking back a job of a dead worker failed; it stays with that worker"
                );
                Ok(Rescued::default())
            }
            (Err(fault), _) if fault.is_about_data() => {
                let (first, second) = orphans.split_at(orphans.len() / 2);
                let mut rescued = Box::pin(self.take_back_in_parts(first, crashes_max)).await?;
                let others = Box::pin(self.take_back_in_parts(second, crashes_max)).await?;
                rescued.returned.extend(others.returned);
                rescued.buried.extend(others.buried);
                Ok(rescued)
            }
            (result, _) => result,
        }
    }

    async fn take_back(&self, orphans: &[Orphan], crashes_max: u32) -> StoreResult<Rescued> {
        if orphans.is_empty() {
            return Ok(Rescued::default());
        }
        let tx = self.work.begin().await?;
        let taken = self.take_back_in(&tx, orphans, crashes_max).await;
        let (rescued, moved) = tx.end(taken).await?;
        self.publish_moved(moved).await;
        Ok(rescued)
    }

    async fn take_back_in(
        &self,
        tx: &Tx,
        orphans: &[Orphan],
        crashes_max: u32,
    ) -> StoreResult<(Rescued, Moved)> {
        let now = self.transaction_now(tx).await?;
        let ids: Vec<_> = orphans.iter().map(|orphan| orphan.job.0).collect();
        let orphans: HashMap<_, _> = orphans.iter().map(|orphan| (orphan.job, orphan)).collect();
        let locked = self.lock_live(tx, &ids, true).await?;
        let mut rescued = Rescued::default();
        let mut moves = Vec::new();
        for live in locked.jobs {
            // Its worker may have settled it in the last moment. Or another process has rescued it, and a
            // live worker has it by now: only a job that the dead worker still holds is an orphan.
            let orphan = orphans.get(&live.id).filter(|orphan| live.worker == Some(orphan.worker));
            if let Some(orphan) = orphan {
                moves.push(crashed(live, &orphan.held, crashes_max, &mut rescued, now));
            }
        }
        let moved = self.write_moves(tx, now, moves, &locked.keys).await?;
        Ok((rescued, moved))
    }

    async fn orphans(&self, limit: u32) -> StoreResult<Vec<Orphan>> {
        let rows = self.work.get().await?.query(&self.sql.orphans, &[small_number(&int4(limit))]).await?;
        let read = |row: &Row| -> StoreResult<Orphan> {
            let held: Option<Vec<i64>> = row.try_get(1)?;
            let worker = row.try_get::<_, Bits>(2)?.into();
            Ok(Orphan { job: JobId(row.try_get(0)?), worker, held: held.unwrap_or_default() })
        };
        rows.iter().map(read).collect()
    }
}

fn crashed(live: Live, held: &[i64], crashes_max: u32, rescued: &mut Rescued, now: Timestamp) -> Move {
    let beside: Vec<_> = held.iter().map(|id| JobId(*id)).filter(|other| *other != live.id).collect();
    let attempt = live.worker.map(|worker| EndedAttempt {
        number: live.counters.attempts,
        worker,
        started_at: live.since.min(now),
        ended_at: now,
        ending: AttemptEnding::Crashed,
        error: Some(crash_error()),
        output: None,
    });
    let applied = after_crash(live.counters, live.due, crashes_max, &beside)
        .or_cancelled(live.cancel_requested.as_deref());
    match applied.state {
        NewState::Dead { .. } => rescued.buried.push(live.id),
        _ => rescued.returned.push(live.id),
    }
    Move {
        live,
        applied,
        end: AttemptEnd { attempt, last_error: Some(crash_error()), ..AttemptEnd::default() },
    }
}
