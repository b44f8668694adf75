//! Workers that start and die in behaviours.

use windlass_core::engine::{RescueRequest, Rescued};
use windlass_core::lease_watch::Suspicion;
use windlass_core::limits::{CRASHES_MAX, MAINTENANCE_BATCH_MAX, WORKER_LEASE};
use windlass_core::names::DutyName;
use windlass_core::worker::{Heartbeat, HeartbeatAnswer, Liveness, WorkerCard, WorkerId, WorkerSighting};

use super::{Harness, MAIN, OTHER, SMALL, UP, all_types, queue, secs};

impl Harness {
    /// Registers a worker that handles every type.
    pub async fn register_worker(&self) -> WorkerId {
        self.register(self.card()).await
    }

    /// Registers a worker.
    pub async fn register(&self, card: WorkerCard) -> WorkerId {
        let id = card.id;
        self.engine.register(card).await.expect("a new identity is accepted");
        id
    }

    /// Creates the card of a new worker that handles every type.
    pub fn card(&self) -> WorkerCard {
        WorkerCard {
            id: WorkerId::from_random(self.fresh_bits()),
            host: "testhost".to_owned(),
            pid: std::process::id(),
            version: "0.0.0".to_owned(),
            queues: [MAIN, OTHER, SMALL].map(queue).to_vec(),
            types: all_types(),
            duties: vec![DutyName::parse("rescue").expect("a plain name")],
            slots: 7,
            lease: WORKER_LEASE,
        }
    }

    /// Sends a heartbeat.
    pub async fn beat(&self, worker: WorkerId) -> Liveness {
        self.engine.extend(Heartbeat { worker, lease: WORKER_LEASE, idle: false }).await.expect(UP)
    }

    /// Sends a heartbeat of a worker that could do duties.
    pub async fn heartbeat_with_members(&self, worker: WorkerId) -> HeartbeatAnswer {
        let heartbeat = Heartbeat { worker, lease: WORKER_LEASE, idle: false };
        self.engine.heartbeat_with_members(heartbeat, self.now()).await.expect(UP)
    }

    /// Returns how a worker is seen, if it is registered.
    pub async fn sighting_of(&self, worker: WorkerId) -> Option<WorkerSighting> {
        self.engine.workers().await.expect(UP).into_iter().find(|sighting| sighting.card.id == worker)
    }

    /// Returns a worker's heartbeat counter as it is seen now.
    pub async fn suspect(&self, worker: WorkerId) -> Suspicion {
        let sighting = self.sighting_of(worker).await.expect("a suspected worker is registered");
        Suspicion { worker, beats: sighting.beats }
    }

    /// Lets the leases of all workers expire by the store's clock.
    pub fn let_leases_run_out(&self) {
        self.advance(WORKER_LEASE + secs(1));
    }

    /// Lets a worker die: its lease expires, it is seen without heartbeats, and its jobs are taken back.
    pub async fn kill(&self, worker: WorkerId) -> Rescued {
        self.let_leases_run_out();
        let silent = vec![self.suspect(worker).await];
        self.rescue(silent, MAINTENANCE_BATCH_MAX).await
    }

    /// Declares workers dead and takes back at most this number of jobs.
    pub async fn rescue(&self, silent: Vec<Suspicion>, limit: u32) -> Rescued {
        let request = RescueRequest { silent, crashes_max: CRASHES_MAX, limit };
        self.engine.rescue(request).await.expect(UP)
    }

    /// Lets a new worker claim the ready jobs and die with them, once; returns the result of the rescue.
    pub async fn crash_once(&self) -> Rescued {
        let victim = self.register_worker().await;
        let held = self.claim_as(victim, 100).await;
        assert!(!held.is_empty(), "a crash needs a claimed job");
        self.kill(victim).await
    }

    /// Lets a new worker claim the due suspect and die with it; returns the result of the rescue.
    pub async fn crash_suspect(&self) -> Rescued {
        let victim = self.register_worker().await;
        let suspects = windlass_core::claim::Suspects::One { crashes_max: u32::MAX };
        let request = self.claim_request(1);
        let held =
            self.claim_with(windlass_core::claim::ClaimRequest { worker: victim, suspects, ..request }).await;
        assert_eq!(held.len(), 1, "a crash needs a claimed suspect");
        self.kill(victim).await
    }
}
