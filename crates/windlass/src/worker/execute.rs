//! Runs one job: hooks, the handler, its time-out, its panics, and requests to stop. Every run returns an
//! outcome, whatever happens in it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use windlass_core::claim::Claimed;
use windlass_core::outcome::{AttemptOutcome, ErrorKind, JobError};
use windlass_core::settle::AttemptReport;

use crate::client::Client;
use crate::handler::{Context, Hook, JobControl, Registered, Running, Table};
use crate::limits::Notes;
use crate::rollups::recorder::Recorder;

/// How long a handler that was asked to stop may take to end by itself.
const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// Runs the handler of one claimed job, if breakers and rate limits admit it.
pub(crate) async fn execute(
    table: &Table,
    client: &Client,
    claimed: Arc<Claimed>,
    control: Arc<JobControl>,
    recorder: &Recorder,
) -> (AttemptOutcome, AttemptReport) {
    let started = Instant::now();
    let Some(registered) = table.handlers.get(&claimed.job.job_type) else {
        return (not_ours(), AttemptReport::default());
    };
    let limits = client.limits();
    let pass = match limits.guards(&claimed.job.job_type) {
        None => None,
        Some(guards) => match limits.admit(guards, &claimed).await {
            Ok(pass) => Some(pass),
            Err(gate) => return (AttemptOutcome::Held(gate), AttemptReport::default()),
        },
    };
    recorder.started(&claimed.job, claimed.waited);
    let (begun, timeout) = (Instant::now(), time_out(&claimed, registered));
    let ctx = Context::new(Arc::clone(&claimed), client.clone(), Arc::clone(&control));
    let mut outcome = run_hooked(&table.hooks, registered, &ctx, timeout, &control).await;
    recorder.ran(&claimed.job, begun.elapsed());
    if let Some(notes) = ctx.take_notes().or(pass.is_some().then(Notes::default)) {
        outcome = limits.finish(pass, &claimed, notes, outcome).await;
    }
    (outcome, AttemptReport { ran_for: started.elapsed(), output: ctx.output(), ..AttemptReport::default() })
}

/// How long the handler of this job may run.
pub(crate) fn time_out(claimed: &Claimed, registered: &Registered) -> Duration {
    claimed.job.timeout.unwrap_or(registered.spec.timeout)
}

async fn run_hooked(
    hooks: &[Arc<dyn Hook>],
    registered: &Registered,
    ctx: &Context,
    timeout: Duration,
    control: &JobControl,
) -> AttemptOutcome {
    let prepared = catch(|| {
        hooks.iter().for_each(|hook| hook.before(ctx));
        (registered.handler)(ctx.clone())
    });
    let outcome = match prepared {
        Ok(running) => run(running, timeout, control).await,
        Err(panicked) => AttemptOutcome::Failed(panicked),
    };
    match catch(|| hooks.iter().rev().for_each(|hook| hook.after(ctx, &outcome))) {
        Ok(()) => outcome,
        Err(panicked) => AttemptOutcome::Failed(panicked),
    }
}

async fn run(running: Running, timeout: Duration, control: &JobControl) -> AttemptOutcome {
    tokio::select! {
        biased;
        outcome = without_panics(running) => outcome,
        () = tokio::time::sleep(timeout) => {
            let text = format!("the handler ran longer than its time-out of {timeout:?}");
            AttemptOutcome::Failed(JobError::new(ErrorKind::TimedOut, text))
        }
        () = control.aborted() => AttemptOutcome::Released { started: true },
        () = ignored_cancel(control) => AttemptOutcome::Cancelled("the handler was asked to stop and did not, so it was stopped".to_owned()),
    }
}

/// Waits until the handler has had its time to end after a request to stop: long enough for a handler that
/// checks for such requests.
async fn ignored_cancel(control: &JobControl) {
    control.cancelled().await;
    tokio::time::sleep(CANCEL_GRACE).await;
}

/// Polls the handler and turns a panic into a failure.
async fn without_panics(mut running: Running) -> AttemptOutcome {
    std::future::poll_fn(move |cx| match catch(|| running.as_mut().poll(cx)) {
        Ok(poll) => poll,
        Err(panicked) => Poll::Ready(AttemptOutcome::Failed(panicked)),
    })
    .await
}

// A handler's state is dropped after a panic and never used again, so it need not be unwind safe.
fn catch<T>(work: impl FnOnce() -> T) -> Result<T, JobError> {
    std::panic::catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a panic without a text".to_owned());
        JobError::new(ErrorKind::Panicked, format!("the handler panicked: {text}"))
    })
}

/// The outcome of a job without a handler. A claim requests only types with a handler, so this job is the
/// result of a race; it costs nothing.
fn not_ours() -> AttemptOutcome {
    AttemptOutcome::Released { started: false }
}
