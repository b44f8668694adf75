//! Backfills many wallets, and reclassifies and recalculates once all of them have finished: not after
//! each, not while one still runs, and once for all processes. Later backfills are followed by another
//! recalculation.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::types::engine::Engine;
use windlass::types::error::EngineError;
use windlass::{
    Client, CompletionTrigger, EnqueueError, Handlers, JobTemplate, JobType, MemoryEngine, QueueSpec,
    Watched, Worker, WorkerOptions,
};

#[derive(Serialize, Deserialize)]
struct Backfill {
    wallet: String,
    network: String,
}

impl JobType for Backfill {
    const NAME: &'static str = "wallet.backfill";
    const QUEUE: &'static str = "backfill";
}

/// The job that runs when the backlog is finished. It may be in any queue, also in the queue that the
/// trigger watches.
#[derive(Serialize, Deserialize)]
struct Reclassify {}

impl JobType for Reclassify {
    const NAME: &'static str = "wallet.reclassify";
    const QUEUE: &'static str = "backfill";
}

async fn backfill(job: Backfill) {
    // The work of the backfill.
    tokio::time::sleep(Duration::from_millis(30)).await;
    println!("  {}:{} is backfilled", job.wallet, job.network);
}

async fn reclassify(_: Reclassify) {
    println!("  the backlog is finished: reclassified and recalculated");
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let when_finished = CompletionTrigger::new(
        "reclassify".parse()?,
        Watched::Queue(Backfill::QUEUE.parse()?),
        JobTemplate::new(Reclassify::NAME.parse()?),
    );
    let queue = QueueSpec { concurrency: 4, ..QueueSpec::new(Backfill::QUEUE.parse()?) };
    let options =
        WorkerOptions { queues: vec![queue], triggers: vec![when_finished], ..WorkerOptions::default() };
    let handlers = Handlers::new(()).handle(backfill).handle(reclassify);
    let mut worker = Worker::start(Arc::clone(&engine), handlers, options).await?;

    println!("Two wallets on three networks.");
    add(worker.client(), &["ada", "bob"]).await?;
    wait_for(&engine, 1).await?;
    println!("Another wallet is added later.");
    add(worker.client(), &["cyd"]).await?;
    wait_for(&engine, 2).await?;

    worker.stop().await;
    let trigger = worker.client().triggers().find(&"reclassify".parse()?).await?;
    println!("Recalculated {} times for 9 backfills.", trigger.record.fired);
    Ok(())
}

async fn add(client: &Client, wallets: &[&str]) -> Result<(), EnqueueError> {
    for wallet in wallets {
        for network in ["mainnet", "sidenet", "slownet"] {
            let (wallet, network) = ((*wallet).to_owned(), network.to_owned());
            client.enqueue(Backfill { wallet, network }).await?;
        }
    }
    Ok(())
}

/// Waits until the trigger has fired the given number of times and its jobs have run.
async fn wait_for(engine: &Arc<dyn Engine>, times: u64) -> Result<(), EngineError> {
    let triggers = Client::new(Arc::clone(engine)).triggers();
    loop {
        let fired = triggers
            .all()
            .await
            .map_or(0, |all| all.triggers.iter().map(|trigger| trigger.record.fired).sum());
        let unfinished: u64 = engine.queues().await?.iter().map(|queue| queue.counts.unfinished()).sum();
        if fired >= times && unfinished == 0 {
            return Ok(());
        }
        // may sleep: no notification tells an example that all jobs have run.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
