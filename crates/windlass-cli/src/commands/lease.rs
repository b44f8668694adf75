//! `windlass lease`: shows which process does which duty for all, and since when. Most duties have a lease;
//! on PostgreSQL some may be done under advisory locks.

mod locks;

use std::time::Duration;

use clap::{Args, Subcommand};
use comfy_table::Cell;
use serde_json::{Value, json};
use windlass_core::admin::Changed;
use windlass_core::clock::Timestamp;
use windlass_core::duty::DutyMode;
use windlass_core::lease::{LeasesRead, LockRecord, StoredLease};
use windlass_core::names::DutyName;
use windlass_core::span::show_span;
use windlass_core::worker::{WorkerCard, WorkerId, WorkerSighting};

use crate::config::suggest;
use crate::context::Context;
use crate::exit::{Code, Failure};
use crate::output::printable;

/// Show which process leads each duty, and make a leader step down.
#[derive(Debug, Subcommand)]
pub(crate) enum LeaseCommand {
    /// List all duties that one process at a time does
    #[command(after_help = "Example:\n  windlass lease list --json")]
    List,
    /// Show everything about the lease of a duty
    #[command(after_help = "Example:\n  windlass lease show rescue\n\nExit codes: 3 no such duty.")]
    Show(LeaseArgs),
    /// Ask the leader of a duty to release its lease to another process
    #[command(
        after_help = "Example:\n  windlass lease step-down rescue\n\nExit codes: 3 no such duty, 4 no process holds it."
    )]
    StepDown(LeaseArgs),
}

/// Names a duty.
#[derive(Debug, Args)]
pub(crate) struct LeaseArgs {
    /// The name of the duty
    #[arg(value_name = "DUTY")]
    duty: DutyName,
}

/// Runs a lease command.
pub(crate) async fn run(command: &LeaseCommand, context: &mut Context) -> Result<Code, Failure> {
    match command {
        LeaseCommand::List => list(context).await,
        LeaseCommand::Show(args) => show(args, context).await,
        LeaseCommand::StepDown(args) => step_down(args, context).await,
    }
}

async fn list(context: &mut Context) -> Result<Code, Failure> {
    let (read, workers) = (context.engine.leases().await?, context.engine.workers().await?);
    let duties = duties(&read, &workers);
    if context.output.is_json() {
        let views: Vec<_> = duties.iter().map(|duty| duty.view(&workers, read.now)).collect();
        context.output.json(&views)?;
        return Ok(Code::Ok);
    }
    let header =
        ["duty", "leader", "since", "heartbeat", "takeovers", "last run", "items", "errors", "remark"];
    let rows = duties.iter().map(|duty| duty.row(&workers, read.now)).collect();
    context.output.table(&header, rows, "no duty has been done yet")?;
    Ok(Code::Ok)
}

/// The right to do a duty: a lease or an advisory lock.
enum Right<'a> {
    Lease(&'a StoredLease),
    Lock(&'a LockRecord),
}

impl Right<'_> {
    fn duty(&self) -> &DutyName {
        match self {
            Self::Lease(lease) => &lease.duty,
            Self::Lock(lock) => &lock.duty,
        }
    }

    fn is_held(&self, now: Timestamp) -> bool {
        match self {
            Self::Lease(lease) => lease.is_held(now),
            Self::Lock(lock) => lock.holder.is_some(),
        }
    }

    fn row(&self, workers: &[WorkerSighting], now: Timestamp) -> Vec<Cell> {
        match self {
            Self::Lease(lease) => row(lease, workers, now),
            Self::Lock(lock) => locks::row(lock, workers, now),
        }
    }

    fn view(&self, workers: &[WorkerSighting], now: Timestamp) -> Value {
        match self {
            Self::Lease(lease) => view(lease, workers, now),
            Self::Lock(lock) => locks::view(lock, workers),
        }
    }
}

/// All rights, ordered by the name of their duty. A duty that changes from a lease to a lock, or back, may
/// be listed twice for a while.
fn duties<'a>(read: &'a LeasesRead, workers: &'a [WorkerSighting]) -> Vec<Right<'a>> {
    let locks = read.locks_that_count(workers).map(Right::Lock);
    let mut duties: Vec<_> = read.leases.iter().map(Right::Lease).chain(locks).collect();
    duties.sort_by(|one, other| one.duty().cmp(other.duty()));
    duties
}

/// The holder of a lease, as operators know it: its id in the store, its host and its process id. A worker
/// that the store no longer lists has only its id.
fn leader(lease: &StoredLease, workers: &[WorkerSighting], now: Timestamp) -> String {
    let holder = lease.holder.filter(|_| lease.is_held(now));
    holder.map_or("no process".to_owned(), |holder| named(holder, workers))
}

fn named(worker: WorkerId, workers: &[WorkerSighting]) -> String {
    match card(worker, workers) {
        Some(card) => format!("{worker} ({}, pid {})", printable(&card.host), card.pid),
        None => worker.to_string(),
    }
}

fn card(worker: WorkerId, workers: &[WorkerSighting]) -> Option<&WorkerCard> {
    workers.iter().map(|seen| &seen.card).find(|card| card.id == worker)
}

fn row(lease: &StoredLease, workers: &[WorkerSighting], now: Timestamp) -> Vec<Cell> {
    let notes = lease.metadata.notes();
    let ago = |at: Timestamp| format!("{} ago", show_span(round(now.since(at))));
    let is_held = lease.is_held(now);
    // A run of some duties, such as listening, lasts for a while, in which it does many things in turn.
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

/// The column `remark`: what an operator should act on.
fn remark(lease: &StoredLease, now: Timestamp) -> String {
    let stuck = lease.stuck_for(now).map(|lasting| format!("stuck for {}", show_span(round(lasting))));
    let asked = (lease.asked_to_step_down && lease.is_held(now)).then(|| "asked to step down".to_owned());
    stuck.into_iter().chain(asked).collect::<Vec<_>>().join(", ")
}

async fn show(args: &LeaseArgs, context: &mut Context) -> Result<Code, Failure> {
    let (read, workers) = (context.engine.leases().await?, context.engine.workers().await?);
    let (now, rights) = (read.now, duties(&read, &workers));
    let right = found(&args.duty, &rights, now)?;
    if context.output.is_json() {
        context.output.json(&right.view(&workers, now))?;
        return Ok(Code::Ok);
    }
    let pairs = match right {
        Right::Lease(lease) => pairs(lease, &workers, now),
        Right::Lock(lock) => locks::pairs(lock, &workers),
    };
    context.output.pairs(pairs.into_iter().map(|(name, text)| (name, Cell::new(text))).collect())?;
    Ok(Code::Ok)
}

fn pairs(lease: &StoredLease, workers: &[WorkerSighting], now: Timestamp) -> Vec<(&'static str, String)> {
    let notes = lease.metadata.notes();
    let span = |span: Option<Duration>| span.map_or("unknown".to_owned(), |span| show_span(round(span)));
    let at = |at: Option<Timestamp>| at.map_or("never".to_owned(), |at| at.to_string());
    vec![
        ("duty", lease.duty.to_string()),
        ("leader", leader(lease, workers, now)),
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
    ]
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
        Changed::NotFound => Err(no_lease(duty, context).await?),
    }
}

/// Handles a request that changed nothing. Either the leader was asked before and has not stepped down yet,
/// or no process leads, or the duty is now done under a lock and an older lease is left.
async fn asked_before(duty: &DutyName, context: &mut Context) -> Result<Code, Failure> {
    let (read, workers) = (context.engine.leases().await?, context.engine.workers().await?);
    match found(duty, &duties(&read, &workers), read.now)? {
        Right::Lock(lock) => return Err(locks::cannot_be_asked(lock, &workers)),
        Right::Lease(lease) if !lease.is_held(read.now) => {
            return Err(Failure::new(Code::Refused, format!("no process holds the lease of {duty}")));
        }
        Right::Lease(_) => {}
    }
    let done = json!({ "duty": duty, "asked": true });
    context
        .output
        .either(&done, || format!("the leader of {duty} was already asked to step down, and does so soon"))?;
    Ok(Code::Ok)
}

/// The reason why the store found no lease to release.
async fn no_lease(duty: &DutyName, context: &mut Context) -> Result<Failure, Failure> {
    let (read, workers) = (context.engine.leases().await?, context.engine.workers().await?);
    let rights = duties(&read, &workers);
    match found(duty, &rights, read.now)? {
        Right::Lock(lock) => Ok(locks::cannot_be_asked(lock, &workers)),
        Right::Lease(_) => {
            Ok(Failure::new(Code::Refused, format!("the lease of {duty} is changing; try again")))
        }
    }
}

/// The right that a process holds, if a duty has both a lease and a lock.
fn found<'a>(duty: &DutyName, rights: &'a [Right<'a>], now: Timestamp) -> Result<&'a Right<'a>, Failure> {
    let known: Vec<_> = rights.iter().map(|right| right.duty().as_str()).collect();
    let hint = match known.as_slice() {
        [] => "no duty has been done yet; start a worker with maintenance".to_owned(),
        _ => suggest(duty.as_str(), known),
    };
    let missing = || Failure::not_found(format_args!("duty {duty}")).hint(hint);
    let of_duty = || rights.iter().filter(|right| right.duty() == duty);
    of_duty().find(|right| right.is_held(now)).or_else(|| of_duty().next()).ok_or_else(missing)
}

/// Rounds a span for output: operators need no microseconds.
pub(super) fn round(span: Duration) -> Duration {
    match span {
        span if span >= Duration::from_secs(10) => Duration::from_secs(span.as_secs()),
        span => Duration::from_millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)),
    }
}

/// A lease as JSON. This shape is part of the contract.
fn view(lease: &StoredLease, workers: &[WorkerSighting], now: Timestamp) -> Value {
    let notes = lease.metadata.notes();
    let text = |at: Option<Timestamp>| at.map(|at| at.to_string());
    let millis = |span: Option<Duration>| span.map(|span| span.as_millis());
    let holder = lease.holder.filter(|_| lease.is_held(now));
    let card = holder.and_then(|holder| card(holder, workers));
    json!({
        "duty": lease.duty,
        "mode": DutyMode::Lease,
        "leader": holder.map(|holder| holder.to_string()),
        "leader_host": card.map(|card| &card.host),
        "leader_pid": card.map(|card| card.pid),
        "since": lease.since.to_string(),
        "session": Value::Null,
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
