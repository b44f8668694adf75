//! Registration, heartbeats and retirement of workers.

use std::collections::HashMap;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, params};
use windlass_core::claim::Fence;
use windlass_core::clock::Timestamp;
use windlass_core::error::EngineError;
use windlass_core::gate::Gate;
use windlass_core::job::JobId;
use windlass_core::lease::membership::{self, MemberCount, Peer};
use windlass_core::names::TypeName;
use windlass_core::settle::Transition;
use windlass_core::worker::{
    Heartbeat, HeartbeatAnswer, Liveness, ProofOfLife, WorkerCard, WorkerId, WorkerSighting,
};

use super::apply::{AttemptEnd, EndedAttempt};
use super::row::token;
use super::sql::sql;
use super::store_error::StoreResult;
use super::work::Work;
use crate::kit::to_json;

/// How many parked jobs a new worker lets through at once; a sweep does the rest. More would keep other
/// processes waiting for the write lock.
pub(super) const LET_THROUGH_MAX: u32 = 10_000;

/// A worker's row, as far as its liveness is concerned.
#[derive(Debug, Clone, Copy)]
pub(super) struct Life {
    pub(super) is_dead: bool,
    pub(super) beats: u64,
    pub(super) expires_at: Timestamp,
}

impl Work<'_> {
    pub(super) fn register(&mut self, card: &WorkerCard) -> StoreResult<()> {
        if self.life(card.id)?.is_some() {
            let why =
                "expected a new worker id, got one that is known already; make a random one for each start";
            return Err(EngineError::Refused(why.to_owned()).into());
        }
        self.conn.prepare_cached(sql!("register"))?.execute(params![
            card.id.to_bytes(),
            card.host,
            card.pid,
            card.version,
            to_json(&card.queues),
            to_json(&card.types),
            to_json(&card.duties),
            card.slots,
            i64::try_from(card.lease.as_micros()).unwrap_or(i64::MAX),
            self.now.as_micros(),
            self.now.plus(card.lease).as_micros(),
        ])?;
        self.let_through_handled(&card.types)
    }

    pub(super) fn extend(&mut self, heartbeat: Heartbeat) -> StoreResult<Liveness> {
        let Some(life) = self.life(heartbeat.worker)?.filter(|life| !life.is_dead) else {
            return Ok(Liveness::Dead);
        };
        self.conn.prepare_cached(sql!("extend"))?.execute(params![
            heartbeat.worker.to_bytes(),
            self.now.as_micros(),
            self.now.plus(heartbeat.lease).as_micros(),
        ])?;
        if life.expires_at <= self.now {
            // During the silence, a sweep may have parked its jobs because no worker handled them.
            let types: String = self
                .conn
                .prepare_cached(sql!("worker_types"))?
                .query_row([heartbeat.worker.to_bytes()], |row| row.get(0))?;
            self.let_through_handled(&serde_json::from_str::<Vec<TypeName>>(&types).unwrap_or_default())?;
        }
        Ok(Liveness::Alive { cancel: asked_to_stop(self.conn, heartbeat.worker)? })
    }

    pub(super) fn heartbeat_with_members(
        &mut self,
        heartbeat: Heartbeat,
        clock: Timestamp,
    ) -> StoreResult<HeartbeatAnswer> {
        let beat = self.extend(heartbeat)?;
        let ahead = clock.as_micros().saturating_sub(self.now.as_micros());
        let id = heartbeat.worker.to_bytes();
        self.conn.prepare_cached(sql!("note_clock"))?.execute(params![id, ahead])?;
        let workers = sightings(self.conn, self.now)?;
        let duties = workers.iter().find(|one| one.card.id == heartbeat.worker).map(|one| &one.card.duties);
        let is_live = |one: &&WorkerSighting| membership::is_live(one.silent_for, one.card.lease);
        let peer = |one: &WorkerSighting| Peer { worker: one.card.id, duties: one.card.duties.clone() };
        let live: Vec<_> = workers.iter().filter(is_live).map(peer).collect();
        let members = MemberCount::of(heartbeat.worker, duties.into_iter().flatten(), &live);
        Ok(HeartbeatAnswer { beat, members, now: self.now })
    }

    fn let_through_handled(&mut self, types: &[TypeName]) -> StoreResult<()> {
        let mut left = LET_THROUGH_MAX;
        for name in types {
            left = left.saturating_sub(self.let_through(&Gate::no_handler(name), left)?);
        }
        Ok(())
    }

    /// Lists the running jobs of a worker.
    pub(super) fn held_by(&self, worker: WorkerId) -> StoreResult<Vec<Fence>> {
        let mut statement = self.conn.prepare_cached(sql!("running_of"))?;
        let fences = statement.query_map([worker.to_bytes()], read_fence)?;
        Ok(fences.collect::<Result<_, _>>()?)
    }

    pub(super) fn life(&self, worker: WorkerId) -> StoreResult<Option<Life>> {
        let mut statement = self.conn.prepare_cached(sql!("find_worker"))?;
        let life = statement.query_row([worker.to_bytes()], |row| {
            Ok(Life {
                is_dead: row.get(0)?,
                beats: unsigned(row.get(1)?),
                expires_at: Timestamp::from_micros(row.get(2)?),
            })
        });
        Ok(life.optional()?)
    }

    /// Whether a worker may claim: it is registered and not declared dead. A worker whose lease expired may
    /// still come back until another process declares it dead.
    pub(super) fn is_alive(&self, worker: WorkerId) -> StoreResult<bool> {
        Ok(self.life(worker)?.is_some_and(|life| !life.is_dead))
    }

    pub(super) fn retire(&mut self, worker: WorkerId) -> StoreResult<()> {
        if !self.is_alive(worker)? {
            return Ok(());
        }
        for fence in self.held_by(worker)? {
            self.give_back(fence)?;
        }
        self.conn.prepare_cached(sql!("retire"))?.execute([worker.to_bytes()])?;
        self.did.gone.push(worker);
        Ok(())
    }

    fn give_back(&mut self, fence: Fence) -> StoreResult<()> {
        let Some(held) = self.held_job(fence.job, fence.token)? else { return Ok(()) };
        let release = Transition::Release { started: true };
        let ending = release.ending(held.cancel_requested.is_some());
        let attempt = ending.map(|ending| EndedAttempt {
            number: held.counters.attempts,
            worker: held.worker,
            started_at: held.since,
            ended_at: self.now,
            ending,
            error: None,
            output: None,
        });
        let applied = release.apply(self.now, held.due, held.counters, held.cancel_requested.as_deref());
        self.apply(&held, applied, &AttemptEnd { attempt, ..AttemptEnd::default() })
    }
}

/// Lists the running jobs of a worker that a caller has asked to stop.
pub(super) fn asked_to_stop(conn: &Connection, worker: WorkerId) -> StoreResult<Vec<Fence>> {
    let mut statement = conn.prepare_cached(sql!("asked_to_stop"))?;
    let fences = statement.query_map([worker.to_bytes()], read_fence)?;
    Ok(fences.collect::<Result<_, _>>()?)
}

/// Lists all workers that neither were declared dead nor have retired. The caller that has the locks adds
/// the proof of life.
pub(super) fn sightings(conn: &Connection, now: Timestamp) -> StoreResult<Vec<WorkerSighting>> {
    let mut statement = conn.prepare_cached(sql!("count_running"))?;
    let running: HashMap<[u8; 16], i64> =
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
    let mut statement = conn.prepare_cached(sql!("live_workers"))?;
    let mut rows = statement.query([])?;
    let mut sightings = Vec::new();
    while let Some(row) = rows.next()? {
        let held = running.get(&row.get::<_, [u8; 16]>(0)?).copied().unwrap_or(0);
        sightings.push(read_sighting(row, unsigned(held), now)?);
    }
    Ok(sightings)
}

fn read_sighting(row: &Row<'_>, running: u64, now: Timestamp) -> StoreResult<WorkerSighting> {
    let card = WorkerCard {
        id: WorkerId::from_bytes(row.get(0)?),
        host: row.get(1)?,
        pid: row.get(2)?,
        version: row.get(3)?,
        queues: serde_json::from_str(&row.get::<_, String>(4)?).unwrap_or_default(),
        types: serde_json::from_str(&row.get::<_, String>(5)?).unwrap_or_default(),
        duties: serde_json::from_str(&row.get::<_, String>(11)?).unwrap_or_default(),
        slots: row.get(12)?,
        lease: Duration::from_micros(unsigned(row.get(6)?)),
    };
    Ok(WorkerSighting {
        card,
        since: Timestamp::from_micros(row.get(7)?),
        beats: unsigned(row.get(8)?),
        silent_for: now.since(Timestamp::from_micros(row.get(9)?)),
        expired: Timestamp::from_micros(row.get(10)?) <= now,
        proof: ProofOfLife::None,
        running,
        clock_ahead_micros: row.get(13)?,
    })
}

fn read_fence(row: &Row<'_>) -> rusqlite::Result<Fence> {
    Ok(Fence { job: JobId(row.get(0)?), token: token(row.get(1)?) })
}

fn unsigned(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}
