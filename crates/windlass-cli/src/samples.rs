//! Sample job types, one or two for each built-in queue, for `dev` and `serve`. The payload of each job
//! says what happens to it. Retry policies are short, so that ten seconds show everything.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{Context, Handlers, JobType, Outcome, RetryPolicy, State, TypeSpec};
use windlass_core::claim::Fence;
use windlass_core::retry::Delay;

use crate::commands::dev::ledger::Ledger;

/// The payload of a sample job.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// The name that the producer gave the job.
    #[serde(default)]
    pub(crate) uid: String,
    /// What happens to the job.
    #[serde(default)]
    pub(crate) act: Act,
    /// How many milliseconds the job takes.
    #[serde(default)]
    pub(crate) millis: u64,
}

/// What happens to a sample job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Act {
    #[default]
    Succeed,
    /// Fails in the first attempt.
    FailOnce,
    /// Fails in each attempt.
    Fail,
    Panic,
    /// Takes longer than its timeout.
    TimeOut,
    /// Runs until it is cancelled.
    WaitForCancel,
    /// Kills its process, to show what happens to such a job.
    Abort,
}

macro_rules! sample_type {
    ($(#[$doc:meta])* $name:ident, $type_name:literal, $queue:literal, $retry:expr, $timeout:expr) => {
        $(#[$doc])*
        #[derive(Serialize, Deserialize)]
        #[serde(transparent)]
        pub(crate) struct $name(pub(crate) Sample);

        impl AsRef<Sample> for $name {
            fn as_ref(&self) -> &Sample {
                &self.0
            }
        }

        impl JobType for $name {
            const NAME: &'static str = $type_name;
            const QUEUE: &'static str = $queue;
            fn defaults(spec: TypeSpec) -> TypeSpec {
                TypeSpec { retry: $retry, timeout: $timeout, ..spec }
            }
        }
    };
}

const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

sample_type!(
    /// Quick and urgent jobs.
    Notify, "sample.notify", "high", RetryPolicy::Fixed { every: millis(200), attempts: 3 }, millis(5_000)
);
sample_type!(
    /// Jobs of which some fail at first.
    Refresh, "sample.refresh", "default", RetryPolicy::Fixed { every: millis(400), attempts: 4 }, millis(5_000)
);
sample_type!(
    /// Slow jobs, of which some time out.
    Screenshot, "sample.screenshot", "screenshot", RetryPolicy::List { delays: vec![Delay(millis(300))] }, millis(400)
);
sample_type!(
    /// Jobs that report their progress and stop when they are asked to.
    Report, "sample.report", "low", RetryPolicy::Fixed { every: millis(500), attempts: 2 }, millis(30_000)
);
sample_type!(
    /// Jobs of a bulk import, of which some always fail.
    Import, "sample.import", "bulk", RetryPolicy::List { delays: vec![Delay(millis(150)), Delay(millis(300))] }, millis(5_000)
);

const PANIC: &str = "a sample job that panics, on purpose";

/// Suppresses the output of sample jobs that panic on purpose. Other panics are printed as usual.
pub(crate) fn hush_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload().downcast_ref::<String>().map(String::as_str) != Some(PANIC) {
            print(panic);
        }
    }));
}

/// The handlers of all sample types. They also write to the ledger, if there is one.
pub(crate) fn handlers(ledger: Option<Ledger>) -> Handlers<Option<Ledger>> {
    Handlers::new(ledger)
        .handle(|Notify(job): Notify, ctx: Context, State(ledger): State<Option<Ledger>>| {
            run(job, ctx, ledger)
        })
        .handle(|Refresh(job): Refresh, ctx: Context, State(ledger): State<Option<Ledger>>| {
            run(job, ctx, ledger)
        })
        .handle(|Screenshot(job): Screenshot, ctx: Context, State(ledger): State<Option<Ledger>>| {
            run(job, ctx, ledger)
        })
        .handle(|Report(job): Report, ctx: Context, State(ledger): State<Option<Ledger>>| {
            run(job, ctx, ledger)
        })
        .handle(|Import(job): Import, ctx: Context, State(ledger): State<Option<Ledger>>| {
            run(job, ctx, ledger)
        })
}

async fn run(job: Sample, ctx: Context, ledger: Option<Ledger>) -> Result<Outcome, SampleError> {
    let mut entry = ledger.map(|ledger| Entry::start(ledger, &job, &ctx));
    let ended = act(&job, &ctx).await;
    if let Some(entry) = &mut entry {
        entry.done = ended.is_ok();
    }
    ended
}

/// The lines of a handler in the ledger. The last line is written on drop, since a timeout or a stop ends a
/// handler by dropping it.
struct Entry {
    ledger: Ledger,
    uid: String,
    fence: Fence,
    done: bool,
}

impl Entry {
    fn start(ledger: Ledger, job: &Sample, ctx: &Context) -> Self {
        ledger.started(&job.uid, ctx.fence());
        Self { ledger, uid: job.uid.clone(), fence: ctx.fence(), done: false }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.ledger.ended(&self.uid, self.fence, self.done);
    }
}

async fn act(job: &Sample, ctx: &Context) -> Result<Outcome, SampleError> {
    let attempt = ctx.job().counters.attempts;
    ctx.log(format!("attempt {attempt} of {}", ctx.job().job_type));
    match job.act {
        Act::FailOnce if attempt == 1 => return Err(SampleError::NotYet),
        Act::Fail => return Err(SampleError::Hopeless),
        Act::Panic => panic!("{PANIC}"),
        Act::TimeOut => std::future::pending().await,
        Act::WaitForCancel => wait_for_cancel(ctx).await,
        Act::Abort => std::process::abort(),
        Act::Succeed | Act::FailOnce => work(job.millis, ctx).await,
    }
    Ok(Outcome::Done)
}

/// Waits for a cancellation, with a limit: the operator of `dev` may have been killed in between.
async fn wait_for_cancel(ctx: &Context) {
    match tokio::time::timeout(millis(3_000), ctx.cancelled()).await {
        Ok(_) => ctx.log("asked to stop, so it stops"),
        Err(_) => ctx.log("no request to stop came"),
    }
}

/// Works in two halves. Reports its progress in between if the job takes long enough to be watched.
async fn work(for_millis: u64, ctx: &Context) {
    const PROGRESS_FROM: u64 = 500;
    tokio::time::sleep(millis(for_millis / 2)).await;
    if for_millis >= PROGRESS_FROM {
        // An error is ignored: a job does not fail because its progress could not be stored.
        let _ = ctx.progress(50, Some("half way")).await;
    }
    tokio::time::sleep(millis(for_millis - for_millis / 2)).await;
}

/// The error of a sample job.
#[derive(Debug, thiserror::Error)]
enum SampleError {
    #[error("the feed did not answer; the next attempt will succeed")]
    NotYet,
    #[error("the record is invalid and cannot be imported")]
    Hopeless,
}
