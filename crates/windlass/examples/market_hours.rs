//! Fetches stock prices every five minutes while the market is open, and at no other time: a window in New
//! York's time, on weekdays, except on the exchange's holidays. If one fetch takes too long, the next tick
//! is skipped.
//!
//! The example prints when it would run, then enqueues one job at once, so that it shows something at any
//! hour.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass::types::engine::Engine;
use windlass::types::names::{ScheduleName, TypeName};
use windlass::types::payload::Payload;
use windlass::types::schedule::{CatchUp, Holidays, Missed, Schedule};
use windlass::{
    Context, Handlers, JobTemplate, JobType, MemoryEngine, Overlap, ScheduleSpec, Worker, WorkerOptions,
};

#[derive(Serialize, Deserialize)]
struct RefreshStocks {
    market: String,
}

impl JobType for RefreshStocks {
    const NAME: &'static str = "stocks.refresh";
}

async fn refresh(job: RefreshStocks, ctx: Context) -> Result<(), std::io::Error> {
    let tick = ctx.job().key.as_ref().map(|claim| claim.key.to_string()).unwrap_or_default();
    println!("refreshing {} for {tick}", job.market);
    Ok(())
}

const HOLIDAYS: &str = "\
2027-01-01 New Year's Day
2027-07-05 Independence Day (observed)
2027-12-24 Christmas Day (observed)
";

fn market_hours() -> Result<ScheduleSpec, Box<dyn std::error::Error>> {
    let text = "every 5 minutes, 9:30-16:00, weekdays, except holidays, America/New_York";
    let job = JobTemplate {
        payload: Payload::encode(&RefreshStocks { market: "NYSE".into() })?,
        ..JobTemplate::new(TypeName::parse(RefreshStocks::NAME)?)
    };
    Ok(ScheduleSpec {
        holidays: Holidays::parse(HOLIDAYS)?,
        // Yesterday's prices are of no use today.
        catch_up: CatchUp { missed: Missed::Skip, ..CatchUp::default() },
        overlap: Overlap::Skip,
        ..ScheduleSpec::new(ScheduleName::parse("stocks")?, Schedule::parse(text)?, job)
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let spec = market_hours()?;
    let name = spec.name.clone();
    let options = WorkerOptions { schedules: vec![spec], ..WorkerOptions::default() };
    let mut worker = Worker::start(engine, Handlers::new(()).handle(refresh), options).await?;

    let schedules = worker.client().schedules();
    let (stored, now) = schedules.find(&name).await?;
    let spec = &stored.record.spec;
    println!("{}", spec.schedule.words());
    for tick in spec.schedule.ticks_after(now, &spec.holidays).take(3) {
        println!("next: {}", spec.schedule.zone().reading_for_people(tick));
    }

    schedules.run(&name).await?;
    worker.drain().await;
    Ok(())
}
