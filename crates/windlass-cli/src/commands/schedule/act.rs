//! `windlass schedule run`, `pause`, `resume`, `skip-next` and `remove`.

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

/// Pauses a schedule. Ticks that fall due during the pause are dropped.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass schedule pause sitemap --for 2d --reason 'the shop moves'
  windlass schedule pause sitemap")]
pub(crate) struct PauseArgs {
    /// The name of the schedule
    #[arg(value_name = "NAME")]
    name: ScheduleName,
    /// The reason, shown to operators
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    reason: Option<String>,
    /// Resume the schedule after this time [default: until it is resumed]
    #[arg(long = "for", value_name = "SPAN", value_parser = parse_span)]
    lasting: Option<Duration>,
}

/// Deletes a schedule. If code or configuration still declares it, the next start stores it again.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  windlass schedule remove sitemap\n\nExit codes: 3 no such schedule, 4 not confirmed."
)]
pub(crate) struct RemoveArgs {
    /// The name of the schedule
    #[arg(value_name = "NAME")]
    name: ScheduleName,
    /// Do not ask for confirmation
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
            context.output.either(&value, || format!("{name} enqueued job {job}"))?;
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
        return Err(Failure::usage("expected a pause of up to ten years, got another span"));
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
        Changed::Done => format!("{name} is resumed"),
        _ => format!("{name} was not paused"),
    })?;
    Ok(Code::Ok)
}

pub(super) async fn skip_next(name: &ScheduleName, context: &mut Context) -> Result<Code, Failure> {
    let Some(tick) = schedules(context).skip_next(name).await? else {
        return Err(Failure::new(Code::Refused, format!("{name} has no next tick to skip"))
            .hint("it may be paused; see `windlass schedule show`"));
    };
    let value = json!({ "name": name, "skip": tick.to_string() });
    context.output.either(&value, || format!("{name} skips {tick}"))?;
    Ok(Code::Ok)
}

pub(super) async fn remove(args: &RemoveArgs, context: &mut Context) -> Result<Code, Failure> {
    let name = &args.name;
    context.confirm(args.yes, &format!("this deletes schedule {name}; its jobs stay"), name.as_str())?;
    if schedules(context).remove(name).await? == Changed::NotFound {
        return Err(Failure::not_found(format_args!("schedule {name}")).hint("see `windlass schedule list`"));
    }
    context.output.either(&json!({ "name": name, "removed": true }), || format!("{name} is removed"))?;
    Ok(Code::Ok)
}
