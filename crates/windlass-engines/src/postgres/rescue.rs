//! Rescue: workers that fell silent are declared dead, for ever, and their jobs are taken back.

use std::collections::HashMap;

use windlass_core::admin::AttemptEnding;
use windlass_core::clock::Timestamp;
use windlass_core::engine::{RescueRequest, Rescued};
use windlass_core::job::JobId;
use windlass_core::lease_watch::Suspicion;
use windlass_core::limits::UPKEEP_BATCH_MAX;
use windlass_core::settle::{Place, after_crash, crash_error};

use super::Store;
use super::conn::Tx;
use super::fault::Step;
use super::land::{EndedAttempt, Live, Move, Moved, Parting};
use super::value::{Bits, instant, int4, number, small_number, uuid};

/// Running jobs without a live worker, each with what that worker held when it died.
type Orphans = HashMap<JobId, Vec<i64>>;

impl Store {
    pub(super) async fn rescue(&self, request: RescueRequest) -> Step<Rescued> {
        for suspicion in &request.silent {
            self.declare_dead(suspicion).await?;
        }
        let tx = self.work.begin().await?;
        let rescued = self.take_back(&tx, &request).await;
        let (mut rescued, moved) = tx.end(rescued).await?;
        self.tell_moved(moved);
        rescued.more = self.has_orphans().await?;
        Ok(rescued)
    }

    /// Only if it is still as silent as it was seen, and its lease has run out by this clock too.
    async fn declare_dead(&self, suspicion: &Suspicion) -> Step<()> {
        let (worker, now) = (Bits::from(suspicion.worker), self.now_param());
        let beats = i64::try_from(suspicion.beats).unwrap_or(i64::MAX);
        let conn = self.work.get().await?;
        conn.write(&self.sql.declare_dead, &[instant(&now), uuid(&worker), number(&beats)]).await?;
        Ok(())
    }

    async fn take_back(&self, tx: &Tx, request: &RescueRequest) -> Step<(Rescued, Moved)> {
        let now = self.transaction_now(tx).await?;
        let orphans = self.orphans(tx, request.limit.min(UPKEEP_BATCH_MAX)).await?;
        let ids: Vec<_> = orphans.keys().map(|id| id.0).collect();
        let locked = self.lock_live(tx, &ids, true).await?;
        let mut rescued = Rescued::default();
        let mut moves = Vec::new();
        for live in locked.jobs {
            // Its worker may have settled it in the last moment; then it is no orphan any more.
            if let (true, Some(held)) = (live.runs, orphans.get(&live.id)) {
                moves.push(crashed(live, held, request.crashes_max, &mut rescued, now));
            }
        }
        let moved = self.write_moves(tx, now, moves, &locked.keys).await?;
        Ok((rescued, moved))
    }

    async fn orphans(&self, tx: &Tx, limit: u32) -> Step<Orphans> {
        let rows = tx.ask(&self.sql.orphans, &[small_number(&int4(limit))]).await?;
        let mut orphans = Orphans::new();
        for row in &rows {
            let held: Option<Vec<i64>> = row.try_get(1)?;
            orphans.insert(JobId(row.try_get(0)?), held.unwrap_or_default());
        }
        Ok(orphans)
    }

    async fn has_orphans(&self) -> Step<bool> {
        let rows = self.work.get().await?.ask(&self.sql.orphans, &[small_number(&1)]).await?;
        Ok(!rows.is_empty())
    }
}

fn crashed(live: Live, held: &[i64], crashes_max: u32, rescued: &mut Rescued, now: Timestamp) -> Move {
    let beside: Vec<_> = held.iter().map(|id| JobId(*id)).filter(|other| *other != live.id).collect();
    let attempt = live.worker.map(|worker| EndedAttempt {
        number: live.counters.attempts,
        worker,
        started_at: live.since.min(now),
        ending: AttemptEnding::Crashed,
        error: Some(crash_error()),
        output: None,
    });
    let landing = after_crash(live.counters, live.due, crashes_max, &beside)
        .or_cancelled(live.cancel_requested.as_deref());
    match landing.place {
        Place::Dead { .. } => rescued.buried.push(live.id),
        _ => rescued.returned.push(live.id),
    }
    Move {
        live,
        landing,
        parting: Parting { attempt, last_error: Some(crash_error()), ..Parting::default() },
    }
}
