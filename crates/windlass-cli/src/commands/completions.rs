//! `windlass completions`: prints the script with which a shell completes commands.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::exit::{Code, Failure};
use crate::output::Output;

/// Prints the completions of a shell.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  windlass completions bash > /etc/bash_completion.d/windlass")]
pub(crate) struct CompletionsArgs {
    /// The shell: bash, zsh, fish, powershell or elvish
    shell: Shell,
}

/// Prints the completions.
pub(crate) fn completions(args: &CompletionsArgs, output: &mut Output) -> Result<Code, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "windlass", &mut text);
    output.line(String::from_utf8_lossy(&text).trim_end())?;
    Ok(Code::Ok)
}
