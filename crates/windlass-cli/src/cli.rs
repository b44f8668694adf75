//! The command line: flags that every command takes, and the commands.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::commands::{
    bench, breaker, check, completions, config, dev, dlq, doctor, job, job_type, lease, migrate, queue,
    retry_plan, schedule, serve, stats, status, trigger, worker,
};
use crate::exit::CODES_HELP;

/// Durable background jobs: put work in; it is run, retried, given up, reported and cleaned away.
#[derive(Debug, Parser)]
#[command(
    name = "windlass",
    version,
    after_help = CODES_HELP,
    infer_subcommands = false,
    arg_required_else_help = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Global {
    /// The configuration [default: $WINDLASS_CONFIG, ./windlass.toml, ./windlass.yaml, else the defaults]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The store, whatever the configuration says: an SQLite file, postgres://… or redis://… [default: windlass.db]
    #[arg(long, global = true, value_name = "PATH|URL")]
    pub(crate) db: Option<PathBuf>,
    /// Print JSON; errors too, on standard error
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// No colour, as with NO_COLOR=1; there is none off a terminal anyway
    #[arg(long, global = true)]
    pub(crate) no_color: bool,
    /// Print only data and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Log to standard error: -v what happens, -vv everything; RUST_LOG goes over it
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// See it all at work: sample jobs, workers and queues in one process
    Dev(dev::DevArgs),
    /// Run workers and maintenance until a signal
    Serve(serve::ServeArgs),
    /// Put jobs in, look at them, act on them
    #[command(subcommand)]
    Job(job::JobCommand),
    /// Look at queues, stop and empty them
    #[command(subcommand)]
    Queue(queue::QueueCommand),
    /// Look at jobs that were given up, start them over or delete them
    #[command(subcommand)]
    Dlq(dlq::DlqCommand),
    /// Look at circuit breakers, open and close them
    #[command(subcommand)]
    Breaker(breaker::BreakerCommand),
    /// See who does which duty for all, and let another process do it
    #[command(subcommand)]
    Lease(lease::LeaseCommand),
    /// Look at the processes that work on this store
    #[command(subcommand)]
    Worker(worker::WorkerCommand),
    /// Look at schedules, store, hold back, run and remove them
    #[command(subcommand)]
    Schedule(schedule::ScheduleCommand),
    /// Manage completion triggers: enqueue a job when a group of jobs has finished
    #[command(subcommand)]
    Trigger(trigger::TriggerCommand),
    /// Look at job types and register them
    #[command(subcommand)]
    Type(job_type::TypeCommand),
    /// Show the whole system at a glance: store, queues, workers
    Status(status::StatusArgs),
    /// Show what happened by minute, hour or day, and how long jobs waited and ran
    Stats(stats::StatsArgs),
    /// Make or update the tables of the store
    Migrate(migrate::MigrateArgs),
    /// Look at the server and say what is wrong with it
    Doctor(doctor::DoctorArgs),
    /// Check the configuration and say what it sets
    Check(check::CheckArgs),
    /// Help with the configuration file
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Print when a job that keeps failing would be tried again
    RetryPlan(retry_plan::RetryPlanArgs),
    /// Measure how fast this is on this machine
    Bench(bench::BenchArgs),
    /// Print the completions of a shell
    Completions(completions::CompletionsArgs),
    /// Print the version
    Version,
}

#[cfg(test)]
mod tests;
