//! `windlass bench`: how fast this is, on this machine, and how near to the same work written by hand.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use windlass::MemoryEngine;
use windlass::engines::sqlite::{SqliteEngine, SqliteOptions, Synchronous};
use windlass_core::engine::Engine;

use crate::exit::{Code, Failure};
use crate::output::Output;

mod by_hand;
mod figures;
mod measure;
mod progress;
mod scratch;

use figures::Figures;
use progress::Progress;
use scratch::Scratch;

/// What to measure.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  windlass bench --engine sqlite --jobs 100000
  windlass bench --engine sqlite --jobs 100000 --limit --json

Compare figures only within one run: machines differ, and the same machine differs from hour to hour. The ratios
of --limit are measured within one run.")]
pub(crate) struct BenchArgs {
    /// The engine
    #[arg(long, value_enum, default_value_t = BenchEngine::Sqlite)]
    engine: BenchEngine,
    /// How many jobs are drained
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    jobs: u64,
    /// Run the same work written by hand too, of the same durability and with the same rows, and print the ratios
    #[arg(long)]
    limit: bool,
    /// What SQLite waits for at a commit
    #[arg(long, value_enum, default_value_t = BenchSynchronous::Full)]
    synchronous: BenchSynchronous,
    /// Where the files of the measurement go; they are removed at the end
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BenchEngine {
    Memory,
    Sqlite,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BenchSynchronous {
    Full,
    Normal,
}

/// Measures and prints.
pub(crate) async fn bench(args: &BenchArgs, output: &mut Output) -> Result<Code, Failure> {
    let scratch = Scratch::new(&args.dir)?;
    let progress = Progress::new(output.is_json());
    let ours = measure::measure(&|name| args.open(&scratch, name), args.jobs, &progress).await?;
    let limit = if args.limit { Some(args.by_hand(&scratch, &progress)?) } else { None };
    progress.done();
    print(args, &ours, limit.as_ref(), output)?;
    Ok(Code::Ok)
}

impl BenchArgs {
    /// A fresh engine for one measurement.
    fn open(&self, scratch: &Scratch, name: &str) -> Result<Arc<dyn Engine>, Failure> {
        Ok(match self.engine {
            BenchEngine::Memory => Arc::new(MemoryEngine::new()),
            BenchEngine::Sqlite => {
                let synchronous = match self.synchronous {
                    BenchSynchronous::Full => Synchronous::Full,
                    BenchSynchronous::Normal => Synchronous::Normal,
                };
                let options = SqliteOptions { synchronous, ..SqliteOptions::default() };
                Arc::new(SqliteEngine::open(scratch.file(name), options)?)
            }
        })
    }

    fn by_hand(&self, scratch: &Scratch, progress: &Progress) -> Result<Figures, Failure> {
        match self.engine {
            BenchEngine::Memory => Ok(by_hand::memory::measure(self.jobs, progress)),
            BenchEngine::Sqlite => {
                let synchronous = if self.synchronous == BenchSynchronous::Full { "FULL" } else { "NORMAL" };
                by_hand::sqlite::measure(scratch, synchronous, self.jobs, progress)
            }
        }
    }

    fn conditions(&self) -> Value {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let mut conditions = json!({
            "engine": self.engine.to_possible_value().map(|value| value.get_name().to_owned()),
            "jobs": self.jobs,
            "payload_bytes": measure::PAYLOAD_BYTES,
            "callers": measure::CALLERS,
            "concurrency": measure::CONCURRENCY,
            "cores": cores,
            "optimised": !cfg!(debug_assertions),
        });
        if self.engine == BenchEngine::Sqlite {
            conditions["synchronous"] =
                json!(if self.synchronous == BenchSynchronous::Full { "full" } else { "normal" });
        }
        conditions
    }
}

fn print(
    args: &BenchArgs,
    ours: &Figures,
    limit: Option<&Figures>,
    output: &mut Output,
) -> Result<(), Failure> {
    if cfg!(debug_assertions) {
        output.note("this is a debug build; its figures mean nothing. Use `cargo run --release -- bench`");
    }
    if output.is_json() {
        let mut value = ours.to_json();
        value["conditions"] = args.conditions();
        if let Some(limit) = limit {
            value["limit"] = limit.to_json();
            value["ratio"] = ours.ratios(limit);
        }
        return output.json(&value);
    }
    let (header, rows) = ours.rows(limit);
    output.table(&header, rows, "")?;
    output.note(format!("conditions: {}", args.conditions()));
    Ok(())
}
