//! `windlass trigger add` and `remove`.

use std::time::Duration;

use clap::Args;
use serde_json::json;
use windlass::schedules::Declared;
use windlass_core::admin::Changed;
use windlass_core::names::{QueueName, Tag, TriggerName, TypeName};
use windlass_core::payload::Payload;
use windlass_core::schedules::{JobTemplate, Origin};
use windlass_core::span::parse_span;
use windlass_core::triggers::{CompletionTrigger, Watched, WatchedError};

use super::{RemoveArgs, no_such, triggers};
use crate::commands::job::draft::ProvenanceArgs;
use crate::context::Context;
use crate::exit::{Code, Failure};

/// Stores a completion trigger, or changes the stored one of the same name. Settings that are not given get
/// their defaults, not their previous values. It counts jobs that end from now on.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass trigger add recalculate queue backfill --job recalculate
  windlass trigger add report \"group import 7\" --job report.send --payload '{\"import\": 7}' --wait-for-retries

Exit codes: 2 the trigger or its job is invalid; nothing was stored.")]
pub(crate) struct AddArgs {
    /// The name of the completion trigger
    #[arg(value_name = "NAME")]
    name: TriggerName,
    /// The group of jobs that it watches: `queue NAME`, `type NAME` or `group NAME`
    #[arg(value_name = "GROUP", required = true, num_args = 1..)]
    watch: Vec<String>,
    /// The type of its job; an unregistered type is accepted, with a warning
    #[arg(long, value_name = "TYPE")]
    job: TypeName,
    /// The payload of its job, as JSON
    #[arg(long, value_name = "JSON", default_value = "{}")]
    payload: String,
    /// The queue of its job, which must be the queue of its type
    #[arg(long, value_name = "NAME")]
    queue: Option<QueueName>,
    /// The priority of its job: 0 (most urgent) to 10, or a label
    #[arg(long, value_name = "PRIORITY")]
    priority: Option<String>,
    /// A tag to find its job by; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<Tag>,
    /// How long the handler of its job may run
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    timeout: Option<Duration>,
    #[command(flatten)]
    provenance: ProvenanceArgs,
    /// Wait for all unfinished jobs, also for those that wait for a retry, are due later or are parked
    #[arg(long)]
    wait_for_retries: bool,
}

pub(super) async fn add(args: &AddArgs, context: &mut Context) -> Result<Code, Failure> {
    let spec = spec(args, context)?;
    let declared = triggers(context).declare(std::slice::from_ref(&spec), Origin::Cli).await?;
    let how = match declared.first() {
        Some((_, Declared::New)) => "stored",
        Some((_, Declared::Updated)) => "changed",
        _ => "unchanged",
    };
    let known = context.engine.types().await?.iter().any(|status| status.spec.name == spec.job.job_type);
    if !known {
        context.output.note(format!(
            "job type {} is not registered yet; until it is, the job of this trigger is refused",
            spec.job.job_type
        ));
    }
    let (name, watch) = (&spec.name, spec.watch.to_string());
    let value = json!({ "name": name, "result": how, "watch": watch, "type_is_known": known });
    context.output.either(&value, || {
        format!("{name} is {how}: when {watch} has finished, {} is enqueued", spec.job.job_type)
    })?;
    Ok(Code::Ok)
}

fn spec(args: &AddArgs, context: &Context) -> Result<CompletionTrigger, Failure> {
    let watch: Result<Watched, WatchedError> = args.watch.join(" ").parse();
    let watch = watch.map_err(|why| Failure::usage(why.to_string()))?;
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
    let wait_for_retries = args.wait_for_retries;
    Ok(CompletionTrigger { wait_for_retries, ..CompletionTrigger::new(args.name.clone(), watch, job) })
}

pub(super) async fn remove(args: &RemoveArgs, context: &mut Context) -> Result<Code, Failure> {
    let name = &args.name;
    let what = format!("this deletes completion trigger {name}; its jobs stay");
    context.confirm(args.yes, &what, name.as_str())?;
    if triggers(context).remove(name).await? == Changed::NotFound {
        return Err(no_such(name));
    }
    context.output.either(&json!({ "name": name, "removed": true }), || format!("{name} is removed"))?;
    Ok(Code::Ok)
}
