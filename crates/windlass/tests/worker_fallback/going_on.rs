//! Workers, consumers and producers continue while the server is killed, cut off or unavailable from the
//! start.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use windlass::dequeue::{Consumer, Next};
use windlass::types::fallback::Side;
use windlass::types::spool::Spool;
use windlass::{Client, Context, EnqueueOutcome, Handlers, JobType, State, Stopped, Worker, spec_of};

use crate::primary::{
    PATIENCE, Primary, memory, options, sqlite, status, totals, until, until_away, until_back,
};

/// How often the server becomes unavailable under load: killed and cut off in turn.
const ROUNDS: u64 = 4;

#[derive(Serialize, Deserialize)]
struct Count {
    number: usize,
}

impl JobType for Count {
    const NAME: &'static str = "count";
}

/// How often each number was handled.
type Seen = Arc<Mutex<HashMap<usize, u32>>>;

async fn count(job: Count, ctx: Context, State(seen): State<Seen>) {
    if job.number.is_multiple_of(50) && Side::of(ctx.job().id) == Side::Spool {
        ctx.progress(50, Some("half way")).await.expect("a job of the spool may report its progress");
    }
    *seen.lock().unwrap().entry(job.number).or_default() += 1;
}

fn handlers(seen: &Seen) -> Handlers<Seen> {
    Handlers::new(Arc::clone(seen)).handle(count)
}

/// Enqueues jobs until it is stopped, and returns how many were acknowledged: every number below the
/// result.
async fn produce(client: Client, stop: Arc<AtomicBool>) -> usize {
    let mut number = 0;
    while !stop.load(Ordering::SeqCst) {
        client
            .enqueue(Count { number })
            .await
            .expect("an enqueue succeeds, whether the server is available or not");
        number += 1;
    }
    number
}

async fn everything_ends_once(mut primary: Primary, spool: Arc<dyn Spool>) {
    let engine = primary.with(Arc::clone(&spool)).await;
    let seen = Seen::default();
    let mut worker = Worker::start(engine.clone(), handlers(&seen), options()).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let producer = tokio::spawn(produce(worker.client().clone(), Arc::clone(&stop)));
    for round in 1..=ROUNDS {
        let is_killed = round % 2 == 1;
        if is_killed {
            primary.kill()
        } else {
            primary.cut()
        }
        let before = seen.lock().unwrap().len();
        until_away(&engine).await;
        until(&engine, "jobs of the spool have run", async || seen.lock().unwrap().len() > before + 20).await;
        if is_killed {
            primary.restart()
        } else {
            primary.reconnect()
        }
        until(&engine, "the store is back", async || status(&engine).await.switches == 2 * round).await;
        let before = seen.lock().unwrap().len();
        until(&engine, "jobs of the store have run", async || seen.lock().unwrap().len() > before + 20).await;
    }
    stop.store(true, Ordering::SeqCst);
    let acknowledged = producer.await.unwrap();
    until(&engine, "all jobs have ended", async || {
        worker.client().snapshot().await.is_ok_and(|now| now.depth == 0)
    })
    .await;
    assert_eq!(worker.stop().await, Stopped::Clean);

    let (there, here) = (totals(&*primary.store().await).await, totals(&*spool).await);
    let fallback = status(&engine).await;
    assert_eq!((there.succeeded + here.succeeded) as usize, acknowledged, "{there:?} {here:?} {fallback:?}");
    assert_eq!(
        (here.cancelled, there.dead + here.dead),
        (fallback.returned, 0),
        "jobs that moved are cancelled in the spool"
    );
    assert_eq!(fallback.uncertain, 0);
    let seen = seen.lock().unwrap();
    assert!((0..acknowledged).all(|number| seen.contains_key(&number)), "a job was lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_goes_on_while_its_redis_is_killed_again_and_again_and_every_job_ends_once() {
    everything_ends_once(Primary::redis(), memory()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_holds_with_a_spool_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    everything_ends_once(Primary::redis(), sqlite(folder.path())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_goes_on_while_its_postgres_is_killed_again_and_again_and_every_job_ends_once() {
    let folder = tempfile::tempdir().unwrap();
    everything_ends_once(Primary::postgres(), sqlite(folder.path())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_starts_while_its_redis_is_away_works_from_the_spool_and_joins_redis_later() {
    let mut primary = Primary::redis();
    primary.kill();
    let engine = primary.with(memory()).await;
    let seen = Seen::default();
    let mut worker = Worker::start(engine.clone(), handlers(&seen), options()).await.unwrap();
    let enqueued = worker.client().enqueue(Count { number: 0 }).await.unwrap();
    assert_eq!(enqueued.outcome, EnqueueOutcome::Spooled);
    until(&engine, "the job has run", async || seen.lock().unwrap().contains_key(&0)).await;
    primary.restart();
    until_back(&engine).await;
    let enqueued = worker.client().enqueue(Count { number: 1 }).await.unwrap();
    assert_eq!(enqueued.outcome, EnqueueOutcome::New);
    until(&engine, "the second job has run", async || seen.lock().unwrap().contains_key(&1)).await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_gets_jobs_of_the_spool_and_of_the_store() {
    let mut primary = Primary::redis();
    let engine = primary.with(memory()).await;
    let types = vec![spec_of::<Count>().unwrap()];
    let consumer = Consumer::start(engine.clone(), types, options()).await.unwrap();
    let pull = async |number: usize| {
        consumer.client().enqueue(Count { number }).await.unwrap();
        let Next::Job(held) = consumer.next_within(PATIENCE).await else { panic!("expected a job") };
        assert_eq!(held.payload::<Count>().unwrap().number, number);
        held.succeed().await.unwrap();
    };
    pull(0).await;
    primary.kill();
    until_away(&engine).await;
    pull(1).await;
    primary.restart();
    until_back(&engine).await;
    pull(2).await;
    consumer.request_drain();
    assert!(matches!(consumer.next_within(PATIENCE).await, Next::Drained));
    assert_eq!(consumer.stop().await, Stopped::Clean);
}
