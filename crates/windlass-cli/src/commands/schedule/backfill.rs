//! `windlass schedule backfill`: enqueues the jobs of past ticks, after a preview.

use clap::Args;
use serde_json::json;
use windlass_core::clock::Timestamp;
use windlass_core::enqueue::EnqueueAnswer;
use windlass_core::names::ScheduleName;
use windlass_core::schedules::Put;

use super::next::parse_instant;
use super::schedules;
use crate::context::Context;
use crate::exit::{Code, Failure};

/// The maximum number of ticks that a preview names.
const PREVIEW: usize = 10;

/// Enqueues the jobs of all ticks from one instant up to, and without, another. A tick that has made its
/// job within the last thirty days makes no second one. At most 10,000 ticks, and fifty years.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass schedule backfill report --from 2027-06-01T00:00:00Z --to 2027-06-08T00:00:00Z --dry-run
  windlass schedule backfill report --from 2027-06-01T00:00:00Z --to 2027-06-08T00:00:00Z --yes

Exit codes: 2 the range is invalid, 3 no such schedule, 4 not confirmed, 5 some jobs were refused.")]
pub(crate) struct BackfillArgs {
    /// The name of the schedule
    #[arg(value_name = "NAME")]
    name: ScheduleName,
    /// The instant from which ticks count
    #[arg(long, value_name = "RFC3339", value_parser = parse_instant)]
    from: Timestamp,
    /// The instant up to which ticks count, itself excluded
    #[arg(long, value_name = "RFC3339", value_parser = parse_instant)]
    to: Timestamp,
    /// Print the ticks, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

pub(super) async fn backfill(args: &BackfillArgs, context: &mut Context) -> Result<Code, Failure> {
    let (name, schedules) = (&args.name, schedules(context));
    let ticks = schedules.ticks_of(name, args.from, args.to).await?;
    if args.dry_run {
        return preview(name, &ticks, context);
    }
    let count = ticks.len();
    let impact = format!(
        "this enqueues up to {count} jobs of {name}, for the ticks from {} to {}",
        args.from, args.to
    );
    context.confirm(args.yes, &impact, name.as_str())?;
    let put = schedules.run_ticks(name, &ticks).await?;
    let made = put.iter().filter(|put| put.new_job().is_some()).count();
    let kept = put.iter().filter(|put| matches!(put, Put::Answered(EnqueueAnswer::Duplicate(_)))).count();
    let refused = put.iter().find_map(|put| match put {
        Put::Answered(EnqueueAnswer::Refused(why)) => Some(why.to_string()),
        _ => None,
    });
    let value = json!({
        "name": name, "ticks": count, "jobs": made, "made_before": kept, "refused": count - made - kept, "why": refused,
    });
    context.output.either(&value, || {
        format!("{made} jobs of {name} enqueued; {kept} ticks had enqueued their job before")
    })?;
    match refused {
        Some(why) => {
            context.output.note(format!("{} jobs were refused: {why}", count - made - kept));
            Ok(Code::Partly)
        }
        None => Ok(Code::Ok),
    }
}

fn preview(name: &ScheduleName, ticks: &[Timestamp], context: &mut Context) -> Result<Code, Failure> {
    if context.output.is_json() {
        let all: Vec<_> = ticks.iter().map(ToString::to_string).collect();
        context.output.json(&json!({ "name": name, "ticks": ticks.len(), "dry_run": true, "at": all }))?;
        return Ok(Code::Ok);
    }
    context.output.line(format!("{} ticks of {name}; nothing was enqueued", ticks.len()))?;
    for tick in ticks.iter().take(PREVIEW) {
        context.output.line(tick.to_string())?;
    }
    if ticks.len() > PREVIEW {
        context.output.line(format!("and {} more", ticks.len() - PREVIEW))?;
    }
    Ok(Code::Ok)
}
