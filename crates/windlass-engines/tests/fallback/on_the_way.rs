//! Faults during the replay, and the damage that they must not cause.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use windlass_core::clock::ManualClock;
use windlass_core::engine::{Admin, Declaration, Engine};
use windlass_core::enqueue::RequestId;
use windlass_core::job_type::TypeSpec;
use windlass_core::limits::RECEIPT_TTL;
use windlass_core::names::{QueueName, TypeName};
use windlass_core::queue::QueueSpec;
use windlass_core::spool::{BatchMost, Following, LeftOut, Spool};
use windlass_engines::memory::MemoryEngine;

use crate::locked_out::tell;
use crate::primary::{
    Primary, declaration, job, memory, payloads, queue, quick, request, spool, sqlite, status, until,
    until_away, until_replayed, why_ended,
};

#[tokio::test]
async fn jobs_that_were_replayed_and_could_not_be_ended_here_are_not_run_here_too() {
    let primary = Primary::on_redis().await;
    let folder = tempfile::tempdir().unwrap();
    let engine = primary.with(sqlite(folder.path()), quick()).await;
    primary.go();
    until_away(&engine).await;
    let ids = [spool(&engine, job(1)).await, spool(&engine, job(2)).await];
    let file = Connection::open(folder.path().join("spool.db")).unwrap();
    let no_end =
        "CREATE TRIGGER no_end BEFORE INSERT ON job_history BEGIN SELECT RAISE(ABORT, 'not now'); END";
    file.execute_batch(no_end).unwrap();
    primary.come_back();
    until(&engine, "the jobs are in the primary", async || payloads(&*primary.store).await == [1, 2]).await;
    let mut heard = engine.heard();
    for _ in 0..5 {
        heard.changed().await.unwrap();
        assert_eq!(payloads(&*primary.store).await, [1, 2]);
        assert_eq!(status(&engine).await.spool_size, 2);
        let parked: i64 = file
            .query_row("SELECT count(*) FROM delayed_jobs WHERE gate LIKE 'spool:%'", [], |row| row.get(0))
            .unwrap();
        assert_eq!(parked, 2, "no worker may claim them here");
    }
    file.execute_batch("DROP TRIGGER no_end").unwrap();
    until_replayed(&engine).await;
    assert_eq!(payloads(&*primary.store).await, [1, 2]);
    assert!(why_ended(&engine, ids[0]).await.starts_with("moved to redis as job "));
}

#[tokio::test]
async fn a_batch_is_kept_here_only_while_no_other_caller_can_have_sent_it() {
    let folder = tempfile::tempdir().unwrap();
    for spool in [memory(), sqlite(folder.path())] {
        spool.declare(declaration()).await.unwrap();
        spool.enqueue(request(vec![job(1), job(2)])).await.unwrap();
        let name = RequestId::from_random(fastrand::u128(..));
        spool
            .stage(name, BatchMost { jobs: 9, bytes: 99 }, &LeftOut::default(), &Following::default())
            .await
            .unwrap()
            .unwrap();
        assert!(!spool.keep_here(name, Duration::ZERO).await.unwrap(), "another process may have sent it");
        assert_eq!(spool.queues().await.unwrap()[0].counts.parked, 2);
        assert!(spool.keep_here(name, Duration::from_secs(60)).await.unwrap());
        assert_eq!(spool.queues().await.unwrap()[0].counts.ready, 2);
        assert!(!spool.keep_here(name, Duration::from_secs(60)).await.unwrap(), "the batch has ended");
    }
}

#[tokio::test]
async fn a_type_that_others_declared_otherwise_meanwhile_keeps_no_process_from_the_primary() {
    let primary = Primary::on_redis().await;
    let engine = primary.with_memory().await;
    let disputed = |queue: &str| {
        let (queue, kind) = (QueueName::parse(queue).unwrap(), TypeName::parse("disputed").unwrap());
        Declaration { queues: vec![QueueSpec::new(queue.clone())], types: vec![TypeSpec::new(kind, queue)] }
    };
    primary.go();
    until_away(&engine).await;
    engine.declare(disputed("mine")).await.unwrap();
    spool(&engine, job(1)).await;
    primary.store.declare(disputed("theirs")).await.unwrap();
    let kind = disputed("theirs").types.remove(0).name;
    let held = windlass_core::enqueue::NewJob::new(kind, windlass_core::payload::Payload::default());
    primary.store.enqueue(request(vec![held])).await.unwrap();
    primary.come_back();
    until(&engine, "the engine uses the primary again", async || {
        let told = status(&engine).await;
        told.active == told.primary && told.spool_size == 0
    })
    .await;
    let queues = primary.store.queues().await.unwrap();
    assert!(
        queues.iter().any(|known| known.spec.name.as_str() == "mine"),
        "the queue that was not refused is declared"
    );
}

#[tokio::test]
async fn a_type_of_the_primary_that_cannot_be_read_keeps_no_process_from_it() {
    let primary = Primary::on_redis().await;
    let engine = primary.with_memory().await;
    primary.go();
    until_away(&engine).await;
    engine.declare(declaration()).await.unwrap();
    spool(&engine, job(1)).await;
    let url = windlass_servers::shared::redis_url().unwrap();
    let (types, kind) = (format!("{{{}}}:types", primary.namespace), crate::primary::kind().to_string());
    let stored: String = tell(&url, &["HGET", &types, &kind]);
    let number = stored.split(' ').next().expect("the number of the type comes first");
    tell::<i64>(&url, &["HSET", &types, &kind, &format!("{number} {{")]);
    // A change makes every process read the types again.
    let other = QueueSpec::new(QueueName::parse("other").unwrap());
    primary.store.declare(Declaration { queues: vec![other], types: vec![] }).await.unwrap();
    primary.come_back();
    until(&engine, "the engine uses the primary again", async || {
        let told = status(&engine).await;
        told.active == told.primary
    })
    .await;
    let types = engine.types().await.unwrap();
    assert!(types.iter().any(|known| known.unreadable.is_some()), "{types:?}");
}

#[tokio::test]
async fn a_declaration_that_the_primary_refuses_is_not_made_at_all() {
    let primary = Primary::on_redis().await;
    let engine = primary.with_memory().await;
    engine.enqueue(request(vec![job(1)])).await.unwrap();
    let elsewhere = QueueName::parse("elsewhere").unwrap();
    let moved = Declaration {
        queues: vec![QueueSpec::new(elsewhere.clone())],
        types: vec![TypeSpec::new(crate::primary::kind(), elsewhere)],
    };
    engine.declare(moved).await.unwrap_err();
    let beside = engine.spool().expect("the engine has a spool").types().await.unwrap();
    assert_eq!(beside[0].spec.queue, queue());
}

#[tokio::test]
async fn batches_that_wait_for_a_person_keep_no_others_however_many_they_are() {
    let primary = Primary::on_redis().await;
    let clock = Arc::new(ManualClock::default());
    let spool: Arc<dyn Spool> = Arc::new(MemoryEngine::for_spool_with_clock(clock.clone()));
    spool.declare(declaration()).await.unwrap();
    spool.enqueue(request((0..251).map(job).collect())).await.unwrap();
    let one_each = BatchMost { jobs: 1, bytes: 1_000 };
    let stage = async || {
        let name = RequestId::from_random(fastrand::u128(..));
        spool
            .stage(name, one_each, &LeftOut::default(), &Following::default())
            .await
            .unwrap()
            .expect("there are more jobs");
    };
    for _ in 0..250 {
        stage().await;
    }
    clock.advance(2 * RECEIPT_TTL);
    stage().await;
    clock.advance(Duration::from_secs(1));
    let engine = primary.with(spool.clone(), quick()).await;
    until(&engine, "the last one is replayed", async || payloads(&*primary.store).await == [250]).await;
    assert_eq!(status(&engine).await.uncertain, 250);
}

#[tokio::test]
async fn that_a_repeat_was_not_done_does_not_mean_that_the_first_try_was_not() {
    let primary = Primary::on_redis().await;
    let beside = memory();
    let engine = primary.with(Arc::clone(&beside), quick()).await;
    engine.enqueue(request(vec![job(0)])).await.unwrap();
    let first = request(vec![job(1)]);
    primary.proxy.swallow_answers(true);
    beside.set_shut(&queue(), true).await.unwrap();
    assert!(engine.enqueue(first.clone()).await.unwrap_err().is_unknown(), "the spool did not accept it");
    primary.go();
    primary.proxy.swallow_answers(false);
    // The first repeat is certainly rejected, and the spool accepts the second.
    assert!(engine.enqueue(first.clone()).await.unwrap_err().is_unknown());
    beside.set_shut(&queue(), false).await.unwrap();
    engine.enqueue(first).await.unwrap();
    assert_eq!(beside.queues().await.unwrap()[0].counts.parked, 1, "no worker may run it here");
    primary.come_back();
    until_replayed(&engine).await;
    assert_eq!(payloads(&*primary.store).await, [0, 1]);
}

#[tokio::test]
async fn a_pause_of_an_hour_is_one_of_an_hour_in_the_spool() {
    let primary = Primary::on_redis().await;
    primary.store.declare(declaration()).await.unwrap();
    let hour = Duration::from_secs(3_600);
    primary.store.pause(&queue(), Some("a break"), Some(hour)).await.unwrap();
    let beside = memory();
    let _engine = primary.with(Arc::clone(&beside), quick()).await;
    let pause = beside.queues().await.unwrap().remove(0).pause.expect("the queue is paused");
    let left = pause.until.expect("it ends").since(beside.now().await.unwrap());
    assert!(left <= hour && left > hour / 2, "{left:?}");
}

#[tokio::test]
async fn two_calls_of_one_request_at_once_leave_nothing_to_run_that_the_primary_may_have() {
    let primary = Primary::on_redis().await;
    let beside = memory();
    let engine = Arc::new(primary.with(Arc::clone(&beside), quick()).await);
    engine.enqueue(request(vec![job(0)])).await.unwrap();
    let asked = request(vec![job(1)]);
    primary.proxy.swallow_answers(true);
    let first = tokio::spawn({
        let (engine, asked) = (Arc::clone(&engine), asked.clone());
        async move { engine.enqueue(asked).await }
    });
    until(&engine, "the job is in the primary", async || payloads(&*primary.store).await == [0, 1]).await;
    primary.go();
    primary.proxy.swallow_answers(false);
    // The second call is certainly rejected, whatever the first one learns.
    let second = engine.enqueue(asked).await;
    let first = first.await.unwrap();
    assert!([&first, &second].iter().any(|answer| answer.is_ok()), "{first:?} {second:?}");
    assert_eq!(beside.queues().await.unwrap()[0].counts.ready, 0, "no worker may run it here");
    primary.come_back();
    until_replayed(&engine).await;
    assert_eq!(payloads(&*primary.store).await, [0, 1]);
}

#[tokio::test]
async fn a_spool_that_was_full_and_was_replayed_has_room_at_once_when_the_primary_goes_again() {
    let primary = Primary::on_redis().await;
    let options = windlass_engines::fallback::FallbackOptions { spool_max: 2, ..quick() };
    let engine = primary.with(memory(), options).await;
    for round in 0..2 {
        primary.go();
        until_away(&engine).await;
        spool(&engine, job(round)).await;
        spool(&engine, job(round)).await;
        engine.enqueue(request(vec![job(9)])).await.expect_err("the spool is full");
        primary.come_back();
        until_replayed(&engine).await;
    }
}
