//! `peers`: the work of `windlass-bench`, done with another job queue on PostgreSQL, for comparison. The
//! README beside describes the measurements and the settings.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, ValueEnum};

mod job;
mod database;
mod tally;
mod peer;
mod with_graphile_worker;
mod with_apalis;
mod scenarios;
mod figures;

use figures::Measured;
use peer::{Peer, Settings};
use scenarios::{Plan, Scenario};
use with_apalis::Apalis;
use with_graphile_worker::GraphileWorker;

#[derive(Debug, Parser)]
#[command(about = "Measures another job queue on PostgreSQL with the work of `windlass-bench`")]
struct Args {
    /// The queue to measure
    #[arg(long, value_enum)]
    peer: PeerName,
    /// How many jobs are enqueued in bulk and drained
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    jobs: u64,
    /// The size of a payload as JSON
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = clap::value_parser!(u64).range(40..=100_000))]
    payload_bytes: u64,
    /// The scenarios to measure, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_value = "all")]
    scenario: Vec<Scenario>,
    /// The number of jobs in one fetch, instead of the value that measured best
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    batch: Option<u64>,
    /// The number of concurrent fetches, instead of the value that measured best
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=16))]
    parallel: Option<u64>,
    /// Print one JSON object a line instead of a table
    #[arg(long)]
    json: bool,
    /// The server; each scenario gets a separate database on it, dropped at the end
    #[arg(long, value_name = "URL", env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PeerName {
    #[value(name = "graphile_worker")]
    GraphileWorker,
    Apalis,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> anyhow::Result<()> {
    match args.peer {
        PeerName::GraphileWorker => run_with::<GraphileWorker>(args).await,
        PeerName::Apalis => run_with::<Apalis>(args).await,
    }
}

async fn run_with<P: Peer>(args: &Args) -> anyhow::Result<()> {
    let plan = args.plan(P::BEST)?;
    for scenario in Scenario::in_order(&args.scenario) {
        let measured = scenarios::run::<P>(&args.database_url, scenario, plan).await;
        print(&measured.with_context(|| format!("{}, {scenario:?}", P::CRATE))?, args.json);
    }
    Ok(())
}

impl Args {
    fn plan(&self, best: Settings) -> anyhow::Result<Plan> {
        let batch = self.batch.map_or(Ok(best.batch), usize::try_from)?;
        let parallel = self.parallel.map_or(Ok(best.parallel), usize::try_from)?;
        Ok(Plan {
            jobs: self.jobs,
            payload_bytes: self.payload_bytes,
            settings: Settings { batch, parallel },
        })
    }
}

/// Prints results as soon as they are measured: a later scenario may fail.
fn print(measured: &[Measured], json: bool) {
    for one in measured {
        println!("{}", if json { one.to_json().to_string() } else { one.to_row() });
    }
}
