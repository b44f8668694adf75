//! `windlass stats`: shows what happened, by minute, hour or day.

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

/// Shows how many jobs were enqueued, started and ended, and how long they waited and ran. Failed attempts
/// are those that were retried and those of dead jobs. Shown times differ from the true times by at most a
/// ninth.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass stats
  windlass stats --queue high --since 24h --by hour
  windlass stats --type mail.send --since 2026-11-01T00:00:00Z --until 2026-11-08T00:00:00Z --json

Events of the last minute may not be rolled up yet, and ends may be rolled up a minute later than starts. Rollups are kept for 30 days, or as [worker] rollups_kept says.

Exit codes: 2 the range is invalid, 3 no such queue or type.")]
pub(crate) struct StatsArgs {
    /// Only jobs of this queue
    #[arg(long, value_name = "QUEUE")]
    queue: Option<QueueName>,
    /// Only jobs of this job type
    #[arg(long = "type", value_name = "TYPE")]
    job_type: Option<TypeName>,
    /// The start of the range: an instant, or how long ago
    #[arg(long, value_name = "SPAN|INSTANT", default_value = "1h", value_parser = parse_when)]
    since: Since,
    /// The end of the range: an instant, or how long ago [default: now]
    #[arg(long, value_name = "SPAN|INSTANT", value_parser = parse_when)]
    until: Option<Since>,
    /// The unit of a line [default: minute up to three hours, hour up to four days, else day]
    #[arg(long, value_enum)]
    by: Option<Slot>,
}

/// The unit of a line of the table.
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

/// The longest ranges that are shown by minute and by hour unless `--by` says otherwise.
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

/// Runs `windlass stats`.
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
    let reported = Rollups::new(context.engine.clone()).report(&request).await?;
    if reported.damaged > 0 {
        context.output.note(format!("{} rollups cannot be read and are missing here", reported.damaged));
    }
    match context.output.is_json() {
        true => context.output.json(&view(&reported, by))?,
        false => table(&reported, by, context)?,
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

/// Fails for an unknown queue or type: without jobs it would look like a quiet one.
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

fn table(reported: &Reported, by: By, context: &mut Context) -> Result<(), Failure> {
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
    for (at, tally) in reported.report.slots() {
        rows.extend(before.and_then(|before| quiet_row(before, at, by)));
        rows.push(row(&slot(at, by), tally));
        before = Some(at);
    }
    if !rows.is_empty() {
        rows.push(row("total", reported.report.total()));
    }
    let empty = format!("no rollups between {} and {}", reported.from, reported.until);
    context.output.table(&header, rows, &empty)
}

/// A row in place of lines in which nothing happened, so that a gap does not look like consecutive lines.
fn quiet_row(before: Timestamp, at: Timestamp, by: By) -> Option<Vec<Cell>> {
    let count = by.between(before, at);
    let plural = if count == 1 { "" } else { "s" };
    (count > 0).then(|| vec![Cell::new(format!("({count} quiet {}{plural})", by.as_str()))])
}

/// The part of an instant that names its slot.
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

/// A report as JSON. This shape is part of the contract.
fn view(reported: &Reported, by: By) -> Value {
    let slots: Vec<_> = reported
        .report
        .slots()
        .map(|(at, tally)| {
            let mut slot = tally_view(tally);
            slot["at"] = json!(at.to_string());
            slot
        })
        .collect();
    json!({
        "from": reported.from.to_string(),
        "until": reported.until.to_string(),
        "by": by.as_str(),
        "slots": slots,
        "total": tally_view(reported.report.total()),
        "unreadable_rollups": reported.damaged,
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
