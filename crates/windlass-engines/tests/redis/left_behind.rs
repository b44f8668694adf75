//! The records of a job go with the job, and no list grows without bound.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::clock::{ManualClock, Timestamp};
use windlass_core::engine::{Admin, Declaration, Engine};
use windlass_core::enqueue::{NewJob, When};
use windlass_core::job_type::TypeSpec;
use windlass_core::key::KeyClaim;
use windlass_core::limits::ATTEMPTS_SHOWN_MAX;
use windlass_core::names::{GroupName, Key, TypeName};
use windlass_core::outcome::{ErrorKind, JobError};
use windlass_core::payload::Payload;
use windlass_core::settle::{AttemptReport, Transition};
use windlass_engines::redis::{RedisEngine, RedisOptions};

use crate::test_store::{TestStore, ask, claim_request, claimed, kind, queue, success};
use crate::words;

fn fleeting() -> TypeName {
    TypeName::parse("fleeting").unwrap()
}

async fn on_a_clock(place: &TestStore) -> (RedisEngine, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::starting_at(Timestamp::parse("2026-01-01T00:00:00Z").unwrap()));
    let engine = place.ready_with(RedisOptions { clock: Some(clock.clone()), ..place.options() }).await;
    let types = vec![TypeSpec { retention_days: 0, ..TypeSpec::new(fleeting(), queue()) }];
    engine.declare(Declaration { queues: vec![], types }).await.unwrap();
    (engine, clock)
}

/// Creates a job of each type for which many records are kept.
fn noted(name: &str) -> Vec<NewJob> {
    let job = |job_type| NewJob {
        key: Some(KeyClaim::new(Key::parse(name).unwrap())),
        group: Some(GroupName::parse("group").unwrap()),
        expires: Some(When::In(Duration::from_secs(3_600))),
        ..NewJob::new(job_type, Payload::default())
    };
    vec![job(kind()), job(fleeting())]
}

/// Claims both jobs and ends their attempts.
async fn end(engine: &RedisEngine, transition: Transition) {
    let types = vec![kind(), fleeting()];
    let request = windlass_core::claim::ClaimRequest { types, ..claim_request(10) };
    let jobs = claimed(engine.claim(request).await.unwrap());
    assert_eq!(jobs.len(), 2);
    let ends = jobs.into_iter().map(|job| job.settled(transition.clone(), AttemptReport::default()));
    engine.settle(ends.collect()).await.unwrap();
}

#[tokio::test]
async fn nothing_is_left_of_jobs_that_have_ended_and_are_past_their_retention() {
    let place = TestStore::shared();
    let (engine, clock) = on_a_clock(&place).await;
    engine.enqueue(words::request(noted("a"))).await.unwrap();
    let again = Transition::Retry { after: Duration::ZERO, error: JobError::new(ErrorKind::Failed, "oops") };
    end(&engine, again).await;
    end(&engine, Transition::Succeed { result: None }).await;
    engine.enqueue(words::request(noted("b"))).await.unwrap();
    let types = vec![kind(), fleeting()];
    let request = windlass_core::claim::ClaimRequest { types, ..claim_request(10) };
    let jobs = claimed(engine.claim(request).await.unwrap());
    for job in &jobs {
        engine.cancel(job.job.id, "enough").await.unwrap();
    }
    engine.settle(jobs.into_iter().map(success).collect()).await.unwrap();
    clock.advance(Duration::from_secs(30 * 24 * 3_600));
    engine.prune(1_000).await.unwrap();
    let kinds =
        ["notes:*", "attempts:*", "stops:*", "state:*", "body:*", "group:*", "held:*", "expiring", "keys:*"];
    let left: Vec<_> =
        kinds.iter().flat_map(|name| ask::<Vec<String>>(&place.url, &["KEYS", &place.key(name)])).collect();
    assert_eq!(left, [""; 0]);
}

#[tokio::test]
async fn of_a_job_that_is_tried_for_ever_only_the_newest_attempts_are_kept() {
    let place = TestStore::shared();
    let (engine, _clock) = on_a_clock(&place).await;
    engine.enqueue(words::request(noted("a"))).await.unwrap();
    for _ in 0..ATTEMPTS_SHOWN_MAX + 5 {
        end(&engine, Transition::Snooze { after: Duration::ZERO }).await;
    }
    let lists: Vec<String> = ask(&place.url, &["KEYS", &place.key("attempts:*")]);
    assert_eq!(lists.len(), 2);
    for list in lists {
        assert_eq!(ask::<u32>(&place.url, &["LLEN", &list]), ATTEMPTS_SHOWN_MAX);
    }
}
