//! An ordering key continues, whatever happened to the job that the store records as its head.

use windlass_core::engine::{Admin, Engine};
use windlass_core::enqueue::NewJob;
use windlass_core::job::{JobId, StoredState};
use windlass_core::names::OrderingKey;
use windlass_core::payload::Payload;
use windlass_engines::redis::RedisEngine;

use crate::test_store::{TestStore, ask, claim, kind, queue, success};
use crate::words;

const GATE: &str = "ordering_key:work:a";

fn name() -> OrderingKey {
    OrderingKey::parse("a").unwrap()
}

async fn put(engine: &RedisEngine, count: usize) -> Vec<JobId> {
    let ordered = NewJob { ordering_key: Some(name()), ..NewJob::new(kind(), Payload::default()) };
    let answers = engine.enqueue(words::request(vec![ordered; count])).await.unwrap();
    answers.iter().map(|answer| answer.job().unwrap()).collect()
}

async fn claimed_ids(engine: &RedisEngine) -> Vec<JobId> {
    claim(engine, 10).await.into_iter().map(|claimed| claimed.job.id).collect()
}

async fn head(engine: &RedisEngine) -> Option<JobId> {
    engine.head_of(&kind(), &name()).await.unwrap()
}

/// Removes the state of a job.
fn lose(place: &TestStore, id: JobId) {
    let id = format!("{:014}", id.0);
    let state = place.key(&format!("state:{}", &id[..9]));
    assert_eq!(ask::<i64>(&place.url, &["HDEL", &state, &id]), 1, "there was something to lose");
}

/// Enqueues three jobs and removes the state of the first one, which was the head.
async fn without_head(place: &TestStore) -> (RedisEngine, Vec<JobId>) {
    let engine = place.ready().await;
    let jobs = put(&engine, 3).await;
    lose(place, jobs[0]);
    assert_eq!(claimed_ids(&engine).await, [], "no process has noticed yet");
    assert_eq!(head(&engine).await, None);
    (engine, jobs)
}

#[tokio::test]
async fn a_newcomer_sets_an_ordering_key_going_whose_head_is_lost_and_waits_its_turn() {
    let place = TestStore::shared();
    let (engine, jobs) = without_head(&place).await;
    let newcomers = put(&engine, 2).await;
    assert_eq!(head(&engine).await, Some(jobs[1]));
    for id in [jobs[1], jobs[2], newcomers[0], newcomers[1]] {
        let claimed = claim(&engine, 10).await;
        assert_eq!(claimed.iter().map(|claimed| claimed.job.id).collect::<Vec<_>>(), [id]);
        engine.settle(claimed.into_iter().map(success).collect()).await.unwrap();
    }
    assert_eq!(head(&engine).await, None);
}

#[tokio::test]
async fn the_end_of_one_in_line_sets_an_ordering_key_going_whose_head_is_lost() {
    let place = TestStore::shared();
    let (engine, jobs) = without_head(&place).await;
    engine.cancel(jobs[1], "no").await.unwrap();
    assert_eq!(claimed_ids(&engine).await, [jobs[2]]);
}

#[tokio::test]
async fn a_purge_heals_an_ordering_key_whose_head_is_lost() {
    let place = TestStore::shared();
    let (engine, _) = without_head(&place).await;
    assert_eq!(engine.purge(&queue(), 100).await.unwrap().changed, 2);
    let fresh = put(&engine, 1).await;
    assert_eq!(claimed_ids(&engine).await, fresh);
}

/// The record of the head was damaged: it names a job that has ended.
#[tokio::test]
async fn a_head_that_has_ended_without_a_mark_for_its_ordering_key_holds_no_job_back() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    let ended = put(&engine, 1).await[0];
    engine.settle(claim(&engine, 1).await.into_iter().map(success).collect()).await.unwrap();
    let note = format!("{:014}", ended.0);
    ask::<i64>(&place.url, &["HSET", &place.key("ordering_key"), GATE, &note]);
    assert_eq!(head(&engine).await, None);
    let fresh = put(&engine, 2).await;
    assert_eq!(claimed_ids(&engine).await, fresh[..1]);
}

#[tokio::test]
async fn who_stands_in_a_line_and_does_not_wait_is_passed_over_and_taken_away() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    let jobs = put(&engine, 200).await;
    for id in &jobs[1..150] {
        lose(&place, *id);
    }
    engine.settle(claim(&engine, 1).await.into_iter().map(success).collect()).await.unwrap();
    assert_eq!(claimed_ids(&engine).await, [jobs[150]]);
    let line = place.key(&format!("gate:{GATE}"));
    assert_eq!(ask::<u64>(&place.url, &["ZCARD", &line]), 49);
}

#[tokio::test]
async fn one_in_line_that_cannot_be_read_is_given_up_and_the_next_goes_out() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    let jobs = put(&engine, 3).await;
    let id = format!("{:014}", jobs[1].0);
    ask::<i64>(&place.url, &["HSET", &place.key(&format!("state:{}", &id[..9])), &id, "x"]);
    engine.settle(claim(&engine, 1).await.into_iter().map(success).collect()).await.unwrap();
    assert_eq!(claimed_ids(&engine).await, [jobs[2]]);
    let record = engine.job(jobs[1]).await.unwrap().unwrap();
    assert!(matches!(record.state, StoredState::Dead { .. }), "{:?}", record.state);
}
