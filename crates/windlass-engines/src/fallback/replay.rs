//! The way back: what nobody has claimed yet goes to the primary, exactly once and in the order in which it came.
//!
//! A batch is staged in the spool, put into the primary under the request that it notes, and ended in the spool. Whoever finds
//! a batch that was staged long ago does the last two steps again: the primary answers a request that it has done from
//! its receipt, and a batch that somebody else has ended is over.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use windlass_core::clock::Timestamp;
use windlass_core::engine::Result;
use windlass_core::enqueue::{EnqueueAnswer, EnqueueRequest, RequestId};
use windlass_core::error::EngineError;
use windlass_core::fallback::Side;
use windlass_core::job::Job;
use windlass_core::names::TypeName;
use windlass_core::spool::{BatchMost, Following, LeftOut, StagedBatch, as_new, moved};

use super::Inner;

/// What goes together.
const MOST: BatchMost = BatchMost { jobs: 200, bytes: 1024 * 1024 };
/// Batches that are looked at together.
const BATCHES: u32 = 100;
/// After so many jobs that could not go, a round ends: whatever is wrong then is wrong with more than a few of them.
const LEFT_OUT_MAX: usize = 1_000;
/// How long a batch may take. It is bigger than a single job, and nobody waits for it.
const BATCH_WITHIN: Duration = Duration::from_secs(10);

/// What the primary says of a batch.
enum Asked {
    /// Nothing is left of it here.
    Over,
    /// It answered for each job that was sent. These are still here.
    Answered { staged: StagedBatch, jobs: Vec<Job>, answers: Vec<EnqueueAnswer> },
    /// Nobody can tell any more whether the primary has it.
    Uncertain,
}

impl Inner {
    /// Replays all that may go, batch by batch, for as long as the primary is there. Half of the time is left to those
    /// who put jobs in now. What cannot go now keeps no others; the first trouble of that kind is handed back. A batch without
    /// an answer ends the round: it is the first of the next one, so that nothing overtakes it.
    pub(super) async fn replay(&self) -> Result<()> {
        let mut trouble = self.finish_old().await?;
        let mut left_out = LeftOut::default();
        while self.side() == Side::Primary && left_out.jobs.len() < LEFT_OUT_MAX {
            let began = Instant::now();
            let request = RequestId::from_random(fastrand::u128(..));
            let following = self.following();
            let stage = self.spool.stage(request, MOST, &left_out, &following).await?;
            let Some(staged) = stage else { break };
            match self.bring_batch(request).await {
                Ok(refused) => left_out.types.extend(refused),
                Err(error) if error.is_unknown() => return Err(trouble.unwrap_or(error)),
                Err(error) => {
                    trouble = trouble.or(Some(error));
                    left_out.jobs.extend(staged.ids);
                }
            }
            // may sleep: those who put jobs in now have the store for as long as this batch had it.
            tokio::time::sleep(began.elapsed().min(Duration::from_secs(1))).await;
        }
        trouble.map_or(Ok(()), Err)
    }

    /// Replays a batch that was staged just now. Tells of which types jobs were refused.
    async fn bring_batch(&self, request: RequestId) -> Result<BTreeSet<TypeName>> {
        match self.ask(request).await {
            // If only the end fails, the primary has the jobs: the batch stays, and the next round begins
            // with it.
            Ok(asked) => self.end(asked).await.inspect_err(|_| _ = self.left_behind().insert(request)),
            Err(error) if error.is_unknown() => {
                self.left_behind().insert(request);
                Err(error)
            }
            Err(error) => {
                // Nothing of it was stored there, so it goes on here, unless somebody else may have sent it since.
                self.spool.keep_here(request, self.options.adopt_after / 2).await?;
                Err(error)
            }
        }
    }

    /// Finishes what was staged before, oldest first: by a process that died long ago, or by this one, which went on
    /// without an answer.
    async fn finish_old(&self) -> Result<Option<EngineError>> {
        let (mut trouble, mut last) = (None, None);
        // Those of which nothing is left here: batches are remembered only once they are staged.
        let mut unnamed = self.left_behind().clone();
        loop {
            let page = self.spool.staged(last.as_ref(), BATCHES).await?;
            page.iter().for_each(|staged| _ = unnamed.remove(&staged.request));
            // After the page, or what was staged in between would seem to come from a clock that went back.
            let now = self.spool.now().await?;
            for staged in page.iter().filter(|staged| self.may_finish(staged, now)) {
                let ended = match self.ask(staged.request).await {
                    Ok(asked) => {
                        let ended = self.end(asked).await;
                        if ended.is_ok() {
                            self.left_behind().remove(&staged.request);
                        }
                        ended.err()
                    }
                    // Without an answer nothing may overtake it.
                    Err(error) if error.is_unknown() || self.side() == Side::Spool => return Err(error),
                    Err(error) => Some(error),
                };
                trouble = trouble.or(ended);
            }
            match page.into_iter().next_back() {
                Some(end) => last = Some(end),
                None => break,
            }
        }
        self.left_behind().retain(|request| !unnamed.contains(request));
        Ok(trouble)
    }

    fn may_finish(&self, staged: &StagedBatch, now: Timestamp) -> bool {
        let is_ours = self.left_behind().contains(&staged.request);
        is_ours || !staged.is_younger_than(self.options.adopt_after, now)
    }

    fn following(&self) -> Following {
        Following { ours: self.left_behind().clone(), adopt_after: self.options.adopt_after }
    }

    pub(super) fn left_behind(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        self.left_behind.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the primary for a batch, by sending it, or by asking for the receipt if it must not be sent any more.
    async fn ask(&self, request: RequestId) -> Result<Asked> {
        let Some((staged, jobs)) = self.spool.still_staged(request).await? else { return Ok(Asked::Over) };
        if jobs.is_empty() {
            self.spool.end_batch(request, Vec::new()).await?;
            return Ok(Asked::Over);
        }
        let now = self.spool.now().await?;
        // Of a batch that a person has changed, only what was sent before counts.
        let is_whole = jobs.len() == staged.ids.len();
        let answers = if is_whole && staged.is_receipt_kept(now) {
            Some(self.send(request, jobs.clone()).await?)
        } else if staged.is_receipt_possible(now) {
            self.on_primary_within(BATCH_WITHIN, |primary| async move { primary.ask(request).await }).await?
        } else {
            None
        };
        match answers.filter(|answers| answers.len() == staged.ids.len()) {
            Some(answers) => Ok(Asked::Answered { staged, jobs, answers }),
            None => Ok(Asked::Uncertain),
        }
    }

    async fn send(&self, request: RequestId, jobs: Vec<Job>) -> Result<Vec<EnqueueAnswer>> {
        // In this order, and before anything is sent: see `as_new`.
        let here = self.spool.now().await?;
        let there = self.on_primary(|primary| async move { primary.now().await }).await?;
        let jobs = jobs.into_iter().map(|job| as_new(job, here, there)).collect();
        let request = EnqueueRequest { request, jobs };
        self.on_primary_within(BATCH_WITHIN, |primary| async move { primary.enqueue(request).await }).await
    }

    /// The primary has answered for a batch: what it has ends here, what it refused waits here as before. Tells of which types
    /// that is.
    async fn end(&self, asked: Asked) -> Result<BTreeSet<TypeName>> {
        let Asked::Answered { staged, jobs, answers } = asked else { return Ok(BTreeSet::new()) };
        let mut reasons: HashMap<_, _> =
            staged.ids.iter().zip(&answers).map(|(id, answer)| (*id, self.reason(answer))).collect();
        let ends: Vec<_> = jobs.iter().map(|job| (job.id, reasons.remove(&job.id).flatten())).collect();
        let refused: Vec<_> = jobs.iter().zip(&ends).filter(|(_, (_, end))| end.is_none()).collect();
        let returned = (ends.len() - refused.len()) as u64;
        let types = refused.iter().map(|(job, _)| job.job_type.clone()).collect();
        if let Some(why) = answers.iter().find_map(|answer| answer.job().err()) {
            let (jobs, primary) = (refused.len(), self.primary.name);
            tracing::warn!(jobs, primary, %why, "jobs of the spool were refused, and wait there");
        }
        if self.spool.end_batch(staged.request, ends).await? {
            self.counts.returned.fetch_add(returned, Ordering::Relaxed);
        }
        Ok(types)
    }

    /// Why a job of the spool is over, or nothing if it is not.
    fn reason(&self, answer: &EnqueueAnswer) -> Option<String> {
        let name = self.primary.name;
        match answer {
            EnqueueAnswer::New(id) | EnqueueAnswer::Spooled(id) => Some(moved(name, *id)),
            EnqueueAnswer::Duplicate(id) => Some(format!("duplicate of job {id} in {name}")),
            EnqueueAnswer::Replaced(id) | EnqueueAnswer::Revived(id) => {
                Some(format!("given to job {id} in {name}"))
            }
            EnqueueAnswer::Refused(_) => None,
        }
    }

    /// Jobs of which nobody can tell any more whether the primary has them: those of batches without a receipt that are still here.
    pub(super) async fn uncertain(&self) -> Result<u64> {
        let (mut uncertain, mut last) = (0, None);
        loop {
            let page = self.spool.staged(last.as_ref(), BATCHES).await?;
            let now = self.spool.now().await?;
            for staged in page.iter().filter(|staged| !staged.is_receipt_kept(now)) {
                let still_here = self.spool.still_staged(staged.request).await?;
                uncertain += still_here.map_or(0, |(_, jobs)| jobs.len() as u64);
            }
            match page.into_iter().next_back() {
                Some(end) => last = Some(end),
                None => return Ok(uncertain),
            }
        }
    }
}
