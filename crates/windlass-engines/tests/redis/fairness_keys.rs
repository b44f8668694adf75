//! The job lists and rings of fairness keys: none is left when every job has ended, and damage to them does
//! not keep any job from running.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::claim::Claimed;
use windlass_core::clock::{ManualClock, Timestamp};
use windlass_core::engine::{Admin, Engine};
use windlass_core::enqueue::{NewJob, When};
use windlass_core::names::FairnessKey;
use windlass_core::outcome::{ErrorKind, JobError};
use windlass_core::payload::Payload;
use windlass_core::settle::{AttemptReport, Transition};
use windlass_engines::redis::{RedisEngine, RedisOptions};

use crate::test_store::{TestStore, ask, claim, kind, queue, success};
use crate::words;

fn of(fairness_key: &str) -> NewJob {
    let fairness_key = Some(FairnessKey::parse(fairness_key).unwrap());
    NewJob { fairness_key, ..NewJob::new(kind(), Payload::default()) }
}

async fn put(engine: &RedisEngine, jobs: Vec<NewJob>) {
    for part in jobs.chunks(500) {
        let answers = engine.enqueue(words::request(part.to_vec())).await.unwrap();
        assert!(answers.iter().all(|answer| answer.job().is_ok()));
    }
}

/// Returns the keys of the job lists, the rings and the jobs that fall due later.
fn keys(place: &TestStore) -> Vec<String> {
    let names = ["line:*", "ring:*", "later:*"]
        .map(|name| ask::<Vec<String>>(&place.url, &["KEYS", &place.key(name)]));
    names.concat()
}

#[tokio::test]
async fn nothing_is_left_of_lines_and_rings_when_everything_has_ended() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    put(&engine, (0..300).map(|n| of(&format!("s{}", n % 30))).collect()).await;
    put(&engine, vec![NewJob::new(kind(), Payload::default()); 5]).await;
    assert!(keys(&place).len() > 30);
    let mut ended = 0;
    while let Some(jobs) = Some(claim(&engine, 40).await).filter(|jobs| !jobs.is_empty()) {
        ended += jobs.len();
        engine.settle(jobs.into_iter().map(success).collect()).await.unwrap();
    }
    assert_eq!(ended, 305);
    claim(&engine, 1).await;
    assert_eq!(keys(&place), Vec::<String>::new());
    let lanes: Vec<String> = ask(&place.url, &["HVALS", &place.key("lanes")]);
    assert!(lanes.iter().all(|letters| !letters.contains('5')), "{lanes:?}");
}

#[tokio::test]
async fn nothing_is_left_of_fairness_keys_that_were_purged_before_they_fell_due() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    let later = |n: usize| NewJob { when: When::In(Duration::from_secs(86_400)), ..of(&format!("s{n}")) };
    put(&engine, (0..450).map(later).collect()).await;
    while engine.purge(&queue(), 500).await.unwrap().more {}
    for _ in 0..4 {
        assert_eq!(claim(&engine, 1).await, []);
    }
    assert_eq!(keys(&place), Vec::<String>::new());
}

#[tokio::test]
async fn damaged_lines_keep_no_job_from_being_enqueued_claimed_or_ended() {
    for spoilt in ["line:*", "ring:*", "later:*", "turns"] {
        let place = TestStore::shared();
        let engine = place.ready().await;
        let jobs = || {
            let later = NewJob { when: When::In(Duration::from_secs(3_600)), ..of("c") };
            vec![of("a"), of("b"), of("a"), NewJob::new(kind(), Payload::default()), later]
        };
        put(&engine, jobs()).await;
        assert_eq!(claim(&engine, 1).await.len(), 1);
        for name in ask::<Vec<String>>(&place.url, &["KEYS", &place.key(spoilt)]) {
            assert_eq!(ask::<String>(&place.url, &["SET", &name, "nonsense"]), "OK");
        }
        put(&engine, jobs()).await;
        let mut ended = 0;
        while let Some(jobs) = Some(claim(&engine, 2).await).filter(|jobs| !jobs.is_empty()) {
            ended += jobs.len();
            engine.settle(jobs.into_iter().map(success).collect()).await.unwrap();
        }
        assert_eq!(ended, 7, "{spoilt}");
        assert_eq!(engine.purge(&queue(), 100).await.unwrap().changed, 2, "{spoilt}");
    }
}

/// A job list was damaged: it contains a running job, and lacks a waiting one.
#[tokio::test]
async fn a_line_that_is_wrong_about_its_jobs_is_put_right() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    put(&engine, vec![of("a"), of("a"), of("b")]).await;
    let first = claim(&engine, 1).await.remove(0);
    let line = place.key("line:1:5:a");
    let id = format!("{:014}", first.job.id.0);
    assert_eq!(ask::<i64>(&place.url, &["ZADD", &line, "0", &id]), 1, "the job runs, and is in the job list");
    let missing: Vec<String> = ask(&place.url, &["ZRANGE", &place.key("line:1:5:b"), "0", "-1"]);
    assert_eq!(ask::<i64>(&place.url, &["ZREM", &place.key("line:1:5:b"), &missing[0]]), 1);
    let claimed = claim(&engine, 10).await;
    assert_eq!(claimed.len(), 2, "each waiting job, once");
    assert!(claimed.iter().all(|claimed| claimed.job.id != first.job.id));
    assert_eq!(ask::<i64>(&place.url, &["EXISTS", &line]), 0);
}

async fn on_a_clock(place: &TestStore) -> (RedisEngine, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::starting_at(Timestamp::parse("2026-01-01T00:00:00Z").unwrap()));
    let engine = place.ready_with(RedisOptions { clock: Some(clock.clone()), ..place.options() }).await;
    (engine, clock)
}

fn has(claimed: &[Claimed], fairness_key: &str) -> bool {
    claimed
        .iter()
        .any(|claimed| claimed.job.fairness_key.as_ref().is_some_and(|of| of.as_str() == fairness_key))
}

#[tokio::test]
async fn a_fairness_key_whose_first_job_was_cancelled_gets_its_turn_when_the_next_falls_due() {
    let place = TestStore::shared();
    let (engine, clock) = on_a_clock(&place).await;
    let later = |seconds| NewJob { when: When::In(Duration::from_secs(seconds)), ..of("x") };
    let answers = engine.enqueue(words::request(vec![later(60), later(3_600)])).await.unwrap();
    engine.cancel(answers[0].job().unwrap(), "no longer needed").await.unwrap();
    put(&engine, vec![of("a"); 20]).await;
    clock.advance(Duration::from_secs(61));
    assert!(!has(&claim(&engine, 4).await, "x"), "its next job is not due yet");
    clock.advance(Duration::from_secs(3_600));
    let claimed = claim(&engine, 2).await;
    assert!(has(&claimed, "x") && has(&claimed, "a"), "both fairness keys take turns");
    assert_eq!(claim(&engine, 50).await.len(), 15);
    assert_eq!(claim(&engine, 1).await, []);
    assert_eq!(keys(&place), Vec::<String>::new());
}

/// A job list was damaged: it contains a job with the due time from before its retry.
#[tokio::test]
async fn a_retry_is_not_started_before_it_is_due_whatever_its_line_says() {
    let place = TestStore::shared();
    let (engine, clock) = on_a_clock(&place).await;
    put(&engine, vec![of("a")]).await;
    let (line, ring) = (place.key("line:1:5:a"), place.key("ring:1:5"));
    let before: Vec<String> = ask(&place.url, &["ZRANGE", &line, "0", "-1", "WITHSCORES"]);
    let first = claim(&engine, 1).await.remove(0);
    let error = JobError::new(ErrorKind::Failed, "not today");
    let again = Transition::Retry { after: Duration::from_secs(60), error };
    engine.settle(vec![first.settled(again, AttemptReport::default())]).await.unwrap();
    assert_eq!(
        ask::<i64>(&place.url, &["ZADD", &line, &before[1], &before[0]]),
        0,
        "the job is in the list already"
    );
    let _: i64 = ask(&place.url, &["ZADD", &ring, "0", "a"]);
    assert_eq!(ask::<i64>(&place.url, &["DEL", &place.key("later:1:5")]), 1);
    put(&engine, vec![of("b"); 4]).await;
    let claimed = claim(&engine, 2).await;
    assert!(has(&claimed, "b") && !has(&claimed, "a"));
    let put_right: String = ask(&place.url, &["ZSCORE", &line, &before[0]]);
    assert_ne!(put_right, before[1], "the list has the due time of the retry");
    clock.advance(Duration::from_secs(60));
    assert!(has(&claim(&engine, 2).await, "a"), "the fairness key takes its turn");
}

#[tokio::test]
async fn more_fairness_keys_than_a_claim_asks_about_all_come_round_beside_plenty_without_a_fairness_key() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    put(&engine, (0..1_200).map(|n| of(&format!("s{:03}", n % 300))).collect()).await;
    put(&engine, vec![NewJob::new(kind(), Payload::default()); 900]).await;
    assert_eq!(
        claim(&engine, 1).await[0].job.fairness_key,
        None,
        "from now on jobs without a fairness key are the last of a round"
    );
    let mut served = BTreeSet::new();
    for _ in 0..2 {
        served.extend(claim(&engine, 201).await.into_iter().filter_map(|claimed| claimed.job.fairness_key));
    }
    assert_eq!(served.len(), 300, "each fairness key was served");
}
