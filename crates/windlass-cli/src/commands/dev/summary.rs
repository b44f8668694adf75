//! The summary of `dev`: what happened over the life of the file, and whether the stores still have every
//! acknowledged job.
//!
//! A server that is unavailable cannot be queried. The jobs that it has acknowledged are then neither known
//! nor lost, and are reported as unseen.

use std::sync::Arc;

use serde_json::json;
use windlass_core::admin::{QueueStatus, Totals};
use windlass_core::engine::Engine;
use windlass_core::error::EngineError;
use windlass_core::fallback::{FallbackStatus, Side};
use windlass_core::job::{JobId, StoredState};
use windlass_core::spool::moved_as;

use super::ledger::Ledger;
use crate::exit::{Code, Failure};
use crate::output::Output;

/// Prints the summary. Fails if a job was lost.
pub(super) async fn print(
    engine: &Arc<dyn Engine>,
    ledger: &Ledger,
    output: &mut Output,
) -> Result<Code, Failure> {
    let mut fallback = engine.fallback().await?;
    let queues = queues(engine, &mut fallback).await?;
    let sum = |of: fn(&Totals) -> u64| queues.iter().map(|queue| of(&queue.totals)).sum::<u64>();
    let waiting: u64 = queues.iter().map(|queue| queue.counts.unfinished()).sum();
    let found = look_for_all(engine, ledger, &mut fallback).await?;
    let mut summary = json!({
        "enqueued": sum(|totals| totals.enqueued),
        "succeeded": sum(|totals| totals.succeeded),
        "retried": sum(|totals| totals.retried),
        "dead": sum(|totals| totals.dead),
        "cancelled": sum(|totals| totals.cancelled),
        "waiting": waiting,
        "lost": found.lost,
    });
    let mut figures = vec!["enqueued", "succeeded", "retried", "dead", "cancelled", "waiting", "lost"];
    if let Some(fallback) = &fallback {
        summary["spooled"] = fallback.spooled.into();
        summary["returned"] = fallback.returned.into();
        summary["in_spool"] = fallback.spool_size.into();
        summary["switches"] = fallback.switches.into();
        summary["unseen"] = found.unseen.into();
        summary["primary_healthy"] = (!is_away(fallback)).into();
        figures.extend(["spooled", "returned", "in_spool", "switches", "unseen"]);
    }
    output.either(&summary, || {
        let texts = figures.iter().map(|name| format!("{} {}", summary[name], name.replace('_', " ")));
        texts.collect::<Vec<_>>().join(", ")
    })?;
    if let Some(fallback) = fallback.as_ref().filter(|fallback| is_away(fallback)) {
        let FallbackStatus { primary, spool, .. } = fallback;
        output.note(format!(
            "{primary} is unavailable: the figures are those of {spool} alone, and the {} jobs that {primary} has acknowledged \
             are unseen until it is back; start dev again to see them",
            found.unseen
        ));
    }
    Ok(if found.lost == 0 { Code::Ok } else { Code::Failed })
}

/// Whether the server is unavailable now.
fn is_away(fallback: &FallbackStatus) -> bool {
    fallback.active != fallback.primary || !fallback.primary_healthy
}

/// Whether an error says only that the server has become unavailable, with a spool beside it. The server is
/// not queried any more from then on.
fn has_gone(error: &EngineError, fallback: &mut Option<FallbackStatus>) -> bool {
    match fallback {
        Some(fallback) if error.is_passing() || error.is_away() => {
            fallback.primary_healthy = false;
            true
        }
        _ => false,
    }
}

/// The queues of both stores, or of the spool alone while the server is unavailable.
async fn queues(
    engine: &Arc<dyn Engine>,
    fallback: &mut Option<FallbackStatus>,
) -> Result<Vec<QueueStatus>, Failure> {
    match engine.queues().await {
        Err(error) if has_gone(&error, fallback) => {
            let spool = engine.spool().expect("an engine with a fallback status has a spool");
            Ok(spool.queues().await?)
        }
        read => Ok(read?),
    }
}

/// How many acknowledged jobs were not found.
#[derive(Debug, Default)]
struct Found {
    /// Jobs that no store has any more.
    lost: u64,
    /// Jobs that only the server has, which is unavailable.
    unseen: u64,
}

/// Looks up every job that the ledger has acknowledged.
async fn look_for_all(
    engine: &Arc<dyn Engine>,
    ledger: &Ledger,
    fallback: &mut Option<FallbackStatus>,
) -> Result<Found, Failure> {
    let mut found = Found::default();
    for job in ledger.acknowledged()? {
        match is_known(engine, job, fallback).await? {
            Some(true) => {}
            Some(false) => {
                tracing::error!(job.id = job.0, "the store has lost an acknowledged job");
                found.lost += 1;
            }
            None => found.unseen += 1,
        }
    }
    Ok(found)
}

/// Whether a store has the job. For a job that moved from the spool: whether the other store has it.
/// Returns `None` if the store that has the job is unavailable.
async fn is_known(
    engine: &Arc<dyn Engine>,
    job: JobId,
    fallback: &mut Option<FallbackStatus>,
) -> Result<Option<bool>, Failure> {
    if Side::of(job) == Side::Primary && fallback.as_ref().is_some_and(is_away) {
        return Ok(None);
    }
    let record = match engine.job(job).await {
        Err(error) if Side::of(job) == Side::Primary && has_gone(&error, fallback) => return Ok(None),
        read => read?,
    };
    let moved = record.as_ref().and_then(|record| match &record.state {
        StoredState::Cancelled { why, .. } => moved_as(why),
        _ => None,
    });
    match moved {
        Some(there) => Box::pin(is_known(engine, there, fallback)).await,
        None => Ok(Some(record.is_some())),
    }
}
