//! `windlass status`: the whole system at a glance.

use clap::Args;
use comfy_table::Cell;
use serde_json::json;
use windlass_core::admin::Counts;
use windlass_core::engine::Durability;
use windlass_core::span::show_span;
use windlass_core::worker::WorkerSighting;

use super::queue;
use crate::context::Context;
use crate::exit::{Code, Failure};
use crate::output::printable;
use crate::view::{QueueView, WorkerView};

/// Shows which engine keeps the jobs and what they survive, how many are where, and which workers are alive.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass status
  windlass status --json | jq .depth

Exit codes: 69 the store cannot be reached.")]
pub(crate) struct StatusArgs {}

/// Shows it.
pub(crate) async fn status(context: &mut Context) -> Result<Code, Failure> {
    let (queues, now) = (context.engine.queues().await?, context.engine.now().await?);
    let workers = context.engine.workers().await?;
    let info = context.engine.info();
    let counts = queues.iter().map(|queue| queue.counts).fold(Counts::default(), sum);
    if context.output.is_json() {
        context.output.json(&json!({
            "engine": info.name,
            "durability": info.durability.as_str(),
            "healthy": true,
            "now": now.to_string(),
            "depth": counts.unfinished(),
            "counts": counts,
            "queues": queues.iter().map(|queue| QueueView::new(queue, now)).collect::<Vec<_>>(),
            "workers": workers.iter().map(WorkerView::from).collect::<Vec<_>>(),
        }))?;
        return Ok(Code::Ok);
    }
    context.output.line(format!("{}; what is acknowledged {}", info.name, durability(info.durability)))?;
    context.output.line(format!(
        "{} unfinished: {} ready, {} scheduled, {} parked, {} running; {} dead letters",
        counts.unfinished(),
        counts.ready,
        counts.scheduled,
        counts.parked,
        counts.running,
        counts.dead_letters
    ))?;
    context.output.line("")?;
    queue::table(&queues, now, context)?;
    context.output.line("")?;
    let header = ["worker", "host", "pid", "version", "running", "last sign", "queues"];
    context.output.table(&header, workers.iter().map(row).collect(), "no live workers")?;
    Ok(Code::Ok)
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
    let late = if worker.expired { " (lease has run out)" } else { "" };
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
