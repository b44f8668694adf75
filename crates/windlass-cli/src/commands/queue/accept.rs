//! `windlass queue shut`, `open` and `drain`: whether a queue accepts new jobs, and how to wait until it
//! has drained.

use std::time::Duration;

use clap::Args;
use serde_json::json;
use windlass_core::admin::{Changed, Counts, QueueStatus};
use windlass_core::names::QueueName;
use windlass_core::span::{parse_span, show_span};

use super::{QueueArgs, changed};
use crate::context::Context;
use crate::exit::{Code, Failure};
use crate::watch::Watch;

/// Shuts a queue and waits until none of its jobs is ready or running. It stays shut until `windlass queue
/// open`.
///
/// Jobs that wait for a retry, are due later or are parked stay, and the drain does not wait for them. A
/// handler that enqueues a follow-up job into a shut queue gets an error.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  windlass queue drain bulk --timeout 10m && echo drained; windlass queue open bulk

Exit codes: 3 no such queue, 6 the timeout expired (the queue stays shut).")]
pub(crate) struct DrainArgs {
    /// The name of the queue
    #[arg(value_name = "QUEUE")]
    queue: QueueName,
    /// Stop waiting after this time [default: never]
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    timeout: Option<Duration>,
}

/// Runs `windlass queue shut`.
pub(super) async fn shut(args: &QueueArgs, context: &mut Context) -> Result<Code, Failure> {
    let queue = &args.queue;
    let text = match set_shut(queue, true, context).await? {
        Changed::Done => format!("{queue} is shut: it refuses new jobs until `windlass queue open {queue}`"),
        _ => format!("{queue} was already shut"),
    };
    context.output.either(&json!({ "queue": queue, "shut": true }), || text)?;
    Ok(Code::Ok)
}

/// Runs `windlass queue open`.
pub(super) async fn open(args: &QueueArgs, context: &mut Context) -> Result<Code, Failure> {
    let queue = &args.queue;
    let text = match set_shut(queue, false, context).await? {
        Changed::Done => format!("{queue} accepts new jobs"),
        _ => format!("{queue} was already open"),
    };
    context.output.either(&json!({ "queue": queue, "shut": false }), || text)?;
    Ok(Code::Ok)
}

async fn set_shut(queue: &QueueName, shut: bool, context: &Context) -> Result<Changed, Failure> {
    let answer = context.engine.set_shut(queue, shut).await?;
    changed(answer, queue, context).await?;
    Ok(answer)
}

/// Runs `windlass queue drain`.
pub(super) async fn drain(args: &DrainArgs, context: &mut Context) -> Result<Code, Failure> {
    set_shut(&args.queue, true, context).await?;
    let mut watch = Watch::begin(&*context.engine, args.timeout);
    let mut queue = context.queue(&args.queue).await?;
    context.output.note(format!("{} is shut; waiting for {} jobs", args.queue, show_left(&queue)));
    warn_of_what_holds(&queue, context).await?;
    let mut reported = left(&queue.counts);
    while left(&queue.counts) > 0 {
        if !watch.again().await {
            return Err(timed_out(args, &queue));
        }
        queue = context.queue(&args.queue).await?;
        // Progress is printed each time the number has halved: a few lines for a million jobs, on a
        // terminal and in a log.
        if left(&queue.counts) <= reported / 2 && left(&queue.counts) > 0 {
            reported = left(&queue.counts);
            context.output.note(format!("waiting for {} jobs", show_left(&queue)));
        }
    }
    finish(args, &queue.counts, context)
}

/// The number of jobs for which a drain waits.
fn left(counts: &Counts) -> u64 {
    counts.ready + counts.running
}

fn show_left(queue: &QueueStatus) -> String {
    format!("{} ready and {} running", queue.counts.ready, queue.counts.running)
}

/// Warns if the queue is paused: a drain that cannot end should not look like one that takes long.
async fn warn_of_what_holds(queue: &QueueStatus, context: &mut Context) -> Result<(), Failure> {
    if left(&queue.counts) == 0 {
        return Ok(());
    }
    let (name, now) = (&queue.spec.name, context.engine.now().await?);
    if queue.pause.as_ref().is_some_and(|pause| pause.holds(now)) {
        let text = format!(
            "{name} is paused, so none of its jobs starts; resume it with `windlass queue resume {name}`"
        );
        context.output.note(text);
    }
    Ok(())
}

fn timed_out(args: &DrainArgs, queue: &QueueStatus) -> Failure {
    let waited = show_span(args.timeout.unwrap_or_default());
    let message = format!("{} still has {} jobs after {waited}", args.queue, show_left(queue));
    let hint =
        "the queue stays shut: open it with `windlass queue open`, or repeat the command to wait longer";
    Failure::new(Code::TimedOut, message).hint(hint)
}

fn finish(args: &DrainArgs, counts: &Counts, context: &mut Context) -> Result<Code, Failure> {
    let queue = &args.queue;
    let done = json!({
        "queue": queue, "shut": true, "drained": true, "scheduled": counts.scheduled, "parked": counts.parked,
    });
    context.output.either(&done, || {
        let rest = match counts.scheduled + counts.parked {
            0 => String::new(),
            _ => format!("; {} scheduled and {} parked stay", counts.scheduled, counts.parked),
        };
        format!("{queue} has drained{rest}; open it with `windlass queue open {queue}`")
    })?;
    Ok(Code::Ok)
}
