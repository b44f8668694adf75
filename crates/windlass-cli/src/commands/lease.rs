//! `windlass lease`: who does which duty for all, and since when.

use std::time::Duration;

use clap::{Args, Subcommand};
use comfy_table::Cell;
use serde_json::{Value, json};
use windlass_core::admin::Changed;
use windlass_core::clock::Timestamp;
use windlass_core::lease::LeaseRecord;
use windlass_core::names::DutyName;
use windlass_core::span::show_span;
use windlass_core::worker::{WorkerCard, WorkerId, WorkerSighting};

use crate::config::suggest;
use crate::context::Context;
use crate::exit::{Code, Failure};
use crate::output::printable;

/// See who does which duty for all, and let another process do it.
#[derive(Debug, Subcommand)]
pub(crate) enum LeaseCommand {
    /// List all duties that one process at a time does
    #[command(after_help = "Example:\n  windlass lease list --json")]
    List,
    /// Show everything about the lease of a duty
    #[command(after_help = "Example:\n  windlass lease show rescue\n\nExit codes: 3 no such duty.")]
    Show(LeaseArgs),
    /// Ask the process that does a duty to leave it to another
    #[command(
        after_help = "Example:\n  windlass lease step-down rescue\n\nExit codes: 3 no such duty, 4 nobody holds it."
    )]
    StepDown(LeaseArgs),
}

/// Names a duty.
#[derive(Debug, Args)]
pub(crate) struct LeaseArgs {
    /// The duty
    #[arg(value_name = "DUTY")]
    duty: DutyName,
}

/// Does it.
pub(crate) async fn run(command: &LeaseCommand, context: &mut Context) -> Result<Code, Failure> {
    match command {
        LeaseCommand::List => list(context).await,
        LeaseCommand::Show(args) => show(args, context).await,
        LeaseCommand::StepDown(args) => step_down(args, context).await,
    }
}

async fn list(context: &mut Context) -> Result<Code, Failure> {
    let (read, workers) = (context.engine.leases().await?, context.engine.workers().await?);
    if context.output.is_json() {
        let views: Vec<_> = read.leases.iter().map(|lease| view(lease, &workers, read.now)).collect();
        context.output.json(&views)?;
        return Ok(Code::Ok);
    }
    let header =
        ["duty", "leader", "since", "heartbeat", "takeovers", "last run", "items", "errors", "remark"];
    let rows = read.leases.iter().map(|lease| row(lease, &workers, read.now)).collect();
    context.output.table(&header, rows, "no duty was done yet")?;
    Ok(Code::Ok)
}

/// Who holds a lease, as people know it: where, as which process, and under which name in the store. A worker that the store has
/// forgotten has only that.
fn leader(lease: &LeaseRecord, workers: &[WorkerSighting], now: Timestamp) -> String {
    let Some(holder) = lease.holder.filter(|_| lease.is_held(now)) else { return "nobody".to_owned() };
    match card(holder, workers) {
        Some(card) => format!("{holder} ({}, pid {})", printable(&card.host), card.pid),
        None => holder.to_string(),
    }
}

fn card(worker: WorkerId, workers: &[WorkerSighting]) -> Option<&WorkerCard> {
    workers.iter().map(|seen| &seen.card).find(|card| card.id == worker)
}

fn row(lease: &LeaseRecord, workers: &[WorkerSighting], now: Timestamp) -> Vec<Cell> {
    let notes = lease.metadata.notes();
    let ago = |at: Timestamp| format!("{} ago", show_span(round(now.since(at))));
    let is_held = lease.is_held(now);
    // A run of some duties lasts for a while, in which it does one thing after the other.
    let running =
        lease.running_since(now).map(|since| format!("running for {}", show_span(round(now.since(since)))));
    let cells = [
        lease.duty.to_string(),
        leader(lease, workers, now),
        if is_held { ago(lease.since) } else { String::new() },
        ago(lease.heartbeat),
        lease.takeovers.to_string(),
        running.or(notes.last_run.map(ago)).unwrap_or_default(),
        notes.items.to_string(),
        notes.errors.to_string(),
        remark(lease, now),
    ];
    cells.into_iter().map(Cell::new).collect()
}

/// What somebody should look at.
fn remark(lease: &LeaseRecord, now: Timestamp) -> String {
    let stuck = lease.stuck_for(now).map(|lasting| format!("stuck for {}", show_span(round(lasting))));
    let asked = (lease.asked_to_step_down && lease.is_held(now)).then(|| "asked to step down".to_owned());
    stuck.into_iter().chain(asked).collect::<Vec<_>>().join(", ")
}

async fn show(args: &LeaseArgs, context: &mut Context) -> Result<Code, Failure> {
    let (read, workers) = (context.engine.leases().await?, context.engine.workers().await?);
    let (now, lease) = (read.now, found(&args.duty, &read.leases)?);
    if context.output.is_json() {
        context.output.json(&view(lease, &workers, now))?;
        return Ok(Code::Ok);
    }
    let notes = lease.metadata.notes();
    let span = |span: Option<Duration>| span.map_or("unknown".to_owned(), |span| show_span(round(span)));
    let at = |at: Option<Timestamp>| at.map_or("never".to_owned(), |at| at.to_string());
    let pairs = [
        ("duty", lease.duty.to_string()),
        ("leader", leader(lease, &workers, now)),
        ("since", lease.since.to_string()),
        ("heartbeat", lease.heartbeat.to_string()),
        ("expires", format!("{} after a heartbeat", show_span(lease.expiry))),
        ("fence", lease.term.fence.to_string()),
        ("term", lease.term.id.to_string()),
        ("takeovers", lease.takeovers.to_string()),
        ("runs", format!("{}, every {}", notes.runs, span(notes.every))),
        ("items", notes.items.to_string()),
        ("errors", notes.errors.to_string()),
        ("last run", at(notes.last_run)),
        ("took", format!("{}; the longest {}", span(notes.last_took), span(notes.longest))),
        ("last error", notes.last_error.as_deref().map(printable).unwrap_or_default()),
        ("running since", lease.running_since(now).map(|at| at.to_string()).unwrap_or_default()),
        ("was stuck", format!("{} times, last {}", notes.times_stuck, at(notes.last_stuck))),
        ("remark", remark(lease, now)),
    ];
    context.output.pairs(pairs.into_iter().map(|(name, text)| (name, Cell::new(text))).collect())?;
    Ok(Code::Ok)
}

async fn step_down(args: &LeaseArgs, context: &mut Context) -> Result<Code, Failure> {
    let duty = &args.duty;
    match context.engine.step_down(duty).await? {
        Changed::Done => {
            let done = json!({ "duty": duty, "asked": true });
            context.output.either(&done, || {
                format!("the leader of {duty} is asked to step down, and does so within a few seconds")
            })?;
            Ok(Code::Ok)
        }
        Changed::Unchanged => asked_before(duty, context).await,
        Changed::NotFound => {
            let read = context.engine.leases().await?;
            found(duty, &read.leases)?;
            Err(Failure::new(Code::Refused, format!("the lease of {duty} is changing; try again")))
        }
    }
}

/// Nothing changed: its leader was asked before and has not answered yet, or there is none.
async fn asked_before(duty: &DutyName, context: &mut Context) -> Result<Code, Failure> {
    let read = context.engine.leases().await?;
    let lease = found(duty, &read.leases)?;
    if !lease.is_held(read.now) {
        return Err(Failure::new(Code::Refused, format!("nobody holds the lease of {duty}")));
    }
    let done = json!({ "duty": duty, "asked": true });
    context.output.either(&done, || format!("the leader of {duty} was asked already, and does so soon"))?;
    Ok(Code::Ok)
}

fn found<'a>(duty: &DutyName, leases: &'a [LeaseRecord]) -> Result<&'a LeaseRecord, Failure> {
    let known: Vec<_> = leases.iter().map(|lease| lease.duty.as_str()).collect();
    let hint = match known.as_slice() {
        [] => "no duty was done yet; one is as soon as a worker runs".to_owned(),
        _ => suggest(duty.as_str(), known),
    };
    let missing = || Failure::not_found(format_args!("duty {duty}")).hint(hint);
    leases.iter().find(|lease| lease.duty == *duty).ok_or_else(missing)
}

/// People need no microseconds.
pub(super) fn round(span: Duration) -> Duration {
    match span {
        span if span >= Duration::from_secs(10) => Duration::from_secs(span.as_secs()),
        span => Duration::from_millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)),
    }
}

/// A lease as JSON. This shape is part of the contract.
fn view(lease: &LeaseRecord, workers: &[WorkerSighting], now: Timestamp) -> Value {
    let notes = lease.metadata.notes();
    let text = |at: Option<Timestamp>| at.map(|at| at.to_string());
    let millis = |span: Option<Duration>| span.map(|span| span.as_millis());
    let holder = lease.holder.filter(|_| lease.is_held(now));
    let card = holder.and_then(|holder| card(holder, workers));
    json!({
        "duty": lease.duty,
        "leader": holder.map(|holder| holder.to_string()),
        "leader_host": card.map(|card| &card.host),
        "leader_pid": card.map(|card| card.pid),
        "since": lease.since.to_string(),
        "heartbeat": lease.heartbeat.to_string(),
        "heartbeat_age_ms": now.since(lease.heartbeat).as_millis(),
        "expiry_ms": lease.expiry.as_millis(),
        "fence": lease.term.fence,
        "term": lease.term.id.to_string(),
        "takeovers": lease.takeovers,
        "asked_to_step_down": lease.asked_to_step_down,
        "runs": notes.runs,
        "items": notes.items,
        "errors": notes.errors,
        "last_error": notes.last_error,
        "running_since": text(lease.running_since(now)),
        "last_run": text(notes.last_run),
        "last_took_ms": millis(notes.last_took),
        "longest_ms": millis(notes.longest),
        "every_ms": millis(notes.every),
        "stuck_for_ms": millis(lease.stuck_for(now)),
        "times_stuck": notes.times_stuck,
        "last_stuck": text(notes.last_stuck),
        "kept": lease.metadata.kept(),
    })
}

#[cfg(test)]
mod tests;
