//! Completion triggers in a real worker: the hook's job runs soon after the last job has ended.

use std::sync::Arc;
use std::time::Duration;

use windlass::types::claim::{ClaimAnswer, ClaimRequest, ClaimToken, Suspects};
use windlass::types::engine::Engine;
use windlass::types::job::JobState;
use windlass::types::names::{TriggerName, TypeName};
use windlass::types::payload::Payload;
use windlass::types::schedules::Origin;
use windlass::types::settle::{AttemptReport, Transition};
use windlass::types::triggers::StoredTrigger;
use windlass::types::worker::{WorkerCard, WorkerId};
use windlass::{
    Client, CompletionTrigger, JobTemplate, JobType, StartError, Stopped, Watched, WorkerOptions,
};

use crate::bench::{Act, Bench};

fn name() -> TriggerName {
    TriggerName::parse("done").expect("a valid name")
}

/// A trigger that enqueues another act when all acts have finished: the hook, which has the watched type
/// itself.
pub(crate) fn when_all_is_done() -> CompletionTrigger {
    let acts = TypeName::parse(Act::NAME).expect("a valid name");
    let job = JobTemplate {
        payload: Payload::encode(&Act::Succeed).expect("the payload is small"),
        ..JobTemplate::new(acts.clone())
    };
    CompletionTrigger::new(name(), Watched::Type(acts), job)
}

fn options() -> WorkerOptions {
    WorkerOptions { triggers: vec![when_all_is_done()], ..WorkerOptions::default() }
}

async fn stored_trigger(client: &Client) -> StoredTrigger {
    client.triggers().find(&name()).await.expect("the trigger is stored")
}

/// Without maintenance nothing polls for marks: what fires the trigger is the end of the job.
#[tokio::test]
async fn the_hook_runs_after_the_last_end_without_a_poll() {
    let mut bench = Bench::with(WorkerOptions { maintenance: false, ..options() }).await;
    let last = bench.put(Act::Sleep { millis: 30 }).await;
    assert_eq!(bench.started().await.0, last);
    let (hook, _) = bench.started().await;
    bench.until(hook, JobState::Succeeded).await;
    let trigger = stored_trigger(&bench.client).await;
    assert_eq!((trigger.record.fired, trigger.last_job), (1, Some(hook)));
}

#[tokio::test]
async fn the_hook_runs_after_the_last_end_once_for_each_trigger() {
    let mut bench = Bench::with(options()).await;
    for round in 1..=3 {
        // One call enqueues them all, so that none ends before the last one is there.
        let acts = [30, 60, 90].map(|millis| Act::Sleep { millis });
        let enqueued = bench.client.enqueue_many(acts).await.expect("the jobs are accepted");
        let jobs: Vec<_> =
            enqueued.into_iter().map(|enqueued| enqueued.expect("the job is accepted").id).collect();
        for _ in &jobs {
            let (id, _) = bench.started().await;
            assert!(jobs.contains(&id), "the hook must not run while another job runs");
        }
        for id in &jobs {
            bench.until(*id, JobState::Succeeded).await;
        }
        let (hook, _) = bench.started().await;
        assert!(!jobs.contains(&hook));
        bench.until(hook, JobState::Succeeded).await;
        let trigger = stored_trigger(&bench.client).await;
        assert_eq!((trigger.record.fired, trigger.last_job), (round, Some(hook)));
    }
    bench.worker.stop().await;
    assert!(bench.reports.try_recv().is_err(), "no other job ran");
}

#[tokio::test]
async fn a_worker_that_stops_after_the_last_job_still_puts_the_hook_in() {
    let mut bench = Bench::with(WorkerOptions { maintenance: false, ..options() }).await;
    bench.put(Act::Sleep { millis: 30 }).await;
    bench.started().await;
    assert_eq!(bench.worker.stop().await, Stopped::Clean);
    assert_eq!(stored_trigger(&bench.client).await.record.fired, 1);
}

/// Runs a job, as a process that dies right after it has stored the end.
async fn end_and_die(engine: &Arc<dyn Engine>) {
    let client = Client::new(Arc::clone(engine));
    client.register::<Act>().await.expect("the store is up");
    client.triggers().declare(&[when_all_is_done()], Origin::Code).await.expect("the store is up");
    client.enqueue(Act::Succeed).await.expect("the job is accepted");
    let worker = WorkerId::from_random(rand_bits());
    let spec = windlass::spec_of::<Act>().expect("the type is valid");
    let card = WorkerCard {
        id: worker,
        host: "here".to_owned(),
        pid: std::process::id(),
        version: "0".to_owned(),
        queues: vec![spec.queue.clone()],
        types: vec![spec.name.clone()],
        duties: Vec::new(),
        slots: 1,
        lease: Duration::from_secs(60),
    };
    engine.register(card).await.expect("the worker is registered");
    let request = ClaimRequest {
        token: ClaimToken::from_random(rand_bits()),
        repeat: false,
        worker,
        queues: vec![spec.queue.clone()],
        types: vec![spec.name],
        limit: 1,
        boosted_max: 0,
        suspects: Suspects::LeaveOut,
    };
    let ClaimAnswer::Claimed { mut jobs, .. } = engine.claim(request).await.expect("the store is up") else {
        panic!("the worker is live")
    };
    let claimed = jobs.pop().expect("the job is ready");
    let end = claimed.settled(Transition::Succeed { result: None }, AttemptReport::default());
    engine.settle(vec![end]).await.expect("the store is up");
}

fn rand_bits() -> u128 {
    use std::hash::{BuildHasher, Hasher};
    let bits = || std::collections::hash_map::RandomState::new().build_hasher().finish();
    u128::from(bits()) << 64 | u128::from(bits())
}

#[tokio::test]
async fn who_dies_between_the_end_and_the_hook_leaves_a_mark_that_the_duty_of_another_works_off() {
    let engine = crate::fresh_engine();
    end_and_die(&engine).await;
    let mut bench = Bench::on(Arc::clone(&engine), WorkerOptions::default()).await;
    let (hook, _) = bench.started().await;
    bench.until(hook, JobState::Succeeded).await;
    assert_eq!(stored_trigger(&bench.client).await.last_job, Some(hook));
}

#[tokio::test]
async fn two_workers_who_both_look_all_the_time_make_one_job_of_each_trigger() {
    let engine = crate::fresh_engine();
    let every = || WorkerOptions { maintenance_mode: windlass::duties::DutyMode::EveryWorker, ..options() };
    let first = Bench::on(Arc::clone(&engine), every()).await;
    let second = Bench::on(Arc::clone(&engine), every()).await;
    for round in 1..=3 {
        let mut jobs = Vec::new();
        for _ in 0..20 {
            jobs.push(first.put(Act::Sleep { millis: 5 }).await);
        }
        for id in jobs {
            second.until(id, JobState::Succeeded).await;
        }
        let fired = async {
            while stored_trigger(&first.client).await.record.fired == 0 || !is_quiet(&engine).await {
                // may sleep: it polls until the hook has run, and the test fails after a limit.
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(crate::bench::PATIENCE, fired).await.expect("the hook runs");
        assert!(stored_trigger(&first.client).await.record.fired >= round, "each round ends with a trigger");
    }
    let totals = engine.queues().await.expect("the store is up");
    let enqueued: u64 = totals.iter().map(|queue| queue.totals.enqueued).sum();
    assert_eq!(
        enqueued,
        60 + stored_trigger(&first.client).await.record.fired,
        "each firing enqueues one job"
    );
}

async fn is_quiet(engine: &Arc<dyn Engine>) -> bool {
    let queues = engine.queues().await.expect("the store is up");
    let marked = engine
        .triggers(&windlass::types::triggers::WhichTriggers::After(None, 10))
        .await
        .expect("the store is up");
    queues.iter().all(|queue| queue.counts.unfinished() == 0)
        && marked.triggers.iter().all(|trigger| !trigger.is_marked)
}

#[tokio::test]
async fn a_worker_with_a_wrong_trigger_does_not_start_and_stores_nothing() {
    let engine = crate::fresh_engine();
    let triggers = vec![when_all_is_done(), when_all_is_done()];
    let handlers = windlass::Handlers::new(()).handle(|_: Act| async {});
    let options = WorkerOptions { triggers, ..WorkerOptions::default() };
    let refused = windlass::Worker::start(Arc::clone(&engine), handlers, options).await;
    assert!(matches!(refused.err(), Some(StartError::CompletionTriggers(_))));
    let all = Client::new(engine).triggers().all().await.expect("the store is up");
    assert!(!all.any);
}
