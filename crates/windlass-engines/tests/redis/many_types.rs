//! Very many types, queues and workers: they are read and checked some at a time, and none is missed.

use std::time::Duration;

use windlass_core::admin::ListRequest;
use windlass_core::claim::ClaimRequest;
use windlass_core::clock::Timestamp;
use windlass_core::engine::{Admin, Declaration, Engine};
use windlass_core::enqueue::{NewJob, When};
use windlass_core::job::{JobId, JobState};
use windlass_core::job_type::TypeSpec;
use windlass_core::names::TypeName;
use windlass_core::outcome::{ErrorKind, JobError};
use windlass_core::payload::Payload;
use windlass_core::queue::QueueSpec;
use windlass_core::settle::{AttemptReport, Transition};
use windlass_core::worker::{WorkerCard, WorkerId};
use windlass_engines::redis::RedisEngine;

use crate::test_store::{TestStore, WORKER, card, claim_request, claimed, queue};
use crate::words;

const TYPES: usize = 1_500;

fn names(count: usize) -> Vec<TypeName> {
    (0..count).map(|n| TypeName::parse(&format!("type{n}")).unwrap()).collect()
}

/// Opens an engine with a queue of many types, and a worker that handles all of them.
async fn with_types(place: &TestStore, types: &[TypeName]) -> RedisEngine {
    let engine = place.open_with(place.options()).await;
    let specs = types.iter().map(|name| TypeSpec::new(name.clone(), queue())).collect();
    engine.declare(Declaration { queues: vec![QueueSpec::new(queue())], types: specs }).await.unwrap();
    engine.register(WorkerCard { types: types.to_vec(), ..card(WORKER) }).await.unwrap();
    engine
}

/// Enqueues one job of each of these types, due at the given time.
async fn enqueue_at(engine: &RedisEngine, jobs: Vec<(TypeName, Timestamp)>) -> Vec<JobId> {
    let new = |(name, due)| NewJob { when: When::At(due), ..NewJob::new(name, Payload::default()) };
    let answers = engine.enqueue(words::request(jobs.into_iter().map(new).collect())).await.unwrap();
    answers.iter().map(|answer| answer.job().unwrap()).collect()
}

fn at(second: u64) -> Timestamp {
    Timestamp::EPOCH.plus(Duration::from_secs(second))
}

#[tokio::test]
async fn jobs_of_types_far_apart_are_seen_claimed_buried_and_listed() {
    let place = TestStore::shared();
    let types = names(TYPES);
    let engine = with_types(&place, &types).await;
    let ids =
        enqueue_at(&engine, types.iter().step_by(100).map(|name| (name.clone(), at(1))).collect()).await;
    // Another process reads them all.
    let other = place.open_with(place.options()).await;
    assert_eq!(other.types().await.unwrap().len(), TYPES);
    assert_eq!(other.queues().await.unwrap()[0].counts.ready, 15);
    let peek = other.peek(&[queue()], &types).await.unwrap();
    assert!(peek[0].1.more_due);
    assert_eq!(other.sweep(100).await.unwrap().changed, 0, "a worker handles each of them");

    let request = ClaimRequest { types: types.clone(), ..claim_request(100) };
    let jobs = claimed(other.claim(request.clone()).await.unwrap());
    let mut found: Vec<_> = jobs.iter().map(|claimed| claimed.job.id).collect();
    found.sort();
    assert_eq!(found, ids);
    let repeat = claimed(other.claim(ClaimRequest { repeat: true, ..request }).await.unwrap());
    assert_eq!(repeat.len(), 15);

    let error = JobError::new(ErrorKind::Failed, "hopeless");
    let bury = |error: &JobError| Transition::Bury { error: error.clone() };
    let ends = jobs.into_iter().map(|claimed| claimed.settled(bury(&error), AttemptReport::default()));
    other.settle(ends.collect()).await.unwrap();
    let mut request = ListRequest { job_state: Some(JobState::Dead), limit: 4, ..ListRequest::default() };
    let mut listed = Vec::new();
    loop {
        let page: Vec<_> =
            other.list(request.clone()).await.unwrap().iter().map(|record| record.job.id).collect();
        request.before = page.last().copied();
        listed.extend(page.iter().copied());
        if page.len() < 4 {
            break;
        }
    }
    listed.reverse();
    assert_eq!(listed, ids);
}

#[tokio::test]
async fn what_no_worker_handles_is_parked_and_purged_whichever_its_type() {
    let place = TestStore::shared();
    let types = names(TYPES);
    let engine = with_types(&place, &types[..1]).await;
    let specs = types.iter().map(|name| TypeSpec::new(name.clone(), queue())).collect();
    engine.declare(Declaration { queues: vec![], types: specs }).await.unwrap();
    enqueue_at(&engine, types.iter().step_by(100).map(|name| (name.clone(), at(1))).collect()).await;
    let done = engine.sweep(100).await.unwrap();
    assert_eq!((done.changed, done.more), (14, false));
    let counts = engine.queues().await.unwrap()[0].counts;
    assert_eq!((counts.ready, counts.parked), (1, 14));
    let done = engine.purge(&queue(), 5).await.unwrap();
    assert_eq!((done.changed, done.more), (5, true));
    let done = engine.purge(&queue(), 100).await.unwrap();
    assert_eq!((done.changed, done.more), (10, false));
}

#[tokio::test]
async fn every_worker_is_seen_however_many_there_are() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    for n in 0..700 {
        engine.register(card(WorkerId::from_random(1_000 + n))).await.unwrap();
    }
    let seen = engine.workers().await.unwrap();
    assert_eq!(seen.len(), 701);
    assert!(seen.is_sorted_by_key(|sighting| sighting.card.id));
}

#[tokio::test]
async fn jobs_of_many_lanes_leave_in_the_order_in_which_they_fell_due() {
    for lanes in [2, 7, 60, 400] {
        let place = TestStore::shared();
        let types = names(lanes);
        let engine = with_types(&place, &types).await;
        // Most of the first jobs are in one list, and all are due before the claim.
        let due = |_| {
            (
                types[if fastrand::bool() { 0 } else { fastrand::usize(..lanes) }].clone(),
                at(fastrand::u64(1..500)),
            )
        };
        let jobs: Vec<_> = (0..900).map(due).collect();
        let ids = enqueue_at(&engine, jobs.clone()).await;
        let mut expected: Vec<_> = jobs.iter().zip(ids).map(|((_, due), id)| (*due, id)).collect();
        expected.sort();
        let mut found = Vec::new();
        for limit in [1, 10, 300, 1_000] {
            let request = ClaimRequest { types: types.clone(), ..claim_request(limit) };
            let jobs = claimed(engine.claim(request).await.unwrap());
            found.extend(jobs.into_iter().map(|claimed| (claimed.job.due, claimed.job.id)));
        }
        assert_eq!(found, expected, "{lanes} lanes");
    }
}
