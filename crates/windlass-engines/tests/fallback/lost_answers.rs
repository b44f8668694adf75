//! The primary goes away in the middle of a call, and nobody knows whether it was done.

use windlass_core::engine::{Admin, Engine};
use windlass_core::enqueue::{Enqueued, NewJob};
use windlass_core::job::Phase;
use windlass_core::key::KeyClaim;
use windlass_core::names::Key;

use crate::place::{Primary, job, payloads, put, request, status, until_away, until_home, why_ended};

/// An enqueue that the primary does, but does not answer.
async fn unanswered(primary: &Primary, engine: &windlass_engines::fallback::FallbackEngine) -> Vec<Enqueued> {
    // Now the server knows the script; else its answer would only be that it does not.
    put(engine, job(0)).await;
    primary.proxy.swallow_answers(true);
    let answers = engine.enqueue(request(vec![job(1), job(2)])).await.unwrap();
    primary.go();
    primary.proxy.swallow_answers(false);
    answers
}

#[tokio::test]
async fn a_job_that_the_primary_may_have_is_not_run_from_the_spill_and_is_there_once_in_the_end() {
    let primary = Primary::on_redis().await;
    let engine = primary.with_memory().await;
    let answers = unanswered(&primary, &engine).await;
    let ids: Vec<_> = answers.iter().map(|answer| answer.job().unwrap()).collect();
    assert_eq!(answers, ids.iter().map(|id| Enqueued::Spilled(*id)).collect::<Vec<_>>());
    until_away(&engine).await;
    let record = engine.job(ids[0]).await.unwrap().unwrap();
    assert_eq!(record.state.phase(record.job.due, record.read_at), Phase::Parked, "{:?}", record.state);
    assert_eq!(payloads(&*primary.store).await, [0, 1, 2], "the primary had done it");
    primary.come_back();
    until_home(&engine).await;
    assert_eq!(payloads(&*primary.store).await, [0, 1, 2]);
    assert!(why_ended(&engine, ids[0]).await.starts_with("moved to redis as job "));
}

#[tokio::test]
async fn a_job_that_the_primary_may_have_can_be_neither_cancelled_nor_started_until_that_is_known() {
    let primary = Primary::on_redis().await;
    let engine = primary.with_memory().await;
    let id = unanswered(&primary, &engine).await[0].job().unwrap();
    for refused in [engine.cancel(id, "enough").await.map(drop), engine.retry(id).await.map(drop)] {
        let error = refused.unwrap_err();
        assert!(error.is_passing() && error.to_string().contains("may be in redis"), "{error}");
    }
}

#[tokio::test]
async fn of_several_that_the_primary_may_have_one_may_expire_and_the_others_are_still_found() {
    let primary = Primary::on_redis().await;
    let spill = crate::place::memory();
    let engine = primary.with(std::sync::Arc::clone(&spill), crate::place::quick()).await;
    let ids: Vec<_> =
        unanswered(&primary, &engine).await.iter().map(|answer| answer.job().unwrap()).collect();
    spill.cancel(ids[0], "it expired").await.unwrap();
    primary.come_back();
    until_home(&engine).await;
    assert_eq!(status(&engine).await.uncertain, 0);
    assert_eq!(payloads(&*primary.store).await, [0, 1, 2]);
    assert!(why_ended(&engine, ids[1]).await.starts_with("moved to redis as job "));
}

#[tokio::test]
async fn the_answer_to_a_job_with_a_key_stays_unknown() {
    let primary = Primary::on_redis().await;
    let engine = primary.with_memory().await;
    put(&engine, job(0)).await;
    let keyed = NewJob { key: Some(KeyClaim::new(Key::parse("a").unwrap())), ..job(1) };
    primary.proxy.swallow_answers(true);
    let error = engine.enqueue(request(vec![keyed])).await.unwrap_err();
    assert!(error.is_unknown(), "{error}");
    assert_eq!(payloads(&*primary.store).await, [0, 1], "it happened");
    assert_eq!(status(&engine).await.spill_size, 0);
}
