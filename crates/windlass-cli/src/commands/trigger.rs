//! `windlass trigger`: manages completion triggers, which enqueue a job when a group of jobs has finished.

use clap::{Args, Subcommand};
use windlass::triggers::{CompletionTriggers, TriggersError};
use windlass_core::names::TriggerName;

use crate::context::Context;
use crate::exit::{Code, Failure};

mod list;
mod add;
mod diff;
#[cfg(test)]
mod tests;

/// Manage completion triggers: enqueue a job when a group of jobs has finished.
#[derive(Debug, Subcommand)]
pub(crate) enum TriggerCommand {
    /// List all completion triggers: what they watch and enqueue, and how often they have fired
    #[command(after_help = "Example:\n  windlass trigger list --json")]
    List,
    /// Show everything about a completion trigger
    #[command(
        after_help = "Example:\n  windlass trigger show recalculate\n\nExit codes: 3 no such completion trigger."
    )]
    Show(NameArgs),
    /// Store a completion trigger, or change the stored one
    Add(add::AddArgs),
    /// Delete a completion trigger; the jobs that it has enqueued stay
    Remove(RemoveArgs),
    /// Compare the stored completion triggers with the configuration
    #[command(after_help = "\
Example:
  windlass trigger diff

A completion trigger that was stored from a configuration file and is no longer in it continues until it is removed:
  windlass trigger remove NAME")]
    Diff,
}

/// Names a completion trigger.
#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// The name of the completion trigger
    #[arg(value_name = "NAME")]
    name: TriggerName,
}

/// Deletes a completion trigger. If code or configuration still declares it, the next start stores it
/// again.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  windlass trigger remove recalculate --yes\n\nExit codes: 3 no such completion trigger, 4 not confirmed."
)]
pub(crate) struct RemoveArgs {
    /// The name of the completion trigger
    #[arg(value_name = "NAME")]
    name: TriggerName,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

/// Runs a trigger command.
pub(crate) async fn run(command: &TriggerCommand, context: &mut Context) -> Result<Code, Failure> {
    match command {
        TriggerCommand::List => list::list(context).await,
        TriggerCommand::Show(args) => list::show(&args.name, context).await,
        TriggerCommand::Add(args) => add::add(args, context).await,
        TriggerCommand::Remove(args) => add::remove(args, context).await,
        TriggerCommand::Diff => diff::diff(context).await,
    }
}

fn triggers(context: &Context) -> CompletionTriggers {
    CompletionTriggers::new(context.engine.clone())
}

fn no_such(name: &TriggerName) -> Failure {
    Failure::not_found(format_args!("completion trigger {name}")).hint("see `windlass trigger list`")
}

impl From<TriggersError> for Failure {
    fn from(error: TriggersError) -> Self {
        match error {
            TriggersError::Engine(error) => error.into(),
            TriggersError::Unknown(name) => no_such(&name),
            TriggersError::Spec(_) => Self::usage(error.to_string()),
            TriggersError::NoRoom(_) => Self::new(Code::Refused, error.to_string()),
            TriggersError::Damaged(_) => Self::new(Code::Failed, error.to_string()),
        }
    }
}
