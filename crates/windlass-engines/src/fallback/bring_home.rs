//! The way back: what nobody has claimed yet goes to the primary, exactly once and in the order in which it came.
//!
//! A batch is set aside in the spill, put into the primary under the request that it notes, and ended in the spill. Whoever finds
//! a batch that was set aside long ago does the last two steps again: the primary answers a request that it has done from
//! its receipt, and a batch that somebody else has ended is over.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use windlass_core::engine::Result;
use windlass_core::enqueue::{EnqueueRequest, Enqueued, RequestId};
use windlass_core::error::EngineError;
use windlass_core::fallback::Side;
use windlass_core::job::{Job, JobId};
use windlass_core::names::TypeName;
use windlass_core::spill::{BatchMost, Leaving, as_new, moved};

use super::Inner;
use super::primary::is_away;

/// What goes together.
const MOST: BatchMost = BatchMost { jobs: 200, bytes: 1024 * 1024 };
/// Batches that are looked at together.
const BATCHES: u32 = 100;
/// How long a batch may take. It is bigger than a single job, and nobody waits for it.
const BATCH_WITHIN: Duration = Duration::from_secs(10);

/// What the primary says of a batch.
enum Asked {
    /// Nothing is left of it here.
    Over,
    /// It answered for each job that was sent. These are still here.
    Answered { leaving: Leaving, jobs: Vec<Job>, answers: Vec<Enqueued> },
    /// Nobody can tell any more whether the primary has it.
    Uncertain,
}

impl Inner {
    /// Brings home whatever may go, batch by batch, for as long as the primary is there. Half of the time is left to those
    /// who put jobs in now.
    pub(super) async fn bring_home(&self) -> Result<()> {
        let trouble = self.finish_old().await?;
        let mut refused = Vec::new();
        while self.side() == Side::Primary {
            let began = Instant::now();
            let request = RequestId::from_random(fastrand::u128(..));
            if self.spill.set_aside(request, MOST, &refused).await?.is_none() {
                break;
            }
            refused.extend(self.bring_batch(request).await?);
            // may sleep: those who put jobs in now have the store for as long as this batch had it.
            tokio::time::sleep(began.elapsed().min(Duration::from_secs(1))).await;
        }
        trouble.map_or(Ok(()), Err)
    }

    /// Brings home a batch that was set aside just now. Tells of which types jobs are still here.
    async fn bring_batch(&self, request: RequestId) -> Result<Vec<TypeName>> {
        match self.ask(request).await {
            // If only the end fails, the primary has the jobs: the batch stays, and is finished later.
            Ok(asked) => self.end(asked).await,
            Err(error) if error.is_unknown() => Err(error),
            Err(error) => self.keep_here(request, error).await,
        }
    }

    /// Nothing of a batch was stored in the primary, so it goes on here, unless somebody else may have sent it since.
    async fn keep_here(&self, request: RequestId, why: EngineError) -> Result<Vec<TypeName>> {
        let jobs = self.spill.still_leaving(request).await?.map(|(_, jobs)| jobs).unwrap_or_default();
        self.spill.keep_here(request, self.options.adopt_after).await?;
        // Somebody holds a key: that says nothing of other jobs.
        let EngineError::Busy { why } = why else { return Err(why) };
        tracing::info!(why, "a job of the spill is tried again later");
        Ok(jobs.into_iter().map(|job| job.job_type).collect())
    }

    /// Finishes what was set aside before, oldest first: by a process that died, or by one that went on without an answer.
    /// One bad batch does not keep the others; the first trouble of that kind is handed back.
    async fn finish_old(&self) -> Result<Option<EngineError>> {
        let now = self.spill.now().await?;
        let (mut trouble, mut last) = (None, None);
        loop {
            let page = self.spill.leaving(last.as_ref(), BATCHES).await?;
            let old = page.iter().filter(|leaving| !leaving.is_younger_than(self.options.adopt_after, now));
            for leaving in old {
                let ended = match self.ask(leaving.request).await {
                    Err(error) if is_away(&error) => return Err(error),
                    Err(error) => Err(error),
                    Ok(asked) => self.end(asked).await,
                };
                trouble = trouble.or(ended.err());
            }
            match page.into_iter().next_back() {
                Some(end) => last = Some(end),
                None => return Ok(trouble),
            }
        }
    }

    /// Asks the primary for a batch, by sending it, or by asking for the receipt if it must not be sent any more.
    async fn ask(&self, request: RequestId) -> Result<Asked> {
        let Some((leaving, jobs)) = self.spill.still_leaving(request).await? else { return Ok(Asked::Over) };
        if jobs.is_empty() {
            self.spill.end_batch(request, Vec::new()).await?;
            return Ok(Asked::Over);
        }
        let now = self.spill.now().await?;
        // Of a batch that a person has changed, only what was sent before counts.
        let is_whole = jobs.len() == leaving.ids.len();
        let answers = if is_whole && leaving.is_receipt_kept(now) {
            Some(self.send(request, jobs.clone()).await?)
        } else if leaving.is_receipt_possible(now) {
            self.on_primary_within(BATCH_WITHIN, |primary| async move { primary.receipt(request).await })
                .await?
        } else {
            None
        };
        match answers.filter(|answers| answers.len() == leaving.ids.len()) {
            Some(answers) => Ok(Asked::Answered { leaving, jobs, answers }),
            None => Ok(Asked::Uncertain),
        }
    }

    async fn send(&self, request: RequestId, jobs: Vec<Job>) -> Result<Vec<Enqueued>> {
        let there = self.on_primary(|primary| async move { primary.now().await }).await?;
        let here = self.spill.now().await?;
        let jobs = jobs.into_iter().map(|job| as_new(job, here, there)).collect();
        let request = EnqueueRequest { request, jobs };
        self.on_primary_within(BATCH_WITHIN, |primary| async move { primary.enqueue(request).await }).await
    }

    /// The primary has answered for a batch: what it has ends here, what it refused waits here as before. Tells of which types
    /// that is.
    async fn end(&self, asked: Asked) -> Result<Vec<TypeName>> {
        let Asked::Answered { leaving, jobs, answers } = asked else { return Ok(Vec::new()) };
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
        if let Some(why) = answers.iter().find_map(|answer| answer.job().err()) {
            let (jobs, primary) = (refused.len(), self.primary.name);
            tracing::warn!(jobs, primary, %why, "jobs of the spill were refused, and wait there");
        }
        Ok(refused)
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

    /// Jobs of which nobody can tell any more whether the primary has them: those of batches without a receipt that are still here.
    pub(super) async fn uncertain(&self) -> Result<u64> {
        let now = self.spill.now().await?;
        let (mut uncertain, mut last) = (0, None);
        loop {
            let page = self.spill.leaving(last.as_ref(), BATCHES).await?;
            for leaving in page.iter().filter(|leaving| !leaving.is_receipt_kept(now)) {
                let still_here = self.spill.still_leaving(leaving.request).await?;
                uncertain += still_here.map_or(0, |(_, jobs)| jobs.len() as u64);
            }
            match page.into_iter().next_back() {
                Some(end) => last = Some(end),
                None => return Ok(uncertain),
            }
        }
    }
}
