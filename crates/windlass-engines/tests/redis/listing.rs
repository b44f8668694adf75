//! Lists among very many jobs.

use windlass_core::admin::ListRequest;
use windlass_core::engine::{Admin, Engine};
use windlass_core::job::{JobId, JobState};
use windlass_core::outcome::{ErrorKind, JobError};
use windlass_core::settle::{AttemptReport, Transition};
use windlass_engines::redis::RedisEngine;

use crate::test_store::{TestStore, ask, claim, enqueue, kind};

async fn bury(engine: &RedisEngine, count: usize) -> Vec<JobId> {
    enqueue(engine, count).await;
    let claimed = claim(engine, u32::try_from(count).unwrap()).await;
    let ids = claimed.iter().map(|claimed| claimed.job.id).collect();
    let error = JobError::new(ErrorKind::Failed, "hopeless");
    let bury = || Transition::Bury { error: error.clone() };
    let ends = claimed.into_iter().map(|claimed| claimed.settled(bury(), AttemptReport::default()));
    engine.settle(ends.collect()).await.unwrap();
    ids
}

async fn listed(engine: &RedisEngine, request: ListRequest) -> Vec<JobId> {
    engine.list(request).await.unwrap().into_iter().map(|record| record.job.id).collect()
}

#[tokio::test]
async fn dead_letters_are_listed_page_by_page_however_many_jobs_came_after_them() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    let mut dead = bury(&engine, 250).await;
    // Sets the sequence as if ten million jobs had been enqueued and pruned.
    ask::<()>(&place.url, &["SET", &place.key("sequence"), "10000000"]);
    dead.extend(bury(&engine, 1).await);
    enqueue(&engine, 3).await;
    dead.reverse();
    let mut request = ListRequest { job_state: Some(JobState::Dead), limit: 100, ..ListRequest::default() };
    let mut found = Vec::new();
    loop {
        let page = listed(&engine, request.clone()).await;
        request.before = page.last().copied();
        found.extend(page.iter().copied());
        if page.len() < 100 {
            break;
        }
    }
    assert_eq!(found, dead);
    let of_type = ListRequest { job_type: Some(kind()), before: None, ..request };
    assert_eq!(listed(&engine, of_type).await, dead[..100]);
}
