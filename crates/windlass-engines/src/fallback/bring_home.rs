//! The way back: what nobody has claimed yet goes to the primary, exactly once and in the order in which it came.
//!
//! A batch is set aside in the spill, put into the primary under the request that it notes, and ended in the spill. Whoever finds
//! a batch that was set aside long ago does the last two steps again: the primary answers a request that it has done from
//! its receipt, and a batch that somebody else has ended is over.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use windlass_core::engine::Result;
use windlass_core::enqueue::{EnqueueRequest, Enqueued, RequestId};
use windlass_core::fallback::Side;
use windlass_core::job::{Job, JobId};
use windlass_core::names::TypeName;
use windlass_core::spill::{BatchMost, Leaving, as_new, moved};

use super::Inner;
use super::primary::is_away;

/// What goes together.
const MOST: BatchMost = BatchMost { jobs: 200, bytes: 1024 * 1024 };
/// Batches that were left behind and are looked at in one round.
const BATCHES: u32 = 100;
/// How long a batch may take. It is bigger than a single job, and nobody waits for it.
const BATCH_WITHIN: Duration = Duration::from_secs(10);

/// What became of a batch.
enum Batch {
    /// The primary answered for it, and it is over here. It refused jobs of these types, and the first for this reason.
    Answered { refused: Vec<TypeName>, why: Option<String> },
    /// Nobody can tell any more whether the primary has it.
    Uncertain,
}

impl Inner {
    /// Brings home whatever may go, batch by batch, for as long as the primary is there. Half of the time is left to those
    /// who put jobs in now.
    pub(super) async fn bring_home(&self) -> Result<()> {
        self.finish_old().await?;
        let mut refused = Vec::new();
        while self.side() == Side::Primary {
            let began = Instant::now();
            let request = RequestId::from_random(fastrand::u128(..));
            let Some(leaving) = self.spill.set_aside(request, MOST, &refused).await? else { break };
            match self.finish(request).await {
                Ok(Batch::Answered { refused: more, why }) => {
                    self.report_refused(&more, why);
                    refused.extend(more);
                }
                Ok(Batch::Uncertain) => {}
                Err(error) if !error.is_unknown() => {
                    self.take_back(&leaving).await?;
                    return Err(error);
                }
                Err(error) => return Err(error),
            }
            // may sleep: those who put jobs in now have the store for as long as this batch had it.
            tokio::time::sleep(began.elapsed().min(Duration::from_secs(1))).await;
        }
        Ok(())
    }

    /// Nothing of a batch was stored in the primary, and nobody else has sent it: it is too young. So it goes on here.
    async fn take_back(&self, leaving: &Leaving) -> Result<()> {
        let ends = leaving.ids.iter().map(|id| (*id, None)).collect();
        self.spill.end_batch(leaving.request, ends).await.map(drop)
    }

    /// Finishes what was set aside before, oldest first: by a process that died, or by one that went on without an answer.
    /// One bad batch does not keep the others.
    async fn finish_old(&self) -> Result<()> {
        let now = self.spill.now().await?;
        let mut first_error = None;
        for leaving in self.spill.leaving(BATCHES).await? {
            if now.since(leaving.since) < self.options.adopt_after && leaving.since <= now {
                continue;
            }
            match self.finish(leaving.request).await {
                Ok(_) => {}
                Err(error) if is_away(&error) => return Err(error),
                Err(error) => _ = first_error.get_or_insert(error),
            }
        }
        first_error.map_or(Ok(()), Err)
    }

    async fn finish(&self, request: RequestId) -> Result<Batch> {
        let over = Batch::Answered { refused: Vec::new(), why: None };
        let Some((leaving, jobs)) = self.spill.still_leaving(request).await? else { return Ok(over) };
        if jobs.is_empty() {
            self.spill.end_batch(request, Vec::new()).await?;
            return Ok(over);
        }
        // Of a batch that a person has changed, only what was sent before counts.
        let is_whole = jobs.len() == leaving.ids.len();
        let answers = if is_whole && leaving.is_receipt_kept(self.spill.now().await?) {
            Some(self.send(request, jobs.clone()).await?)
        } else {
            self.on_primary_within(BATCH_WITHIN, |primary| async move { primary.receipt(request).await })
                .await?
        };
        match answers.filter(|answers| answers.len() == leaving.ids.len()) {
            Some(answers) => self.end(&leaving, &jobs, &answers).await,
            None => Ok(Batch::Uncertain),
        }
    }

    async fn send(&self, request: RequestId, jobs: Vec<Job>) -> Result<Vec<Enqueued>> {
        let there = self.on_primary(|primary| async move { primary.now().await }).await?;
        let here = self.spill.now().await?;
        let jobs = jobs.into_iter().map(|job| as_new(job, here, there)).collect();
        let request = EnqueueRequest { request, jobs };
        self.on_primary_within(BATCH_WITHIN, |primary| async move { primary.enqueue(request).await }).await
    }

    /// The primary has answered for a batch: what it has ends here, what it refused waits here as before.
    async fn end(&self, leaving: &Leaving, jobs: &[Job], answers: &[Enqueued]) -> Result<Batch> {
        let answer_of = |id: JobId| {
            let place = leaving.ids.iter().position(|other| *other == id);
            place.map(|place| &answers[place])
        };
        let ends: Vec<_> = jobs
            .iter()
            .map(|job| (job.id, answer_of(job.id).and_then(|answer| self.reason(answer))))
            .collect();
        let refused: Vec<_> = jobs
            .iter()
            .filter(|job| ends.iter().any(|(id, end)| *id == job.id && end.is_none()))
            .map(|job| job.job_type.clone())
            .collect();
        let returned = (ends.len() - refused.len()) as u64;
        if self.spill.end_batch(leaving.request, ends).await? {
            self.counts.returned.fetch_add(returned, Ordering::Relaxed);
        }
        let why = answers.iter().find_map(|answer| answer.job().err()).map(ToString::to_string);
        Ok(Batch::Answered { refused, why })
    }

    /// Why a job of the spill is over, or nothing if it is not.
    fn reason(&self, answer: &Enqueued) -> Option<String> {
        let name = self.primary.name;
        match answer {
            Enqueued::New(id) | Enqueued::Spilled(id) => Some(moved(name, *id)),
            Enqueued::Kept(id) => Some(format!("duplicate of job {id} in {name}")),
            Enqueued::Replaced(id) | Enqueued::Revived(id) => Some(format!("given to job {id} in {name}")),
            Enqueued::Refused(_) => None,
        }
    }

    fn report_refused(&self, types: &[TypeName], why: Option<String>) {
        if let Some(why) = why {
            let (jobs, primary) = (types.len(), self.primary.name);
            tracing::warn!(jobs, primary, why, "jobs of the spill were refused, and wait there");
        }
    }

    /// Jobs of which nobody can tell any more whether the primary has them: those of batches without a receipt that are still here.
    pub(super) async fn uncertain(&self) -> Result<u64> {
        let now = self.spill.now().await?;
        let batches = self.spill.leaving(BATCHES).await?;
        let old = batches.iter().filter(|leaving| !leaving.is_receipt_kept(now));
        Ok(old.map(|leaving| leaving.ids.len() as u64).sum())
    }
}
