//! `windlass schedule`: inspects, stores, pauses, runs and removes schedules.

use clap::{Args, Subcommand};
use windlass::schedules::{Schedules, SchedulesError};
use windlass_core::names::ScheduleName;

use crate::context::Context;
use crate::exit::{Code, Failure};

pub(crate) mod next;
mod view;
mod list;
mod add;
mod act;
mod backfill;
mod diff;
#[cfg(test)]
mod tests;

/// Inspect, store, pause, run and remove schedules.
#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleCommand {
    /// List all schedules: when they run, what they enqueue, and their state
    #[command(after_help = "Example:\n  windlass schedule list --json")]
    List,
    /// Show everything about a schedule, and its next times
    #[command(after_help = "Example:\n  windlass schedule show sitemap\n\nExit codes: 3 no such schedule.")]
    Show(NameArgs),
    /// Print the next times of a schedule, in its zone and in UTC
    Next(next::NextArgs),
    /// Store a schedule, or change the stored one
    Add(add::AddArgs),
    /// Enqueue the job of a schedule now, whatever the schedule says
    #[command(
        after_help = "Example:\n  windlass schedule run sitemap\n\nExit codes: 3 no such schedule, 4 the job was refused."
    )]
    Run(NameArgs),
    /// Pause a schedule, for a time or until it is resumed
    Pause(act::PauseArgs),
    /// Resume a paused schedule
    #[command(
        after_help = "Example:\n  windlass schedule resume sitemap\n\nTicks that fell due during the pause are dropped."
    )]
    Resume(NameArgs),
    /// Skip the next tick
    #[command(after_help = "Example:\n  windlass schedule skip-next sitemap")]
    SkipNext(NameArgs),
    /// Delete a schedule; the jobs that it has enqueued stay
    Remove(act::RemoveArgs),
    /// Enqueue the jobs of past ticks
    Backfill(backfill::BackfillArgs),
    /// Compare the stored schedules with the configuration
    #[command(after_help = "\
Example:
  windlass schedule diff

A schedule that was stored from a configuration file and is no longer in it continues until it is removed:
  windlass schedule remove NAME")]
    Diff,
}

/// Names a schedule.
#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// The name of the schedule
    #[arg(value_name = "NAME")]
    name: ScheduleName,
}

/// Runs a schedule command.
pub(crate) async fn run(command: &ScheduleCommand, context: &mut Context) -> Result<Code, Failure> {
    match command {
        ScheduleCommand::List => list::list(context).await,
        ScheduleCommand::Show(args) => list::show(&args.name, context).await,
        ScheduleCommand::Next(_) => unreachable!("`schedule next` needs no store and is run before this"),
        ScheduleCommand::Add(args) => add::add(args, context).await,
        ScheduleCommand::Run(args) => act::run(&args.name, context).await,
        ScheduleCommand::Pause(args) => act::pause(args, context).await,
        ScheduleCommand::Resume(args) => act::resume(&args.name, context).await,
        ScheduleCommand::SkipNext(args) => act::skip_next(&args.name, context).await,
        ScheduleCommand::Remove(args) => act::remove(args, context).await,
        ScheduleCommand::Backfill(args) => backfill::backfill(args, context).await,
        ScheduleCommand::Diff => diff::diff(context).await,
    }
}

fn schedules(context: &Context) -> Schedules {
    Schedules::new(context.engine.clone())
}

impl From<SchedulesError> for Failure {
    fn from(error: SchedulesError) -> Self {
        match error {
            SchedulesError::Engine(error) => error.into(),
            SchedulesError::Unknown(name) => {
                Self::not_found(format_args!("schedule {name}")).hint("see `windlass schedule list`")
            }
            SchedulesError::Spec(_) | SchedulesError::Range(_) => Self::usage(error.to_string()),
            SchedulesError::NoRoom(_) => Self::new(Code::Refused, error.to_string()),
            SchedulesError::Damaged(_) => Self::new(Code::Failed, error.to_string()),
        }
    }
}
