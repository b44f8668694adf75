//! Registration, heartbeats and retirement of workers.

use std::time::Duration;

use windlass_core::claim::Fence;
use windlass_core::clock::Timestamp;
use windlass_core::engine::Result;
use windlass_core::error::EngineError;
use windlass_core::gate::Gate;
use windlass_core::job::JobId;
use windlass_core::lease::membership::{self, MemberCount, Peer};
use windlass_core::planted::{Bug, planted};
use windlass_core::settle::Transition;
use windlass_core::worker::{
    Heartbeat, HeartbeatAnswer, Liveness, ProofOfLife, WorkerCard, WorkerId, WorkerSighting,
};

use super::state::{EndedAttempt, State};

/// A worker's row in the store.
#[derive(Debug)]
pub(super) struct WorkerRow {
    pub(super) card: WorkerCard,
    since: Timestamp,
    pub(super) beats: u64,
    last_heartbeat: Timestamp,
    expires_at: Timestamp,
    clock_ahead_micros: Option<i64>,
    /// Stays set for ever.
    pub(super) declared_dead: bool,
}

impl WorkerRow {
    pub(super) fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at <= now
    }

    /// Whether it counts as live.
    pub(super) fn is_live(&self, now: Timestamp) -> bool {
        !self.declared_dead && !self.has_expired(now)
    }

    fn beat(&mut self, lease: Duration, now: Timestamp) {
        self.beats += 1;
        self.last_heartbeat = now;
        self.expires_at = now.plus(lease);
    }
}

impl State {
    pub(super) fn register(&mut self, card: WorkerCard, now: Timestamp) -> Result<()> {
        if self.workers.contains_key(&card.id) {
            let why =
                "expected a new worker id, got one that is known already; make a random one for each start";
            return Err(EngineError::Refused(why.to_owned()));
        }
        let row = WorkerRow {
            since: now,
            beats: 0,
            last_heartbeat: now,
            expires_at: now.plus(card.lease),
            clock_ahead_micros: None,
            declared_dead: false,
            card,
        };
        let id = row.card.id;
        self.workers.insert(id, row);
        self.let_through_for(id);
        Ok(())
    }

    pub(super) fn extend(&mut self, heartbeat: Heartbeat, now: Timestamp) -> Liveness {
        let Some(row) = self.workers.get_mut(&heartbeat.worker) else { return Liveness::Dead };
        if row.declared_dead && !planted(Bug::DeadWorkerRevives) {
            return Liveness::Dead;
        }
        let was_away = !row.is_live(now);
        row.declared_dead = false;
        row.beat(heartbeat.lease, now);
        if was_away {
            // During the silence, a sweep may have parked its jobs because no worker handled them.
            self.let_through_for(heartbeat.worker);
        }
        Liveness::Alive { cancel: self.asked_to_stop(heartbeat.worker) }
    }

    pub(super) fn heartbeat_with_members(
        &mut self,
        heartbeat: Heartbeat,
        clock: Timestamp,
        now: Timestamp,
    ) -> HeartbeatAnswer {
        let beat = self.extend(heartbeat, now);
        let Some(row) = self.workers.get_mut(&heartbeat.worker) else {
            return HeartbeatAnswer { beat, members: MemberCount::default(), now };
        };
        row.clock_ahead_micros = Some(clock.as_micros().saturating_sub(now.as_micros()));
        let duties = row.card.duties.clone();
        let is_live = |row: &&WorkerRow| {
            !row.declared_dead && membership::is_live(now.since(row.last_heartbeat), row.card.lease)
        };
        let peer = |row: &WorkerRow| Peer { worker: row.card.id, duties: row.card.duties.clone() };
        let live: Vec<_> = self.workers.values().filter(is_live).map(peer).collect();
        HeartbeatAnswer { beat, members: MemberCount::of(heartbeat.worker, &duties, &live), now }
    }

    fn let_through_for(&mut self, worker: WorkerId) {
        let Some(row) = self.workers.get(&worker) else { return };
        let gates: Vec<_> = row.card.types.iter().map(Gate::no_handler).collect();
        for gate in gates {
            self.let_through(&gate, usize::MAX);
        }
    }

    pub(super) fn asked_to_stop(&self, worker: WorkerId) -> Vec<Fence> {
        let fence = |id: JobId| {
            let claim = self.live.get(&id)?.claim()?;
            claim.cancel_requested.as_ref().map(|_| Fence { job: id, token: claim.token })
        };
        self.index.held_by(worker).filter_map(fence).collect()
    }

    /// Whether a worker may claim: it is registered and not declared dead. A worker whose lease expired may
    /// still come back until another process declares it dead.
    pub(super) fn is_alive(&self, worker: WorkerId) -> bool {
        self.workers.get(&worker).is_some_and(|row| !row.declared_dead)
    }

    pub(super) fn retire(&mut self, worker: WorkerId, now: Timestamp) {
        if !self.is_alive(worker) {
            return;
        }
        let held: Vec<_> = self.index.held_by(worker).collect();
        held.into_iter().for_each(|id| self.give_back(id, now));
        self.index.forget_worker(worker);
        self.workers.remove(&worker);
    }

    fn give_back(&mut self, id: JobId, now: Timestamp) {
        let Some(row) = self.live.get_mut(&id) else { return };
        let release = Transition::Release { started: true };
        let cancel = row.claim().and_then(|claim| claim.cancel_requested.clone());
        if let Some(ending) = release.ending(cancel.is_some()) {
            row.note_attempt(EndedAttempt {
                started_at: None,
                ended_at: now,
                ending,
                error: None,
                output: None,
            });
        }
        let applied = release.apply(now, row.job.due, row.job.counters, cancel.as_deref());
        self.apply(id, applied, now, now);
    }

    pub(super) fn sightings(&self, now: Timestamp) -> Vec<WorkerSighting> {
        let alive = self.workers.values().filter(|row| !row.declared_dead);
        alive.map(|row| self.sighting(row, now)).collect()
    }

    fn sighting(&self, row: &WorkerRow, now: Timestamp) -> WorkerSighting {
        WorkerSighting {
            card: row.card.clone(),
            since: row.since,
            beats: row.beats,
            expired: row.has_expired(now),
            silent_for: now.since(row.last_heartbeat),
            // A worker of this engine lives in this process; if the process is gone, so is the engine.
            proof: ProofOfLife::None,
            running: self.index.held_count(row.card.id) as u64,
            clock_ahead_micros: row.clock_ahead_micros,
        }
    }
}
