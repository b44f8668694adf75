//! `windlass config`: help with the configuration file.

use clap::Subcommand;

use crate::config::example::EXAMPLE;
use crate::exit::{Code, Failure};
use crate::output::Output;

/// Help with the configuration file.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print a commented file with every setting at its default
    #[command(after_help = "Example:\n  windlass config example > windlass.toml")]
    Example,
}

/// Prints the example.
pub(crate) fn example(output: &mut Output) -> Result<Code, Failure> {
    output.line(EXAMPLE.trim_end())?;
    Ok(Code::Ok)
}
