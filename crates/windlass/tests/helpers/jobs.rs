//! The jobs and handlers of these tests.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{Attempt, Context, JobType, Outcome, RetryPolicy, State, TypeSpec};

/// The job of these tests: its payload says what its handler does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Work {
    Name(String),
    FailUntil(u32),
    Panic,
    PutInMail { user: u64 },
    PutInItself,
    WaitForCancel,
}

impl JobType for Work {
    const NAME: &'static str = "work";
    fn defaults(spec: TypeSpec) -> TypeSpec {
        TypeSpec { retry: RetryPolicy::Fixed { every: Duration::from_secs(60), attempts: 4 }, ..spec }
    }
}

/// A second type of job, for follow-up jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Mail {
    pub(crate) user: u64,
}

impl JobType for Mail {
    const NAME: &'static str = "mail";
}

pub(crate) async fn work(
    job: Work,
    ctx: Context,
    Attempt(attempt): Attempt,
    State(greeting): State<&'static str>,
) -> Result<Outcome, Box<dyn std::error::Error + Send + Sync>> {
    match job {
        Work::Name(name) => {
            ctx.log(format!("{greeting} {name}"));
            ctx.progress(50, Some("half way")).await?;
        }
        Work::FailUntil(good) if attempt < good => return Err(format!("attempt {attempt}").into()),
        Work::FailUntil(_) => {}
        Work::Panic => panic!("on purpose"),
        Work::PutInMail { user } => {
            ctx.enqueue(Mail { user }).await?;
        }
        Work::PutInItself => {
            ctx.enqueue(Work::PutInItself).await?;
        }
        Work::WaitForCancel => {
            ctx.cancelled().await;
            return Ok(Outcome::Discard("as you wish".to_owned()));
        }
    }
    Ok(Outcome::Done)
}

pub(crate) async fn mail(job: Mail, ctx: Context) {
    ctx.log(format!("to {}", job.user));
}
