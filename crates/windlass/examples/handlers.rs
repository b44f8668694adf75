//! The arguments and return values of handlers, and what they can do while they run.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::types::engine::Engine;
use windlass::types::job::{JobState, StoredState};
use windlass::types::outcome::AttemptOutcome;
use windlass::{
    Attempt, Context, FromRef, Handlers, Hook, JobId, JobType, Json, MemoryEngine, Outcome, RetryPolicy,
    State, TypeSpec, Worker, WorkerOptions,
};

/// An order to ship.
#[derive(Serialize, Deserialize)]
struct Ship {
    order: u64,
}

impl JobType for Ship {
    const NAME: &'static str = "order.ship";
    fn defaults(spec: TypeSpec) -> TypeSpec {
        let retry = RetryPolicy::Fixed { every: Duration::from_millis(50), attempts: 3 };
        TypeSpec { timeout: Duration::from_secs(10), keep_result: true, retry, ..spec }
    }
}

#[derive(Serialize, Deserialize)]
struct Tell {
    text: String,
}

impl JobType for Tell {
    const NAME: &'static str = "customer.tell";
}

/// The application's state. Handlers take the parts they need.
#[derive(Clone)]
struct App {
    carrier: Carrier,
    signature: &'static str,
}

#[derive(Clone)]
struct Carrier;

impl FromRef<App> for Carrier {
    fn from_ref(app: &App) -> Self {
        app.carrier.clone()
    }
}

impl Carrier {
    async fn pick_up(&self, order: u64, attempt: u32) -> Result<String, std::io::Error> {
        match (order, attempt) {
            (2, 1) => Err(std::io::Error::other("the van broke down")),
            _ => Ok(format!("parcel {order}-{attempt}")),
        }
    }
}

/// Takes the job, its attempt, a part of the state and the context; returns a result that is kept.
async fn ship(
    job: Ship,
    Attempt(attempt): Attempt,
    State(carrier): State<Carrier>,
    ctx: Context,
) -> Result<Json<String>, Box<dyn std::error::Error + Send + Sync>> {
    ctx.progress(10, Some("waiting for the van")).await?;
    let parcel = carrier.pick_up(job.order, attempt).await?;
    ctx.log(format!("picked up {parcel}"));
    ctx.enqueue(Tell { text: format!("order {} is on its way", job.order) }).await?;
    Ok(Json(parcel))
}

/// Takes the whole state; returns the outcome of the job.
async fn tell(job: Tell, id: JobId, State(app): State<App>, Attempt(attempt): Attempt) -> Outcome {
    if attempt == 1 {
        return Outcome::Snooze(Duration::from_millis(30));
    }
    println!("  job {id} tells: {}, {}", job.text, app.signature);
    Outcome::Done
}

/// A hook that runs around every job.
struct Watch;

impl Hook for Watch {
    fn after(&self, ctx: &Context, outcome: &AttemptOutcome) {
        let job = ctx.job();
        println!("  job {} {} attempt {}: {outcome:?}", job.id, job.job_type, job.counters.attempts);
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let app = App { carrier: Carrier, signature: "yours, the shop" };
    let handlers = Handlers::new(app).handle(ship).handle(tell).hook(Watch);
    let mut worker = Worker::start(Arc::clone(&engine), handlers, WorkerOptions::default()).await?;

    let client = worker.client().clone();
    let smooth = client.enqueue(Ship { order: 1 }).correlation("cart 77").await?.id;
    let bumpy = client.enqueue(Ship { order: 2 }).await?.id;
    while client.queues().await?.iter().any(|queue| queue.counts.unfinished() > 0) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for id in [smooth, bumpy] {
        let Some(record) = client.job(id).await? else { continue };
        assert_eq!(record.job_state(), JobState::Succeeded);
        if let StoredState::Succeeded { result, .. } = record.state {
            println!("Job {id} gave {}.", result.unwrap_or_default());
        }
        for attempt in engine.attempts(id).await? {
            let wrote = attempt.output.unwrap_or_else(|| "nothing\n".to_owned());
            print!("  attempt {} {}, wrote: {wrote}", attempt.number, attempt.ending.as_str());
        }
    }
    worker.stop().await;
    Ok(())
}
