//! The producer of `dev`: a mixture of sample jobs, and an operator who cancels some.

use std::error::Error;
use std::time::Duration;

use windlass::{Client, EnqueueError, JobId, JobType};

use super::ledger::{Ledger, Line};
use crate::exit::{Code, Failure};
use crate::samples::{Act, Import, Notify, Refresh, Report, Sample, Screenshot};

/// The interval between two sample jobs.
const EVERY: Duration = Duration::from_millis(25);
/// The number of bulk jobs that are enqueued at the start. They must not hold up the other queues.
const FLOOD: u64 = 200;
/// The delay of delayed sample jobs.
const LATER: Duration = Duration::from_secs(5);
/// How long after its enqueue the simulated operator cancels a job.
const CANCEL_AFTER: Duration = Duration::from_millis(700);

/// The interval between two attempts to enqueue while the store is unavailable.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Enqueues jobs until the future is dropped. Returns only on a failure that does not pass by itself.
pub(super) async fn produce(client: &Client, ledger: &Ledger) -> Failure {
    let run = Run { client, ledger, name: format!("{}-{}", std::process::id(), fastrand::u32(..)) };
    match run.forever().await {
        Ok(never) => match never {},
        Err(error) => {
            let why = error.source().map(|source| format!(": {source}")).unwrap_or_default();
            Failure::new(Code::Store, format!("enqueuing a sample job failed: {error}{why}"))
        }
    }
}

fn passes(error: &EnqueueError) -> bool {
    match error {
        EnqueueError::NotStored(error) => error.is_passing(),
        EnqueueError::Unknown(_) => true,
        _ => false,
    }
}

/// Logs when the store begins and ceases to refuse jobs. The code that met the store's error first has
/// logged the error.
fn log_changes(refused: &mut bool, now: bool) {
    match (std::mem::replace(refused, now), now) {
        (false, true) => tracing::warn!("enqueuing sample jobs failed; retrying every second"),
        (true, false) => tracing::info!("the store accepts sample jobs again"),
        _ => {}
    }
}

struct Run<'a> {
    client: &'a Client,
    ledger: &'a Ledger,
    name: String,
}

impl Run<'_> {
    async fn forever(&self) -> Result<std::convert::Infallible, EnqueueError> {
        let mut refused = false;
        for number in 0.. {
            let put = match number < FLOOD {
                true => self.put(Import(self.sample(number, Act::Succeed, 20))).await.map(drop),
                false => self.put_one(number).await,
            };
            let pause = match put {
                Ok(()) if number < FLOOD => Duration::ZERO,
                Ok(()) => EVERY,
                Err(error) if passes(&error) => AGAIN_AFTER,
                Err(error) => return Err(error),
            };
            log_changes(&mut refused, pause == AGAIN_AFTER);
            tokio::time::sleep(pause).await;
        }
        unreachable!("a counter of 64 bits does not end")
    }

    /// Enqueues one job of a mixture in which everything that can happen to a job happens every few
    /// seconds.
    async fn put_one(&self, number: u64) -> Result<(), EnqueueError> {
        let sample = |act, millis| self.sample(number, act, millis);
        match number % 20 {
            0 | 5 | 10 | 15 => self.put(Notify(sample(Act::Succeed, 5))).await?,
            1 | 7 => self.put(Refresh(sample(Act::FailOnce, 30))).await?,
            2 | 8 | 14 => self.put(Refresh(sample(Act::Succeed, 80))).await?,
            3 => self.put(Screenshot(sample(Act::Succeed, 200))).await?,
            9 if number % 100 == 9 => self.put(Screenshot(sample(Act::TimeOut, 0))).await?,
            6 => self.put_in(LATER, Notify(sample(Act::Succeed, 5))).await?,
            4 => self.put(Report(sample(Act::Succeed, 600))).await?,
            11 if number % 40 == 11 => {
                let job = self.put(Report(sample(Act::WaitForCancel, 0))).await?;
                self.cancel_later(job);
                job
            }
            12 if number % 60 == 12 => self.put(Import(sample(Act::Fail, 0))).await?,
            13 if number % 80 == 13 => self.put(Import(sample(Act::Panic, 0))).await?,
            _ => self.put(Import(sample(Act::Succeed, 40))).await?,
        };
        Ok(())
    }

    fn sample(&self, number: u64, act: Act, millis: u64) -> Sample {
        Sample { uid: format!("{}/{number}", self.name), act, millis }
    }

    async fn put<T: JobType + AsRef<Sample>>(&self, job: T) -> Result<JobId, EnqueueError> {
        self.put_in(Duration::ZERO, job).await
    }

    /// Enqueues a job that falls due after this time. Writes to the ledger before and after.
    async fn put_in<T: JobType + AsRef<Sample>>(
        &self,
        delay: Duration,
        job: T,
    ) -> Result<JobId, EnqueueError> {
        let uid = job.as_ref().uid.clone();
        self.ledger.write(&Line::Invoke { uid: uid.clone() });
        match self.client.enqueue(job).delay(delay).correlation(&self.name).await {
            Ok(enqueued) => {
                self.ledger.write(&Line::Acknowledged { uid, job: enqueued.id });
                Ok(enqueued.id)
            }
            Err(error) => {
                if !matches!(error, EnqueueError::Unknown(_)) {
                    self.ledger.write(&Line::Refused { uid });
                }
                Err(error)
            }
        }
    }

    fn cancel_later(&self, job: JobId) {
        let engine = std::sync::Arc::clone(self.client.engine());
        tokio::spawn(async move {
            tokio::time::sleep(CANCEL_AFTER).await;
            if let Err(error) = engine.cancel(job, "the operator changed their mind").await {
                tracing::warn!(%error, "cancelling a sample job failed");
            }
        });
    }
}
