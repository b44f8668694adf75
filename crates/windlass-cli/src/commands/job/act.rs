//! `windlass job cancel`, `retry` and `priority`.

use clap::Args;
use serde_json::json;
use windlass_core::admin::{CancelAnswer, Changed, RetryAnswer};
use windlass_core::job::JobId;
use windlass_core::limits::REASON_BYTES_MAX;

use crate::context::{Context, parse_id};
use crate::exit::{Code, Failure};

/// Cancels a job. A waiting job is cancelled at once. A running job is asked to stop, and ends as cancelled
/// whatever its handler returns.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  windlass job cancel 42 --reason 'sent by mistake'

Exit codes: 3 no such job, 4 it has already ended.")]
pub(crate) struct CancelArgs {
    /// The id of the job
    #[arg(value_name = "ID", value_parser = parse_id)]
    id: JobId,
    /// The reason, shown to operators
    #[arg(long, value_name = "TEXT", default_value = "cancelled by hand", value_parser = parse_reason)]
    reason: String,
}

/// Retries a dead job with fresh counters, or makes a scheduled or parked one due at once.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  windlass job retry 42

Exit codes: 3 no such job, 4 its state allows no retry, or another job holds its key.")]
pub(crate) struct RetryArgs {
    /// The id of the job
    #[arg(value_name = "ID", value_parser = parse_id)]
    id: JobId,
}

/// Changes the priority of a waiting job.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass job priority 42 0
  windlass job priority 42 low

Exit codes: 3 no such job, 4 it is not waiting.")]
pub(crate) struct PriorityArgs {
    /// The id of the job
    #[arg(value_name = "ID", value_parser = parse_id)]
    id: JobId,
    /// The priority, from 0 (most urgent) to 10, or a label
    #[arg(value_name = "N|LABEL", allow_hyphen_values = true)]
    priority: String,
}

/// Parses a reason of bounded length.
pub(crate) fn parse_reason(written: &str) -> Result<String, String> {
    if written.is_empty() || written.len() > REASON_BYTES_MAX {
        return Err(format!("expected a reason of 1 to {REASON_BYTES_MAX} bytes, got {}", written.len()));
    }
    Ok(written.to_owned())
}

/// Runs `windlass job cancel`.
pub(crate) async fn cancel(args: &CancelArgs, context: &mut Context) -> Result<Code, Failure> {
    let id = args.id;
    let (result, text) = match context.engine.cancel(id, &args.reason).await? {
        CancelAnswer::Cancelled => ("cancelled", format!("{id} cancelled")),
        CancelAnswer::Requested => ("requested", format!("{id} is running; its handler is asked to stop")),
        CancelAnswer::AlreadyEnded(job_state) => {
            return Err(Failure::new(
                Code::Refused,
                format!("job {id} has already ended: it is {job_state}"),
            ));
        }
        CancelAnswer::NotFound => return Err(Failure::not_found(format_args!("job {id}"))),
    };
    context.output.either(&json!({ "id": id, "result": result }), || text)?;
    Ok(Code::Ok)
}

/// Runs `windlass job retry`.
pub(crate) async fn retry(args: &RetryArgs, context: &mut Context) -> Result<Code, Failure> {
    retry_one(args.id, context).await?;
    let id = args.id;
    context.output.either(&json!({ "id": id, "result": "retried" }), || format!("{id} retried"))?;
    Ok(Code::Ok)
}

/// Retries one job, or returns the reason why it cannot be retried.
pub(crate) async fn retry_one(id: JobId, context: &Context) -> Result<(), Failure> {
    match context.engine.retry(id).await? {
        RetryAnswer::Retried => Ok(()),
        RetryAnswer::NotRetryable(job_state) => Err(Failure::new(
            Code::Refused,
            format!("job {id} is {job_state}; only a dead, scheduled or parked job can be retried"),
        )),
        RetryAnswer::KeyHeld(holder) => {
            let message = format!("job {id} cannot be retried: job {holder} holds its key now");
            Err(Failure::new(Code::Refused, message))
        }
        RetryAnswer::NotFound => Err(Failure::not_found(format_args!("job {id}"))),
    }
}

/// Runs `windlass job priority`.
pub(crate) async fn priority(args: &PriorityArgs, context: &mut Context) -> Result<Code, Failure> {
    let id = args.id;
    let (priority, _) = context.priority(&args.priority)?;
    match context.engine.set_priority(id, priority).await? {
        Changed::Done => {}
        Changed::Unchanged => {
            let record = context.job(id).await?;
            if record.job_state().has_ended() || record.job.priority != priority {
                let message = format!(
                    "job {id} is {}; only the priority of a waiting job can be changed",
                    record.job_state()
                );
                return Err(Failure::new(Code::Refused, message));
            }
        }
        Changed::NotFound => return Err(Failure::not_found(format_args!("job {id}"))),
    }
    let level = priority.level();
    context
        .output
        .either(&json!({ "id": id, "priority": level }), || format!("{id} has priority {level}"))?;
    Ok(Code::Ok)
}
