//! `windlass job show`: shows everything about a job.

use clap::Args;
use comfy_table::Cell;
use windlass_core::admin::{StoredAttempt, StoredJob};
use windlass_core::clock::Timestamp;
use windlass_core::job::{JobId, JobState, StoredState};
use windlass_core::key::KeyScope;
use windlass_core::span::show_span;

use super::explain::explain;
use crate::context::{Context, parse_id};
use crate::exit::{Code, Failure};
use crate::output::printable;
use crate::view::{AttemptView, JobInFull, JobView};

/// Shows everything about a job: its state and why, its counters, its attempts, its last error.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  windlass job show 42")]
pub(crate) struct ShowArgs {
    /// The id of the job
    #[arg(value_name = "ID", value_parser = parse_id)]
    id: JobId,
}

/// Runs `windlass job show`.
pub(crate) async fn show(args: &ShowArgs, context: &mut Context) -> Result<Code, Failure> {
    let record = context.job(args.id).await?;
    in_full(&record, context).await?;
    Ok(Code::Ok)
}

/// Prints a job with its attempts.
pub(crate) async fn in_full(record: &StoredJob, context: &mut Context) -> Result<(), Failure> {
    let attempts = context.engine.attempts(record.job.id).await?;
    let (queues, types) = (context.engine.queues().await?, context.engine.types().await?);
    let queue = queues.iter().find(|queue| queue.spec.name == record.job.queue);
    let kind = types.iter().find(|kind| kind.spec.name == record.job.job_type);
    let ahead = match &record.job.ordering_key {
        Some(ordering_key) if record.job_state() == JobState::Parked => {
            context.engine.head_of(&record.job.job_type, ordering_key).await?
        }
        _ => None,
    };
    let explained = explain(record, queue, kind, ahead);
    if context.output.is_json() {
        let attempts = attempts.iter().map(AttemptView::from).collect();
        return context.output.json(&JobInFull {
            job: JobView::from(record),
            explained: &explained,
            attempts,
        });
    }
    let default_retry =
        kind.filter(|kind| kind.unreadable.is_none()).map_or("its type's", |kind| kind.spec.retry.name());
    context.output.pairs(pairs(record, &explained, default_retry))?;
    if attempts.is_empty() {
        return Ok(());
    }
    context.output.line("")?;
    let rows = attempts.iter().map(|attempt| attempt_row(attempt, record.read_at)).collect();
    context.output.table(&["attempt", "ending", "started", "took", "worker", "error"], rows, "")
}

fn pairs<'a>(record: &'a StoredJob, explained: &str, default_retry: &str) -> Vec<(&'a str, Cell)> {
    let job = &record.job;
    let ago = |at: Timestamp| format!("{at} ({} ago)", show_span(record.read_at.since(at)));
    let mut pairs = vec![
        ("job", job.id.to_string()),
        ("type", job.job_type.to_string()),
        ("queue", job.queue.to_string()),
        ("state", explained.to_owned()),
        (
            "priority",
            job.label
                .as_ref()
                .map_or(job.priority.to_string(), |label| format!("{} ({label})", job.priority)),
        ),
        ("enqueued", ago(job.enqueued_at)),
        ("due", job.due.to_string()),
    ];
    let counters = job.counters;
    pairs.push((
        "counters",
        format!(
            "{} attempts, {} failures, {} crashes, {} holds",
            counters.attempts, counters.failures, counters.crashes, counters.holds
        ),
    ));
    pairs.push(("retry", job.retry.as_ref().map_or(default_retry, |retry| retry.name()).to_owned()));
    pairs.extend(optional_pairs(record));
    pairs.push(("payload", job.payload.as_str().to_owned()));
    pairs.into_iter().map(|(name, text)| (name, Cell::new(printable(&text)))).collect()
}

fn optional_pairs(record: &StoredJob) -> Vec<(&'static str, String)> {
    let job = &record.job;
    let tags: Vec<_> = job.tags.iter().map(|tag| tag.as_str()).collect();
    let result = match &record.state {
        StoredState::Succeeded { result, .. } => result.clone(),
        _ => None,
    };
    let progress = job.progress.as_ref().map(|progress| match &progress.note {
        Some(note) => format!("{} % {note}", progress.percent),
        None => format!("{} %", progress.percent),
    });
    let error = match (&record.state, &record.last_error) {
        (StoredState::Dead { error, .. }, _) | (_, Some(error)) => {
            Some(format!("{}: {}", error.kind, error.text))
        }
        _ => None,
    };
    let all = [
        ("expires", job.expires_at.map(|at| at.to_string())),
        ("key", job.key.as_ref().map(|claim| format!("{} ({})", claim.key, scope(claim.scope)))),
        ("ordering key", job.ordering_key.as_ref().map(ToString::to_string)),
        ("fairness key", job.fairness_key.as_ref().map(ToString::to_string)),
        ("correlation", job.correlation.as_ref().map(ToString::to_string)),
        ("tags", (!tags.is_empty()).then(|| tags.join(", "))),
        ("group", job.group.as_ref().map(ToString::to_string)),
        ("timeout", job.timeout.map(show_span)),
        ("progress", progress),
        ("result", result),
        ("last error", error),
    ];
    let provenance = job.provenance.entries().map(|(name, text)| (name, text.map(str::to_owned)));
    all.into_iter().chain(provenance).filter_map(|(name, text)| Some((name, text?))).collect()
}

fn scope(scope: KeyScope) -> String {
    match scope {
        KeyScope::WhileLive => "held while live".to_owned(),
        KeyScope::WhileLiveOrDead => "held while live or dead".to_owned(),
        KeyScope::For(span) => format!("held for {}", show_span(span)),
    }
}

fn attempt_row(attempt: &StoredAttempt, now: Timestamp) -> Vec<Cell> {
    let took = attempt.ended_at.unwrap_or(now).since(attempt.started_at);
    let error = attempt.error.as_ref().map(|error| error.text.lines().next().unwrap_or_default());
    vec![
        Cell::new(attempt.number),
        Cell::new(attempt.ending.as_str()),
        Cell::new(attempt.started_at),
        Cell::new(show_span(took)),
        Cell::new(attempt.worker),
        Cell::new(printable(error.unwrap_or_default())),
    ]
}
