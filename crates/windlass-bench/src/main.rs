//! `windlass-bench` measures Windlass on each engine, and baselines to compare it with. `cargo xtask bench`
//! builds and runs it.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};

mod scenarios;
mod workload;
mod handled;
mod drain;
mod pickup;
mod env;
mod quiesce;
mod memory;
mod baseline;
mod store;
mod session;
mod conditions;
mod figures;
mod report;

use report::Report;
use scenarios::{Choice, Scenario};
use store::Stores;

/// As shells count a process that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// Measures Windlass and, on request, baselines: the same work without Windlass.
#[derive(Debug, Parser)]
#[command(
    name = "windlass-bench",
    max_term_width = 100,
    after_help = "Examples:
  cargo xtask bench --engine sqlite --limit
  cargo xtask bench --engine postgres --scenario all --runs 3 --json
  cargo xtask bench --engine redis --limit
  cargo xtask bench --url postgres://user@localhost:5432/app --scenario drain,pinned --jobs 10000

Compare figures only within one run: machines differ, and the same machine differs from hour to hour. Ratios are
made within one run. Each scenario has a file, a schema or a namespace of its own, which is removed at the end."
)]
struct Options {
    /// The engine [default: sqlite, or what --url leads to]
    #[arg(long, value_enum)]
    engine: Option<EngineKind>,
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
    /// The number of jobs of `drain`; all other numbers scale with it
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    jobs: u64,
    /// Measure everything N times; the figures are medians
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=99))]
    runs: u32,
    /// The duration of `churn`
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Whether finished jobs are kept for seven days or not at all
    #[arg(long, value_enum, default_value_t = History::On)]
    history: History,
    /// How many handlers run at once
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    concurrency: u32,
    /// Also run the baselines, of the same durability and with the same rows, and print the ratios
    #[arg(long)]
    limit: bool,
    /// What a commit of SQLite waits for
    #[arg(long, value_enum, default_value_t = SyncMode::Full)]
    synchronous: SyncMode,
    /// The folder of the SQLite files
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Where jobs are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EngineKind {
    Memory,
    Sqlite,
    Postgres,
    Redis,
}

/// What a commit of SQLite waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SyncMode {
    Full,
    Normal,
}

/// Whether finished jobs are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum History {
    On,
    Off,
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    match bench(&options).await {
        Ok(code) => code,
        Err(error) => match error.downcast::<clap::Error>() {
            Ok(usage) => usage.exit(),
            Err(error) => {
                eprintln!("error: {error:#}");
                ExitCode::FAILURE
            }
        },
    }
}

/// Measures and prints. The stores of a measurement are removed also if it fails or is interrupted.
async fn bench(options: &Options) -> Result<ExitCode> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let scenarios = Scenario::chosen(&options.scenarios, options.engine())?;
    let stores = Stores::new(options)?;
    let measured = tokio::select! {
        measured = measure(options, &scenarios, &stores) => Some(measured),
        _ = interrupt.recv() => None,
        _ = terminate.recv() => None,
    };
    let removed = stores.remove_all().await.context("the stores of the measurement could not be removed");
    let Some(measured) = measured else {
        eprintln!("interrupted");
        return removed.map(|()| ExitCode::from(INTERRUPTED));
    };
    measured.context("the measurement failed")?.print(options.json)?;
    removed.map(|()| ExitCode::SUCCESS)
}

/// Measures all scenarios once, then all once more, and so on: a disturbance of the machine then affects all
/// scenarios alike.
async fn measure(options: &Options, scenarios: &[Scenario], stores: &Stores) -> Result<Report> {
    if cfg!(debug_assertions) {
        eprintln!("this is a debug build; its figures mean nothing. Use `cargo xtask bench`");
    }
    let conditions = conditions::read(options, stores).await?;
    let mut runs = Vec::new();
    for run in 1..=options.runs {
        eprintln!("run {run} of {}", options.runs);
        runs.push(scenarios::run_all(options, scenarios, stores).await?);
    }
    Ok(Report { engine: options.engine().name(), conditions, results: figures::merge(runs) })
}

impl Options {
    fn engine(&self) -> EngineKind {
        let by_url = match &self.url {
            Some(url) if url.starts_with("redis://") || url.starts_with("rediss://") => EngineKind::Redis,
            Some(_) => EngineKind::Postgres,
            None => EngineKind::Sqlite,
        };
        self.engine.unwrap_or(by_url)
    }
}

impl EngineKind {
    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Redis => "redis",
        }
    }
}

impl SyncMode {
    fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Normal => "normal",
        }
    }
}

/// The command line asks for what cannot be done.
fn usage(message: impl std::fmt::Display) -> anyhow::Error {
    Options::command().error(ErrorKind::ValueValidation, message).into()
}
