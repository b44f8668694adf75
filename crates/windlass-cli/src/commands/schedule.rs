//! `windlass schedule`: when something runs again and again.

use clap::Subcommand;

pub(crate) mod next;

/// See when a schedule runs.
#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleCommand {
    /// Print the next times of a schedule, in its zone and in UTC
    Next(next::NextArgs),
}
