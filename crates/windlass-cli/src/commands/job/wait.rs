//! `windlass job wait`: waits until a job has ended.

use std::time::Duration;

use clap::Args;
use windlass_core::admin::StoredJob;
use windlass_core::job::{JobId, JobState};
use windlass_core::span::{parse_span, show_span};

use crate::context::{Context, parse_id};
use crate::exit::{Code, Failure};
use crate::view::JobView;
use crate::watch::Watch;

/// Waits until a job has ended, and prints how it ended.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  windlass job wait 42 --timeout 5m && echo done

Exit codes: 0 succeeded, 1 dead or cancelled, 3 no such job, 6 the timeout expired.")]
pub(crate) struct WaitArgs {
    /// The id of the job
    #[arg(value_name = "ID", value_parser = parse_id)]
    id: JobId,
    /// Stop waiting after this time [default: never]
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    timeout: Option<Duration>,
}

/// Runs `windlass job wait`.
pub(crate) async fn wait(args: &WaitArgs, context: &mut Context) -> Result<Code, Failure> {
    let mut watch = Watch::begin(&*context.engine, args.timeout);
    tracing::info!("waiting for job {}", args.id);
    let mut record = context.job(args.id).await?;
    while !record.job_state().has_ended() {
        if !watch.again().await {
            let waited = show_span(args.timeout.unwrap_or_default());
            let message = format!("job {} is still {} after {waited}", args.id, record.job_state());
            return Err(Failure::new(Code::TimedOut, message));
        }
        record = context.engine.job(args.id).await?.ok_or_else(|| not_kept(args.id))?;
    }
    finish(&record, context)
}

/// The failure for a job whose type keeps no finished jobs: its outcome is gone with it.
fn not_kept(id: JobId) -> Failure {
    Failure::new(Code::NotFound, format!("job {id} has ended and was not kept, so its outcome is unknown"))
        .hint("its type keeps no finished jobs; see `windlass type register --retention-days`")
}

fn finish(record: &StoredJob, context: &mut Context) -> Result<Code, Failure> {
    let job_state = record.job_state();
    if context.output.is_json() {
        context.output.json(&JobView::from(record))?;
    } else {
        context.output.line(format!("{} {job_state}", record.job.id))?;
    }
    Ok(if job_state == JobState::Succeeded { Code::Ok } else { Code::Failed })
}
