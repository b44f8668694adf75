//! `windlass job`: put jobs in, look at them, act on them.

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

/// Put jobs in, look at them, act on them.
#[derive(Debug, Subcommand)]
pub(crate) enum JobCommand {
    /// Put a job in, or many from standard input
    Enqueue(Box<enqueue::EnqueueArgs>),
    /// List jobs, newest first
    List(list::ListArgs),
    /// Show everything about a job
    Show(show::ShowArgs),
    /// Stop a job
    Cancel(act::CancelArgs),
    /// Start a dead job over, or make a waiting one due at once
    Retry(act::RetryArgs),
    /// Wait until a job has ended
    Wait(wait::WaitArgs),
    /// Print what the attempts of a job wrote
    Log(log::LogArgs),
    /// Give a waiting job another priority
    Priority(act::PriorityArgs),
}

/// Does it.
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
