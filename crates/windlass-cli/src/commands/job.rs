//! `windlass job`: enqueues jobs, inspects them and changes them.

use clap::Subcommand;

use crate::context::Context;
use crate::exit::{Code, Failure};

pub(crate) mod draft;
pub(crate) mod enqueue;
pub(crate) mod list;
pub(crate) mod show;
mod explain;
pub(crate) mod act;
pub(crate) mod wait;
pub(crate) mod log;

/// Enqueue jobs, inspect them and change them.
#[derive(Debug, Subcommand)]
pub(crate) enum JobCommand {
    /// Enqueue a job, or many from standard input
    Enqueue(Box<enqueue::EnqueueArgs>),
    /// List jobs, newest first
    List(list::ListArgs),
    /// Show everything about a job
    Show(show::ShowArgs),
    /// Cancel a job
    Cancel(act::CancelArgs),
    /// Retry a dead job, or make a waiting one due at once
    Retry(act::RetryArgs),
    /// Wait until a job has ended
    Wait(wait::WaitArgs),
    /// Print the log lines of the attempts of a job
    Log(log::LogArgs),
    /// Change the priority of a waiting job
    Priority(act::PriorityArgs),
}

/// Runs a job command.
pub(crate) async fn run(command: &JobCommand, context: &mut Context) -> Result<Code, Failure> {
    match command {
        JobCommand::Enqueue(args) => enqueue::enqueue(args, context).await,
        JobCommand::List(args) => list::list(args, context).await,
        JobCommand::Show(args) => show::show(args, context).await,
        JobCommand::Cancel(args) => act::cancel(args, context).await,
        JobCommand::Retry(args) => act::retry(args, context).await,
        JobCommand::Wait(args) => wait::wait(args, context).await,
        JobCommand::Log(args) => log::log(args, context).await,
        JobCommand::Priority(args) => act::priority(args, context).await,
    }
}

#[cfg(test)]
mod tests;
