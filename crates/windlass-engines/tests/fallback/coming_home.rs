//! How jobs of the spill get to the primary: all of them, once, in order, whoever dies on the way.

use std::time::Duration;

use windlass_core::admin::CancelAnswer;
use windlass_core::clock::Timestamp;
use windlass_core::engine::Admin;
use windlass_core::enqueue::{EnqueueRequest, NewJob, RequestId, When};
use windlass_core::job::JobState;
use windlass_core::limits::RECEIPT_TTL;
use windlass_core::names::{CorrelationId, GroupName, PriorityLabel, Tag};
use windlass_core::priority::Priority;
use windlass_core::retry::RetryPolicy;
use windlass_core::spill::{Aside, as_new};

use crate::place::{
    Primary, declaration, job, payloads, quick, spill, sqlite, status, until, until_away, until_home,
    waiting, why_ended,
};

#[tokio::test]
async fn jobs_come_home_in_the_order_in_which_they_were_put_in() {
    let primary = Primary::on_redis().await;
    let engine = primary.with_memory().await;
    primary.go();
    until_away(&engine).await;
    for number in 0..450 {
        spill(&engine, job(number)).await;
    }
    primary.come_back();
    until_home(&engine).await;
    assert_eq!(payloads(&*primary.store).await, (0..450).collect::<Vec<_>>());
    assert_eq!(status(&engine).await.returned, 450);
}

#[tokio::test]
async fn a_job_comes_home_with_everything_that_its_caller_gave_it() {
    let primary = Primary::on_redis().await;
    let engine = primary.with_memory().await;
    primary.go();
    until_away(&engine).await;
    let given = NewJob {
        priority: Some(Priority::new(2).unwrap()),
        label: Some(PriorityLabel::parse("urgent").unwrap()),
        when: When::In(Duration::from_secs(3_600)),
        expires: Some(When::In(Duration::from_secs(7_200))),
        correlation: Some(CorrelationId::parse("order-7").unwrap()),
        tags: vec![Tag::parse("blue").unwrap()],
        group: Some(GroupName::parse("batch").unwrap()),
        retry: Some(RetryPolicy::Fixed { every: Duration::from_secs(9), attempts: 4 }),
        timeout: Some(Duration::from_secs(77)),
        ..job(5)
    };
    let id = spill(&engine, given).await;
    let here = engine.job(id).await.unwrap().unwrap().job;
    primary.come_back();
    until_home(&engine).await;
    let there = waiting(&*primary.store).await.remove(0).job;
    assert_eq!(as_new(there), as_new(here));
}

#[tokio::test]
async fn a_spill_on_disk_outlives_its_process_and_comes_home_with_the_next() {
    let primary = Primary::on_redis().await;
    let folder = tempfile::tempdir().unwrap();
    let engine = primary.with(sqlite(folder.path()), quick()).await;
    primary.go();
    spill(&engine, job(1)).await;
    drop(engine);
    primary.come_back();
    let engine = primary.with(sqlite(folder.path()), quick()).await;
    until_home(&engine).await;
    assert_eq!(payloads(&*primary.store).await, [1]);
}

/// A spill with three jobs of which the first two were set aside under a request, as a process leaves it that dies.
async fn half_moved(
    folder: &std::path::Path,
    since: Timestamp,
) -> (EnqueueRequest, Vec<windlass_core::job::JobId>) {
    let spill = sqlite(folder);
    spill.declare(declaration()).await.unwrap();
    let answers = spill.enqueue(crate::place::request((0..3).map(job).collect())).await.unwrap();
    let ids: Vec<_> = answers.iter().map(|answer| answer.job().unwrap()).collect();
    let request = RequestId::from_random(fastrand::u128(..));
    let gate = Aside::Moving(request).gate(since);
    assert_eq!(spill.set_aside(&gate, 2).await.unwrap(), 2);
    let mut jobs = Vec::new();
    for id in &ids[..2] {
        jobs.push(as_new(spill.job(*id).await.unwrap().unwrap().job));
    }
    (EnqueueRequest { request, jobs }, ids)
}

fn now() -> Timestamp {
    use windlass_core::clock::Clock;
    windlass_engines::clock::SystemClock.now()
}

#[tokio::test]
async fn what_a_process_had_marked_when_it_died_comes_home_once_whether_it_was_copied_or_not() {
    for copied in [false, true] {
        let primary = Primary::on_redis().await;
        let folder = tempfile::tempdir().unwrap();
        let (request, _) = half_moved(folder.path(), now()).await;
        primary.store.declare(declaration()).await.unwrap();
        if copied {
            primary.store.enqueue(request).await.unwrap();
        }
        let engine = primary.with(sqlite(folder.path()), quick()).await;
        until_home(&engine).await;
        assert_eq!(payloads(&*primary.store).await, [0, 1, 2], "copied: {copied}");
    }
}

#[tokio::test]
async fn a_mark_that_is_older_than_receipts_is_finished_if_there_is_one_and_else_waits_for_a_person() {
    for copied in [false, true] {
        let primary = Primary::on_redis().await;
        let folder = tempfile::tempdir().unwrap();
        let (request, ids) = half_moved(folder.path(), now().minus(RECEIPT_TTL)).await;
        primary.store.declare(declaration()).await.unwrap();
        if copied {
            primary.store.enqueue(request).await.unwrap();
        }
        let engine = primary.with(sqlite(folder.path()), quick()).await;
        let expected = if copied { vec![0, 1, 2] } else { vec![2] };
        until("the third is home", async || payloads(&*primary.store).await.len() == expected.len()).await;
        assert_eq!(payloads(&*primary.store).await, expected);
        let uncertain = if copied { 0 } else { 2 };
        until("it is known who is uncertain", async || status(&engine).await.uncertain == uncertain).await;
        if !copied {
            engine.retry(ids[0]).await.unwrap();
            until("a person decided for the first", async || payloads(&*primary.store).await.len() == 2)
                .await;
            assert_eq!(engine.cancel(ids[1], "it is there").await.unwrap(), CancelAnswer::Cancelled);
        }
        until_home(&engine).await;
    }
}

#[tokio::test]
async fn a_job_cancelled_on_its_way_is_cancelled_where_it_went() {
    let primary = Primary::on_redis().await;
    let folder = tempfile::tempdir().unwrap();
    let (request, ids) = half_moved(folder.path(), now()).await;
    primary.store.declare(declaration()).await.unwrap();
    let there = primary.store.enqueue(request.clone()).await.unwrap()[1].job().unwrap();
    let spill = sqlite(folder.path());
    let gate = spill.gates(None, 1).await.unwrap().remove(0);
    spill.cancel(ids[1], "enough").await.unwrap();
    let gone =
        spill.end_behind(&gate, vec![(ids[0], "moved".to_owned()), (ids[1], "moved".to_owned())]).await;
    assert_eq!(gone.unwrap(), [ids[1]], "the spill tells whoever moves it");
    assert!(matches!(primary.store.job(there).await.unwrap().unwrap().state, JobState::Waiting { .. }));
}

#[tokio::test]
async fn jobs_that_the_primary_refuses_stay_in_the_spill_and_are_tried_again() {
    let primary = Primary::on_redis().await;
    let engine = primary.with_memory().await;
    primary.go();
    until_away(&engine).await;
    let id = spill(&engine, job(1)).await;
    primary.store.set_shut(&crate::place::queue(), true).await.unwrap();
    primary.come_back();
    until("it is back", async || status(&engine).await.active == "redis").await;
    assert_eq!(status(&engine).await.spill_size, 1);
    primary.store.set_shut(&crate::place::queue(), false).await.unwrap();
    until_home(&engine).await;
    assert!(why_ended(&engine, id).await.starts_with("moved to redis as job "));
}

#[tokio::test]
async fn what_was_tried_in_the_spill_stays_there() {
    let spill = crate::place::memory();
    spill.declare(declaration()).await.unwrap();
    spill.enqueue(crate::place::request(vec![job(1)])).await.unwrap();
    let worker = windlass_core::worker::WorkerId::from_random(7);
    let card = windlass_core::worker::WorkerCard {
        id: worker,
        host: String::new(),
        pid: 1,
        version: String::new(),
        queues: vec![crate::place::queue()],
        types: vec![crate::place::kind()],
        lease: Duration::from_secs(30),
    };
    spill.register(card).await.unwrap();
    let claim = windlass_core::claim::ClaimRequest {
        token: windlass_core::claim::ClaimToken::from_random(1),
        repeat: false,
        worker,
        queues: vec![crate::place::queue()],
        types: vec![crate::place::kind()],
        limit: 1,
        boosted_max: 0,
        suspects: windlass_core::claim::Suspects::LeaveOut,
    };
    let gate = Aside::Moving(RequestId::from_random(1)).gate(now());
    spill.claim(claim).await.unwrap();
    assert_eq!(spill.set_aside(&gate, 10).await.unwrap(), 0, "while it runs");
    spill.retire(worker).await.unwrap();
    assert_eq!(spill.set_aside(&gate, 10).await.unwrap(), 0, "and when it was given back");
}
