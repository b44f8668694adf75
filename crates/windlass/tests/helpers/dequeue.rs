//! Consumers, which pull jobs without handlers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass::dequeue::{Consumer, EndError, HeldJob, Next};
use windlass::types::admin::AttemptEnding;
use windlass::types::engine::Engine;
use windlass::types::job::JobState;
use windlass::types::names::TriggerName;
use windlass::types::settle::Settled;
use windlass::{
    CompletionTrigger, EnqueueError, JobId, JobTemplate, MemoryEngine, Outcome, QueueSpec, StartError,
    Stopped, Watched, WorkerOptions, spec_of,
};

use crate::jobs::{Mail, Work};

const PATIENCE: Duration = Duration::from_secs(60);
const BRIEF: Duration = Duration::from_millis(20);

async fn consumer_with(options: WorkerOptions) -> Consumer {
    let types =
        [spec_of::<Mail>(), spec_of::<Work>()].map(|spec| spec.expect("the names are valid")).to_vec();
    Consumer::start(Arc::new(MemoryEngine::new()), types, options).await.expect("the consumer starts")
}

async fn consumer() -> Consumer {
    consumer_with(WorkerOptions::default()).await
}

async fn put(consumer: &Consumer, user: u64) -> JobId {
    consumer.client().enqueue(Mail { user }).await.expect("the job is accepted").id
}

async fn next(consumer: &Consumer) -> HeldJob {
    match consumer.next_within(PATIENCE).await {
        Next::Job(held) => held,
        other => panic!("expected a job, got {other:?}"),
    }
}

async fn job_state(consumer: &Consumer, id: JobId) -> JobState {
    consumer.client().job(id).await.expect("the memory engine answers").expect("the job is known").job_state()
}

/// Waits for a state that the job reaches by itself, such as that of a dropped job, which is given back.
async fn until(consumer: &Consumer, id: JobId, wanted: JobState) {
    let look = async {
        while job_state(consumer, id).await != wanted {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.unwrap_or_else(|_| panic!("job {id} should be {wanted}"));
}

#[tokio::test]
async fn a_job_is_handed_out_and_succeeds() {
    let consumer = consumer().await;
    let id = put(&consumer, 7).await;
    let held = next(&consumer).await;
    assert_eq!((held.job().id, held.payload::<Mail>().unwrap()), (id, Mail { user: 7 }));
    assert_eq!(job_state(&consumer, id).await, JobState::Running);
    assert_eq!(held.succeed().await, Ok(Settled::Applied));
    assert_eq!(job_state(&consumer, id).await, JobState::Succeeded);
}

#[tokio::test]
async fn nothing_is_claimed_before_a_caller_asks() {
    let consumer = consumer().await;
    let (first, second) = (put(&consumer, 1).await, put(&consumer, 2).await);
    let held = next(&consumer).await;
    assert_eq!(held.job().id, first);
    held.succeed().await.unwrap();
    assert_eq!(job_state(&consumer, second).await, JobState::Ready);
}

#[tokio::test]
async fn without_a_job_the_wait_times_out() {
    let consumer = consumer().await;
    consumer.client().enqueue(Mail { user: 1 }).delay(PATIENCE * 60).await.unwrap();
    assert!(matches!(consumer.next_within(BRIEF).await, Next::TimedOut));
}

#[tokio::test]
async fn a_new_job_wakes_a_waiting_caller_at_once() {
    let consumer = consumer().await;
    let (held, id) = tokio::join!(next(&consumer), async {
        some_turns(50).await;
        put(&consumer, 1).await
    });
    assert_eq!(held.job().id, id);
}

#[tokio::test]
async fn a_delayed_job_wakes_a_waiting_caller_when_it_falls_due() {
    // Polling is too rare to find the job.
    let queues = QueueSpec::built_in();
    let queues = queues.into_iter().map(|queue| QueueSpec { poll_interval: PATIENCE * 60, ..queue });
    let consumer =
        consumer_with(WorkerOptions { queues: queues.collect(), ..WorkerOptions::default() }).await;
    let started = Instant::now();
    consumer.client().enqueue(Mail { user: 1 }).delay(BRIEF).await.unwrap();
    next(&consumer).await.succeed().await.unwrap();
    assert!(started.elapsed() >= BRIEF);
}

#[tokio::test]
async fn a_failed_job_waits_for_its_retry_with_its_error() {
    let consumer = consumer().await;
    let id = put(&consumer, 1).await;
    next(&consumer).await.fail("no such mailbox").await.unwrap();
    let record = consumer.client().job(id).await.unwrap().unwrap();
    assert_eq!((record.job_state(), record.job.counters.failures), (JobState::Scheduled, 1));
    assert_eq!(record.last_error.unwrap().text, "no such mailbox");
}

#[tokio::test]
async fn snoozed_and_given_back_jobs_cost_no_failure() {
    let consumer = consumer().await;
    let id = put(&consumer, 1).await;
    next(&consumer).await.give_back().await.unwrap();
    assert_eq!(job_state(&consumer, id).await, JobState::Ready);
    next(&consumer).await.snooze(PATIENCE).await.unwrap();
    let record = consumer.client().job(id).await.unwrap().unwrap();
    assert_eq!((record.job_state(), record.job.counters.failures), (JobState::Scheduled, 0));
    let endings: Vec<_> =
        consumer.client().engine().attempts(id).await.unwrap().iter().map(|a| a.ending).collect();
    assert_eq!(endings, [AttemptEnding::Released, AttemptEnding::Snoozed]);
}

#[tokio::test]
async fn a_job_that_is_dropped_is_given_back() {
    let consumer = consumer().await;
    let id = put(&consumer, 1).await;
    drop(next(&consumer).await);
    until(&consumer, id, JobState::Ready).await;
    assert_eq!(next(&consumer).await.job().counters.failures, 0);
}

#[tokio::test]
async fn a_job_that_no_caller_waits_for_any_more_goes_back_as_if_it_had_not_been_claimed() {
    let consumer = consumer().await;
    let mut stopped_waiting = 0;
    for turns in 0..30 {
        // The caller stops waiting at every possible moment, also between the claim and its answer.
        let id = put(&consumer, 1).await;
        let held = tokio::select! {
            biased;
            () = some_turns(turns) => {
                stopped_waiting += 1;
                next(&consumer).await
            }
            held = next(&consumer) => held,
        };
        assert_eq!((held.job().id, held.job().counters.attempts), (id, 1), "after {turns} turns");
        held.succeed().await.unwrap();
    }
    assert!(stopped_waiting > 1, "the caller stopped waiting at several moments");
}

/// Yields to the other tasks the given number of times.
async fn some_turns(turns: u32) {
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_handlers_ways_to_end_are_a_held_jobs_too() {
    let consumer = consumer().await;
    let id = put(&consumer, 1).await;
    let held = next(&consumer).await;
    held.context().log("this will not do");
    held.end(Outcome::Dead("hopeless".to_owned())).await.unwrap();
    assert_eq!(job_state(&consumer, id).await, JobState::Dead);
    let attempts = consumer.client().engine().attempts(id).await.unwrap();
    assert_eq!(attempts[0].output.as_deref(), Some("this will not do\n"));
}

#[tokio::test]
async fn a_request_to_stop_reaches_the_worker_that_holds_the_job() {
    let consumer = consumer().await;
    let id = put(&consumer, 1).await;
    let held = next(&consumer).await;
    consumer.client().engine().cancel(id, "changed my mind").await.unwrap();
    tokio::time::timeout(PATIENCE, held.context().cancelled()).await.expect("the request to stop arrives");
    held.succeed().await.unwrap();
    assert_eq!(job_state(&consumer, id).await, JobState::Cancelled);
}

#[tokio::test]
async fn two_who_wait_get_two_jobs() {
    let consumer = consumer().await;
    let (one, other, ()) = tokio::join!(next(&consumer), next(&consumer), async {
        put(&consumer, 1).await;
        put(&consumer, 2).await;
    });
    assert_ne!(one.job().id, other.job().id);
    one.succeed().await.unwrap();
    other.succeed().await.unwrap();
}

#[tokio::test]
async fn a_drain_hands_out_what_is_due_and_then_says_so() {
    let consumer = consumer().await;
    for user in 0..3 {
        put(&consumer, user).await;
    }
    let future = consumer.client().enqueue(Mail { user: 9 }).delay(PATIENCE).await.unwrap().id;
    consumer.request_drain();
    assert!(matches!(consumer.client().enqueue(Mail { user: 8 }).await, Err(EnqueueError::Draining)));
    for _ in 0..3 {
        next(&consumer).await.succeed().await.unwrap();
    }
    assert!(matches!(consumer.next_within(PATIENCE).await, Next::Drained));
    assert!(matches!(consumer.next_within(PATIENCE).await, Next::Drained), "for good");
    assert_eq!(job_state(&consumer, future).await, JobState::Scheduled);
}

#[tokio::test]
async fn a_caller_that_waits_when_a_drain_finds_nothing_is_told() {
    let consumer = consumer().await;
    let (waited, ()) = tokio::join!(consumer.next_within(PATIENCE), async {
        some_turns(50).await;
        consumer.request_drain();
    });
    assert!(matches!(waited, Next::Drained));
}

#[tokio::test]
async fn a_consumer_is_a_live_worker_until_it_stops() {
    let consumer = consumer().await;
    let engine = Arc::clone(consumer.client().engine());
    assert_eq!(engine.workers().await.unwrap().len(), 1);
    assert_eq!(consumer.stop().await, Stopped::Clean);
    assert!(engine.workers().await.unwrap().is_empty());
}

#[tokio::test]
async fn what_is_held_past_the_grace_of_a_stop_is_taken_back_and_its_end_refused() {
    let consumer = consumer_with(WorkerOptions { stop_grace: BRIEF, ..WorkerOptions::default() }).await;
    let id = put(&consumer, 1).await;
    let held = next(&consumer).await;
    let client = consumer.client().clone();
    assert_eq!(consumer.stop().await, Stopped::Clean);
    assert_eq!(client.job(id).await.unwrap().unwrap().job_state(), JobState::Ready);
    assert!(held.context().is_cancelled());
    assert_eq!(held.succeed().await, Err(EndError::ConsumerEnded));
}

#[tokio::test]
async fn a_dropped_consumer_leaves_the_store_once_its_jobs_have_ended() {
    let consumer = consumer().await;
    let engine = Arc::clone(consumer.client().engine());
    put(&consumer, 1).await;
    let held = next(&consumer).await;
    drop(consumer);
    assert_eq!(held.succeed().await, Ok(Settled::Applied));
    let gone = async {
        while !engine.workers().await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("the consumer leaves the store");
}

#[tokio::test]
async fn a_worker_that_was_declared_dead_learns_that_its_claim_is_lost() {
    let consumer = consumer().await;
    let engine: &Arc<dyn Engine> = consumer.client().engine();
    let id = put(&consumer, 1).await;
    let held = next(&consumer).await;
    let worker = engine.workers().await.unwrap()[0].card.id;
    engine.retire(worker).await.unwrap();
    assert_eq!(held.succeed().await, Ok(Settled::ClaimLost));
    assert_eq!(job_state(&consumer, id).await, JobState::Ready);
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn a_consumer_pulls_from_an_sqlite_file_too() {
    use windlass::sqlite::{SqliteEngine, SqliteOptions};
    let folder = tempfile::tempdir().unwrap();
    let engine = SqliteEngine::open(folder.path().join("jobs.db"), SqliteOptions::default()).unwrap();
    let types = vec![spec_of::<Mail>().unwrap()];
    let consumer = Consumer::start(Arc::new(engine), types, WorkerOptions::default()).await.unwrap();
    let (held, id) = tokio::join!(next(&consumer), put(&consumer, 1));
    assert_eq!(held.job().id, id);
    held.give_back().await.unwrap();
    consumer.request_drain();
    assert_eq!(next(&consumer).await.succeed().await, Ok(Settled::Applied));
    assert!(matches!(consumer.next_within(PATIENCE).await, Next::Drained));
    assert_eq!(job_state(&consumer, id).await, JobState::Succeeded);
}

#[tokio::test]
async fn a_consumer_without_types_is_refused() {
    let engine = Arc::new(MemoryEngine::new());
    let refused = Consumer::start(engine, vec![], WorkerOptions::default()).await;
    assert!(matches!(refused, Err(StartError::Options(_))));
}

#[tokio::test]
async fn the_triggers_of_its_options_are_stored_and_fire_when_a_held_job_ends() {
    let name = TriggerName::parse("done").expect("a valid name");
    let mails = spec_of::<Mail>().expect("the type is valid").name;
    let work = spec_of::<Work>().expect("the type is valid").name;
    let trigger = CompletionTrigger::new(name.clone(), Watched::Type(mails), JobTemplate::new(work.clone()));
    // Without duties, only this process evaluates triggers.
    let options = WorkerOptions { triggers: vec![trigger], maintenance: false, ..WorkerOptions::default() };
    let consumer = consumer_with(options).await;
    put(&consumer, 1).await;
    next(&consumer).await.succeed().await.expect("the end is stored");
    let hook = consumer.next_within(Duration::from_secs(10)).await;
    assert!(matches!(&hook, Next::Job(held) if held.job().job_type == work), "{hook:?}");
    drop(hook);
    let client = consumer.client().clone();
    put(&consumer, 2).await;
    let held = loop {
        let held = next(&consumer).await;
        if held.job().job_type != work {
            break held;
        }
        held.succeed().await.expect("the end is stored");
    };
    held.succeed().await.expect("the end is stored");
    consumer.stop().await;
    let stored = client.triggers().find(&name).await.expect("the trigger is stored");
    assert_eq!(stored.record.fired, 2, "a consumer that stops evaluates triggers a last time");
}
