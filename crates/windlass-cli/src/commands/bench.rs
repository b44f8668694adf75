//! `windlass bench`: how fast this is, on this machine, and how near to the same work written by hand.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::config::RedisUrl;
use crate::exit::{Code, Failure};
use crate::output::Output;
use crate::signals::Signals;

mod scenarios;
mod load;
mod tally;
mod drain;
mod pickup;
mod env;
mod rest;
mod memory;
mod by_hand;
mod fixture;
mod session;
mod scratch;
mod conditions;
mod figures;
mod report;
mod progress;

use fixture::Fixture;
use progress::Progress;
use scenarios::{Choice, Scenario};

/// What to measure.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  windlass bench --engine sqlite --limit
  windlass bench --engine postgres --scenario all --runs 3 --json
  windlass bench --engine redis --limit
  windlass bench --url postgres://user@localhost:5432/app --scenario drain,pinned --jobs 10000

Compare figures only within one run: machines differ, and the same machine differs from hour to hour. Ratios are made
within one run. Files and schemas of a measurement are its own, and are removed at the end.")]
pub(crate) struct BenchArgs {
    /// The engine [default: sqlite, or what --url leads to]
    #[arg(long, value_enum)]
    engine: Option<BenchEngine>,
    /// The PostgreSQL or Redis server [default: $DATABASE_URL or $REDIS_URL]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// What to measure, separated by commas
    #[arg(
        long = "scenario",
        value_enum,
        value_name = "NAMES|all",
        value_delimiter = ',',
        default_value = "enqueue,drain,drain-without-history,latency"
    )]
    scenarios: Vec<Choice>,
    /// How many jobs `drain` has; everything else grows and shrinks with it
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    jobs: u64,
    /// How often all of it is measured; the figures are medians then
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=99))]
    runs: u32,
    /// How long `churn` goes on
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Whether finished jobs are kept for seven days or not at all
    #[arg(long, value_enum, default_value_t = History::On)]
    history: History,
    /// How many handlers run at once
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    concurrency: u32,
    /// Run the same work written by hand too, of the same durability and with the same rows, and print the ratios
    #[arg(long)]
    limit: bool,
    /// What SQLite waits for at a commit
    #[arg(long, value_enum, default_value_t = BenchSynchronous::Full)]
    synchronous: BenchSynchronous,
    /// Where the files of SQLite go
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BenchEngine {
    Memory,
    Sqlite,
    Postgres,
    Redis,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BenchSynchronous {
    Full,
    Normal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum History {
    On,
    Off,
}

/// Measures and prints. What was made for it is removed also if it fails or is interrupted.
pub(crate) async fn bench(args: &BenchArgs, output: &mut Output) -> Result<Code, Failure> {
    let mut signals = Signals::new()?;
    let scenarios = Scenario::chosen(&args.scenarios, args.engine())?;
    let fixture = Fixture::new(args)?;
    let progress = Progress::new(output.is_json());
    let measured = tokio::select! {
        measured = measure(args, &scenarios, &fixture, &progress) => measured,
        () = signals.next() => Err(Failure::new(Code::Interrupted, "interrupted")),
    };
    progress.done();
    let cleared = fixture.clear().await;
    report::print(&measured?, output)?;
    cleared.map(|()| Code::Ok)
}

/// Everything once, then everything once more, and so on: what disturbs the machine for a while then disturbs all
/// scenarios alike.
async fn measure(
    args: &BenchArgs,
    scenarios: &[Scenario],
    fixture: &Fixture,
    progress: &Progress,
) -> Result<report::Report, Failure> {
    let conditions = conditions::read(args, fixture).await?;
    let mut runs = Vec::new();
    for _ in 0..args.runs {
        runs.push(scenarios::run_all(args, scenarios, fixture, progress).await?);
    }
    Ok(report::Report { engine: fixture.engine_name(), conditions, results: figures::merge(runs) })
}

impl BenchArgs {
    fn engine(&self) -> BenchEngine {
        let by_url = match &self.url {
            Some(url) if RedisUrl::is_meant_by(url) => BenchEngine::Redis,
            Some(_) => BenchEngine::Postgres,
            None => BenchEngine::Sqlite,
        };
        self.engine.unwrap_or(by_url)
    }

    fn synchronous(&self) -> &'static str {
        match self.synchronous {
            BenchSynchronous::Full => "full",
            BenchSynchronous::Normal => "normal",
        }
    }
}

fn failed(why: impl std::fmt::Display) -> Failure {
    Failure::new(Code::Failed, format!("the measurement failed: {why}"))
}
