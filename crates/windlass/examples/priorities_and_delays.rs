//! Urgent jobs first, delayed jobs when they are due, and a hook at enqueue that delays the jobs of
//! untrusted callers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use windlass::types::engine::Engine;
use windlass::types::enqueue::{NewJob, When};
use windlass::{
    Client, ClientOptions, Context, EnqueueHook, Handlers, JobType, MemoryEngine, QueueSpec, State, Worker,
    WorkerOptions,
};

#[derive(Serialize, Deserialize)]
struct Notify {
    text: String,
}

impl JobType for Notify {
    const NAME: &'static str = "notify";
    const QUEUE: &'static str = "notifications";
}

async fn notify(job: Notify, ctx: Context, State(started): State<Instant>) {
    let label = ctx.job().label.as_ref().map_or("-", |label| label.as_str());
    println!("  {:>4} ms  {label:<6}  {}", started.elapsed().as_millis(), job.text);
}

/// Delays jobs with the tag `trust:low` a little, whatever time was requested.
fn slow_down_low_trust() -> EnqueueHook {
    Arc::new(|job: &mut NewJob| {
        if job.tags.iter().any(|tag| tag.as_str() == "trust:low") {
            job.when = When::In(Duration::from_millis(200));
        }
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let options = ClientOptions { hooks: vec![slow_down_low_trust()], ..ClientOptions::default() };
    let client = Client::with_options(Arc::clone(&engine), options);
    client.register::<Notify>().await?;

    let text = |text: &str| Notify { text: text.to_owned() };
    client.enqueue(text("enqueued first, but low")).label("low").await?;
    client.enqueue(text("enqueued second")).label("normal").await?;
    client.enqueue(text("enqueued third, and urgent")).label("high").await?;
    client.enqueue(text("enqueued fourth, as urgent as the third")).label("high").await?;
    let delay = Duration::from_millis(100);
    client.enqueue(text("urgent, but delayed: holds up no other job")).label("high").delay(delay).await?;
    client.enqueue(text("from an untrusted caller")).label("high").tag("trust:low").await?;
    if let Err(why) = client.enqueue(text("never stored")).label("urgent").await {
        println!("Refused at enqueue: {why}");
    }

    println!("One worker with one slot:");
    let queue = QueueSpec { concurrency: 1, ..QueueSpec::new(Notify::QUEUE.parse()?) };
    let options = WorkerOptions { queues: vec![queue], ..WorkerOptions::default() };
    let mut worker = Worker::start(engine, Handlers::new(Instant::now()).handle(notify), options).await?;
    while client.queues().await?.iter().any(|queue| queue.counts.unfinished() > 0) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    worker.stop().await;
    Ok(())
}
