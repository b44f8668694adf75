//! `windlass drain`: what is put in when others were worked off.

use clap::{Args, Subcommand};
use windlass::drains::{Drains, DrainsError};
use windlass_core::names::DrainName;

use crate::context::Context;
use crate::exit::{Code, Failure};

mod list;
mod add;
mod diff;
#[cfg(test)]
mod tests;

/// Look at drains, store and remove them.
#[derive(Debug, Subcommand)]
pub(crate) enum DrainCommand {
    /// List all drains: what they watch, what they put in, and how often they did
    #[command(after_help = "Example:\n  windlass drain list --json")]
    List,
    /// Show everything about a drain
    #[command(after_help = "Example:\n  windlass drain show recalculate\n\nExit codes: 3 no such drain.")]
    Show(NameArgs),
    /// Store a drain, or change the stored one
    Add(add::AddArgs),
    /// Forget a drain; jobs that it made stay
    Remove(RemoveArgs),
    /// Compare what is stored with the configuration
    #[command(after_help = "\
Example:
  windlass drain diff

What is stored from a configuration file and is no longer in it goes on until somebody removes it:
  windlass drain remove NAME")]
    Diff,
}

/// Names a drain.
#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// The drain
    #[arg(value_name = "NAME")]
    name: DrainName,
}

/// Forgets a drain.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  windlass drain remove recalculate --yes\n\nExit codes: 3 no such drain.")]
pub(crate) struct RemoveArgs {
    /// The drain
    #[arg(value_name = "NAME")]
    name: DrainName,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// Does it.
pub(crate) async fn run(command: &DrainCommand, context: &mut Context) -> Result<Code, Failure> {
    match command {
        DrainCommand::List => list::list(context).await,
        DrainCommand::Show(args) => list::show(&args.name, context).await,
        DrainCommand::Add(args) => add::add(args, context).await,
        DrainCommand::Remove(args) => add::remove(args, context).await,
        DrainCommand::Diff => diff::diff(context).await,
    }
}

fn drains(context: &Context) -> Drains {
    Drains::new(context.engine.clone())
}

fn no_such(name: &DrainName) -> Failure {
    Failure::not_found(format_args!("drain {name}")).hint("see `windlass drain list`")
}

impl From<DrainsError> for Failure {
    fn from(error: DrainsError) -> Self {
        match error {
            DrainsError::Engine(error) => error.into(),
            DrainsError::Unknown(name) => no_such(&name),
            DrainsError::Spec(_) => Self::usage(error.to_string()),
            DrainsError::NoRoom(_) => Self::new(Code::Refused, error.to_string()),
            DrainsError::Damaged(_) => Self::new(Code::Failed, error.to_string()),
        }
    }
}
