//! The primary becomes unavailable in the middle of a call, and no process knows whether the call was done.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::engine::{Admin, Engine};
use windlass_core::enqueue::{EnqueueAnswer, NewJob, Refusal};
use windlass_core::job::JobState;
use windlass_core::key::KeyClaim;
use windlass_core::names::Key;

use windlass_engines::fallback::{Connect, FallbackEngine, FallbackOptions};
use windlass_engines::memory::MemoryEngine;

use crate::primary::{
    Primary, declaration, job, memory, payloads, put, quick, request, status, until, until_away,
    until_replayed, why_ended,
};
use crate::shaky::{Fault, Life, Seen};

/// Sends an enqueue that the primary applies and does not answer.
async fn unanswered(
    primary: &Primary,
    engine: &windlass_engines::fallback::FallbackEngine,
) -> Vec<EnqueueAnswer> {
    // From now on the server has the script; else its answer would only be that it does not have it.
    put(engine, job(0)).await;
    primary.proxy.swallow_answers(true);
    let answers = engine.enqueue(request(vec![job(1), job(2)])).await.unwrap();
    primary.go();
    primary.proxy.swallow_answers(false);
    answers
}

#[tokio::test]
async fn a_job_that_the_primary_may_have_is_not_run_from_the_spool_and_is_there_once_in_the_end() {
    let primary = Primary::on_redis().await;
    let engine = primary.with_memory().await;
    let answers = unanswered(&primary, &engine).await;
    let ids: Vec<_> = answers.iter().map(|answer| answer.job().unwrap()).collect();
    assert_eq!(answers, ids.iter().map(|id| EnqueueAnswer::Spooled(*id)).collect::<Vec<_>>());
    until_away(&engine).await;
    let record = engine.job(ids[0]).await.unwrap().unwrap();
    assert_eq!(
        record.state.job_state(record.job.due, record.read_at),
        JobState::Parked,
        "{:?}",
        record.state
    );
    assert_eq!(payloads(&*primary.store).await, [0, 1, 2], "the primary had applied it");
    primary.come_back();
    until_replayed(&engine).await;
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
        assert!(error.is_passing() && error.to_string().contains("may be there"), "{error}");
    }
}

#[tokio::test]
async fn a_thousand_jobs_that_the_primary_may_have_are_there_once_in_the_end() {
    for had_it in [true, false] {
        let primary = Primary::on_redis().await;
        let engine = primary.with_memory().await;
        put(&engine, job(0)).await;
        // The call is either applied and not answered, or it does not even arrive.
        primary.proxy.swallow_answers(had_it);
        primary.proxy.freeze(!had_it);
        let answers = engine.enqueue(request((1..=1_000).map(job).collect())).await.unwrap();
        assert!(answers.iter().all(|answer| matches!(answer, EnqueueAnswer::Spooled(_))));
        primary.go();
        primary.proxy.freeze(false);
        primary.proxy.swallow_answers(false);
        until_away(&engine).await;
        primary.come_back();
        until_replayed(&engine).await;
        let mut there = payloads(&*primary.store).await;
        there.sort_unstable();
        assert_eq!(there, (0..=1_000).collect::<Vec<_>>(), "had it: {had_it}");
    }
}

#[tokio::test]
async fn what_the_primary_may_have_is_replayed_before_what_was_enqueued_after_it() {
    for had_it in [true, false] {
        let primary = Primary::on_redis().await;
        let folder = tempfile::tempdir().unwrap();
        // No process adopts a batch within this test.
        let options = FallbackOptions { adopt_after: Duration::from_secs(3_600), ..crate::primary::quick() };
        let engine = primary.with(crate::primary::sqlite(folder.path()), options).await;
        put(&engine, job(0)).await;
        primary.proxy.swallow_answers(had_it);
        primary.proxy.freeze(!had_it);
        put(&engine, job(1)).await;
        primary.go();
        primary.proxy.freeze(false);
        primary.proxy.swallow_answers(false);
        until_away(&engine).await;
        for number in 2..6 {
            put(&engine, job(number)).await;
        }
        primary.come_back();
        until_replayed(&engine).await;
        assert_eq!(payloads(&*primary.store).await, [0, 1, 2, 3, 4, 5], "had it: {had_it}");
    }
}

#[tokio::test]
async fn a_repeat_of_what_could_not_be_kept_is_not_run_from_the_spool_either() {
    let primary = Primary::on_redis().await;
    let options = FallbackOptions { spool_max: 0, ..crate::primary::quick() };
    let engine = primary.with(crate::primary::memory(), options).await;
    put(&engine, job(0)).await;
    primary.proxy.swallow_answers(true);
    let request = request(vec![job(1)]);
    assert!(engine.enqueue(request.clone()).await.unwrap_err().is_unknown(), "the spool has no space for it");
    primary.go();
    primary.proxy.swallow_answers(false);
    until_away(&engine).await;
    let error = engine.enqueue(request.clone()).await.unwrap_err();
    assert!(error.is_unknown(), "it may be in the primary: {error}");
    primary.come_back();
    until(&engine, "the enqueue is answered", async || engine.enqueue(request.clone()).await.is_ok()).await;
    assert_eq!(payloads(&*primary.store).await, [0, 1]);
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
    assert_eq!(status(&engine).await.spool_size, 0);
}

#[tokio::test]
async fn a_question_to_a_primary_that_is_away_is_not_answered_with_not_stored() {
    let primary = Primary::on_redis().await;
    let engine = primary.with_memory().await;
    primary.go();
    until_away(&engine).await;
    let request = request(vec![job(1)]);
    engine.ask(request.request).await.unwrap_err();
    let answers = engine.enqueue(request.clone()).await.unwrap();
    assert!(matches!(answers[..], [EnqueueAnswer::Spooled(_)]), "the query closed no request: {answers:?}");
    assert_eq!(engine.ask(request.request).await.unwrap(), Some(answers));
}

#[tokio::test]
async fn a_request_that_was_closed_is_stored_by_neither_side() {
    let primary = Primary::on_redis().await;
    let engine = primary.with_memory().await;
    let request = request(vec![job(1)]);
    assert_eq!(engine.ask(request.request).await.unwrap(), None);
    let told = vec![EnqueueAnswer::Refused(Refusal::RequestClosed)];
    assert_eq!(engine.enqueue(request.clone()).await.unwrap(), told, "by the primary");
    primary.go();
    until_away(&engine).await;
    assert_eq!(engine.enqueue(request).await.unwrap(), told, "by the spool");
    assert_eq!(status(&engine).await.spool_size, 0);
    primary.come_back();
    until_replayed(&engine).await;
    assert_eq!(payloads(&*primary.store).await, [] as [usize; 0]);
}

/// The request is kept in the spool under its request id, and was closed on the primary before it arrived
/// there.
#[tokio::test]
async fn jobs_whose_request_the_primary_closed_are_replayed_under_another_one() {
    let primary = Primary::on_redis().await;
    let engine = primary.with_memory().await;
    put(&engine, job(0)).await;
    primary.proxy.hold_questions(true);
    let request = request(vec![job(1), job(2)]);
    let answers = engine.enqueue(request.clone()).await.unwrap();
    assert!(answers.iter().all(|answer| matches!(answer, EnqueueAnswer::Spooled(_))), "{answers:?}");
    assert_eq!(primary.store.ask(request.request).await.unwrap(), None);
    primary.proxy.hold_questions(false);
    until_replayed(&engine).await;
    assert_eq!(payloads(&*primary.store).await, [0, 1, 2]);
    assert_eq!(engine.ask(request.request).await.unwrap(), Some(answers));
}

#[tokio::test]
async fn a_question_finds_what_went_into_the_spool_while_the_primary_was_asked() {
    let life = Life::new(Some((0, Fault::Held)));
    let primary =
        Arc::new(Seen { store: Arc::new(MemoryEngine::default()) as Arc<dyn Engine>, life: life.clone() });
    let connect: Connect = Arc::new(move || {
        let primary = Arc::clone(&primary);
        Box::pin(async move { Ok(primary as Arc<dyn Engine>) })
    });
    let (beside, options) = (memory(), FallbackOptions { replay: false, ..quick() });
    let engine = FallbackEngine::open("primary", connect, Arc::clone(&beside), options).await.unwrap();
    engine.declare(declaration()).await.unwrap();
    let engine = Arc::new(engine);
    let request = request(vec![job(1)]);
    let asking = tokio::spawn({
        let (engine, name) = (Arc::clone(&engine), request.request);
        async move { engine.ask(name).await }
    });
    until(&engine, "the primary is queried", async || life.steps() == 1).await;
    // Like a call that the primary rejected.
    let spooled = beside.enqueue(request).await.unwrap()[0].job().unwrap();
    life.late.notify_one();
    assert_eq!(asking.await.unwrap().unwrap(), Some(vec![EnqueueAnswer::Spooled(spooled)]));
}
