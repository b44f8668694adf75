//! Sample job types, one or two for each built-in queue, for `dev` and `serve`. Each job says what is to
//! happen to it; policies are short, so that ten seconds show everything.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{Context, Handlers, JobType, Outcome, RetryPolicy, State, TypeSpec};
use windlass_core::claim::Fence;
use windlass_core::retry::Delay;

use crate::commands::dev::ledger::Ledger;

/// What a sample job is about.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// The producer's own name for it.
    #[serde(default)]
    pub(crate) uid: String,
    /// What is to happen.
    #[serde(default)]
    pub(crate) act: Act,
    /// How long it takes.
    #[serde(default)]
    pub(crate) millis: u64,
}

/// What is to happen to a sample job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Act {
    #[default]
    Succeed,
    /// Fails at first.
    FailOnce,
    /// Fails each time.
    Fail,
    Panic,
    /// Takes longer than its time-out.
    TimeOut,
    /// Goes on until somebody cancels it.
    WaitForCancel,
    /// Kills its process, to show what becomes of such a job.
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
    /// Quick and urgent.
    Notify, "sample.notify", "high", RetryPolicy::Fixed { every: millis(200), attempts: 3 }, millis(5_000)
);
sample_type!(
    /// Goes wrong at first now and then.
    Refresh, "sample.refresh", "default", RetryPolicy::Fixed { every: millis(400), attempts: 4 }, millis(5_000)
);
sample_type!(
    /// Slow, and sometimes too slow.
    Screenshot, "sample.screenshot", "screenshot", RetryPolicy::List { delays: vec![Delay(millis(300))] }, millis(400)
);
sample_type!(
    /// Reports its progress and listens when it is asked to stop.
    Report, "sample.report", "low", RetryPolicy::Fixed { every: millis(500), attempts: 2 }, millis(30_000)
);
sample_type!(
    /// One of many; some are hopeless.
    Import, "sample.import", "bulk", RetryPolicy::List { delays: vec![Delay(millis(150)), Delay(millis(300))] }, millis(5_000)
);

const PANIC: &str = "a sample job that panics, on purpose";

/// Keeps sample jobs that panic on purpose from filling the terminal. Other panics are printed as ever.
pub(crate) fn hush_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload().downcast_ref::<String>().map(String::as_str) != Some(PANIC) {
            print(panic);
        }
    }));
}

/// Handlers for all sample types. What they do is also written to the ledger, if there is one.
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

/// A handler's lines in the ledger. The last one is written when it is dropped, since a time-out or a stop ends a
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

/// Whoever meant to cancel it may have been killed meanwhile, so it does not wait for ever.
async fn wait_for_cancel(ctx: &Context) {
    match tokio::time::timeout(millis(3_000), ctx.cancelled()).await {
        Ok(_) => ctx.log("asked to stop, so it stops"),
        Err(_) => ctx.log("nobody asked it to stop"),
    }
}

/// Works in two halves and tells how far it is, if it takes long enough for somebody to look.
async fn work(for_millis: u64, ctx: &Context) {
    const WORTH_TELLING: u64 = 500;
    tokio::time::sleep(millis(for_millis / 2)).await;
    if for_millis >= WORTH_TELLING {
        // Progress is a courtesy: a job does not fail because nobody could note how far it is.
        let _ = ctx.progress(50, Some("half way")).await;
    }
    tokio::time::sleep(millis(for_millis - for_millis / 2)).await;
}

/// Why a sample job failed.
#[derive(Debug, thiserror::Error)]
enum SampleError {
    #[error("the feed did not answer; the next attempt will go better")]
    NotYet,
    #[error("the record cannot be imported, and never will")]
    Hopeless,
}
