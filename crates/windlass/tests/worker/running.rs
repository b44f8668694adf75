//! Jobs that run from enqueue to their end.

use std::time::Duration;

use windlass::types::admin::AttemptEnding;
use windlass::types::job::{JobState, StoredState};
use windlass::types::names::QueueName;
use windlass::types::outcome::ErrorKind;
use windlass::{JobType, QueueSpec, TypeSpec, WorkerOptions};

use crate::bench::{Act, Bench};

/// A poll interval so long that no test can rely on polling.
const HOUR: Duration = Duration::from_secs(60 * 60);

#[tokio::test]
async fn a_job_is_run_once_and_succeeds() {
    let bench = Bench::start().await;
    let id = bench.put(Act::Succeed).await;
    let record = bench.until(id, JobState::Succeeded).await;
    assert_eq!(record.job.counters.attempts, 1);
}

#[tokio::test]
async fn a_failure_is_retried_and_a_later_success_counts() {
    let bench = Bench::start().await;
    let id = bench.put(Act::FailTimes(2)).await;
    let record = bench.until(id, JobState::Succeeded).await;
    assert_eq!((record.job.counters.attempts, record.job.counters.failures), (3, 2));
}

#[tokio::test]
async fn a_job_that_always_fails_is_given_up_with_its_last_error() {
    let bench = Bench::start().await;
    let id = bench.put(Act::Fail).await;
    let record = bench.until(id, JobState::Dead).await;
    let StoredState::Dead { error, .. } = record.state else { panic!("dead") };
    assert_eq!((error.kind, error.text.as_str()), (ErrorKind::Failed, "always fails"));
    assert_eq!(record.job.counters.failures, 3);
    let endings: Vec<_> = bench.engine.attempts(id).await.unwrap().into_iter().map(|a| a.ending).collect();
    assert_eq!(endings, [AttemptEnding::Failed, AttemptEnding::Failed, AttemptEnding::Dead]);
}

#[tokio::test]
async fn a_panic_is_caught_and_counts_as_a_failure() {
    let bench = Bench::start().await;
    let id = bench.put(Act::Panic).await;
    let record = bench.until(id, JobState::Dead).await;
    let StoredState::Dead { error, .. } = record.state else { panic!("dead") };
    assert_eq!(error.kind, ErrorKind::Panicked);
    assert!(error.text.contains("on purpose"), "{error}");
}

#[tokio::test]
async fn a_handler_past_its_time_out_is_stopped() {
    let bench = Bench::start().await;
    let enqueue = bench.client.enqueue(Act::IgnoreEverything).timeout(Duration::from_millis(5));
    let id = enqueue.retry(windlass::RetryPolicy::Never).await.unwrap().id;
    let record = bench.until(id, JobState::Dead).await;
    let StoredState::Dead { error, .. } = record.state else { panic!("dead") };
    assert_eq!(error.kind, ErrorKind::TimedOut);
}

#[tokio::test]
async fn a_snooze_costs_no_failure() {
    let bench = Bench::start().await;
    let id = bench.put(Act::Snooze).await;
    let counters = bench.until(id, JobState::Succeeded).await.job.counters;
    assert_eq!((counters.attempts, counters.failures, counters.holds), (2, 0, 1));
}

#[tokio::test]
async fn a_handler_can_discard_its_job_or_declare_it_hopeless() {
    let bench = Bench::start().await;
    let (discarded, hopeless) = (bench.put(Act::Discard).await, bench.put(Act::Die).await);
    let record = bench.until(discarded, JobState::Cancelled).await;
    assert!(matches!(record.state, StoredState::Cancelled { why, .. } if why == "no longer wanted"));
    assert_eq!(bench.until(hopeless, JobState::Dead).await.job.counters.attempts, 1);
}

#[tokio::test]
async fn what_a_handler_writes_is_kept_with_its_attempt() {
    let bench = Bench::start().await;
    let id = bench.put(Act::Log("no problem yet".to_owned())).await;
    bench.until(id, JobState::Succeeded).await;
    let attempts = bench.engine.attempts(id).await.unwrap();
    assert_eq!(attempts[0].output.as_deref(), Some("no problem yet\n"));
}

#[tokio::test]
async fn progress_is_kept() {
    let bench = Bench::start().await;
    let id = bench.put(Act::Progress(70)).await;
    let progress =
        bench.until(id, JobState::Succeeded).await.job.progress.expect("the handler has reported progress");
    assert_eq!((progress.percent, progress.note.as_deref()), (70, Some("on it")));
}

#[tokio::test]
async fn a_follow_up_carries_the_correlation_id_and_where_it_comes_from() {
    let mut bench = Bench::start().await;
    let enqueue = bench.client.enqueue(Act::FollowUp).correlation("order-7").caused_by("user:42");
    let id = enqueue.await.unwrap().id;
    bench.until(id, JobState::Succeeded).await;
    bench.started().await;
    let (follow_up, _) = bench.started().await;
    let record = bench.until(follow_up, JobState::Succeeded).await;
    assert_eq!(record.job.correlation.unwrap().as_str(), "order-7");
    assert_eq!(record.job.provenance.caused_by.unwrap().as_str(), "user:42");
}

/// There are failures, snoozes and deaths in between, many slots, and no polling that could help.
#[tokio::test]
async fn a_worker_with_many_slots_runs_an_ordering_key_in_order_and_another_beside_it() {
    let queues = QueueSpec::built_in();
    let queues = queues.into_iter().map(|queue| QueueSpec { poll_interval: HOUR, ..queue });
    let mut bench = Bench::with(WorkerOptions { queues: queues.collect(), ..WorkerOptions::default() }).await;
    let acts = [Act::Sleep { millis: 20 }, Act::FailTimes(2), Act::Snooze, Act::Die, Act::Fail, Act::Succeed];
    let mut ordering_key = [Vec::new(), Vec::new()];
    for act in acts {
        for (name, jobs) in ["a", "b"].into_iter().zip(&mut ordering_key) {
            jobs.push(bench.client.enqueue(act.clone()).ordering_key(name).await.unwrap().id);
        }
    }
    for last in ordering_key.each_ref().map(|jobs| jobs[jobs.len() - 1]) {
        bench.until(last, JobState::Succeeded).await;
    }
    let mut starts = Vec::new();
    while let Ok((id, _)) = bench.reports.try_recv() {
        starts.push(id);
    }
    for jobs in &ordering_key {
        let own: Vec<_> = starts.iter().filter(|id| jobs.contains(id)).copied().collect();
        assert!(own.is_sorted(), "{own:?} of {jobs:?}");
        assert_eq!(own.len(), 1 + 3 + 2 + 1 + 3 + 1, "{own:?}");
    }
}

#[tokio::test]
async fn a_delayed_job_starts_when_due_without_polling() {
    let queues = QueueSpec::built_in();
    let queues = queues.into_iter().map(|queue| QueueSpec { poll_interval: HOUR, ..queue });
    let mut bench = Bench::with(WorkerOptions { queues: queues.collect(), ..WorkerOptions::default() }).await;
    let delay = Duration::from_millis(60);
    let put = tokio::time::Instant::now();
    bench.client.enqueue(Act::Succeed).delay(delay).await.unwrap();
    bench.started().await;
    let waited = put.elapsed();
    assert!(waited >= delay, "started {waited:?} after its enqueue");
}

#[tokio::test]
async fn a_flood_in_one_queue_does_not_hold_up_another() {
    use serde::{Deserialize, Serialize};
    use windlass::{Handlers, Worker};
    #[derive(Serialize, Deserialize)]
    struct Flood;
    impl JobType for Flood {
        const NAME: &'static str = "flood";
        const QUEUE: &'static str = "bulk";
    }
    #[derive(Serialize, Deserialize)]
    struct Urgent;
    impl JobType for Urgent {
        const NAME: &'static str = "urgent";
        const QUEUE: &'static str = "high";
    }
    async fn stuck(_: Flood) {
        std::future::pending::<()>().await;
    }
    let (done, mut is_done) = tokio::sync::mpsc::channel(1);
    let urgent = move |_: Urgent| {
        let done = done.clone();
        async move { done.send(()).await.expect("the test is listening") }
    };
    let engine = crate::fresh_engine();
    let handlers = Handlers::new(()).handle(stuck).handle(urgent);
    let worker = Worker::start(engine, handlers, WorkerOptions::default()).await.unwrap();
    worker.client().enqueue_many((0..100).map(|_| Flood)).await.unwrap();
    worker.client().enqueue(Urgent).await.unwrap();
    is_done.recv().await.expect("the urgent job ran");
}

#[tokio::test]
async fn all_of_many_jobs_are_run() {
    let bench = Bench::start().await;
    let enqueued = bench.client.enqueue_many((0..5_000).map(|_| Act::Succeed)).await.unwrap();
    assert!(enqueued.iter().all(Result::is_ok));
    let last = enqueued.last().unwrap().as_ref().unwrap().id;
    bench.until(last, JobState::Succeeded).await;
    for answer in enqueued {
        bench.until(answer.unwrap().id, JobState::Succeeded).await;
    }
}

#[tokio::test]
async fn what_a_worker_prefetched_before_its_handlers_got_stuck_is_run_by_another() {
    let engine = crate::fresh_engine();
    let alone = QueueSpec { concurrency: 1, ..QueueSpec::new(QueueName::parse("default").unwrap()) };
    let options = WorkerOptions { queues: vec![alone], ..WorkerOptions::default() };
    let stuck = Bench::on(std::sync::Arc::clone(&engine), options.clone()).await;
    let jobs = (0..400).map(|at| if at == 300 { Act::IgnoreEverything } else { Act::Succeed });
    let mut ids: Vec<_> = Vec::new();
    for enqueued in stuck.client.enqueue_many(jobs).await.unwrap() {
        ids.push(enqueued.unwrap().id);
    }
    stuck.until(ids.remove(300), JobState::Running).await;
    let other = Bench::on(engine, options).await;
    for id in ids {
        other.until(id, JobState::Succeeded).await;
    }
}

#[tokio::test]
async fn an_unconfigured_queue_gets_four_slots_and_a_built_in_one_keeps_its_own() {
    use windlass::{Handlers, Worker};
    let engine = crate::fresh_engine();
    let odd = |spec| TypeSpec { queue: QueueName::parse("odd").unwrap(), ..spec };
    let handlers = Handlers::new(()).handle(|_: Plain| async {}).handle_with(|_: Other| async {}, odd);
    let options = WorkerOptions { queues: vec![], ..WorkerOptions::default() };
    let _worker = Worker::start(std::sync::Arc::clone(&engine), handlers, options).await.unwrap();
    let queues = engine.queues().await.unwrap();
    let slots: Vec<_> =
        queues.iter().map(|queue| (queue.spec.name.as_str(), queue.spec.concurrency)).collect();
    assert_eq!(slots, [("default", 10), ("odd", 4)]);
}

#[tokio::test]
async fn a_queue_is_scaled_while_its_workers_run() {
    let slots = |concurrency| {
        let name = QueueName::parse("default").unwrap();
        vec![QueueSpec { concurrency, ..QueueSpec::new(name) }]
    };
    let sweep_every = Duration::from_millis(10);
    let mut bench =
        Bench::with(WorkerOptions { queues: slots(1), sweep_every, ..WorkerOptions::default() }).await;
    for _ in 0..3 {
        bench.put(Act::IgnoreEverything).await;
    }
    let first = bench.started().await;
    bench.client.declare(slots(3)).await.unwrap();
    let others = [bench.started().await, bench.started().await];
    assert!(!others.contains(&first), "three run at once: {first:?} {others:?}");
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Plain;
impl JobType for Plain {
    const NAME: &'static str = "plain";
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Other;
impl JobType for Other {
    const NAME: &'static str = "other";
}
