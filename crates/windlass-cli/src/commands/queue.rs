//! `windlass queue`: inspects queues; pauses, scales, shuts, drains and purges them.

mod accept;

use std::fmt::Display;
use std::time::Duration;

use clap::{Args, Subcommand};
use comfy_table::Cell;
use serde::Serialize;
use serde_json::json;
use windlass_core::admin::{Changed, QueueStatus};
use windlass_core::clock::Timestamp;
use windlass_core::engine::Declaration;
use windlass_core::fallback::FallbackStatus;
use windlass_core::limits::{CONCURRENCY_MAX, MAINTENANCE_BATCH_MAX};
use windlass_core::names::QueueName;
use windlass_core::queue::QueueSpec;
use windlass_core::span::{parse_span, show_span};

use self::accept::DrainArgs;
use super::job::act::parse_reason;
use crate::context::Context;
use crate::exit::{Code, Failure};
use crate::output::printable;
use crate::view::QueueView;

/// Inspect queues; pause, scale, shut, drain and purge them.
#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// List all queues with the number of their jobs in each state
    #[command(after_help = "Example:\n  windlass queue list --json")]
    List,
    /// Show everything about a queue
    #[command(after_help = "Example:\n  windlass queue show high")]
    Show(QueueArgs),
    /// Start no more jobs of a queue, for a time or until it is resumed
    Pause(PauseArgs),
    /// Resume a paused queue
    #[command(after_help = "Example:\n  windlass queue resume bulk")]
    Resume(QueueArgs),
    /// Change how many jobs of a queue each running process runs at once
    Scale(ScaleArgs),
    /// Make a queue refuse new jobs; its present jobs are run as before
    #[command(after_help = "Example:\n  windlass queue shut bulk\n\nExit codes: 3 no such queue.")]
    Shut(QueueArgs),
    /// Accept new jobs in a shut queue again
    #[command(after_help = "Example:\n  windlass queue open bulk\n\nExit codes: 3 no such queue.")]
    Open(QueueArgs),
    /// Shut a queue and wait until none of its jobs is ready or running
    Drain(DrainArgs),
    /// Cancel all waiting jobs of a queue; running jobs are left alone
    Purge(PurgeArgs),
}

/// Names a queue.
#[derive(Debug, Args)]
pub(crate) struct QueueArgs {
    /// The name of the queue
    #[arg(value_name = "QUEUE")]
    queue: QueueName,
}

/// Starts no more jobs of a queue. Running jobs continue, and new jobs are accepted.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass queue pause bulk --for 30m --reason 'database is being moved'
  windlass queue pause bulk")]
pub(crate) struct PauseArgs {
    /// The name of the queue
    #[arg(value_name = "QUEUE")]
    queue: QueueName,
    /// The reason, shown to operators
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    reason: Option<String>,
    /// Resume the queue after this time [default: until it is resumed]
    #[arg(long = "for", value_name = "SPAN", value_parser = parse_span)]
    lasting: Option<Duration>,
}

/// Changes how many jobs of a queue each process runs at once. Running workers follow within a few seconds,
/// and running jobs continue. A process that starts later declares the number of its configuration.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  windlass queue scale bulk 20\n\nExit codes: 3 no such queue.")]
pub(crate) struct ScaleArgs {
    /// The name of the queue
    #[arg(value_name = "QUEUE")]
    queue: QueueName,
    /// How many jobs each process runs at once
    #[arg(value_name = "SLOTS", value_parser = clap::value_parser!(u32).range(1..=i64::from(CONCURRENCY_MAX)))]
    slots: u32,
}

/// Cancels the ready, scheduled and parked jobs of a queue, never a running one.
///
/// It needs --yes, or the name of the queue typed on a terminal. Without either it prints how many jobs
/// would be cancelled and exits with code 4.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  windlass queue purge bulk --yes

Exit codes: 3 no such queue, 4 not confirmed.")]
pub(crate) struct PurgeArgs {
    /// The name of the queue
    #[arg(value_name = "QUEUE")]
    queue: QueueName,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

/// Runs a queue command.
pub(crate) async fn run(command: &QueueCommand, context: &mut Context) -> Result<Code, Failure> {
    match command {
        QueueCommand::List => list(context).await,
        QueueCommand::Show(args) => show(args, context).await,
        QueueCommand::Pause(args) => pause(args, context).await,
        QueueCommand::Resume(args) => resume(args, context).await,
        QueueCommand::Scale(args) => scale(args, context).await,
        QueueCommand::Shut(args) => accept::shut(args, context).await,
        QueueCommand::Open(args) => accept::open(args, context).await,
        QueueCommand::Drain(args) => accept::drain(args, context).await,
        QueueCommand::Purge(args) => purge(args, context).await,
    }
}

async fn scale(args: &ScaleArgs, context: &mut Context) -> Result<Code, Failure> {
    let spec = QueueSpec { concurrency: args.slots, ..context.queue(&args.queue).await?.spec };
    context.engine.declare(Declaration { queues: vec![spec], types: vec![] }).await?;
    let done = json!({ "queue": args.queue, "concurrency": args.slots });
    context.output.either(&done, || format!("{} has {} slots in each process", args.queue, args.slots))?;
    Ok(Code::Ok)
}

async fn list(context: &mut Context) -> Result<Code, Failure> {
    let (queues, now) = (context.engine.queues().await?, context.engine.now().await?);
    if context.output.is_json() {
        context.output.json(&queues.iter().map(|queue| QueueView::new(queue, now)).collect::<Vec<_>>())?;
        return Ok(Code::Ok);
    }
    table(&queues, now, context)?;
    Ok(Code::Ok)
}

/// Prints queues as a table.
pub(crate) fn table(queues: &[QueueStatus], now: Timestamp, context: &mut Context) -> Result<(), Failure> {
    let header =
        ["queue", "priority", "slots", "ready", "scheduled", "parked", "running", "dead", "oldest", "remark"];
    let rows = queues.iter().map(|queue| row(queue, now)).collect();
    context.output.table(&header, rows, "no queues")
}

fn row(queue: &QueueStatus, now: Timestamp) -> Vec<Cell> {
    let counts = queue.counts;
    // What cannot be read might be a default.
    let known =
        |setting: &dyn Display| if queue.unreadable.is_some() { "?".to_owned() } else { setting.to_string() };
    vec![
        Cell::new(&queue.spec.name),
        Cell::new(known(&queue.spec.priority)),
        Cell::new(known(&queue.spec.concurrency)),
        Cell::new(counts.ready),
        Cell::new(counts.scheduled),
        Cell::new(counts.parked),
        Cell::new(counts.running),
        Cell::new(counts.dead_letters),
        Cell::new(queue.oldest_ready.map(show_span).unwrap_or_default()),
        Cell::new(remark(queue, now)),
    ]
}

fn remark(queue: &QueueStatus, now: Timestamp) -> String {
    let pause = queue.pause.as_ref().filter(|pause| pause.holds(now)).map(|pause| {
        let left =
            pause.until.map(|until| format!(" for {}", show_span(until.since(now)))).unwrap_or_default();
        let why = pause.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        format!("paused{left}{why}")
    });
    let shut = queue.shut.then(|| "shut".to_owned());
    let unreadable = queue.unreadable.as_ref().map(|_| "unreadable".to_owned());
    printable(&[unreadable, shut, pause].into_iter().flatten().collect::<Vec<_>>().join(", "))
}

/// A queue, and the state of its store.
#[derive(Serialize)]
struct ShownQueue<'a> {
    #[serde(flatten)]
    queue: QueueView<'a>,
    #[serde(flatten)]
    store: StoreView,
}

/// The engine that accepts new jobs, whether the server behind it is healthy, and how many jobs are in the
/// spool.
#[derive(Serialize)]
struct StoreView {
    active_engine: &'static str,
    primary_healthy: bool,
    spool_size: u64,
}

impl StoreView {
    async fn of(context: &Context) -> Result<Self, Failure> {
        Ok(match context.engine.fallback().await? {
            Some(FallbackStatus { active, primary_healthy, spool_size, .. }) => {
                Self { active_engine: active, primary_healthy, spool_size }
            }
            None => Self { active_engine: context.engine.info().name, primary_healthy: true, spool_size: 0 },
        })
    }
}

async fn show(args: &QueueArgs, context: &mut Context) -> Result<Code, Failure> {
    let (queue, now) = (context.queue(&args.queue).await?, context.engine.now().await?);
    if context.output.is_json() {
        context
            .output
            .json(&ShownQueue { queue: QueueView::new(&queue, now), store: StoreView::of(context).await? })?;
        return Ok(Code::Ok);
    }
    let (spec, counts, totals) = (&queue.spec, queue.counts, queue.totals);
    let span = |span: Option<Duration>| span.map_or("none".to_owned(), show_span);
    let number = |number: Option<u64>| number.map_or("none".to_owned(), |number| number.to_string());
    let state = Some(remark(&queue, now)).filter(|remark| !remark.is_empty());
    let word = |value| serde_json::to_value(value).ok().and_then(|word| word.as_str().map(str::to_owned));
    let first = [("queue", spec.name.to_string()), ("state", state.unwrap_or_else(|| "open".to_owned()))];
    let unreadable = queue.unreadable.as_ref().map(|why| vec![("unreadable", why.to_string())]);
    let settings = unreadable.unwrap_or_else(|| {
        vec![
            ("priority", spec.priority.to_string()),
            ("concurrency", format!("{} in each process", spec.concurrency)),
            ("poll interval", show_span(spec.poll_interval)),
            ("p95 target", span(spec.p95_target)),
            ("escalation", word(json!(spec.escalation)).unwrap_or_default()),
            ("colour", word(json!(spec.colour)).unwrap_or_default()),
            ("capacity", number(spec.capacity)),
            ("warn depth", number(spec.warn_depth)),
        ]
    });
    let last = [
        (
            "now",
            format!(
                "{} ready, {} scheduled, {} parked, {} running, {} dead letters",
                counts.ready, counts.scheduled, counts.parked, counts.running, counts.dead_letters
            ),
        ),
        ("oldest ready", span(queue.oldest_ready)),
        (
            "totals",
            format!(
                "{} enqueued, {} succeeded, {} retried, {} dead, {} cancelled, {} retried from the dead-letter queue",
                totals.enqueued,
                totals.succeeded,
                totals.retried,
                totals.dead,
                totals.cancelled,
                totals.started_over
            ),
        ),
    ];
    let pairs = first.into_iter().chain(settings).chain(last);
    context.output.pairs(pairs.map(|(name, text)| (name, Cell::new(text))).collect())?;
    Ok(Code::Ok)
}

async fn pause(args: &PauseArgs, context: &mut Context) -> Result<Code, Failure> {
    let queue = &args.queue;
    let answer = context.engine.pause(queue, args.reason.as_deref(), args.lasting).await?;
    changed(answer, queue, context).await?;
    let text = match args.lasting {
        Some(lasting) => format!("{queue} is paused for {}", show_span(lasting)),
        None => format!("{queue} is paused until `windlass queue resume {queue}`"),
    };
    context.output.either(&json!({ "queue": queue, "paused": true }), || text)?;
    Ok(Code::Ok)
}

async fn resume(args: &QueueArgs, context: &mut Context) -> Result<Code, Failure> {
    let queue = &args.queue;
    let answer = context.engine.resume(queue).await?;
    changed(answer, queue, context).await?;
    let text = if answer == Changed::Done {
        format!("{queue} is resumed")
    } else {
        format!("{queue} was not paused")
    };
    context.output.either(&json!({ "queue": queue, "paused": false }), || text)?;
    Ok(Code::Ok)
}

/// Fails if the queue does not exist. A queue that was in the requested state already is no failure.
async fn changed(answer: Changed, queue: &QueueName, context: &Context) -> Result<(), Failure> {
    match answer {
        Changed::Done | Changed::Unchanged => Ok(()),
        // Reading the queue again returns the failure with the nearest name.
        Changed::NotFound => context.queue(queue).await.map(drop),
    }
}

async fn purge(args: &PurgeArgs, context: &mut Context) -> Result<Code, Failure> {
    let queue = context.queue(&args.queue).await?;
    let (name, counts) = (&queue.spec.name, queue.counts);
    let waiting = counts.ready + counts.scheduled + counts.parked;
    let impact = format!(
        "purging {name} cancels {waiting} jobs ({} ready, {} scheduled, {} parked) and leaves {} running",
        counts.ready, counts.scheduled, counts.parked, counts.running
    );
    context.confirm(args.yes, &impact, name.as_str())?;
    context.output.note(&impact);
    let mut cancelled = 0;
    loop {
        let batch = context.engine.purge(name, MAINTENANCE_BATCH_MAX).await?;
        cancelled += batch.changed;
        if !batch.more {
            break;
        }
    }
    context.output.either(&json!({ "queue": name, "cancelled": cancelled }), || {
        format!("{cancelled} jobs of {name} cancelled")
    })?;
    Ok(Code::Ok)
}

#[cfg(test)]
mod tests;
