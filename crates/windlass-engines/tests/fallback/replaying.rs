//! How jobs of the spool get to the primary: all of them, once, in order, whichever process dies during the
//! move.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::admin::CancelAnswer;
use windlass_core::clock::{ManualClock, Timestamp};
use windlass_core::engine::{Admin, Declaration, Engine};
use windlass_core::enqueue::{EnqueueRequest, NewJob, RequestId, When};
use windlass_core::job::JobId;
use windlass_core::job_type::TypeSpec;
use windlass_core::limits::RECEIPT_TTL;
use windlass_core::names::{CorrelationId, FairnessKey, GroupName, PriorityLabel, QueueName, Tag, TypeName};
use windlass_core::payload::Payload;
use windlass_core::priority::Priority;
use windlass_core::provenance::{Cause, Provenance, TraceContext};
use windlass_core::queue::QueueSpec;
use windlass_core::retry::RetryPolicy;
use windlass_core::spool::{BatchMost, Following, LeftOut, Spool, as_new};
use windlass_core::worker::WorkerId;
use windlass_engines::memory::MemoryEngine;
use windlass_engines::sqlite::{SqliteEngine, SqliteOptions};

use crate::primary::{
    Primary, declaration, job, payloads, quick, spool, sqlite, status, until, until_away, until_replayed,
    waiting, why_ended,
};

#[tokio::test]
async fn jobs_are_replayed_in_the_order_of_their_enqueue() {
    let primary = Primary::on_redis().await;
    let engine = primary.with_memory().await;
    primary.go();
    until_away(&engine).await;
    for number in 0..450 {
        spool(&engine, job(number)).await;
    }
    primary.come_back();
    until_replayed(&engine).await;
    assert_eq!(payloads(&*primary.store).await, (0..450).collect::<Vec<_>>());
    assert_eq!(status(&engine).await.returned, 450);
}

#[tokio::test]
async fn a_job_is_replayed_with_everything_that_its_caller_gave_it() {
    let primary = Primary::on_redis().await;
    let engine = primary.with_memory().await;
    primary.go();
    until_away(&engine).await;
    let given = NewJob {
        priority: Some(Priority::new(2).unwrap()),
        label: Some(PriorityLabel::parse("urgent").unwrap()),
        when: When::In(Duration::from_secs(3_600)),
        expires: Some(When::In(Duration::from_secs(7_200))),
        fairness_key: Some(FairnessKey::parse("tenant:42").unwrap()),
        correlation: Some(CorrelationId::parse("order-7").unwrap()),
        provenance: Provenance {
            caused_by: Some(Cause::parse("user:42").unwrap()),
            trace_context: Some(
                TraceContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap(),
            ),
        },
        tags: vec![Tag::parse("blue").unwrap()],
        group: Some(GroupName::parse("batch").unwrap()),
        retry: Some(RetryPolicy::Fixed { every: Duration::from_secs(9), attempts: 4 }),
        timeout: Some(Duration::from_secs(77)),
        ..job(5)
    };
    let id = spool(&engine, given).await;
    let here = engine.job(id).await.unwrap().unwrap().job;
    primary.come_back();
    until_replayed(&engine).await;
    let there = waiting(&*primary.store).await.remove(0).job;
    assert_eq!(there.fairness_key.as_ref().map(FairnessKey::as_str), Some("tenant:42"));
    let (here, there) =
        (as_new(here, Timestamp::EPOCH, Timestamp::EPOCH), as_new(there, Timestamp::EPOCH, Timestamp::EPOCH));
    // The time until due by each store's own clock, as a span since 1970.
    let late = |here: When, there: When| match (here, there) {
        (When::In(here), When::In(there)) => there.checked_sub(here).expect("the job is not early"),
        other => panic!("expected spans, got {other:?}"),
    };
    assert!(
        late(here.when, there.when) < Duration::from_secs(60),
        "apart from the difference of the two clocks"
    );
    assert!(late(here.expires.unwrap(), there.expires.unwrap()) < Duration::from_secs(60));
    assert_eq!(NewJob { when: there.when, expires: there.expires, ..here }, there);
}

#[tokio::test]
async fn a_spool_on_disk_outlives_its_process_and_is_replayed_by_the_next() {
    let primary = Primary::on_redis().await;
    let folder = tempfile::tempdir().unwrap();
    let engine = primary.with(sqlite(folder.path()), quick()).await;
    primary.go();
    spool(&engine, job(1)).await;
    drop(engine);
    primary.come_back();
    let engine = primary.with(sqlite(folder.path()), quick()).await;
    until_replayed(&engine).await;
    assert_eq!(payloads(&*primary.store).await, [1]);
}

/// Prepares a spool with three jobs, the first two of them staged under a request, as a dying process
/// leaves it.
async fn half_moved(spool: &dyn Spool) -> (EnqueueRequest, Vec<JobId>) {
    spool.declare(declaration()).await.unwrap();
    let answers = spool.enqueue(crate::primary::request((0..3).map(job).collect())).await.unwrap();
    let ids: Vec<_> = answers.iter().map(|answer| answer.job().unwrap()).collect();
    let request = RequestId::from_random(fastrand::u128(..));
    let staged = spool
        .stage(request, BatchMost { jobs: 2, bytes: 1_000 }, &LeftOut::default(), &Following::default())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(staged.ids, ids[..2]);
    let (_, jobs) = spool.still_staged(request).await.unwrap().unwrap();
    let here = spool.now().await.unwrap();
    (EnqueueRequest { request, jobs: jobs.into_iter().map(|job| as_new(job, here, here)).collect() }, ids)
}

/// Opens a spool in memory whose clock the test moves.
fn on_clock(clock: &Arc<ManualClock>) -> Arc<dyn Spool> {
    Arc::new(MemoryEngine::for_spool_with_clock(clock.clone()))
}

#[tokio::test]
async fn what_a_process_had_staged_when_it_died_is_replayed_once_whether_it_was_copied_or_not() {
    for copied in [false, true] {
        let primary = Primary::on_redis().await;
        let folder = tempfile::tempdir().unwrap();
        let (request, _) = half_moved(&*sqlite(folder.path())).await;
        primary.store.declare(declaration()).await.unwrap();
        if copied {
            primary.store.enqueue(request).await.unwrap();
        }
        let engine = primary.with(sqlite(folder.path()), quick()).await;
        until_replayed(&engine).await;
        let mut there = payloads(&*primary.store).await;
        there.sort_unstable();
        assert_eq!(there, [0, 1, 2], "copied: {copied}");
    }
}

#[tokio::test]
async fn a_batch_that_is_older_than_receipts_is_finished_if_there_is_one_and_else_waits_for_a_person() {
    for copied in [false, true] {
        let primary = Primary::on_redis().await;
        let clock = Arc::new(ManualClock::default());
        let spool = on_clock(&clock);
        let (request, ids) = half_moved(&*spool).await;
        primary.store.declare(declaration()).await.unwrap();
        if copied {
            primary.store.enqueue(request).await.unwrap();
        }
        clock.advance(RECEIPT_TTL - Duration::from_secs(1));
        let engine = primary.with(spool, quick()).await;
        let expected = if copied { 3 } else { 1 };
        until(&engine, "all jobs that may move are replayed", async || {
            payloads(&*primary.store).await.len() == expected
        })
        .await;
        if !copied {
            assert_eq!((payloads(&*primary.store).await, status(&engine).await.uncertain), (vec![2], 2));
            engine.retry(ids[0]).await.unwrap();
            until(&engine, "an operator decided about the first job", async || {
                payloads(&*primary.store).await.len() == 2
            })
            .await;
            assert_eq!(engine.cancel(ids[1], "it is in the primary").await.unwrap(), CancelAnswer::Cancelled);
        }
        until_replayed(&engine).await;
        until(&engine, "no job is uncertain", async || status(&engine).await.uncertain == 0).await;
    }
}

#[tokio::test]
async fn what_leaves_can_be_neither_cancelled_nor_purged_nor_changed_and_does_not_expire() {
    let folder = tempfile::tempdir().unwrap();
    for spool in [crate::primary::memory(), sqlite(folder.path())] {
        let (_, ids) = half_moved(&*spool).await;
        for refused in [
            spool.cancel(ids[0], "enough").await.map(drop),
            spool.retry(ids[0]).await.map(drop),
            spool.set_priority(ids[0], Priority::new(0).unwrap()).await.map(drop),
        ] {
            assert!(refused.unwrap_err().to_string().contains("is being moved to another store"));
        }
        assert_eq!(
            spool.purge(&crate::primary::queue(), 100).await.unwrap().changed,
            1,
            "only the third job"
        );
        assert_eq!(spool.queues().await.unwrap()[0].counts.parked, 2);
    }
}

#[tokio::test]
async fn a_job_that_leaves_does_not_expire_on_its_way() {
    let clock = Arc::new(ManualClock::default());
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions { clock: clock.clone(), ..SqliteOptions::for_spool() };
    let on_disk: Arc<dyn Spool> = Arc::new(SqliteEngine::open(folder.path().join("a.db"), options).unwrap());
    for spool in [on_clock(&clock), on_disk] {
        spool.declare(declaration()).await.unwrap();
        let short = NewJob { expires: Some(When::In(Duration::from_secs(1))), ..job(1) };
        spool.enqueue(crate::primary::request(vec![short])).await.unwrap();
        let request = RequestId::from_random(fastrand::u128(..));
        spool
            .stage(request, BatchMost { jobs: 9, bytes: 9 }, &LeftOut::default(), &Following::default())
            .await
            .unwrap()
            .unwrap();
        clock.advance(Duration::from_secs(2));
        spool.sweep(100).await.unwrap();
        assert_eq!(spool.still_staged(request).await.unwrap().unwrap().1.len(), 1);
        let ids = spool.staged(None, 9).await.unwrap().remove(0).ids;
        assert!(spool.end_batch(request, vec![(ids[0], None)]).await.unwrap());
        assert_eq!(spool.sweep(100).await.unwrap().changed, 1, "taken back, it expires");
    }
}

#[tokio::test]
async fn a_batch_that_two_replay_at_once_is_there_once_and_is_not_cancelled() {
    let primary = Primary::on_redis().await;
    let folder = tempfile::tempdir().unwrap();
    let (request, ids) = half_moved(&*sqlite(folder.path())).await;
    primary.store.declare(declaration()).await.unwrap();
    let (one, other) = (sqlite(folder.path()), sqlite(folder.path()));
    let read = one.still_staged(request.request).await.unwrap().unwrap();
    assert_eq!(read.1.len(), 2);
    let ends = |why: &str| ids[..2].iter().map(|id| (*id, Some(why.to_owned()))).collect::<Vec<_>>();
    assert!(other.end_batch(request.request, ends("moved by the other")).await.unwrap());
    assert!(!one.end_batch(request.request, ends("moved by me")).await.unwrap(), "the batch has ended");
    let engines =
        [primary.with(Arc::clone(&one), quick()).await, primary.with(Arc::clone(&other), quick()).await];
    until_replayed(&engines[0]).await;
    until_replayed(&engines[1]).await;
    assert_eq!(payloads(&*primary.store).await, [2]);
    assert_eq!(why_ended(&engines[0], ids[0]).await, "moved by the other");
}

#[tokio::test]
async fn two_processes_that_share_a_spool_replay_everything_once_and_in_order() {
    let primary = Primary::on_redis().await;
    let folder = tempfile::tempdir().unwrap();
    let engines = [
        primary.with(sqlite(folder.path()), quick()).await,
        primary.with(sqlite(folder.path()), quick()).await,
    ];
    primary.go();
    until_away(&engines[0]).await;
    until_away(&engines[1]).await;
    for number in 0..600 {
        spool(&engines[number % 2], job(number)).await;
    }
    primary.come_back();
    until_replayed(&engines[0]).await;
    until_replayed(&engines[1]).await;
    assert_eq!(payloads(&*primary.store).await, (0..600).collect::<Vec<_>>(), "in order");
    let returned = status(&engines[0]).await.returned + status(&engines[1]).await.returned;
    assert_eq!(returned, 600);
}

#[tokio::test]
async fn jobs_that_the_primary_refuses_stay_in_the_spool_keep_no_others_and_are_tried_again() {
    let primary = Primary::on_redis().await;
    let engine = primary.with_memory().await;
    let (queue, kind) = (QueueName::parse("beside").unwrap(), TypeName::parse("beside").unwrap());
    let beside = Declaration {
        queues: vec![QueueSpec::new(queue.clone())],
        types: vec![TypeSpec::new(kind.clone(), queue)],
    };
    engine.declare(beside).await.unwrap();
    primary.go();
    until_away(&engine).await;
    let refused = spool(&engine, job(1)).await;
    spool(&engine, NewJob::new(kind, Payload::parse("2").unwrap())).await;
    primary.store.set_shut(&crate::primary::queue(), true).await.unwrap();
    primary.come_back();
    until(&engine, "the other job is replayed", async || payloads(&*primary.store).await == [2]).await;
    assert_eq!(status(&engine).await.spool_size, 1);
    primary.store.set_shut(&crate::primary::queue(), false).await.unwrap();
    until_replayed(&engine).await;
    assert!(why_ended(&engine, refused).await.starts_with("moved to redis as job "));
}

#[tokio::test]
async fn what_was_tried_in_the_spool_stays_there() {
    let spool = crate::primary::memory();
    spool.declare(declaration()).await.unwrap();
    spool.enqueue(crate::primary::request(vec![job(1)])).await.unwrap();
    let worker = WorkerId::from_random(7);
    spool.register(crate::primary::card(worker)).await.unwrap();
    let most = BatchMost { jobs: 10, bytes: 1_000 };
    spool.claim(crate::primary::claim_request(worker, 1)).await.unwrap();
    assert_eq!(
        spool
            .stage(RequestId::from_random(1), most, &LeftOut::default(), &Following::default())
            .await
            .unwrap(),
        None,
        "while it runs"
    );
    spool.retire(worker).await.unwrap();
    assert_eq!(
        spool
            .stage(RequestId::from_random(2), most, &LeftOut::default(), &Following::default())
            .await
            .unwrap(),
        None,
        "when it was released"
    );
}

#[tokio::test]
async fn a_batch_holds_no_more_than_it_may_and_no_jobs_of_types_that_were_refused() {
    let folder = tempfile::tempdir().unwrap();
    for spool in [crate::primary::memory(), sqlite(folder.path())] {
        spool.declare(declaration()).await.unwrap();
        let jobs =
            (0..5).map(|_| NewJob::new(crate::primary::kind(), Payload::parse("\"0123456789\"").unwrap()));
        spool.enqueue(crate::primary::request(jobs.collect())).await.unwrap();
        let aside = async |request, most, types: &[TypeName]| {
            let but = &LeftOut { types: types.iter().cloned().collect(), jobs: Vec::new() };
            let staged =
                spool.stage(RequestId::from_random(request), most, but, &Following::default()).await.unwrap();
            staged.map_or(0, |staged| staged.ids.len())
        };
        assert_eq!(aside(1, BatchMost { jobs: 9, bytes: 99 }, &[crate::primary::kind()]).await, 0);
        assert_eq!(aside(2, BatchMost { jobs: 9, bytes: 15 }, &[]).await, 2, "the second exceeds the limit");
        assert_eq!(aside(3, BatchMost { jobs: 2, bytes: 99 }, &[]).await, 2);
    }
}
