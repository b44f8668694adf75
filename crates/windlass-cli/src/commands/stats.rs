//! `windlass stats`: what happened, by minute, hour or day.

use std::time::Duration;

use clap::{Args, ValueEnum};
use comfy_table::Cell;
use serde_json::{Value, json};
use windlass::rollups::{Histogram, ReportError, ReportRequest, Reported, Rollups, Since, Tally};
use windlass_core::clock::Timestamp;
use windlass_core::names::{QueueName, TypeName};
use windlass_core::rollups::By;
use windlass_core::span::{parse_span, show_span};

use crate::config::suggest;
use crate::context::Context;
use crate::exit::{Code, Failure};

/// Shows how many jobs came, started and ended, how long they waited and how long they ran. Failed attempts are those that were retried and those of
/// dead jobs. Times are told within a ninth of them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass stats
  windlass stats --queue high --since 24h --by hour
  windlass stats --type mail.send --since 2026-11-01T00:00:00Z --until 2026-11-08T00:00:00Z --json

What happened within the last minute may not be booked yet, and ends may be booked up to a minute later than starts. Minutes are kept for 30 days, or as [worker] rollups_kept says.

Exit codes: 2 a range that makes no sense, 3 no such queue or type.")]
pub(crate) struct StatsArgs {
    /// Only of this queue
    #[arg(long, value_name = "QUEUE")]
    queue: Option<QueueName>,
    /// Only of this job type
    #[arg(long = "type", value_name = "TYPE")]
    job_type: Option<TypeName>,
    /// From when on: an instant, or how long ago
    #[arg(long, value_name = "SPAN|INSTANT", default_value = "1h", value_parser = parse_when)]
    since: Since,
    /// Up to when: an instant, or how long ago [default: now]
    #[arg(long, value_name = "SPAN|INSTANT", value_parser = parse_when)]
    until: Option<Since>,
    /// What is one line [default: minute up to three hours, hour up to four days, else day]
    #[arg(long, value_enum)]
    by: Option<Slot>,
}

/// What one line of the table is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Slot {
    /// A minute
    Minute,
    /// An hour, in UTC
    Hour,
    /// A day, in UTC
    Day,
}

impl From<Slot> for By {
    fn from(slot: Slot) -> Self {
        match slot {
            Slot::Minute => Self::Minute,
            Slot::Hour => Self::Hour,
            Slot::Day => Self::Day,
        }
    }
}

/// Up to so long a range is told by minute, and by hour, if nobody says otherwise.
const BY_MINUTE_MAX: Duration = Duration::from_secs(3 * 60 * 60);
const BY_HOUR_MAX: Duration = Duration::from_secs(4 * 24 * 60 * 60);

fn parse_when(text: &str) -> Result<Since, String> {
    let by_span = parse_span(text).map(Since::Ago);
    by_span.or_else(|_| Timestamp::parse(text).map(Since::At)).map_err(|_| {
        format!(
            "expected a span such as 90m or 24h, or an instant such as 2026-11-15T20:30:00Z, got {text:?}"
        )
    })
}

/// Shows it.
pub(crate) async fn stats(args: &StatsArgs, context: &mut Context) -> Result<Code, Failure> {
    check_names(args, context).await?;
    let now = context.engine.now().await?;
    let at = |when: Since| match when {
        Since::Ago(ago) => now.minus(ago),
        Since::At(at) => at,
    };
    let (from, until) = (at(args.since), args.until.map_or(now, at));
    let by = args.by.map_or_else(|| by_length(until.since(from)), By::from);
    let (queue, job_type) = (args.queue.clone(), args.job_type.clone());
    let request = ReportRequest { from: Since::At(from), until: Some(until), by, queue, job_type };
    let told = Rollups::new(context.engine.clone()).report(&request).await?;
    if told.damaged > 0 {
        context.output.note(format!("{} minutes cannot be read, and are missing here", told.damaged));
    }
    match context.output.is_json() {
        true => context.output.json(&view(&told, by))?,
        false => table(&told, by, context)?,
    }
    Ok(Code::Ok)
}

fn by_length(range: Duration) -> By {
    match range {
        range if range <= BY_MINUTE_MAX => By::Minute,
        range if range <= BY_HOUR_MAX => By::Hour,
        _ => By::Day,
    }
}

/// Nothing of a queue that nobody declared would look like a quiet one.
async fn check_names(args: &StatsArgs, context: &Context) -> Result<(), Failure> {
    if let Some(queue) = &args.queue {
        let queues = context.engine.queues().await?;
        let names = queues.iter().map(|status| status.spec.name.as_str()).collect();
        check_name("queue", queue.as_str(), names)?;
    }
    if let Some(job_type) = &args.job_type {
        let types = context.engine.types().await?;
        let names = types.iter().map(|status| status.spec.name.as_str()).collect();
        check_name("type", job_type.as_str(), names)?;
    }
    Ok(())
}

fn check_name(what: &str, name: &str, known: Vec<&str>) -> Result<(), Failure> {
    if known.contains(&name) {
        return Ok(());
    }
    Err(Failure::not_found(format_args!("{what} {name}")).hint(suggest(name, known)))
}

fn table(told: &Reported, by: By, context: &mut Context) -> Result<(), Failure> {
    let slot_title = format!("{} (UTC)", by.as_str());
    let header = [
        slot_title.as_str(),
        "enqueued",
        "started",
        "succeeded",
        "retried",
        "dead",
        "cancelled",
        "wait p50",
        "wait p99",
        "run p50",
        "run p99",
    ];
    let mut rows = Vec::new();
    let mut before = None;
    for (at, tally) in told.report.slots() {
        rows.extend(before.and_then(|before| quiet_row(before, at, by)));
        rows.push(row(&slot(at, by), tally));
        before = Some(at);
    }
    if !rows.is_empty() {
        rows.push(row("total", told.report.total()));
    }
    let empty = format!("nothing is booked between {} and {}", told.from, told.until);
    context.output.table(&header, rows, &empty)
}

/// Stands for lines in which nothing happened, so that a hole does not look like consecutive lines.
fn quiet_row(before: Timestamp, at: Timestamp, by: By) -> Option<Vec<Cell>> {
    let count = by.between(before, at);
    let plural = if count == 1 { "" } else { "s" };
    (count > 0).then(|| vec![Cell::new(format!("({count} quiet {}{plural})", by.as_str()))])
}

/// As much of an instant as the slot has.
fn slot(at: Timestamp, by: By) -> String {
    let text = at.to_string();
    let (day, time) = text.split_once('T').unwrap_or((&text, ""));
    match by {
        By::Day => day.to_owned(),
        By::Minute | By::Hour => format!("{day} {}", time.get(..5).unwrap_or(time)),
    }
}

fn row(title: &str, tally: &Tally) -> Vec<Cell> {
    let counts = [tally.enqueued, tally.started, tally.succeeded, tally.retried, tally.dead, tally.cancelled];
    let times =
        [time(&tally.waits, 0.5), time(&tally.waits, 0.99), time(&tally.runs, 0.5), time(&tally.runs, 0.99)];
    let texts = std::iter::once(title.to_owned()).chain(counts.map(|count| count.to_string())).chain(times);
    texts.map(Cell::new).collect()
}

fn time(of: &Histogram, share: f64) -> String {
    of.quantile(share).map_or_else(|| "-".to_owned(), show_span)
}

/// This shape is part of the contract.
fn view(told: &Reported, by: By) -> Value {
    let slots: Vec<_> = told
        .report
        .slots()
        .map(|(at, tally)| {
            let mut slot = tally_view(tally);
            slot["at"] = json!(at.to_string());
            slot
        })
        .collect();
    json!({
        "from": told.from.to_string(),
        "until": told.until.to_string(),
        "by": by.as_str(),
        "slots": slots,
        "total": tally_view(told.report.total()),
        "unreadable_rollups": told.damaged,
    })
}

fn tally_view(tally: &Tally) -> Value {
    json!({
        "enqueued": tally.enqueued,
        "started": tally.started,
        "succeeded": tally.succeeded,
        "retried": tally.retried,
        "dead": tally.dead,
        "cancelled": tally.cancelled,
        "wait_ms": times_view(&tally.waits),
        "run_ms": times_view(&tally.runs),
    })
}

fn times_view(times: &Histogram) -> Value {
    let millis = |share: f64| times.quantile(share).map(|time| time.as_micros() as f64 / 1_000.0);
    json!({ "count": times.count(), "p50": millis(0.5), "p95": millis(0.95), "p99": millis(0.99), "max": millis(1.0) })
}

impl From<ReportError> for Failure {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::Engine(error) => error.into(),
            error => Self::usage(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests;
