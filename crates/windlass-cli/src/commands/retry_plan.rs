//! `windlass retry-plan`: the timetable of a retry policy, before a job fails.

use std::time::Duration;

use clap::Args;
use comfy_table::Cell;
use serde_json::{Value, json};
use windlass_core::limits::FAILURES_MAX;
use windlass_core::names::TypeName;
use windlass_core::retry::{Band, Planned, RetryPolicy, timetable};
use windlass_core::span::{parse_span, show_span};

use crate::config::Config;
use crate::config::retry::{PolicyParts, parse_delays};
use crate::exit::{Code, Failure};
use crate::output::Output;

/// The number of lines that are printed by default of a long timetable.
const LINES_DEFAULT: u32 = 25;

/// Prints when a job that fails each time would be retried, with the earliest and latest times that jitter
/// allows.
#[derive(Debug, Args)]
#[command(after_help = "\
Policies:
  exponential  2^(n-1) x base, at most --max, times 0.75 to 1.25  (--base 30s --max 24h --attempts 5)
  backfill     min(2^(n-1) x base, max) plus up to a quarter      (--base 2m --max 60m --attempts 5)
  fibonacci    1, 1, 2, 3, 5, 8 ... units                         (--unit 1m --attempts 20)
  progressive  by the age of the job, in tiers
  fixed        always --every                                     (--attempts 5)
  list         --delays, one after the other
  never        the first failure is the last

Examples:
  windlass retry-plan --policy fibonacci --unit 1m --failures 10
  windlass retry-plan --policy exponential --base 10s --attempts 8
  windlass retry-plan --type mail.send")]
pub(crate) struct RetryPlanArgs {
    /// The policy [default: the policy of [retry] in the configuration]
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// Use the policy of this job type in the configuration
    #[arg(long = "type", value_name = "TYPE", conflicts_with = "policy")]
    job_type: Option<TypeName>,
    /// The delay after the first failure
    #[arg(long, value_name = "SPAN", value_parser = parse_span, requires = "policy")]
    base: Option<Duration>,
    /// The longest delay
    #[arg(long, value_name = "SPAN", value_parser = parse_span, requires = "policy")]
    max: Option<Duration>,
    /// The unit of fibonacci
    #[arg(long, value_name = "SPAN", value_parser = parse_span, requires = "policy")]
    unit: Option<Duration>,
    /// The delay of fixed
    #[arg(long, value_name = "SPAN", value_parser = parse_span, requires = "policy")]
    every: Option<Duration>,
    /// The number of attempts; the failure of the last attempt is final
    #[arg(long, value_name = "N", requires = "policy")]
    attempts: Option<u32>,
    /// The delays of list, such as 1s,30s,5m
    #[arg(long, value_name = "SPANS", requires = "policy")]
    delays: Option<String>,
    /// The number of failures to show, even if the policy's default attempts are fewer
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..i64::from(FAILURES_MAX)))]
    failures: Option<u32>,
}

/// Prints the timetable.
pub(crate) fn retry_plan(
    args: &RetryPlanArgs,
    config: &Config,
    output: &mut Output,
) -> Result<Code, Failure> {
    let policy = stretched(chosen(args, config)?, args);
    let lines = timetable(&policy, args.failures.unwrap_or(FAILURES_MAX));
    let shown = if args.failures.is_some() { lines.len() } else { lines.len().min(LINES_DEFAULT as usize) };
    if output.is_json() {
        let plan: Vec<_> = lines[..shown].iter().map(line_json).collect();
        output.json(&json!({ "policy": policy, "plan": plan, "more": shown < lines.len() }))?;
        return Ok(Code::Ok);
    }
    output.table(
        &["failure", "wait", "next attempt, since the first"],
        lines[..shown].iter().map(row).collect(),
        "",
    )?;
    if shown < lines.len() {
        output.note(format!("{} more lines; show them with --failures N", lines.len() - shown));
    }
    Ok(Code::Ok)
}

fn chosen(args: &RetryPlanArgs, config: &Config) -> Result<RetryPolicy, Failure> {
    if let Some(name) = &args.job_type {
        let spec = config.types.iter().find(|spec| spec.name == *name);
        let missing = || Failure::not_found(format_args!("job type {name} in the configuration"));
        return Ok(spec.ok_or_else(missing)?.retry.clone());
    }
    let Some(policy) = args.policy.clone() else { return Ok(config.retry.clone()) };
    let parts = PolicyParts {
        policy,
        base: args.base,
        max: args.max,
        unit: args.unit,
        every: args.every,
        attempts: args.attempts,
        delays: args.delays.as_deref().map(parse_delays).transpose().map_err(Failure::usage)?,
        tiers: None,
    };
    parts.build().map_err(Failure::usage)
}

/// Extends the default attempts of a policy to the requested number of failures, unless `--attempts` sets
/// an end.
fn stretched(policy: RetryPolicy, args: &RetryPlanArgs) -> RetryPolicy {
    match (args.failures, args.attempts) {
        (Some(failures), None) => policy.with_attempts(failures + 1),
        _ => policy,
    }
}

fn row(line: &Planned) -> Vec<Cell> {
    let (wait, next) = match &line.wait {
        Some(wait) => (show_band(wait), show_band(&line.since_first_try)),
        None => ("dead".to_owned(), String::new()),
    };
    vec![Cell::new(line.failures), Cell::new(wait), Cell::new(next)]
}

fn show_band(band: &Band) -> String {
    let (shortest, longest) = (show_span(band.shortest), show_span(band.longest));
    if band.shortest == band.longest { shortest } else { format!("{shortest} to {longest}") }
}

fn line_json(line: &Planned) -> Value {
    let band = |band: &Band| json!({ "shortest_s": band.shortest.as_secs_f64(), "longest_s": band.longest.as_secs_f64() });
    json!({
        "failures": line.failures,
        "wait": line.wait.as_ref().map(band),
        "next_try_since_first": line.wait.as_ref().map(|_| band(&line.since_first_try)),
        "given_up": line.wait.is_none(),
    })
}
