//! A worker on an engine made of two, while its primary comes and goes.
#![allow(clippy::unwrap_used, reason = "all of this is a test, also what tests share")]

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::core::admin::Totals;
use windlass::core::engine::{Admin, Engine};
use windlass::core::fallback::{FallbackStatus, Side, SwitchRules};
use windlass::core::spill::Spill;
use windlass::dequeue::{Consumer, Next};
use windlass::fallback::{Connect, FallbackEngine, FallbackOptions};
use windlass::redis::{RedisEngine, RedisOptions};
use windlass::sqlite::{SqliteEngine, SqliteOptions};
use windlass::{
    Client, Context, Handlers, JobType, MemoryEngine, Placement, State, Stopped, Worker, WorkerOptions,
    spec_of,
};
use windlass_servers::redis::{Options, Server};

/// Nothing in a test takes this long.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often the server is killed under load.
const ROUNDS: usize = 4;

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
    if job.number.is_multiple_of(50) && Side::of(ctx.job().id) == Side::Spill {
        ctx.progress(50, Some("half way")).await.expect("a job of the spill may tell how far it is");
    }
    *seen.lock().unwrap().entry(job.number).or_default() += 1;
}

fn handlers(seen: &Seen) -> Handlers<Seen> {
    Handlers::new(Arc::clone(seen)).handle(count)
}

fn server() -> Server {
    let settings = vec![("appendfsync".to_owned(), "always".to_owned())];
    Server::start(&Options { settings, ..Options::default() }).unwrap()
}

fn connect(server: &Server) -> Connect {
    let url = server.url();
    Arc::new(move || {
        let url = url.clone();
        Box::pin(async move {
            let engine = RedisEngine::connect(&url, RedisOptions::default()).await?;
            Ok(Arc::new(engine) as Arc<dyn Engine>)
        })
    })
}

fn quick() -> FallbackOptions {
    let rules = SwitchRules {
        failures: 2,
        successes: 2,
        away_min: Duration::from_millis(100),
        away_max: Duration::from_millis(100),
        ..SwitchRules::default()
    };
    FallbackOptions {
        check_timeout: Duration::from_secs(1),
        check_every: Duration::from_millis(20),
        adopt_after: Duration::from_millis(500),
        rules,
        ..FallbackOptions::default()
    }
}

async fn joined(server: &Server, spill: Arc<dyn Spill>) -> Arc<FallbackEngine> {
    Arc::new(FallbackEngine::open("redis", connect(server), spill, quick()).await.unwrap())
}

fn memory() -> Arc<dyn Spill> {
    Arc::new(MemoryEngine::for_spill())
}

fn sqlite(folder: &Path) -> Arc<dyn Spill> {
    Arc::new(SqliteEngine::open(folder.join("spill.db"), SqliteOptions::for_spill()).unwrap())
}

fn options() -> WorkerOptions {
    WorkerOptions {
        lease: Duration::from_secs(2),
        heartbeat_every: Duration::from_millis(500),
        sweep_every: Duration::from_millis(200),
        ..WorkerOptions::default()
    }
}

async fn status(engine: &FallbackEngine) -> FallbackStatus {
    engine.fallback().await.unwrap().expect("it can fall back")
}

/// Looks after each thing that the engine has heard, until it is so.
async fn until(engine: &FallbackEngine, what: &str, is_so: impl AsyncFn() -> bool) {
    let mut heard = engine.heard();
    let waiting = async {
        while !is_so().await {
            heard.changed().await.expect("the engine is kept");
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("waited in vain until {what}"));
}

/// Puts jobs in until told to stop, and gives how many were acknowledged: each number below that.
async fn produce(client: Client, stop: Arc<AtomicBool>) -> usize {
    let mut number = 0;
    while !stop.load(Ordering::SeqCst) {
        client.enqueue(Count { number }).await.expect("it goes on, whatever becomes of the server");
        number += 1;
    }
    number
}

async fn totals(store: &dyn Engine) -> Totals {
    let all = store.queues().await.unwrap();
    all.into_iter().find(|queue| queue.spec.name.as_str() == "default").expect("it is built in").totals
}

async fn everything_ends_once(spill: Arc<dyn Spill>) {
    let mut server = server();
    let engine = joined(&server, Arc::clone(&spill)).await;
    let seen = Seen::default();
    let mut worker = Worker::start(engine.clone(), handlers(&seen), options()).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let producer = tokio::spawn(produce(worker.client().clone(), Arc::clone(&stop)));
    for round in 1..=ROUNDS {
        tokio::task::block_in_place(|| server.kill().unwrap());
        let before = seen.lock().unwrap().len();
        until(&engine, "the store is away", async || status(&engine).await.active != "redis").await;
        until(&engine, "jobs of the spill are run", async || seen.lock().unwrap().len() > before + 20).await;
        tokio::task::block_in_place(|| server.restart().unwrap());
        until(&engine, "the store is back", async || status(&engine).await.switches == 2 * round as u64)
            .await;
        let before = seen.lock().unwrap().len();
        until(&engine, "jobs of the store are run", async || seen.lock().unwrap().len() > before + 20).await;
    }
    stop.store(true, Ordering::SeqCst);
    let acknowledged = producer.await.unwrap();
    until(&engine, "all has ended", async || {
        worker.client().snapshot().await.is_ok_and(|now| now.depth == 0)
    })
    .await;
    assert_eq!(worker.stop().await, Stopped::Clean);

    let primary = RedisEngine::connect(&server.url(), RedisOptions::default()).await.unwrap();
    let (there, here) = (totals(&primary).await, totals(&*spill).await);
    let told = status(&engine).await;
    assert_eq!((there.succeeded + here.succeeded) as usize, acknowledged, "{there:?} {here:?} {told:?}");
    assert_eq!(
        (here.cancelled, there.dead + here.dead),
        (told.returned, 0),
        "what moved ended here as moved"
    );
    assert_eq!(told.uncertain, 0);
    let seen = seen.lock().unwrap();
    assert!((0..acknowledged).all(|number| seen.contains_key(&number)), "none was lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_goes_on_while_its_redis_is_killed_again_and_again_and_every_job_ends_once() {
    everything_ends_once(memory()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_holds_with_a_spill_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    everything_ends_once(sqlite(folder.path())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_starts_while_its_redis_is_away_works_from_the_spill_and_joins_redis_later() {
    let mut server = server();
    tokio::task::block_in_place(|| server.kill().unwrap());
    let engine = joined(&server, memory()).await;
    let seen = Seen::default();
    let mut worker = Worker::start(engine.clone(), handlers(&seen), options()).await.unwrap();
    let placed = worker.client().enqueue(Count { number: 0 }).await.unwrap();
    assert_eq!(placed.how, Placement::Spilled);
    until(&engine, "it was run", async || seen.lock().unwrap().contains_key(&0)).await;
    tokio::task::block_in_place(|| server.restart().unwrap());
    until(&engine, "the store is back", async || status(&engine).await.active == "redis").await;
    let placed = worker.client().enqueue(Count { number: 1 }).await.unwrap();
    assert_eq!(placed.how, Placement::New);
    until(&engine, "it was run, too", async || seen.lock().unwrap().contains_key(&1)).await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_gets_jobs_of_the_spill_and_of_the_store() {
    let mut server = server();
    let engine = joined(&server, memory()).await;
    let types = vec![spec_of::<Count>().unwrap()];
    let consumer = Consumer::start(engine.clone(), types, options()).await.unwrap();
    let pull = async |number: usize| {
        consumer.client().enqueue(Count { number }).await.unwrap();
        let Next::Job(held) = consumer.next_within(Duration::from_secs(20)).await else {
            panic!("expected a job")
        };
        assert_eq!(held.payload::<Count>().unwrap().number, number);
        held.succeed().await.unwrap();
    };
    pull(0).await;
    tokio::task::block_in_place(|| server.kill().unwrap());
    until(&engine, "the store is away", async || status(&engine).await.active != "redis").await;
    pull(1).await;
    tokio::task::block_in_place(|| server.restart().unwrap());
    until(&engine, "the store is back", async || status(&engine).await.active == "redis").await;
    pull(2).await;
    consumer.request_drain();
    assert!(matches!(consumer.next_within(Duration::from_secs(20)).await, Next::Drained));
    assert_eq!(consumer.stop().await, Stopped::Clean);
}
