//! `windlass trigger`: what is put in when others were worked off.

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

/// Look at triggers, store and remove them.
#[derive(Debug, Subcommand)]
pub(crate) enum TriggerCommand {
    /// List all triggers: what they watch, what they put in, and how often they did
    #[command(after_help = "Example:\n  windlass completion trigger list --json")]
    List,
    /// Show everything about a trigger
    #[command(
        after_help = "Example:\n  windlass completion trigger show recalculate\n\nExit codes: 3 no such completion trigger."
    )]
    Show(NameArgs),
    /// Store a trigger, or change the stored one
    Add(add::AddArgs),
    /// Forget a trigger; jobs that it made stay
    Remove(RemoveArgs),
    /// Compare what is stored with the configuration
    #[command(after_help = "\
Example:
  windlass trigger diff

What is stored from a configuration file and is no longer in it goes on until somebody removes it:
  windlass trigger remove NAME")]
    Diff,
}

/// Names a trigger.
#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// The trigger
    #[arg(value_name = "NAME")]
    name: TriggerName,
}

/// Forgets a trigger.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  windlass completion trigger remove recalculate --yes\n\nExit codes: 3 no such completion trigger."
)]
pub(crate) struct RemoveArgs {
    /// The trigger
    #[arg(value_name = "NAME")]
    name: TriggerName,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// Does it.
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
    Failure::not_found(format_args!("trigger {name}")).hint("see `windlass completion trigger list`")
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
