//! A backlog of work items that are identified by a key: wallets, each on some network.
//!
//! Adding an item that is live changes nothing. A restart picks up unfinished items. An item that has
//! failed too often is dead, and stays dead until it is added again: that revives it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::types::engine::Engine;
use windlass::{
    Attempt, Client, EnqueueError, Enqueued, Handlers, JobType, KeyScope, MemoryEngine, OnConflict,
    QueueSpec, RetryPolicy, State, TypeSpec, Worker, WorkerOptions,
};

#[derive(Serialize, Deserialize)]
struct Backfill {
    wallet: String,
    network: String,
}

impl JobType for Backfill {
    const NAME: &'static str = "wallet.backfill";
    const QUEUE: &'static str = "backfill";

    /// `RetryPolicy::backfill()` waits minutes; this is the same policy in tenths of a second.
    fn defaults(spec: TypeSpec) -> TypeSpec {
        let (base, max) = (Duration::from_millis(100), Duration::from_secs(1));
        TypeSpec { retry: RetryPolicy::Backfill { base, max, attempts: 3 }, ..spec }
    }
}

/// Whether the slow network answers.
type NetworkIsUp = Arc<AtomicBool>;

async fn backfill(
    job: Backfill,
    Attempt(attempt): Attempt,
    State(up): State<NetworkIsUp>,
) -> Result<(), String> {
    println!("  {}:{} attempt {attempt}", job.wallet, job.network);
    tokio::time::sleep(Duration::from_millis(50)).await;
    match job.network.as_str() {
        "slownet" if !up.load(Ordering::SeqCst) => Err("slownet does not answer".to_owned()),
        _ => Ok(()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let up = NetworkIsUp::default();

    let mut worker = start(&engine, &up).await?;
    println!("Six items are enqueued; two slots run them.");
    for wallet in ["ada", "bob", "cyd"] {
        for network in ["mainnet", "slownet"] {
            add(worker.client(), wallet, network).await?;
        }
    }
    let again = add(worker.client(), "ada", "mainnet").await?;
    println!("Adding ada:mainnet again: {:?}, job {}.", again.outcome, again.id);

    tokio::time::sleep(Duration::from_millis(80)).await;
    worker.stopper().stop_now();
    worker.ended(None).await;
    println!("Stopped in the middle: {} items are unfinished.", unfinished(&engine).await?);

    println!("The next start picks them up without adding them again.");
    let mut worker = start(&engine, &up).await?;
    while unfinished(&engine).await? > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("{} items are dead: slownet never answered.", dead(&engine).await?);

    up.store(true, Ordering::SeqCst);
    let revived = add(worker.client(), "bob", "slownet").await?;
    println!("Slownet is back. Adding bob:slownet again: {:?}, job {}.", revived.outcome, revived.id);
    worker.drain().await;
    println!("{} items are still dead.", dead(&engine).await?);
    Ok(())
}

async fn start(engine: &Arc<dyn Engine>, up: &NetworkIsUp) -> Result<Worker, Box<dyn std::error::Error>> {
    let queue = QueueSpec { concurrency: 2, ..QueueSpec::new(Backfill::QUEUE.parse()?) };
    let options = WorkerOptions { queues: vec![queue], ..WorkerOptions::default() };
    let handlers = Handlers::new(Arc::clone(up)).handle(backfill);
    Ok(Worker::start(Arc::clone(engine), handlers, options).await?)
}

async fn add(client: &Client, wallet: &str, network: &str) -> Result<Enqueued, EnqueueError> {
    client
        .enqueue(Backfill { wallet: wallet.to_owned(), network: network.to_owned() })
        .key(&format!("{wallet}:{network}"))
        .key_scope(KeyScope::WhileLiveOrDead)
        .on_conflict(OnConflict::Revive)
        .await
}

async fn unfinished(engine: &Arc<dyn Engine>) -> Result<u64, windlass::types::error::EngineError> {
    Ok(engine.queues().await?.iter().map(|queue| queue.counts.unfinished()).sum())
}

async fn dead(engine: &Arc<dyn Engine>) -> Result<u64, windlass::types::error::EngineError> {
    Ok(engine.queues().await?.iter().map(|queue| queue.counts.dead_letters).sum())
}
