//! `windlass type`: inspects job types and registers them.

use std::time::Duration;

use clap::{Args, Subcommand};
use comfy_table::Cell;
use serde_json::json;
use windlass_core::admin::TypeStatus;
use windlass_core::engine::Declaration;
use windlass_core::job_type::TypeSpec;
use windlass_core::names::{QueueName, TypeName};
use windlass_core::retry::RetryPolicy;
use windlass_core::span::{parse_span, show_span};

use crate::config::retry::parse_policy;
use crate::context::Context;
use crate::exit::{Code, Failure};
use crate::view::TypeView;

/// Inspect job types and register them.
#[derive(Debug, Subcommand)]
pub(crate) enum TypeCommand {
    /// List all job types
    #[command(after_help = "Example:\n  windlass type list")]
    List,
    /// Show everything about a job type
    #[command(after_help = "Example:\n  windlass type show mail.send")]
    Show(TypeArgs),
    /// Register a job type, or change its settings
    Register(RegisterArgs),
}

/// Names a job type.
#[derive(Debug, Args)]
pub(crate) struct TypeArgs {
    /// The name of the job type
    #[arg(value_name = "TYPE")]
    name: TypeName,
}

/// Registers a job type, so that jobs of it are accepted before a worker that handles it has started.
///
/// A type belongs to one queue permanently. If the type is registered already, the given settings are
/// changed and the others stay.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass type register mail.send --queue high
  windlass type register report --queue low --retry backfill:attempts=9 --timeout 2h --retention-days 90

Exit codes: 3 no such queue, 4 it belongs to another queue.")]
pub(crate) struct RegisterArgs {
    /// The name of the job type
    #[arg(value_name = "TYPE")]
    name: TypeName,
    /// The one queue of the type
    #[arg(long, value_name = "QUEUE")]
    queue: QueueName,
    /// The retry policy, such as fibonacci or fixed:every=30s,attempts=3
    /// [default: [retry] of the configuration]
    #[arg(long, value_name = "POLICY", value_parser = parse_policy)]
    retry: Option<RetryPolicy>,
    /// How long a handler may run [default: 30m]
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    timeout: Option<Duration>,
    /// The priority of jobs that name none, a number or a label [default: the queue's]
    #[arg(long, value_name = "N|LABEL", allow_hyphen_values = true)]
    priority: Option<String>,
    /// How many days a finished job is kept; 0 keeps none [default: 7]
    #[arg(long, value_name = "N")]
    retention_days: Option<u32>,
    /// Keep results with finished jobs
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    keep_result: Option<bool>,
}

/// Runs a type command.
pub(crate) async fn run(command: &TypeCommand, context: &mut Context) -> Result<Code, Failure> {
    match command {
        TypeCommand::List => list(context).await,
        TypeCommand::Show(args) => show(args, context).await,
        TypeCommand::Register(args) => register(args, context).await,
    }
}

async fn list(context: &mut Context) -> Result<Code, Failure> {
    let types = context.engine.types().await?;
    if context.output.is_json() {
        context.output.json(&types.iter().map(TypeView::from).collect::<Vec<_>>())?;
        return Ok(Code::Ok);
    }
    let header = ["type", "queue", "retry", "timeout", "kept", "workers", "unfinished", "remark"];
    let none = "no job types; workers register their types at start, or see `windlass type register --help`";
    context.output.table(&header, types.iter().map(row).collect(), none)?;
    Ok(Code::Ok)
}

fn row(status: &TypeStatus) -> Vec<Cell> {
    let spec = &status.spec;
    let (settings, remark) = match status.unreadable {
        None => {
            let kept = format!("{}d", spec.retention_days);
            ([spec.retry.name().to_owned(), show_span(spec.timeout), kept], String::new())
        }
        // What cannot be read might be a default.
        Some(_) => (["?"; 3].map(str::to_owned), "unreadable".to_owned()),
    };
    let names = [spec.name.to_string(), spec.queue.to_string()];
    let numbers = [status.workers.to_string(), status.unfinished.to_string()];
    names.into_iter().chain(settings).chain(numbers).chain([remark]).map(Cell::new).collect()
}

async fn show(args: &TypeArgs, context: &mut Context) -> Result<Code, Failure> {
    let status = context.job_type(&args.name).await?;
    if context.output.is_json() {
        context.output.json(&TypeView::from(&status))?;
        return Ok(Code::Ok);
    }
    let spec = &status.spec;
    let first = [("type", spec.name.to_string()), ("queue", spec.queue.to_string())];
    let unreadable = status.unreadable.as_ref().map(|why| vec![("unreadable", why.to_string())]);
    let settings = unreadable.unwrap_or_else(|| {
        vec![
            ("retry", json!(spec.retry).to_string()),
            ("timeout", show_span(spec.timeout)),
            ("priority", spec.priority.map_or("its queue's".to_owned(), |priority| priority.to_string())),
            ("retention", format!("{} days", spec.retention_days)),
            ("results", if spec.keep_result { "kept" } else { "not kept" }.to_owned()),
        ]
    });
    let last = [("workers", status.workers.to_string()), ("unfinished", status.unfinished.to_string())];
    let pairs = first.into_iter().chain(settings).chain(last);
    context.output.pairs(pairs.map(|(name, text)| (name, Cell::new(text))).collect())?;
    Ok(Code::Ok)
}

async fn register(args: &RegisterArgs, context: &mut Context) -> Result<Code, Failure> {
    context.queue(&args.queue).await?;
    let types = context.engine.types().await?;
    let registered = types.into_iter().find(|status| status.spec.name == args.name).map(|status| status.spec);
    let fresh = || TypeSpec {
        retry: context.config.retry.clone(),
        ..TypeSpec::new(args.name.clone(), args.queue.clone())
    };
    let existed = registered.is_some();
    let base = registered.unwrap_or_else(fresh);
    let priority = args.priority.as_deref().map(|written| context.priority(written)).transpose()?;
    let spec = TypeSpec {
        queue: args.queue.clone(),
        retry: args.retry.clone().unwrap_or(base.retry),
        timeout: args.timeout.unwrap_or(base.timeout),
        priority: priority.map(|(priority, _)| priority).or(base.priority),
        retention_days: args.retention_days.unwrap_or(base.retention_days),
        keep_result: args.keep_result.unwrap_or(base.keep_result),
        name: base.name,
    };
    context.engine.declare(Declaration { queues: Vec::new(), types: vec![spec] }).await?;
    let result = if existed { "updated" } else { "registered" };
    let (name, queue) = (&args.name, &args.queue);
    context.output.either(&json!({ "type": name, "queue": queue, "result": result }), || {
        format!("{name} {result} in queue {queue}")
    })?;
    Ok(Code::Ok)
}

#[cfg(test)]
mod tests;
