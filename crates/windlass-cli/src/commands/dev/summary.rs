//! What happened over the life of the file, and whether the store still knows everything it acknowledged.

use std::sync::Arc;

use serde_json::json;
use windlass_core::admin::Totals;
use windlass_core::engine::Engine;
use windlass_core::job::{JobId, JobState};
use windlass_core::spill::moved_as;

use super::ledger::Ledger;
use crate::exit::{Code, Failure};
use crate::output::Output;

/// Prints it. A job that was lost is a failure.
pub(super) async fn print(
    engine: &Arc<dyn Engine>,
    ledger: &Ledger,
    output: &mut Output,
) -> Result<Code, Failure> {
    let queues = engine.queues().await?;
    let sum = |of: fn(&Totals) -> u64| queues.iter().map(|queue| of(&queue.totals)).sum::<u64>();
    let waiting: u64 = queues.iter().map(|queue| queue.counts.unfinished()).sum();
    let lost = lost(engine, ledger).await?;
    let mut summary = json!({
        "enqueued": sum(|totals| totals.enqueued),
        "succeeded": sum(|totals| totals.succeeded),
        "retried": sum(|totals| totals.retried),
        "dead": sum(|totals| totals.dead),
        "cancelled": sum(|totals| totals.cancelled),
        "waiting": waiting,
        "lost": lost,
    });
    let mut figures = vec!["enqueued", "succeeded", "retried", "dead", "cancelled", "waiting", "lost"];
    if let Some(fallback) = engine.fallback().await? {
        summary["spilled"] = fallback.spilled.into();
        summary["returned"] = fallback.returned.into();
        summary["switches"] = fallback.switches.into();
        figures.extend(["spilled", "returned", "switches"]);
    }
    output.either(&summary, || {
        let told: Vec<_> = figures.iter().map(|name| format!("{} {name}", summary[name])).collect();
        told.join(", ")
    })?;
    Ok(if lost == 0 { Code::Ok } else { Code::Failed })
}

/// Whether a store has the job; and if it moved from the spill, whether the other store has it.
async fn is_known(engine: &Arc<dyn Engine>, job: JobId) -> Result<bool, Failure> {
    let Some(record) = engine.job(job).await? else { return Ok(false) };
    let moved = match &record.state {
        JobState::Cancelled { why, .. } => moved_as(why),
        _ => None,
    };
    match moved {
        Some(there) => Ok(engine.job(there).await?.is_some()),
        None => Ok(true),
    }
}

/// How many jobs the ledger has acknowledged and the store no longer knows.
async fn lost(engine: &Arc<dyn Engine>, ledger: &Ledger) -> Result<u64, Failure> {
    let mut lost = 0;
    for job in ledger.acknowledged()? {
        if !is_known(engine, job).await? {
            tracing::error!(job.id = job.0, "the store has forgotten an acknowledged job");
            lost += 1;
        }
    }
    Ok(lost)
}
