//! `windlass schedule add`: checks everything about a schedule, then stores it.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::json;
use windlass::schedules::Declared;
use windlass_core::names::{QueueName, ScheduleName, Tag, TypeName};
use windlass_core::payload::Payload;
use windlass_core::schedule::{CatchUp, Missed};
use windlass_core::schedules::{JobTemplate, Origin, Overlap, ScheduleSpec};
use windlass_core::span::parse_span;

use super::next::{read_holidays, read_schedule};
use super::schedules;
use crate::commands::job::draft::ProvenanceArgs;
use crate::context::Context;
use crate::exit::{Code, Failure};

/// Stores a schedule, or changes the stored one of the same name. Settings that are not given get their
/// defaults, not their previous values. Processes that fire schedules see the change within 20 s.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass schedule add sitemap \"daily at 02:00, Europe/Berlin\" --job sitemap.build
  windlass schedule add stocks \"every 5m, 9:30-16:00, mon-fri, America/New_York\" --job stocks.refresh --overlap skip
  windlass schedule add report \"weekly on mon at 07:00\" --job report.send --payload '{\"to\": \"all\"}' --missed skip

Exit codes: 2 the schedule or its job is invalid; nothing was stored.")]
pub(crate) struct AddArgs {
    /// The name of the schedule
    #[arg(value_name = "NAME")]
    name: ScheduleName,
    /// When it runs, as in `windlass schedule next`; quote it, since a shell expands stars
    #[arg(value_name = "EXPR", required = true, num_args = 1..)]
    schedule: Vec<String>,
    /// The type of its jobs; an unregistered type is accepted, with a warning
    #[arg(long, value_name = "TYPE")]
    job: TypeName,
    /// The payload of its jobs, as JSON
    #[arg(long, value_name = "JSON", default_value = "{}")]
    payload: String,
    /// The time zone, if the schedule names none [default: UTC]
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,
    /// The file of the dates that `except holidays` leaves out, a date and a name a line
    #[arg(long, value_name = "FILE")]
    holidays: Option<PathBuf>,
    /// The queue of its jobs, which must be the queue of their type
    #[arg(long, value_name = "NAME")]
    queue: Option<QueueName>,
    /// The priority of its jobs: 0 (most urgent) to 10, or a label
    #[arg(long, value_name = "PRIORITY")]
    priority: Option<String>,
    /// A tag to find its jobs by; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<Tag>,
    /// How long the handler of its jobs may run
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    timeout: Option<Duration>,
    #[command(flatten)]
    provenance: ProvenanceArgs,
    /// What happens to ticks that no process saw in time
    #[arg(long, value_enum, default_value_t)]
    missed: MissedChoice,
    /// With --missed run-all, the maximum number of missed ticks to run at once [default: 100]
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// Drop ticks that are later than this
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    lateness: Option<Duration>,
    /// A tick that is seen within this time was not missed [default: 1m]
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    grace: Option<Duration>,
    /// What happens to a tick while the last job waits or runs
    #[arg(long, value_enum, default_value_t)]
    overlap: OverlapChoice,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum MissedChoice {
    Skip,
    #[default]
    RunOnce,
    RunAll,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum OverlapChoice {
    #[default]
    Allow,
    Skip,
    Replace,
}

pub(super) async fn add(args: &AddArgs, context: &mut Context) -> Result<Code, Failure> {
    let spec = spec(args, context)?;
    let declared = schedules(context).declare(std::slice::from_ref(&spec), Origin::Cli).await?;
    let how = match declared.first() {
        Some((_, Declared::New)) => "stored",
        Some((_, Declared::Updated)) => "changed",
        _ => "unchanged",
    };
    let known = context.engine.types().await?.iter().any(|status| status.spec.name == spec.job.job_type);
    if !known {
        context.output.note(format!(
            "job type {} is not registered yet; until it is, the job of each tick is refused",
            spec.job.job_type
        ));
    }
    let (name, text, words) = (&spec.name, spec.schedule.to_string(), spec.schedule.words());
    let value =
        json!({ "name": name, "result": how, "schedule": text, "words": words, "type_is_known": known });
    context.output.either(&value, || format!("{name} is {how}: {words}"))?;
    Ok(Code::Ok)
}

fn spec(args: &AddArgs, context: &Context) -> Result<ScheduleSpec, Failure> {
    let schedule = read_schedule(&args.schedule.join(" "), args.tz.as_deref())?;
    let holidays = read_holidays(args.holidays.as_deref(), &schedule)?;
    let priority = args.priority.as_ref().map(|written| context.priority(written)).transpose()?;
    let job = JobTemplate {
        payload: Payload::parse(&args.payload).map_err(|why| Failure::usage(why.to_string()))?,
        queue: args.queue.clone(),
        priority: priority.map(|(priority, _)| priority),
        tags: args.tags.clone(),
        timeout: args.timeout,
        provenance: args.provenance.clone().into(),
        ..JobTemplate::new(args.job.clone())
    };
    let default = CatchUp::default();
    let catch_up = CatchUp {
        missed: match args.missed {
            MissedChoice::Skip => Missed::Skip,
            MissedChoice::RunOnce => Missed::RunOnce,
            MissedChoice::RunAll => Missed::RunAll,
        },
        limit: args.limit.unwrap_or(default.limit),
        lateness: args.lateness,
        grace: args.grace.unwrap_or(default.grace),
    };
    let overlap = match args.overlap {
        OverlapChoice::Allow => Overlap::Allow,
        OverlapChoice::Skip => Overlap::Skip,
        OverlapChoice::Replace => Overlap::Replace,
    };
    Ok(ScheduleSpec { holidays, catch_up, overlap, ..ScheduleSpec::new(args.name.clone(), schedule, job) })
}
