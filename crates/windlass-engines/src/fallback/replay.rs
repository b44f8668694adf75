//! Replay: moves the jobs that no worker has claimed yet to the primary, exactly once and in the order of
//! their enqueue.
//!
//! A batch is staged in the spool, enqueued in the primary under the request that it notes, and ended in
//! the spool. A process that finds a batch that was staged long ago repeats the last two steps: the primary
//! answers a request that it has done from its receipt, and a batch that another process has ended is over.

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

/// The maximum size of a batch.
const MOST: BatchMost = BatchMost { jobs: 200, bytes: 1024 * 1024 };
/// The number of batches on one page.
const BATCHES: u32 = 100;
/// The number of failed jobs after which a round ends: the cause then affects more than a few of them.
const LEFT_OUT_MAX: usize = 1_000;
/// The time limit of a batch. It is bigger than a single job, and no caller waits for it.
const BATCH_WITHIN: Duration = Duration::from_secs(10);

/// The primary's answer about a batch.
enum BatchAnswer {
    /// No job of it is left here.
    Over,
    /// The primary answered for each job that was sent. These jobs are still here.
    Answered { staged: StagedBatch, jobs: Vec<Job>, answers: Vec<EnqueueAnswer> },
    /// It is no longer possible to know whether the primary has it.
    Uncertain,
}

impl Inner {
    /// Replays all jobs that may move, batch by batch, while the primary answers. Half of the time is left
    /// to callers that enqueue now. A job that cannot move now stops no others; the first error of that
    /// kind is returned. A batch without an answer ends the round: it is the first of the next round, so
    /// that no job overtakes it.
    pub(super) async fn replay(&self) -> Result<()> {
        let mut trouble = self.finish_old().await?;
        let mut left_out = LeftOut::default();
        while self.side() == Side::Primary && left_out.jobs.len() < LEFT_OUT_MAX {
            let began = Instant::now();
            let request = RequestId::from_random(fastrand::u128(..));
            let following = self.following();
            let stage = self.spool.stage(request, MOST, &left_out, &following).await?;
            let Some(staged) = stage else { break };
            match self.replay_batch(request).await {
                Ok(refused) => left_out.types.extend(refused),
                Err(error) if error.is_unknown() => return Err(trouble.unwrap_or(error)),
                Err(error) => {
                    trouble = trouble.or(Some(error));
                    left_out.jobs.extend(staged.ids);
                }
            }
            // may sleep: callers that enqueue now have the store for as long as this batch had it.
            tokio::time::sleep(began.elapsed().min(Duration::from_secs(1))).await;
        }
        trouble.map_or(Ok(()), Err)
    }

    /// Replays a batch that was staged just now. Returns the types of refused jobs.
    async fn replay_batch(&self, request: RequestId) -> Result<BTreeSet<TypeName>> {
        match self.query_batch(request).await {
            // If only the end fails, the primary has the jobs: the batch stays, and the next round begins
            // with it.
            Ok(answer) => self.end(answer).await.inspect_err(|_| _ = self.left_behind().insert(request)),
            Err(error) if error.is_unknown() => {
                self.left_behind().insert(request);
                Err(error)
            }
            Err(error) => {
                // The primary stored no job of it, so it stays here, unless another process may have sent
                // it since.
                self.spool.keep_here(request, self.options.adopt_after / 2).await?;
                Err(error)
            }
        }
    }

    /// Finishes batches that were staged before, oldest first: by a process that died long ago, or by this
    /// process, which continued without an answer.
    async fn finish_old(&self) -> Result<Option<EngineError>> {
        let (mut trouble, mut last) = (None, None);
        // Requests without a batch here: they are remembered only once their batches are staged.
        let mut unnamed = self.left_behind().clone();
        loop {
            let page = self.spool.staged(last.as_ref(), BATCHES).await?;
            page.iter().for_each(|staged| _ = unnamed.remove(&staged.request));
            // After the page: otherwise a batch that was staged in between would seem to come from a clock
            // that went back.
            let now = self.spool.now().await?;
            for staged in page.iter().filter(|staged| self.may_finish(staged, now)) {
                let ended = match self.query_batch(staged.request).await {
                    Ok(answer) => {
                        let ended = self.end(answer).await;
                        if ended.is_ok() {
                            self.left_behind().remove(&staged.request);
                        }
                        ended.err()
                    }
                    // Without an answer no job may overtake it.
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

    /// Queries the primary for a batch: sends it, or reads its receipt if it must not be sent any more.
    async fn query_batch(&self, request: RequestId) -> Result<BatchAnswer> {
        let Some((staged, jobs)) = self.spool.still_staged(request).await? else {
            return Ok(BatchAnswer::Over);
        };
        if jobs.is_empty() {
            self.spool.end_batch(request, Vec::new()).await?;
            return Ok(BatchAnswer::Over);
        }
        let now = self.spool.now().await?;
        // Of a batch that an operator has changed, only the first sending counts.
        let is_whole = jobs.len() == staged.ids.len();
        let answers = if is_whole && staged.is_receipt_kept(now) {
            Some(self.send(request, jobs.clone()).await?)
        } else if staged.is_receipt_possible(now) {
            self.on_primary_within(BATCH_WITHIN, |primary| async move { primary.ask(request).await }).await?
        } else {
            None
        };
        match answers.filter(|answers| answers.len() == staged.ids.len()) {
            Some(answers) => Ok(BatchAnswer::Answered { staged, jobs, answers }),
            None => Ok(BatchAnswer::Uncertain),
        }
    }

    async fn send(&self, request: RequestId, jobs: Vec<Job>) -> Result<Vec<EnqueueAnswer>> {
        // In this order, and before the batch is sent: see `as_new`.
        let here = self.spool.now().await?;
        let there = self.on_primary(|primary| async move { primary.now().await }).await?;
        let jobs = jobs.into_iter().map(|job| as_new(job, here, there)).collect();
        let request = EnqueueRequest { request, jobs };
        self.on_primary_within(BATCH_WITHIN, |primary| async move { primary.enqueue(request).await }).await
    }

    /// Ends a batch for which the primary has answered: accepted jobs end here, refused ones wait here as
    /// before. Returns the types of the refused jobs.
    async fn end(&self, answer: BatchAnswer) -> Result<BTreeSet<TypeName>> {
        let BatchAnswer::Answered { staged, jobs, answers } = answer else { return Ok(BTreeSet::new()) };
        let mut reasons: HashMap<_, _> =
            staged.ids.iter().zip(&answers).map(|(id, answer)| (*id, self.reason(answer))).collect();
        let ends: Vec<_> = jobs.iter().map(|job| (job.id, reasons.remove(&job.id).flatten())).collect();
        let refused: Vec<_> = jobs.iter().zip(&ends).filter(|(_, (_, end))| end.is_none()).collect();
        let returned = (ends.len() - refused.len()) as u64;
        let types = refused.iter().map(|(job, _)| job.job_type.clone()).collect();
        if let Some(why) = answers.iter().find_map(|answer| answer.job().err()) {
            let (jobs, primary) = (refused.len(), self.primary.name);
            tracing::warn!(jobs, primary, %why, "the primary refused jobs of the spool; they wait in the spool and are retried");
        }
        if self.spool.end_batch(staged.request, ends).await? {
            self.counts.returned.fetch_add(returned, Ordering::Relaxed);
        }
        Ok(types)
    }

    /// Returns why a job of the spool is over, or `None` if it is not.
    fn reason(&self, answer: &EnqueueAnswer) -> Option<String> {
        let name = self.primary.name;
        match answer {
            EnqueueAnswer::New(id) | EnqueueAnswer::Spooled(id) => Some(moved(name, *id)),
            EnqueueAnswer::Duplicate(id) => Some(format!("duplicate of job {id} in {name}")),
            EnqueueAnswer::Replaced(id) | EnqueueAnswer::Revived(id) => {
                Some(format!("moved into job {id} in {name}"))
            }
            EnqueueAnswer::Refused(_) => None,
        }
    }

    /// Counts the jobs of which it is unknown whether the primary has them: jobs of batches without a
    /// receipt that are still here.
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
