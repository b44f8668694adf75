//! A circuit breaker in front of a platform that goes down for a while.
//!
//! The jobs fetch twenty reports. The platform fails. After three failures the breaker stops all calls, and
//! the jobs wait without using up their attempts. A probe finds that the platform is back, and all jobs
//! continue.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use windlass::types::breaker::BreakerOptions;
use windlass::types::job::JobState;
use windlass::types::names::BreakerName;
use windlass::{
    BreakerSpec, Context, Handlers, JobType, LimitOptions, MemoryEngine, RetryPolicy, State, TypeSpec,
    Worker, WorkerOptions,
};

const REPORTS: u32 = 20;

#[derive(Serialize, Deserialize)]
struct FetchReport {
    id: u32,
}

impl JobType for FetchReport {
    const NAME: &'static str = "report.fetch";

    /// Three attempts: without a breaker, an outage of two seconds would make every report dead.
    fn defaults(spec: TypeSpec) -> TypeSpec {
        TypeSpec { retry: RetryPolicy::Fixed { every: Duration::from_millis(100), attempts: 3 }, ..spec }
    }
}

/// A platform that is down for its first two seconds.
#[derive(Clone)]
struct Platform {
    up_from: Instant,
    calls: Arc<AtomicU32>,
}

impl Platform {
    async fn fetch(&self, id: u32) -> Result<String, String> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let answer = match Instant::now() < self.up_from {
            true => Err("503 service unavailable".to_owned()),
            false => Ok(format!("report {id}")),
        };
        println!("  call {call:>2}: {}", answer.as_ref().map_or_else(String::as_str, String::as_str));
        answer
    }
}

async fn fetch_report(
    job: FetchReport,
    ctx: Context,
    State(platform): State<Platform>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    // While the breaker is open this returns an error at once, and the job waits until the platform may be
    // called.
    let report = ctx.breaker("shop").call(platform.fetch(job.id)).await.map_err(|why| why.to_string())?;
    ctx.log(report);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let platform = Platform { up_from: Instant::now() + Duration::from_secs(2), calls: Arc::default() };
    let options = BreakerOptions {
        failures_in_a_row: Some(3),
        open_cooldown: Duration::from_millis(700),
        ..BreakerOptions::default()
    };
    let shop = BreakerSpec { options, ..BreakerSpec::new(BreakerName::parse("shop")?) };
    let limits = LimitOptions { breakers: vec![shop], ..LimitOptions::default() };
    let handlers = Handlers::new(platform.clone()).handle(fetch_report);
    let options = WorkerOptions { limits, ..WorkerOptions::default() };
    let mut worker = Worker::start(Arc::new(MemoryEngine::new()), handlers, options).await?;

    println!("Fetching {REPORTS} reports from a platform that is down for two seconds.");
    let enqueued = worker.client().enqueue_many((1..=REPORTS).map(|id| FetchReport { id })).await?;
    let jobs = enqueued
        .into_iter()
        .map(|enqueued| enqueued.map(|enqueued| enqueued.id))
        .collect::<Result<Vec<_>, _>>()?;

    for id in jobs {
        loop {
            let record = worker.client().job(id).await?.ok_or("the job is known")?;
            if record.job_state().has_ended() {
                assert_eq!(record.job_state(), JobState::Succeeded);
                break;
            }
            // A short interval, which costs little.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let calls = platform.calls.load(Ordering::SeqCst);
    println!("All {REPORTS} reports are fetched, after {calls} calls.");
    worker.stop().await;
    Ok(())
}
