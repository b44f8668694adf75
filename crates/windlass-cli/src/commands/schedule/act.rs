//! What people do to a schedule: run, pause, resume, skip-next, remove.

use std::time::Duration;

use clap::Args;
use serde_json::json;
use windlass_core::admin::Changed;
use windlass_core::enqueue::EnqueueAnswer;
use windlass_core::limits::DELAY_MAX;
use windlass_core::names::ScheduleName;
use windlass_core::schedules::Put;
use windlass_core::span::{parse_span, show_span};

use super::schedules;
use crate::commands::job::act::parse_reason;
use crate::context::Context;
use crate::exit::{Code, Failure};

/// Holds a schedule back. What falls due meanwhile is dropped.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass schedule pause sitemap --for 2d --reason 'the shop moves'
  windlass schedule pause sitemap")]
pub(crate) struct PauseArgs {
    /// The schedule
    #[arg(value_name = "NAME")]
    name: ScheduleName,
    /// Why, for whoever looks at it later
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    reason: Option<String>,
    /// Go on after this time [default: until it is resumed]
    #[arg(long = "for", value_name = "SPAN", value_parser = parse_span)]
    lasting: Option<Duration>,
}

/// Forgets a schedule. If code or configuration still declares it, the next start stores it again.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  windlass schedule remove sitemap\n\nExit codes: 3 no such schedule, 4 not confirmed."
)]
pub(crate) struct RemoveArgs {
    /// The schedule
    #[arg(value_name = "NAME")]
    name: ScheduleName,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

pub(super) async fn run(name: &ScheduleName, context: &mut Context) -> Result<Code, Failure> {
    let (tick, put) = schedules(context).run(name).await?;
    match put {
        Put::Answered(EnqueueAnswer::Refused(why)) => Err(Failure::new(Code::Refused, why.to_string())),
        Put::Answered(answer) => {
            let job = answer.job().map_or(0, |id| id.0);
            let value = json!({ "name": name, "job": job, "tick": tick.to_string() });
            context.output.either(&value, || format!("{name} put job {job} in"))?;
            Ok(Code::Ok)
        }
        Put::Overlaps(last) => {
            Err(Failure::new(Code::Refused, format!("job {last} of {name} is still live")))
        }
    }
}

pub(super) async fn pause(args: &PauseArgs, context: &mut Context) -> Result<Code, Failure> {
    let name = &args.name;
    if args.lasting.is_some_and(|lasting| lasting > DELAY_MAX || lasting.is_zero()) {
        return Err(Failure::usage("expected a time of up to ten years to pause for"));
    }
    let changed = schedules(context).pause(name, args.reason.as_deref(), args.lasting).await?;
    let value = json!({ "name": name, "state": "paused", "changed": changed == Changed::Done });
    context.output.either(&value, || match args.lasting {
        Some(lasting) => format!("{name} is paused for {}", show_span(lasting)),
        None => format!("{name} is paused until it is resumed"),
    })?;
    Ok(Code::Ok)
}

pub(super) async fn resume(name: &ScheduleName, context: &mut Context) -> Result<Code, Failure> {
    let changed = schedules(context).resume(name).await?;
    let value = json!({ "name": name, "state": "active", "changed": changed == Changed::Done });
    context.output.either(&value, || match changed {
        Changed::Done => format!("{name} goes on"),
        _ => format!("{name} was not paused"),
    })?;
    Ok(Code::Ok)
}

pub(super) async fn skip_next(name: &ScheduleName, context: &mut Context) -> Result<Code, Failure> {
    let Some(tick) = schedules(context).skip_next(name).await? else {
        return Err(Failure::new(Code::Refused, format!("{name} has no next tick that could be left out"))
            .hint("it may be paused until it is resumed"));
    };
    let value = json!({ "name": name, "skip": tick.to_string() });
    context.output.either(&value, || format!("{name} leaves out {tick}"))?;
    Ok(Code::Ok)
}

pub(super) async fn remove(args: &RemoveArgs, context: &mut Context) -> Result<Code, Failure> {
    let name = &args.name;
    context.confirm(
        args.yes,
        &format!("removing schedule {name} forgets it; its jobs stay"),
        name.as_str(),
    )?;
    if schedules(context).remove(name).await? == Changed::NotFound {
        return Err(Failure::not_found(format_args!("schedule {name}")).hint("see `windlass schedule list`"));
    }
    context.output.either(&json!({ "name": name, "removed": true }), || format!("{name} is removed"))?;
    Ok(Code::Ok)
}
