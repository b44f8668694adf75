//! The binary `windlass`. Read it in this order: `cli` is what can be typed, `config` what can be set, `commands`
//! what is done, `output` what is printed, `exit` how it ends.

mod cli;
mod config;
mod commands;
mod output;
mod exit;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::cli::{Cli, Command, Global};
use crate::commands::config::ConfigCommand;
use crate::commands::{check, completions, retry_plan, version};
use crate::config::Config;
use crate::exit::{Code, Failure};
use crate::output::Output;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return wrong_usage(&error).into(),
    };
    let mut output = Output::of_process(cli.global.json, cli.global.quiet, cli.global.no_color);
    match run(&cli, &mut output) {
        Ok(code) => code.into(),
        Err(failure) => {
            output.failure(&failure);
            failure.code.into()
        }
    }
}

fn run(cli: &Cli, output: &mut Output) -> Result<Code, Failure> {
    match &cli.command {
        Command::Completions(args) => completions::completions(args, output),
        Command::Version => version::version(output),
        Command::Config(ConfigCommand::Example) => commands::config::example(output),
        Command::Check(_) => check::check(&configured(&cli.global)?, output),
        Command::RetryPlan(args) => retry_plan::retry_plan(args, &configured(&cli.global)?, output),
    }
}

/// File, environment and flags, each over the one before.
fn configured(global: &Global) -> Result<Config, Failure> {
    let variables: Vec<_> = std::env::vars_os()
        .filter_map(|(name, text)| Some((name.into_string().ok()?, text.to_string_lossy().into_owned())))
        .collect();
    let file = config::find_file(global.config.as_deref(), &variables);
    let mut config = config::load(file.as_deref(), &variables).map_err(Failure::configuration)?;
    if let Some(path) = &global.db {
        config.store.engine = config::EngineChoice::Sqlite;
        config.store.path = path.clone();
    }
    Ok(config)
}

/// Help and version are no errors. What is wrong with a command line is told in the form that was asked for,
/// as far as that can be seen.
fn wrong_usage(error: &clap::Error) -> Code {
    let asked_for_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let json = std::env::args().take_while(|arg| arg != "--").any(|arg| arg == "--json");
    if asked_for_help || !json {
        // If standard output is gone there is nobody to tell.
        let _ = error.print();
        return if asked_for_help { Code::Ok } else { Code::Usage };
    }
    let text = error.to_string();
    let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    Output::of_process(true, false, true).failure(&Failure::usage(message).hint("see --help"));
    Code::Usage
}
