//! Rate limits for each tenant: at enqueue, where the caller gets an error with the time to retry, and
//! before jobs run, where jobs wait. One busy tenant does not hold up the others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use windlass::limits::{LimitAt, LimitScope};
use windlass::types::names::{LimitName, TypeName};
use windlass::types::rate_limit::{KeyBy, RateLimit};
use windlass::{
    EnqueueError, Handlers, JobType, LimitOptions, MemoryEngine, RateLimitSpec, State, Worker, WorkerOptions,
};

#[derive(Serialize, Deserialize)]
struct Export {
    tenant: String,
    page: u32,
}

impl JobType for Export {
    const NAME: &'static str = "export";
}

async fn export(job: Export, State(began): State<Instant>) {
    println!("  {:>5.1?}s  {} page {}", began.elapsed().as_secs_f32(), job.tenant, job.page);
}

fn limit(name: &str, limit: RateLimit, at: LimitAt) -> Result<RateLimitSpec, Box<dyn std::error::Error>> {
    let limit = RateLimit { by: KeyBy::Payload("/tenant".to_owned()), ..limit };
    let types = vec![TypeName::parse(Export::NAME)?];
    Ok(RateLimitSpec { name: LimitName::parse(name)?, limit, scope: LimitScope::Store, at, types })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let second = Duration::from_secs(1);
    let rate_limits = vec![
        limit("exports-in", RateLimit { burst: 6, ..RateLimit::new(6, second * 60) }, LimitAt::Enqueue)?,
        limit("exports-run", RateLimit { burst: 2, ..RateLimit::new(2, second) }, LimitAt::Run)?,
    ];
    let limits = LimitOptions { rate_limits, ..LimitOptions::default() };
    let handlers = Handlers::new(Instant::now()).handle(export);
    let options = WorkerOptions { limits, ..WorkerOptions::default() };
    let mut worker = Worker::start(Arc::new(MemoryEngine::new()), handlers, options).await?;

    println!("Two tenants; each may enqueue 6 exports a minute, and 2 a second run for each.");
    for tenant in ["ada", "bob"] {
        for page in 1..=8 {
            match worker.client().enqueue(Export { tenant: tenant.to_owned(), page }).await {
                Ok(_) => {}
                Err(EnqueueError::RateLimited(refused)) => {
                    println!("  {tenant} page {page} is refused: retry in {:.0?}", refused.retry_after);
                }
                Err(other) => return Err(other.into()),
            }
        }
    }
    while worker.client().queues().await?.iter().any(|queue| queue.counts.unfinished() > 0) {
        // A short interval, which costs little.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    worker.stop().await;
    Ok(())
}
