//! The binary `windlass`. Read it in this order: `cli` defines the command line, `config` the
//! configuration, `commands` the commands, `output` what is printed, `exit` how a command ends.

mod cli;
mod config;
mod store;
mod context;
mod commands;
mod samples;
mod signals;
mod watch;
mod view;
mod output;
mod exit;
#[cfg(test)]
mod testing;

use std::future::poll_fn;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::task::Poll;

use clap::Parser;
use clap::error::ErrorKind;
use windlass_core::clock::Clock;
use windlass_engines::clock::SystemClock;

use crate::cli::{Cli, Command, Global};
use crate::commands::config::ConfigCommand;
use crate::commands::job::JobCommand;
use crate::commands::job_type::TypeCommand;
use crate::commands::schedule::ScheduleCommand;
use crate::commands::trigger::TriggerCommand;
use crate::commands::{
    bench, breaker, check, completions, dev, dlq, doctor, job, job_type, lease, migrate, queue, retry_plan,
    schedule, serve, stats, status, trigger, version, worker,
};
use crate::config::Config;
use crate::context::{Context, ask_terminal};
use crate::exit::{Code, Failure};
use crate::output::Output;
use crate::store::IfMissing;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return wrong_usage(&error).into(),
    };
    log_to_stderr(&cli);
    match run(&cli) {
        Ok(code) => code.into(),
        // A reader that closed our output early has what it wanted.
        Err(failure) if failure.code == Code::Ok => Code::Ok.into(),
        Err(failure) => {
            output(&cli.global).failure(&failure);
            failure.code.into()
        }
    }
}

fn run(cli: &Cli) -> Result<Code, Failure> {
    let mut output = output(&cli.global);
    match &cli.command {
        Command::Completions(args) => completions::completions(args, &mut output),
        Command::Version => version::version(&mut output),
        Command::Config(ConfigCommand::Example) => commands::config::example(&mut output),
        Command::Check(_) => check::check(&configured(&cli.global)?, &mut output),
        Command::RetryPlan(args) => retry_plan::retry_plan(args, &configured(&cli.global)?, &mut output),
        Command::Schedule(ScheduleCommand::Next(args)) => {
            schedule::next::next(args, SystemClock.now(), &mut output)
        }
        Command::Migrate(args) => {
            let config = configured(&cli.global)?;
            on_runtime(&cli.global, migrate::migrate(args, &config, &mut output))
        }
        Command::Dev(args) => {
            let config = configured(&cli.global)?;
            on_threads(dev::dev(args, cli.global.db.as_ref(), &config, &mut output))
        }
        Command::Serve(args) => on_threads(serve::serve(args, &configured(&cli.global)?, &mut output)),
        Command::Bench(args) => on_threads(bench::bench(args, &configured(&cli.global)?, &mut output)),
        Command::Doctor(args) => {
            let config = configured(&cli.global)?;
            on_runtime(&cli.global, async { doctor::doctor(args, &config, &mut output).await })
        }
        Command::Job(_)
        | Command::Queue(_)
        | Command::Dlq(_)
        | Command::Breaker(_)
        | Command::Lease(_)
        | Command::Worker(_)
        | Command::Schedule(_)
        | Command::Trigger(_)
        | Command::Type(_)
        | Command::Status(_)
        | Command::Stats(_) => {
            on_runtime(&cli.global, on_the_store(&cli.command, configured(&cli.global)?, output))
        }
    }
}

/// Runs a command that uses the store.
async fn on_the_store(command: &Command, config: Config, output: Output) -> Result<Code, Failure> {
    let adds_to_store = adds_to_store(command);
    let engine =
        store::open(&config, if adds_to_store { IfMissing::Create } else { IfMissing::Refuse }).await?;
    let input = Box::new(std::io::stdin());
    let mut context = Context { engine, config, output, input, ask: ask_terminal };
    context.declare_missing(adds_to_store).await?;
    dispatch(command, &mut context).await
}

/// Whether a command adds something new to the store.
fn adds_to_store(command: &Command) -> bool {
    matches!(
        command,
        Command::Job(JobCommand::Enqueue(_))
            | Command::Type(TypeCommand::Register(_))
            | Command::Schedule(ScheduleCommand::Add(_))
            | Command::Trigger(TriggerCommand::Add(_))
    )
}

async fn dispatch(command: &Command, context: &mut Context) -> Result<Code, Failure> {
    match command {
        Command::Job(command) => job::run(command, context).await,
        Command::Queue(command) => queue::run(command, context).await,
        Command::Dlq(command) => dlq::run(command, context).await,
        Command::Breaker(command) => breaker::run(command, context).await,
        Command::Lease(command) => lease::run(command, context).await,
        Command::Worker(command) => worker::run(command, context).await,
        Command::Schedule(command) => schedule::run(command, context).await,
        Command::Trigger(command) => trigger::run(command, context).await,
        Command::Type(command) => job_type::run(command, context).await,
        Command::Status(_) => status::status(context).await,
        Command::Stats(args) => stats::stats(args, context).await,
        _ => unreachable!("the other commands need no store"),
    }
}

/// Runs a command until it ends or Ctrl-C is pressed.
fn on_runtime(global: &Global, work: impl Future<Output = Result<Code, Failure>>) -> Result<Code, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|why| Failure::new(Code::Failed, format!("starting the runtime failed: {why}")))?;
    runtime.block_on(async {
        end_on_interrupt(global.clone()).await?;
        work.await
    })
}

/// Ends the process on Ctrl-C, from a separate thread: the command itself may be reading its input at that
/// moment. A call to the store that was under way is applied or not, as after any other death of a process.
async fn end_on_interrupt(global: Global) -> Result<(), Failure> {
    let mut interrupt = Box::pin(tokio::signal::ctrl_c());
    // The first poll starts listening, so a signal that comes from here on is not missed.
    if let Poll::Ready(Err(why)) = poll_fn(|cx| Poll::Ready(interrupt.as_mut().poll(cx))).await {
        return Err(Failure::new(Code::Failed, format!("listening for Ctrl-C failed: {why}")));
    }
    tokio::spawn(async move {
        if interrupt.await.is_ok() {
            output(&global).failure(&Failure::new(Code::Interrupted, "interrupted"));
            std::process::exit(Code::Interrupted as i32);
        }
    });
    Ok(())
}

/// Runs a command to its end on several threads. The command itself listens for signals.
fn on_threads(work: impl Future<Output = Result<Code, Failure>>) -> Result<Code, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|why| Failure::new(Code::Failed, format!("starting the runtime failed: {why}")))?;
    runtime.block_on(work)
}

fn output(global: &Global) -> Output {
    Output::of_process(global.json, global.quiet, global.no_color)
}

/// Starts the log on standard error. A command that fails prints its error itself, so only `-v` shows the
/// log. `serve` has no other output, so it logs warnings, and the number of waiting and running jobs
/// whenever it has changed. With `--json` the log is JSON too, so that a reader of standard error meets one
/// format.
fn log_to_stderr(cli: &Cli) {
    let global = &cli.global;
    let serves = matches!(cli.command, Command::Serve(_));
    let level = match (global.quiet, global.verbose) {
        (true, _) => "off",
        (_, 0) if serves => "warn,windlass::maintenance::depth=info",
        // An unavailable store is worth a line, whatever the command.
        (_, 0) => "error,windlass_engines::fallback=warn",
        (_, 1) => "info",
        _ => "debug",
    };
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(level));
    let colour = output::allows_colour(global.no_color) && std::io::stderr().is_terminal();
    let log =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colour);
    if global.json { log.json().init() } else { log.init() }
}

/// The configuration from the file, the environment and the flags; each overrides the one before.
fn configured(global: &Global) -> Result<Config, Failure> {
    let variables = variables();
    let file = config::find_file(global.config.as_deref(), &variables);
    let beside = config::DEFAULT_FILES.iter().filter(|name| std::path::Path::new(name).exists());
    if let (Some(file), 2..) = (&file, beside.count()) {
        output(global).note(format!(
            "the working directory has several configuration files; {} is used",
            file.display()
        ));
    }
    let mut config = config::load(file.as_deref(), &variables).map_err(Failure::configuration)?;
    if let Some(named) = &global.db {
        config.store.choose(named).map_err(|why| Failure::usage(format!("--db: {why}")))?;
    }
    Ok(config)
}

/// The environment variables that are text.
fn variables() -> Vec<(String, String)> {
    let text = |(name, text): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, text.to_string_lossy().into_owned()))
    };
    std::env::vars_os().filter_map(text).collect()
}

/// Prints an error of the command line in the requested form, as far as the form can be recognised. Help
/// and version are no errors.
fn wrong_usage(error: &clap::Error) -> Code {
    let asked_for_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let json = std::env::args().take_while(|arg| arg != "--").any(|arg| arg == "--json");
    if asked_for_help || !json {
        // Nothing can be done if standard output is closed.
        let _ = error.print();
        return if asked_for_help { Code::Ok } else { Code::Usage };
    }
    let text = error.to_string();
    let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    Output::of_process(true, false, true).failure(&Failure::usage(message).hint("see --help"));
    Code::Usage
}
