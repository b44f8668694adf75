//! `windlass status`: shows the whole system at a glance.

use clap::Args;
use comfy_table::Cell;
use serde_json::json;
use windlass_core::admin::Counts;
use windlass_core::engine::{Durability, Replaced};
use windlass_core::fallback::FallbackStatus;
use windlass_core::span::show_span;
use windlass_core::worker::WorkerSighting;

use super::queue;
use crate::context::Context;
use crate::exit::{Code, Failure};
use crate::output::printable;
use crate::view::{QueueView, WorkerView};

/// Shows the engine and what its jobs survive, the number of jobs in each state, the queues, and the live
/// workers.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass status
  windlass status --json | jq .depth

Exit codes: 69 the store cannot be reached.")]
pub(crate) struct StatusArgs {}

/// Runs `windlass status`.
pub(crate) async fn status(context: &mut Context) -> Result<Code, Failure> {
    let (queues, now) = (context.engine.queues().await?, context.engine.now().await?);
    let workers = workers(context).await?;
    let (info, fallback) = (context.engine.info(), context.engine.fallback().await?);
    let replaced = context.engine.replaced().await?;
    let counts = queues.iter().map(|queue| queue.counts).fold(Counts::default(), sum);
    if context.output.is_json() {
        context.output.json(&json!({
            "engine": info.name,
            "durability": info.durability.as_str(),
            "healthy": fallback.as_ref().is_none_or(|fallback| fallback.primary_healthy),
            "fallback": fallback,
            "replaced": replaced.map(|replaced| {
                json!({"times": replaced.times, "last": replaced.last.to_string()})
            }),
            "now": now.to_string(),
            "depth": counts.unfinished(),
            "counts": counts,
            "queues": queues.iter().map(|queue| QueueView::new(queue, now)).collect::<Vec<_>>(),
            "workers": workers.iter().map(WorkerView::from).collect::<Vec<_>>(),
        }))?;
        return Ok(Code::Ok);
    }
    context.output.line(format!("{}; an acknowledged job {}", info.name, durability(info.durability)))?;
    context.output.line(format!(
        "{} unfinished: {} ready, {} scheduled, {} parked, {} running; {} dead letters",
        counts.unfinished(),
        counts.ready,
        counts.scheduled,
        counts.parked,
        counts.running,
        counts.dead_letters
    ))?;
    if let Some(Replaced { times, last }) = replaced {
        let loss =
            "the store was found emptied or restored to an older state: jobs stored in between are lost";
        context.output.line(format!("{loss}; {times} times, the last time at {last}"))?;
    }
    if let Some(fallback) = fallback {
        let FallbackStatus { active, primary, primary_healthy, spool_size, uncertain, spool_trouble, .. } =
            fallback;
        let health = if primary_healthy { "is available" } else { "is unavailable" };
        let doubtful = if uncertain > 0 {
            format!(", {uncertain} of them need an operator's decision")
        } else {
            String::new()
        };
        let text =
            format!("{primary} {health}; new jobs go to {active}; {spool_size} in the spool{doubtful}");
        context.output.line(text)?;
        if let Some(trouble) = spool_trouble {
            context.output.line(format!("the spool cannot be used: {trouble}"))?;
        }
    }
    context.output.line("")?;
    queue::table(&queues, now, context)?;
    context.output.line("")?;
    let header = ["worker", "host", "pid", "version", "running", "heartbeat", "queues"];
    context.output.table(&header, workers.iter().map(row).collect(), "no live workers")?;
    Ok(Code::Ok)
}

/// The workers of the server and those of the spool. While the server is unavailable: those of the spool.
pub(super) async fn workers(context: &Context) -> Result<Vec<WorkerSighting>, Failure> {
    let Some(spool) = context.engine.spool() else { return Ok(context.engine.workers().await?) };
    let mut workers = context.engine.workers().await.unwrap_or_default();
    match spool.workers().await {
        Ok(there) => workers.extend(there),
        // The error of the spool is printed beside this list.
        Err(error) if error.is_passing() => {}
        Err(error) => return Err(error.into()),
    }
    Ok(workers)
}

fn durability(durability: Durability) -> String {
    match durability {
        Durability::Process => format!("is {}", durability.as_str()),
        Durability::Crash | Durability::PowerCut => durability.as_str().to_owned(),
    }
}

fn sum(a: Counts, b: Counts) -> Counts {
    Counts {
        ready: a.ready + b.ready,
        scheduled: a.scheduled + b.scheduled,
        parked: a.parked + b.parked,
        running: a.running + b.running,
        dead_letters: a.dead_letters + b.dead_letters,
    }
}

fn row(worker: &WorkerSighting) -> Vec<Cell> {
    let card = &worker.card;
    let queues: Vec<_> = card.queues.iter().map(|queue| queue.as_str()).collect();
    let late = if worker.expired { " (lease has expired)" } else { "" };
    vec![
        Cell::new(card.id),
        Cell::new(printable(&card.host)),
        Cell::new(card.pid),
        Cell::new(printable(&card.version)),
        Cell::new(worker.running),
        Cell::new(format!("{} ago{late}", show_span(worker.silent_for))),
        Cell::new(queues.join(", ")),
    ]
}
