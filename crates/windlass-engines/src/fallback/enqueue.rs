//! Where a new job goes: to the primary, or into the spill while the primary is away.

use std::sync::atomic::Ordering;

use windlass_core::engine::Result;
use windlass_core::enqueue::{EnqueueRequest, Enqueued, RequestId};
use windlass_core::error::EngineError;
use windlass_core::fallback::Side;
use windlass_core::spill::Aside;

use super::primary::is_away;
use super::{Inner, KeysWhileAway};

impl Inner {
    pub(super) async fn enqueue(&self, request: EnqueueRequest) -> Result<Vec<Enqueued>> {
        if let Some(answers) = self.spill_receipt(request.request).await? {
            return Ok(answers);
        }
        if self.side() == Side::Spill {
            return self.spill(request).await;
        }
        let sent = request.clone();
        match self.on_primary(|primary| async move { primary.enqueue(sent).await }).await {
            Err(error) if error.is_unknown() => self.keep_unanswered(request, error).await,
            Err(error) if is_away(&error) => self.spill(request).await,
            answered => answered,
        }
    }

    pub(super) async fn receipt(&self, request: RequestId) -> Result<Option<Vec<Enqueued>>> {
        match self.spill_receipt(request).await? {
            Some(answers) => Ok(Some(answers)),
            None => self.primary.engine()?.receipt(request).await,
        }
    }

    /// The answers of a request that went into the spill. A spill that never held anything is not asked.
    async fn spill_receipt(&self, request: RequestId) -> Result<Option<Vec<Enqueued>>> {
        if !self.spill_was_used.load(Ordering::Acquire) {
            return Ok(None);
        }
        let answers = self.spill.receipt(request).await?;
        Ok(answers.map(|answers| answers.into_iter().map(spilled).collect()))
    }

    /// Stores jobs that the primary does not have.
    async fn spill(&self, request: EnqueueRequest) -> Result<Vec<Enqueued>> {
        self.check_spill(&request).await?;
        let answers = self.spill.enqueue(request).await?;
        Ok(self.count_spilled(answers))
    }

    /// Stores jobs that the primary may have or not: nobody runs them here, and when the primary is back it is asked under the
    /// same request. If they cannot all be kept so, their caller learns that the answer got lost.
    async fn keep_unanswered(&self, request: EnqueueRequest, lost: EngineError) -> Result<Vec<Enqueued>> {
        if self.check_spill(&request).await.is_err() {
            return Err(lost);
        }
        let gate = Aside::Unanswered(request.request).gate(self.spill.now().await?);
        let answers = self.spill.enqueue_behind(request, &gate).await?;
        if answers.iter().any(|answer| matches!(answer, Enqueued::Refused(_))) {
            return Err(lost);
        }
        Ok(self.count_spilled(answers))
    }

    /// Whether the spill may take these.
    async fn check_spill(&self, request: &EnqueueRequest) -> Result<()> {
        let key = request.jobs.iter().find_map(|job| job.key.as_ref());
        if let Some(claim) = key.filter(|_| self.options.keys == KeysWhileAway::Refuse) {
            let (name, key) = (self.primary.name, claim.key.as_str());
            let why = format!(
                "{name} is away, so nobody knows whether key {key} is taken; try again later, or let keys be settled later with \
                 `keys = \"accept\"` under [fallback]"
            );
            return Err(EngineError::Unavailable { why });
        }
        let size = self.spill_size().await?;
        if size + request.jobs.len() as u64 > self.options.spill_max {
            let (name, max) = (self.primary.name, self.options.spill_max);
            let why = format!("{name} is away, and the spill takes at most {max} jobs and holds {size}");
            return Err(EngineError::Full { why });
        }
        Ok(())
    }

    fn count_spilled(&self, answers: Vec<Enqueued>) -> Vec<Enqueued> {
        self.spill_was_used.store(true, Ordering::Release);
        let new = answers.iter().filter(|answer| matches!(answer, Enqueued::New(_))).count();
        self.counts.spilled.fetch_add(new as u64, Ordering::Relaxed);
        answers.into_iter().map(spilled).collect()
    }
}

/// What is new in the spill was spilled.
fn spilled(answer: Enqueued) -> Enqueued {
    match answer {
        Enqueued::New(id) => Enqueued::Spilled(id),
        other => other,
    }
}
