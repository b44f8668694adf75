//! Compares the reports of affiliates with the counts of a platform: the normal case, and a report whose
//! data is not available yet. Both timelines are printed as they happen. Jobs are in memory; with
//! `USE_REDIS_QUEUE=true` (and the features `redis` and `fallback`) they are in Redis, and in memory while
//! Redis is unavailable.
//!
//! ```console
//! cargo run -p windlass --example affiliate_reports
//! USE_REDIS_QUEUE=true cargo run -p windlass --features redis,fallback --example affiliate_reports
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use windlass::{
    Attempt, Context, Handlers, JobType, MemoryEngine, Outcome, State, Worker, WorkerOptions, select,
};

/// How long a report waits if the platform does not have its data yet. In production it would be half an
/// hour.
const RETRY_AFTER: Duration = Duration::from_millis(400);

/// A report that an affiliate has submitted.
#[derive(Serialize, Deserialize)]
struct Reconcile {
    report: u32,
    clicks: u64,
}

impl JobType for Reconcile {
    const NAME: &'static str = "affiliate.reconcile";
}

/// The state of the example: its start, how often the platform was queried for report 102, and how many
/// reports are left.
#[derive(Clone)]
struct App {
    began: Instant,
    queries: Arc<AtomicU32>,
    left: Arc<watch::Sender<usize>>,
}

impl App {
    fn say(&self, what: &str) {
        println!("T+{:>4}ms  {what}", self.began.elapsed().as_millis());
    }

    /// The count of the platform. It has nothing for report 102 until the second query.
    fn fetch(&self, report: u32) -> Option<u64> {
        match report {
            102 if self.queries.fetch_add(1, Ordering::SeqCst) == 0 => None,
            102 => Some(70),
            _ => Some(1_200),
        }
    }
}

/// Compares the affiliate's count with the platform's count. If the platform has no data yet, the job
/// snoozes, and the queue runs it again.
async fn reconcile(
    job: Reconcile,
    ctx: Context,
    Attempt(attempt): Attempt,
    State(app): State<App>,
) -> Outcome {
    let report = job.report;
    app.say(&format!("#{report} attempt {attempt}, correlation {}", correlation(&ctx)));
    match app.fetch(report) {
        None => {
            app.say(&format!("#{report} the platform has no data yet; retrying in {RETRY_AFTER:?}"));
            Outcome::Snooze(RETRY_AFTER)
        }
        Some(counted) if counted == job.clicks => {
            app.say(&format!("#{report} matched: {counted} clicks"));
            app.left.send_modify(|left| *left -= 1);
            Outcome::Done
        }
        Some(counted) => {
            app.say(&format!("#{report} mismatch: {} clicks reported, {counted} counted", job.clicks));
            app.left.send_modify(|left| *left -= 1);
            Outcome::Dead(format!("{} clicks reported, {counted} counted", job.clicks))
        }
    }
}

fn correlation(ctx: &Context) -> String {
    ctx.job().correlation.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let reports = [(101, 1_200, "normal"), (102, 70, "normal"), (103, 9_000, "high")];
    let left = Arc::new(watch::Sender::new(reports.len()));
    let app = App { began: Instant::now(), queries: Arc::default(), left };
    let engine = select::from_env(Arc::new(MemoryEngine::for_spool())).await?;
    let handlers = Handlers::new(app.clone()).handle(reconcile);
    let mut worker = Worker::start(engine, handlers, WorkerOptions::default()).await?;
    let client = worker.client().clone();

    for (report, clicks, label) in reports {
        let job = Reconcile { report, clicks };
        client.enqueue(job).label(label).correlation(&format!("report-{report}")).await?;
        app.say(&format!("#{report} enqueued, priority {label}"));
    }
    let snapshot = client.snapshot().await?;
    app.say(&format!("{} in the queue, engine {}", snapshot.depth, snapshot.active_engine));
    app.left.subscribe().wait_for(|left| *left == 0).await?;
    worker.stop().await;
    let snapshot = client.snapshot().await?;
    let dead: u64 = snapshot.queues.iter().map(|queue| queue.counts.dead_letters).sum();
    app.say(&format!("{} left; {dead} report is a dead letter and needs a person", snapshot.depth));
    Ok(())
}
