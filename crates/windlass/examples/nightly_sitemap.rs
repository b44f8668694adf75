//! Builds a sitemap every night at two, in Berlin, also on the two nights on which clocks change. A night
//! that was missed because no process ran is caught up on once. A second schedule, for every second, shows
//! the same at a pace that one can watch.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use windlass::types::clock::Timestamp;
use windlass::types::engine::Engine;
use windlass::types::names::{ScheduleName, TypeName};
use windlass::types::schedule::{Holidays, Schedule};
use windlass::{
    Context, Handlers, JobTemplate, JobType, MemoryEngine, ScheduleSpec, State, Worker, WorkerOptions,
};

#[derive(Serialize, Deserialize)]
struct BuildSitemap {}

impl JobType for BuildSitemap {
    const NAME: &'static str = "sitemap.build";
}

/// Reports that a sitemap was built.
type Built = mpsc::Sender<String>;

async fn build(_job: BuildSitemap, ctx: Context, State(built): State<Built>) -> Result<(), std::io::Error> {
    let tick = ctx.job().key.as_ref().map(|claim| claim.key.to_string()).unwrap_or_default();
    let _ = built.send(tick).await;
    Ok(())
}

fn schedule(name: &str, text: &str) -> Result<ScheduleSpec, Box<dyn std::error::Error>> {
    let job = JobTemplate::new(TypeName::parse(BuildSitemap::NAME)?);
    Ok(ScheduleSpec::new(ScheduleName::parse(name)?, Schedule::parse(text)?, job))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let nightly = schedule("sitemap", "daily at 02:00, Europe/Berlin")?;
    println!("{}; over the night on which clocks go forward:", nightly.schedule.words());
    let before = Timestamp::parse("2027-03-26T12:00:00Z")?;
    for tick in nightly.schedule.ticks_after(before, &Holidays::default()).take(3) {
        println!("  {}", nightly.schedule.zone().reading_for_people(tick));
    }

    let (built, mut seen) = mpsc::channel(8);
    let quick = schedule("sitemap-demo", "every 1s")?;
    let options = WorkerOptions { schedules: vec![nightly, quick], ..WorkerOptions::default() };
    let mut worker = Worker::start(engine, Handlers::new(built).handle(build), options).await?;
    for _ in 0..3 {
        println!("built for {}", seen.recv().await.unwrap_or_default());
    }
    worker.stop().await;
    Ok(())
}
