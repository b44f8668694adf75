//! `windlass job wait`.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::sync::Notify;
use tokio::time::Instant;
use windlass_core::admin::JobRecord;
use windlass_core::engine::{Hint, HintListener};
use windlass_core::job::{JobId, Phase};
use windlass_core::span::{parse_span, show_span};

use crate::context::{Context, parse_id};
use crate::exit::{Code, Failure};
use crate::view::JobView;

/// The first pause between two looks; each is twice as long as the one before.
const PAUSE_FIRST: Duration = Duration::from_millis(20);
/// The longest pause between two looks.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Waits until a job has ended and says how.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  windlass job wait 42 --timeout 5m && echo done

Exit codes: 0 succeeded, 1 dead or cancelled, 3 no such job, 6 the time ran out.")]
pub(crate) struct WaitArgs {
    /// The number of the job
    #[arg(value_name = "ID", value_parser = parse_id)]
    id: JobId,
    /// Give up after this time [default: never]
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    timeout: Option<Duration>,
}

/// Waits.
pub(crate) async fn wait(args: &WaitArgs, context: &mut Context) -> Result<Code, Failure> {
    let deadline = args.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let hints = Arc::new(Hints::default());
    context.engine.on_hint(Arc::<Hints>::downgrade(&hints));
    tracing::info!("waiting for job {}", args.id);
    let mut pause = PAUSE_FIRST;
    let mut record = context.job(args.id).await?;
    loop {
        if record.phase().has_ended() {
            return finish(&record, context);
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            let waited = show_span(args.timeout.unwrap_or_default());
            let message = format!("job {} is still {} after {waited}", args.id, record.phase());
            return Err(Failure::new(Code::TimedOut, message));
        }
        // A hint may be lost, so there is always another look; it may also be needless, so there is a pause.
        let longest = left.map_or(pause, |left| left.min(pause));
        let _ = tokio::time::timeout(longest, hints.0.notified()).await;
        pause = (pause * 2).min(PAUSE_MAX);
        record = context.engine.job(args.id).await?.ok_or_else(|| forgotten(args.id))?;
    }
}

/// A type that keeps no finished jobs leaves nothing to look at.
fn forgotten(id: JobId) -> Failure {
    Failure::new(Code::NotFound, format!("job {id} has ended and was not kept, so nobody knows how"))
        .hint("its type keeps no finished jobs; see `windlass type register --retention-days`")
}

fn finish(record: &JobRecord, context: &mut Context) -> Result<Code, Failure> {
    let phase = record.phase();
    if context.output.is_json() {
        context.output.json(&JobView::from(record))?;
    } else {
        context.output.line(format!("{} {phase}", record.job.id))?;
    }
    Ok(if phase == Phase::Succeeded { Code::Ok } else { Code::Failed })
}

/// Wakes the wait when anything may have changed.
#[derive(Default)]
struct Hints(Notify);

impl HintListener for Hints {
    fn hint(&self, hint: Hint) {
        if !matches!(hint, Hint::Quiet(_)) {
            self.0.notify_one();
        }
    }
}
