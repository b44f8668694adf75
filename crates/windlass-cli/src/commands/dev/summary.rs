//! What happened over the life of the file, and whether the store still knows everything it acknowledged.

use std::sync::Arc;

use serde_json::json;
use windlass_core::admin::Totals;
use windlass_core::engine::Engine;

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
    let summary = json!({
        "enqueued": sum(|totals| totals.enqueued),
        "succeeded": sum(|totals| totals.succeeded),
        "retried": sum(|totals| totals.retried),
        "dead": sum(|totals| totals.dead),
        "cancelled": sum(|totals| totals.cancelled),
        "waiting": waiting,
        "lost": lost,
    });
    output.either(&summary, || {
        let figures = ["enqueued", "succeeded", "retried", "dead", "cancelled", "waiting", "lost"];
        figures.map(|name| format!("{} {name}", summary[name])).join(", ")
    })?;
    Ok(if lost == 0 { Code::Ok } else { Code::Failed })
}

/// How many jobs the ledger has acknowledged and the store no longer knows.
async fn lost(engine: &Arc<dyn Engine>, ledger: &Ledger) -> Result<u64, Failure> {
    let mut lost = 0;
    for job in ledger.acknowledged()? {
        if engine.job(job).await?.is_none() {
            tracing::error!(job.id = job.0, "the store has forgotten an acknowledged job");
            lost += 1;
        }
    }
    Ok(lost)
}
