//! The command line: flags that every command takes, and the commands.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::commands::{
    bench, breaker, check, completions, config, dev, dlq, doctor, job, job_type, lease, migrate, queue,
    retry_plan, schedule, serve, stats, status, trigger, worker,
};
use crate::exit::CODES_HELP;

/// Durable background jobs: enqueue, run, retry, inspect and prune them.
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

/// The flags that every command takes.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// The configuration file [default: $WINDLASS_CONFIG, ./windlass.toml, ./windlass.yaml, else built-in
    /// defaults]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The store, overriding the configuration: an SQLite file, postgres://… or redis://… [default:
    /// windlass.db]
    #[arg(long, global = true, value_name = "PATH|URL")]
    pub(crate) db: Option<PathBuf>,
    /// Print JSON, also for errors on standard error
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print without colours, as with NO_COLOR=1; output to a file or a pipe never has colours
    #[arg(long, global = true)]
    pub(crate) no_color: bool,
    /// Print only data and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Log to standard error: -v events, -vv everything; RUST_LOG overrides both
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run sample jobs, queues and workers in one process, to see how Windlass works
    Dev(dev::DevArgs),
    /// Run workers and maintenance until a signal stops them
    Serve(serve::ServeArgs),
    /// Enqueue jobs, inspect them and change them
    #[command(subcommand)]
    Job(job::JobCommand),
    /// Inspect queues; pause, scale, shut, drain and purge them
    #[command(subcommand)]
    Queue(queue::QueueCommand),
    /// Inspect dead letters; retry or discard them
    #[command(subcommand)]
    Dlq(dlq::DlqCommand),
    /// Inspect circuit breakers; open, close and reset them
    #[command(subcommand)]
    Breaker(breaker::BreakerCommand),
    /// Show which process leads each duty, and make a leader step down
    #[command(subcommand)]
    Lease(lease::LeaseCommand),
    /// Inspect the live workers of this store
    #[command(subcommand)]
    Worker(worker::WorkerCommand),
    /// Inspect, store, pause, run and remove schedules
    #[command(subcommand)]
    Schedule(schedule::ScheduleCommand),
    /// Manage completion triggers: enqueue a job when a group of jobs has finished
    #[command(subcommand)]
    Trigger(trigger::TriggerCommand),
    /// Inspect job types and register them
    #[command(subcommand)]
    Type(job_type::TypeCommand),
    /// Show the whole system at a glance: store, queues, workers
    Status(status::StatusArgs),
    /// Show statistics by minute, hour or day: what happened to jobs, and how long they waited and ran
    Stats(stats::StatsArgs),
    /// Create or update the tables of the store
    Migrate(migrate::MigrateArgs),
    /// Check the server of the store and report what is wrong with it
    Doctor(doctor::DoctorArgs),
    /// Check the configuration and print its settings
    Check(check::CheckArgs),
    /// Help with the configuration file
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Print when a job that keeps failing would be retried
    RetryPlan(retry_plan::RetryPlanArgs),
    /// Measure enqueues, drains and pickup times on your own store, beside your jobs
    Bench(bench::BenchArgs),
    /// Print the completions of a shell
    Completions(completions::CompletionsArgs),
    /// Print the version
    Version,
}

#[cfg(test)]
mod tests;
