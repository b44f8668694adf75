//! `windlass dev`: runs everything in one process, with sample jobs, to show how it works.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use windlass::{Client, Worker, WorkerOptions};
use windlass_core::error::EngineError;
use windlass_core::span::parse_span;

use crate::config::{Config, EngineChoice, FallbackChoice};
use crate::exit::{Code, Failure, with_causes};
use crate::output::Output;
use crate::{samples, signals};

pub(crate) mod ledger;
mod live;
mod dev_store;
mod produce;
mod summary;

use dev_store::DevStore;
use ledger::Ledger;

/// The flags of `windlass dev`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  windlass dev                         run until Ctrl-C; the next start continues with the unfinished jobs
  windlass dev --for 10s --json        stop after ten seconds and print a summary
  windlass dev --fresh                 remove the store of dev first
  windlass dev --db postgres://user@localhost:5432/app
  windlass dev --engine redis --fallback sqlite    then kill Redis and start it again

Jobs are kept in windlass-dev.db, or in the file that --db names. Inspect them from another shell:
  windlass --db windlass-dev.db job list
On PostgreSQL they are kept in a separate schema, the configured name with _dev appended:
  WINDLASS__STORE__SCHEMA=windlass_dev windlass --db postgres://user@localhost:5432/app job list")]
pub(crate) struct DevArgs {
    /// Stop after this time
    #[arg(long = "for", value_name = "SPAN", value_parser = parse_span)]
    lasting: Option<Duration>,
    /// Remove the file first, or on a server the schema or namespace of dev
    #[arg(long)]
    fresh: bool,
    /// The engine [default: as --db or the configuration says]
    #[arg(long, value_name = "ENGINE")]
    engine: Option<DevEngine>,
    /// The spool while the server is unavailable [default: as the configuration says]
    #[arg(long, value_name = "ENGINE")]
    fallback: Option<FallbackChoice>,
    /// Enqueue no jobs; run the existing jobs, and stop when none is left
    #[arg(long)]
    finish: bool,
}

/// The engines that `--engine` accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DevEngine {
    Sqlite,
    Postgres,
    Redis,
}

/// How long running jobs may go on after Ctrl-C: a person does not want to wait long for sample jobs.
const STOP_GRACE: Duration = Duration::from_secs(3);

/// The spool of dev, in the working directory.
const SPOOL_FILE: &str = "windlass-dev-spool.db";

/// Runs until it is stopped, then prints what happened.
pub(crate) async fn dev(
    args: &DevArgs,
    db: Option<&PathBuf>,
    config: &Config,
    output: &mut Output,
) -> Result<Code, Failure> {
    let mut signals = signals::Signals::new()?;
    let config = &chosen(args, config)?;
    let place = DevStore::of(db, config)?;
    if args.fresh {
        place.start_over().await?;
    }
    samples::hush_panics();
    let engine = place.open().await?;
    let ledger = Ledger::open(place.ledger())?;
    let options = WorkerOptions { stop_grace: STOP_GRACE, ..config.worker_options() };
    let mut worker = Worker::start(Arc::clone(&engine), samples::handlers(Some(ledger.clone())), options)
        .await
        .map_err(|why| Failure::new(Code::Store, with_causes(&why)))?;
    output.note(format!("jobs are kept in {}; Ctrl-C stops", place.describe()));
    run(args, worker.client(), &ledger, &mut signals, output).await?;
    output.note("stopping; press Ctrl-C again to stop at once");
    signals::stop(&mut worker, &mut signals).await;
    summary::print(&engine, &ledger, output).await
}

/// The configuration, with the engine and the fallback that the flags name.
fn chosen(args: &DevArgs, config: &Config) -> Result<Config, Failure> {
    let mut config = config.clone();
    match args.engine {
        None => {}
        Some(DevEngine::Sqlite) => config.store.engine = EngineChoice::Sqlite,
        Some(DevEngine::Postgres) => config.store.engine = EngineChoice::Postgres,
        Some(DevEngine::Redis) => config.store.engine = EngineChoice::Redis,
    }
    let variables = crate::variables();
    config.find_server(&variables).map_err(Failure::configuration)?;
    config.fallback.engine = args.fallback.or(config.fallback.engine);
    config.fallback.path = PathBuf::from(SPOOL_FILE);
    Ok(config)
}

/// Enqueues jobs and shows the queues until it is time to stop.
async fn run(
    args: &DevArgs,
    client: &Client,
    ledger: &Ledger,
    signals: &mut signals::Signals,
    output: &mut Output,
) -> Result<(), Failure> {
    let time_is_up = async {
        match args.lasting {
            Some(lasting) => tokio::time::sleep(lasting).await,
            None => std::future::pending().await,
        }
    };
    let working = async {
        if args.finish { finished(client).await } else { Err(produce::produce(client, ledger).await) }
    };
    tokio::select! {
        () = time_is_up => Ok(()),
        () = signals.next() => Ok(()),
        done = working => done,
        failed = live::show(client, output) => Err(failed),
    }
}

/// Whether an error says only that the server has just become unavailable, with a spool beside it. The next
/// query then reads the spool.
fn has_gone(client: &Client, error: &EngineError) -> bool {
    client.engine().spool().is_some() && (error.is_passing() || error.is_away())
}

/// Waits until every job has ended.
async fn finished(client: &Client) -> Result<(), Failure> {
    const POLL_EVERY: Duration = Duration::from_millis(100);
    loop {
        match client.queues().await {
            Ok(queues) if queues.iter().all(|queue| queue.counts.unfinished() == 0) => return Ok(()),
            Err(error) if !has_gone(client, &error) => return Err(error.into()),
            // may sleep: counts are read from the store, which has other things to do.
            _ => tokio::time::sleep(POLL_EVERY).await,
        }
    }
}
