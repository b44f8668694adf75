//! `windlass worker`: inspects the live workers of the store.

use clap::{Args, Subcommand};
use comfy_table::Cell;
use windlass_core::names::{DutyName, QueueName, TypeName};
use windlass_core::span::show_span;
use windlass_core::worker::WorkerSighting;

use super::lease::round;
use super::status::workers;
use crate::context::Context;
use crate::exit::{Code, Failure};
use crate::output::printable;
use crate::view::WorkerView;

/// Inspect the live workers of this store.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkerCommand {
    /// List all workers that have neither stopped nor been declared dead
    #[command(after_help = "Example:\n  windlass worker list --json")]
    List,
    /// Show everything about a worker
    #[command(
        after_help = "Example:\n  windlass worker show 4f2a\n\nExit codes: 2 the prefix is ambiguous, 3 no such worker."
    )]
    Show(WorkerArgs),
}

/// Names a worker.
#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// The id of the worker, or a prefix of it
    #[arg(value_name = "ID")]
    id: String,
}

/// Runs a worker command.
pub(crate) async fn run(command: &WorkerCommand, context: &mut Context) -> Result<Code, Failure> {
    match command {
        WorkerCommand::List => list(context).await,
        WorkerCommand::Show(args) => show(args, context).await,
    }
}

async fn list(context: &mut Context) -> Result<Code, Failure> {
    let workers = workers(context).await?;
    if context.output.is_json() {
        context.output.json(&workers.iter().map(WorkerView::from).collect::<Vec<_>>())?;
        return Ok(Code::Ok);
    }
    let header = ["worker", "host", "pid", "version", "slots", "running", "heartbeat", "clock", "queues"];
    context.output.table(&header, workers.iter().map(row).collect(), "no live workers")?;
    Ok(Code::Ok)
}

fn row(worker: &WorkerSighting) -> Vec<Cell> {
    let card = &worker.card;
    let cells = [
        card.id.to_string(),
        printable(&card.host),
        card.pid.to_string(),
        printable(&card.version),
        card.slots.to_string(),
        worker.running.to_string(),
        heartbeat(worker),
        clock(worker),
        card.queues.iter().map(QueueName::as_str).collect::<Vec<_>>().join(", "),
    ];
    cells.into_iter().map(Cell::new).collect()
}

fn heartbeat(worker: &WorkerSighting) -> String {
    let late = if worker.expired { " (lease has expired)" } else { "" };
    format!("{} ago{late}", show_span(round(worker.silent_for)))
}

/// The difference between the clocks of the worker and the store. It includes the latency to the store, so
/// a few milliseconds mean nothing.
fn clock(worker: &WorkerSighting) -> String {
    let Some(ahead) = worker.clock_ahead_micros else { return "unknown".to_owned() };
    let millis = ahead / 1_000;
    match millis {
        0 => "same".to_owned(),
        1.. => format!("{millis} ms ahead"),
        _ => format!("{} ms behind", millis.unsigned_abs()),
    }
}

async fn show(args: &WorkerArgs, context: &mut Context) -> Result<Code, Failure> {
    let all = workers(context).await?;
    let prefix = args.id.to_ascii_lowercase();
    let mut found = all.iter().filter(|worker| worker.card.id.to_string().starts_with(&prefix));
    let missing = || Failure::not_found(format_args!("worker {}", printable(&args.id)));
    let worker = found.next().filter(|_| !prefix.is_empty()).ok_or_else(missing)?;
    if found.next().is_some() {
        return Err(Failure::usage(format!(
            "expected the prefix of one worker's id, got {prefix}, which several share; give more of the id"
        )));
    }
    if context.output.is_json() {
        context.output.json(&WorkerView::from(worker))?;
        return Ok(Code::Ok);
    }
    let card = &worker.card;
    let pairs = [
        ("worker", card.id.to_string()),
        ("host", printable(&card.host)),
        ("process", card.pid.to_string()),
        ("version", printable(&card.version)),
        ("since", worker.since.to_string()),
        ("heartbeat", heartbeat(worker)),
        ("clock", clock(worker)),
        ("slots", card.slots.to_string()),
        ("running", format!("{} jobs", worker.running)),
        ("queues", card.queues.iter().map(QueueName::as_str).collect::<Vec<_>>().join(", ")),
        ("types", card.types.iter().map(TypeName::as_str).collect::<Vec<_>>().join(", ")),
        ("duties", card.duties.iter().map(DutyName::as_str).collect::<Vec<_>>().join(", ")),
    ];
    context.output.pairs(pairs.into_iter().map(|(name, text)| (name, Cell::new(text))).collect())?;
    Ok(Code::Ok)
}

#[cfg(test)]
mod tests;
