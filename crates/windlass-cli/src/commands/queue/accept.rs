//! `windlass queue shut`, `open` and `drain`: whether a queue takes new jobs, and waiting until it has none.

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

/// Shuts a queue and waits until nothing in it is ready or running. It stays shut until `windlass queue open`.
///
/// Jobs that wait for a retry, lie in the future or are parked stay where they are and hold nothing up. A handler that
/// puts a follow-up into a shut queue is refused.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  windlass queue drain bulk --timeout 10m && echo drained; windlass queue open bulk

Exit codes: 3 no such queue, 6 the time ran out (the queue stays shut).")]
pub(crate) struct DrainArgs {
    /// The queue
    #[arg(value_name = "QUEUE")]
    queue: QueueName,
    /// Give up after this time [default: never]
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    timeout: Option<Duration>,
}

/// Takes no more jobs into a queue.
pub(super) async fn shut(args: &QueueArgs, context: &mut Context) -> Result<Code, Failure> {
    let queue = &args.queue;
    let text = match set_shut(queue, true, context).await? {
        Changed::Done => format!("{queue} takes no new jobs until `windlass queue open {queue}`"),
        _ => format!("{queue} was shut already"),
    };
    context.output.either(&json!({ "queue": queue, "shut": true }), || text)?;
    Ok(Code::Ok)
}

/// Takes jobs into a queue again.
pub(super) async fn open(args: &QueueArgs, context: &mut Context) -> Result<Code, Failure> {
    let queue = &args.queue;
    let text = match set_shut(queue, false, context).await? {
        Changed::Done => format!("{queue} takes new jobs"),
        _ => format!("{queue} was open already"),
    };
    context.output.either(&json!({ "queue": queue, "shut": false }), || text)?;
    Ok(Code::Ok)
}

async fn set_shut(queue: &QueueName, shut: bool, context: &Context) -> Result<Changed, Failure> {
    let answer = context.engine.set_shut(queue, shut).await?;
    changed(answer, queue, context).await?;
    Ok(answer)
}

/// Shuts a queue and waits until it has drained.
pub(super) async fn drain(args: &DrainArgs, context: &mut Context) -> Result<Code, Failure> {
    set_shut(&args.queue, true, context).await?;
    let mut watch = Watch::begin(&*context.engine, args.timeout);
    let mut queue = context.queue(&args.queue).await?;
    context.output.note(format!("{} takes no new jobs; {} to go", args.queue, show_left(&queue)));
    warn_of_what_holds(&queue, context).await?;
    let mut told = left(&queue.counts);
    while left(&queue.counts) > 0 {
        if !watch.again().await {
            return Err(still_there(args, &queue));
        }
        queue = context.queue(&args.queue).await?;
        // Told as it halves: a few lines for a million jobs, on a terminal and in a log.
        if left(&queue.counts) <= told / 2 && left(&queue.counts) > 0 {
            told = left(&queue.counts);
            context.output.note(format!("{} to go", show_left(&queue)));
        }
    }
    finish(args, &queue.counts, context)
}

/// What a drain waits for.
fn left(counts: &Counts) -> u64 {
    counts.ready + counts.running
}

fn show_left(queue: &QueueStatus) -> String {
    format!("{} ready and {} running", queue.counts.ready, queue.counts.running)
}

/// A drain that cannot end should not look like one that takes long.
async fn warn_of_what_holds(queue: &QueueStatus, context: &mut Context) -> Result<(), Failure> {
    if left(&queue.counts) == 0 {
        return Ok(());
    }
    let (name, now) = (&queue.spec.name, context.engine.now().await?);
    if queue.pause.as_ref().is_some_and(|pause| pause.holds(now)) {
        let text = format!(
            "{name} is paused, so nothing of it starts; `windlass queue resume {name}` lets it go on"
        );
        context.output.note(text);
    }
    Ok(())
}

fn still_there(args: &DrainArgs, queue: &QueueStatus) -> Failure {
    let waited = show_span(args.timeout.unwrap_or_default());
    let message = format!("{} still has {} after {waited}", args.queue, show_left(queue));
    let hint = "it stays shut: `windlass queue open` opens it, and the same command goes on waiting";
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
        format!("{queue} has drained{rest}; `windlass queue open {queue}` takes new jobs again")
    })?;
    Ok(Code::Ok)
}
