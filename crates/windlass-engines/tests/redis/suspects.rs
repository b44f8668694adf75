//! Many jobs whose worker died.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::claim::{ClaimRequest, Claimed, Suspects};
use windlass_core::clock::{ManualClock, Timestamp};
use windlass_core::engine::{Engine, RescueRequest};
use windlass_core::enqueue::{EnqueueRequest, NewJob};
use windlass_core::job::JobId;
use windlass_core::lease_watch::Suspicion;
use windlass_core::payload::Payload;
use windlass_core::priority::Priority;
use windlass_core::worker::WorkerId;
use windlass_engines::redis::{RedisEngine, RedisOptions};

use crate::test_store::{TestStore, WORKER, card, claim, claim_request, claimed, enqueue, kind, request};

/// The number of suspects that a claim reads.
const READ_BY_A_CLAIM: usize = 500;
const OTHER: WorkerId = WorkerId::from_random(7);

async fn claim_suspect(engine: &RedisEngine) -> Claimed {
    let suspects = Suspects::One { crashes_max: 3 };
    let request = ClaimRequest { worker: OTHER, suspects, ..claim_request(1) };
    claimed(engine.claim(request).await.unwrap()).remove(0)
}

async fn put_in_urgent(engine: &RedisEngine) -> JobId {
    let urgent =
        NewJob { priority: Some(Priority::new(0).unwrap()), ..NewJob::new(kind(), Payload::default()) };
    let request = EnqueueRequest { jobs: vec![urgent], ..request(0) };
    engine.enqueue(request).await.unwrap()[0].job().unwrap()
}

#[tokio::test]
async fn a_claim_looks_at_the_oldest_suspects_only_however_many_there_are() {
    let place = TestStore::shared();
    let clock = Arc::new(ManualClock::starting_at(Timestamp::parse("2026-01-01T00:00:00Z").unwrap()));
    let engine = place.ready_with(RedisOptions { clock: Some(clock.clone()), ..place.options() }).await;
    let old = enqueue(&engine, READ_BY_A_CLAIM).await;
    clock.advance(Duration::from_secs(1));
    let urgent = put_in_urgent(&engine).await;
    while !claim(&engine, 500).await.is_empty() {}
    clock.advance(Duration::from_secs(60));
    let silent = vec![Suspicion { worker: WORKER, beats: 0 }];
    let dead = RescueRequest { silent, crashes_max: 3, limit: 500 };
    while engine.rescue(dead.clone()).await.unwrap().more {}
    engine.register(card(OTHER)).await.unwrap();
    assert_eq!(claim_suspect(&engine).await.job.id, old[0], "the urgent suspect is too far behind");
    assert_eq!(
        claim_suspect(&engine).await.job.id,
        urgent,
        "now it is among the suspects that a claim reads"
    );
}
