//! The rollups that a worker leaves in its store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass::duties::DutyMode;
use windlass::rollups::{ReportRequest, Since, Tally};
use windlass::types::engine::Engine;
use windlass::types::job::JobState;
use windlass::types::names::{QueueName, TypeName};
use windlass::types::rollups::roll_up::roll_up;
use windlass::types::rollups::{Histogram, RollupOutcome, Sample, Seen};
use windlass::{Client, JobType, WorkerOptions};

use crate::bench::{Act, Bench, PATIENCE};

/// The totals of the rollups since the test began, and a little before: a round writes to the rollup of its
/// own minute.
async fn rolled_up(client: &Client) -> Tally {
    let from = Since::Ago(Duration::from_secs(30 * 60));
    let request = ReportRequest { from, ..ReportRequest::default() };
    let report = client.rollups().report(&request).await.expect("the store is up");
    assert_eq!(report.damaged, 0);
    report.report.total().clone()
}

async fn rolled_up_when(client: &Client, is_it: impl Fn(&Tally) -> bool) -> Tally {
    let look = async {
        loop {
            let tally = rolled_up(client).await;
            if is_it(&tally) {
                return tally;
            }
            // may sleep: no notification reports a rollup.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.expect("the rollups satisfy the condition")
}

/// Runs one round, as a process that believes it leads. Returns whether it was applied.
async fn roll_up_once(engine: &Arc<dyn Engine>) -> bool {
    let Some(roll_up) = roll_up(engine.rollup_input(50).await.expect("the store is up")) else {
        return false;
    };
    let kept = engine.rollups_of(&roll_up.keys()).await.expect("the store is up");
    engine.apply_rollup(&roll_up.onto(kept.rows)).await.expect("the store is up") == RollupOutcome::Done
}

#[tokio::test]
async fn what_ran_is_in_the_rollups_after_a_clean_stop_with_how_long_it_waited_and_ran() {
    let mut bench = Bench::start().await;
    let began = Instant::now();
    let mut done = Vec::new();
    for act in [Act::Succeed, Act::Succeed, Act::FailTimes(1)] {
        done.push(bench.put(act).await);
    }
    let dead = bench.put(Act::Die).await;
    for id in done {
        bench.until(id, JobState::Succeeded).await;
    }
    bench.until(dead, JobState::Dead).await;
    let all_short = began.elapsed();
    let sleeper = bench.put(Act::Sleep { millis: 300 }).await;
    bench.until(sleeper, JobState::Succeeded).await;
    bench.worker.stop().await;
    let all = began.elapsed();
    let tally = rolled_up(&bench.client).await;
    let counts = (tally.enqueued, tally.started, tally.succeeded, tally.retried, tally.dead, tally.cancelled);
    assert_eq!(counts, (5, 6, 4, 1, 1, 0));
    assert_eq!((tally.waits.count(), tally.runs.count()), (6, 6));
    let longest = tally.runs.quantile(1.0).expect("there are runs");
    // No run and no wait lasted longer than the time around it. The factor is for the width of a bucket.
    assert!((Duration::from_millis(260)..all * 2).contains(&longest), "{longest:?} within {all:?}");
    let usual = tally.runs.quantile(0.5).expect("there are runs");
    assert!(usual < all_short * 2, "{usual:?} within {all_short:?}");
    let waited = tally.waits.quantile(1.0).expect("there are waits");
    assert!(waited < all * 2, "{waited:?} within {all:?}");
}

#[tokio::test]
async fn what_a_process_appended_before_it_died_is_rolled_up_by_the_next_one_that_leads() {
    let engine = crate::fresh_engine();
    let first =
        Bench::on(Arc::clone(&engine), WorkerOptions { maintenance: false, ..WorkerOptions::default() })
            .await;
    let id = first.put(Act::Succeed).await;
    first.until(id, JobState::Succeeded).await;
    let (queue, job_type) = (QueueName::parse("default"), TypeName::parse(Act::NAME));
    let mut waits = Histogram::default();
    waits.record(Duration::from_secs(3));
    let (queue, job_type) = (queue.expect("a valid name"), job_type.expect("a valid name"));
    let seen = Seen { queue, job_type, started: 1, runs: waits.clone(), waits };
    engine.append_samples(&Sample::parts(Duration::from_secs(5), &[seen])).await.expect("the store is up");
    assert!(rolled_up(&first.client).await.is_empty(), "expected nothing to be rolled up yet");
    let next = Bench::on(engine, WorkerOptions::default()).await;
    let tally = rolled_up_when(&next.client, |tally| tally.started > 0).await;
    assert_eq!((tally.enqueued, tally.started, tally.succeeded), (1, 1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn with_two_who_both_lead_under_load_every_job_is_booked_once() {
    const JOBS: u64 = 300;
    let options = || WorkerOptions { maintenance_mode: DutyMode::EveryWorker, ..WorkerOptions::default() };
    let mut first = Bench::with(options()).await;
    let mut second = Bench::on(Arc::clone(&first.engine), options()).await;
    let over = Arc::new(tokio::sync::Notify::new());
    let leaders: Vec<_> = (0..2)
        .map(|_| {
            let (engine, over) = (Arc::clone(&first.engine), Arc::clone(&over));
            tokio::spawn(async move {
                let mut ended = std::pin::pin!(over.notified());
                let mut applied = 0;
                loop {
                    applied += u32::from(roll_up_once(&engine).await);
                    tokio::select! {
                        biased;
                        () = &mut ended => return applied,
                        () = tokio::task::yield_now() => {}
                    }
                }
            })
        })
        .collect();
    let mut jobs = Vec::new();
    for _ in 0..JOBS {
        jobs.push(first.put(Act::Succeed).await);
    }
    for id in jobs {
        first.until(id, JobState::Succeeded).await;
    }
    first.worker.stop().await;
    second.worker.stop().await;
    over.notify_waiters();
    let mut applied = 0;
    for leader in leaders {
        applied += leader.await.expect("the leader ends without a panic");
    }
    while roll_up_once(&first.engine).await {}
    assert!(applied > 1, "expected several applied rounds");
    let tally = rolled_up(&first.client).await;
    assert_eq!((tally.enqueued, tally.started, tally.succeeded), (JOBS, JOBS, JOBS));
    assert_eq!((tally.waits.count(), tally.runs.count()), (JOBS, JOBS));
}
