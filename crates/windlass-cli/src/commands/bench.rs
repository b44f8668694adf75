//! `windlass bench`: how fast Windlass is on the configured store, from this machine.

use clap::{Args, ValueEnum};

use crate::config::Config;
use crate::exit::{Code, Failure};
use crate::output::Output;
use crate::signals::Signals;

mod scenarios;
mod scratch;
mod report;

use report::Report;
use scratch::Scratch;

/// How to measure the configured store.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
What it does to your store: it never reads or changes your jobs. Each measurement creates a
store of its own, with a name that begins with windlass_bench_: a folder beside the SQLite file,
a schema in the same PostgreSQL database, or a namespace on the same Redis server. It is removed
at the end, also after a failure or Ctrl-C. The server does the work of all these jobs
meanwhile, so other work on it becomes slower. A PostgreSQL user needs the right to create
schemas.

Examples:
  windlass bench
  windlass bench --db postgres://user@localhost:5432/app --scenario drain,latency
  windlass bench --jobs 100000 --runs 3 --json

One process runs an empty handler; payloads have 100 bytes. Compare figures only within one machine
and hour.

Exit codes: 1 a job was lost or did not run; 69 the store cannot be used.")]
pub(crate) struct BenchArgs {
    /// What to measure, separated by commas
    #[arg(
        long = "scenario",
        value_enum,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "enqueue,drain,latency"
    )]
    scenarios: Vec<Scenario>,
    /// The number of jobs that are enqueued in bulk and drained; other numbers scale with it
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    jobs: u64,
    /// Measure everything N times; the figures are medians
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=99))]
    runs: u32,
    /// How many handlers run at once
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    concurrency: u32,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Scenario {
    /// Rates of single enqueues by 16 callers and of bulk enqueues, two at once
    Enqueue,
    /// Rate of one worker on jobs that were enqueued before
    Drain,
    /// Time from enqueue to start on an idle worker, with a job every 20 ms
    Latency,
}

impl Scenario {
    fn name(self) -> &'static str {
        match self {
            Self::Enqueue => "enqueue",
            Self::Drain => "drain",
            Self::Latency => "latency",
        }
    }
}

/// Figures of one scenario in one run, by name.
type Figures = Vec<(&'static str, f64)>;

/// Measures and prints.
pub(crate) async fn bench(args: &BenchArgs, config: &Config, output: &mut Output) -> Result<Code, Failure> {
    let mut signals = Signals::new()?;
    let mut scenarios = args.scenarios.clone();
    scenarios.sort();
    scenarios.dedup();
    if cfg!(debug_assertions) {
        output.note("this is a debug build; its figures mean nothing. Use a release build");
    }
    let mut report = Report::new(config.store.engine.as_str(), args);
    // All scenarios once, then all once more: a disturbance of the machine then affects all alike.
    for run in 1..=args.runs {
        for scenario in &scenarios {
            output.note(format!("run {run} of {}: {}", args.runs, scenario.name()));
            report.add(*scenario, measure(*scenario, args, config, &mut signals).await?);
        }
    }
    report.print(output)?;
    Ok(Code::Ok)
}

/// Measures one scenario on a store of its own, which is removed whatever happens.
async fn measure(
    scenario: Scenario,
    args: &BenchArgs,
    config: &Config,
    signals: &mut Signals,
) -> Result<Figures, Failure> {
    let scratch = Scratch::beside(config);
    let measured = tokio::select! {
        measured = run(scenario, args, &scratch) => measured,
        () = signals.next() => Err(Failure::new(Code::Interrupted, "interrupted")),
    };
    match (measured, scratch.remove().await) {
        (Err(failure), Err(left_over)) => {
            let hints = [failure.hint, Some(left_over.message), left_over.hint];
            Err(Failure { hint: Some(hints.into_iter().flatten().collect::<Vec<_>>().join("; ")), ..failure })
        }
        (measured, removed) => measured.and_then(|figures| removed.map(|()| figures)),
    }
}

async fn run(scenario: Scenario, args: &BenchArgs, scratch: &Scratch) -> Result<Figures, Failure> {
    let engine = scratch.open().await?;
    match scenario {
        Scenario::Enqueue => scenarios::enqueue(engine, args).await,
        Scenario::Drain => scenarios::drain(engine, args).await,
        Scenario::Latency => scenarios::latency(engine, args).await,
    }
}

fn failed(why: impl std::fmt::Display) -> Failure {
    Failure::new(Code::Failed, format!("the measurement failed: {why}"))
}
