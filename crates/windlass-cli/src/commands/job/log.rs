//! `windlass job log`: prints the log lines of the attempts.

use clap::Args;
use serde_json::json;
use windlass_core::job::JobId;

use crate::context::{Context, parse_id};
use crate::exit::{Code, Failure};
use crate::output::printable;

/// Prints the log lines of the attempts of a job, oldest first.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass job log 42
  windlass job log 42 --attempt 2")]
pub(crate) struct LogArgs {
    /// The id of the job
    #[arg(value_name = "ID", value_parser = parse_id)]
    id: JobId,
    /// Only this attempt, counted from 1
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
}

/// Runs `windlass job log`.
pub(crate) async fn log(args: &LogArgs, context: &mut Context) -> Result<Code, Failure> {
    context.job(args.id).await?;
    let mut attempts = context.engine.attempts(args.id).await?;
    if let Some(number) = args.attempt {
        attempts.retain(|attempt| attempt.number == number);
        if attempts.is_empty() {
            return Err(Failure::not_found(format_args!("attempt {number} of job {}", args.id)));
        }
    }
    if context.output.is_json() {
        let entries: Vec<_> = attempts
            .iter()
            .map(|attempt| {
                json!({ "attempt": attempt.number, "ending": attempt.ending.as_str(), "output": attempt.output })
            })
            .collect();
        context.output.json(&entries)?;
        return Ok(Code::Ok);
    }
    if attempts.is_empty() {
        context.output.note(format!("job {} has had no attempt yet", args.id));
    }
    for attempt in &attempts {
        context.output.note(format!("attempt {}, {}:", attempt.number, attempt.ending.as_str()));
        match &attempt.output {
            Some(text) => context.output.line(printable(text.trim_end_matches('\n')))?,
            None => context.output.note("(no log lines)"),
        }
    }
    Ok(Code::Ok)
}
