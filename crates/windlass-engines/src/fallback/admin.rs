//! Operators' queries and acts on both stores. The id of a job says which store has it; lists and counts
//! are joined. While the primary is away, its jobs cannot be seen, and the spool is shown alone.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use windlass_core::admin::{
    BatchDone, CancelAnswer, Changed, ListRequest, QueueStatus, RetryAnswer, StoredAttempt, StoredJob,
    TypeStatus,
};
use windlass_core::breaker::BreakerState;
use windlass_core::claim::Fence;
use windlass_core::engine::{Admin, Engine, Result};
use windlass_core::error::EngineError;
use windlass_core::fallback::{FallbackStatus, Side};
use windlass_core::gate::Gate;
use windlass_core::job::JobId;
use windlass_core::lease::{
    LeaseFence, LeaseRelease, LeaseRequest, Leases, LeasesRead, LockRequest, Released, Renewal, Renewed,
    Taking,
};
use windlass_core::limits::LIST_PAGE_MAX;
use windlass_core::names::{BreakerName, DutyName, OrderingKey, QueueName, TypeName};
use windlass_core::policies::{BreakersRead, Policies, Saved, Take};
use windlass_core::priority::Priority;
use windlass_core::rate_limit::Taken;
use windlass_core::rollups::{
    RollupChange, RollupInput, RollupKey, RollupOutcome, Rollups, RollupsRead, RollupsRequest, Sample,
};
use windlass_core::schedules::{ScheduleChange, ScheduleChanged, Schedules, SchedulesRead, WhichSchedules};
use windlass_core::spool::Spool;
use windlass_core::triggers::{
    CompletionTriggers, TriggerChange, TriggerChanged, TriggerFired, TriggerFiring, TriggersRead,
    WhichTriggers,
};
use windlass_core::worker::WorkerId;

use super::{FallbackEngine, Inner};

/// The time limit for a read of the primary.
const READ_WITHIN: Duration = Duration::from_secs(5);

impl Inner {
    /// Returns the engine that may have a job with this id.
    fn engine_of(&self, id: JobId) -> Result<Arc<dyn Engine>> {
        match Side::of(id) {
            Side::Primary => self.primary.engine(),
            Side::Spool => Ok(Arc::<dyn Spool>::clone(&self.spool)),
        }
    }

    /// Returns the primary's answer; `None` while it is away, when no call is sent.
    async fn if_available<T, Fut>(
        &self,
        call: impl FnOnce(Arc<dyn Engine>) -> Fut + Send,
    ) -> Result<Option<T>>
    where
        T: Send + 'static,
        Fut: Future<Output = Result<T>> + Send + 'static,
    {
        if self.side() == Side::Spool {
            return Ok(None);
        }
        self.on_primary_within(READ_WITHIN, call).await.map(Some)
    }

    /// Calls the primary about data that processes share. While the primary is away, the call fails at
    /// once, for a job may wait for the answer: each process decides alone then.
    async fn shared<T, Fut>(&self, call: impl FnOnce(Arc<dyn Engine>) -> Fut + Send) -> Result<T>
    where
        T: Send + 'static,
        Fut: Future<Output = Result<T>> + Send + 'static,
    {
        if self.side() == Side::Spool {
            let why = format!("{} is away, and it keeps what processes share", self.primary.name);
            return Err(EngineError::Unavailable { why });
        }
        self.on_primary(call).await
    }
}

#[async_trait]
impl Admin for FallbackEngine {
    async fn fallback(&self) -> Result<Option<FallbackStatus>> {
        self.inner.status().await.map(Some)
    }

    async fn job(&self, id: JobId) -> Result<Option<StoredJob>> {
        self.inner.engine_of(id)?.job(id).await
    }

    async fn attempts(&self, id: JobId) -> Result<Vec<StoredAttempt>> {
        self.inner.engine_of(id)?.attempts(id).await
    }

    /// Lists jobs. Those in the spool have the highest ids, so they come first.
    async fn list(&self, request: ListRequest) -> Result<Vec<StoredJob>> {
        let limit = request.limit.min(LIST_PAGE_MAX);
        let begins_in_spool = request.before.is_none_or(|before| Side::of(before) == Side::Spool);
        let mut page = match begins_in_spool {
            true => self.inner.beside_primary(self.inner.spool.list(request.clone()).await)?,
            false => Vec::new(),
        };
        let left = limit.saturating_sub(u32::try_from(page.len()).unwrap_or(limit));
        if left > 0 {
            let before = request.before.filter(|_| !begins_in_spool);
            let rest = ListRequest { before, limit: left, ..request };
            let reading = self.inner.if_available(|primary| async move { primary.list(rest).await });
            page.extend(reading.await?.unwrap_or_default());
        }
        Ok(page)
    }

    async fn queues(&self) -> Result<Vec<QueueStatus>> {
        let spool = self.inner.beside_primary(self.inner.spool.queues().await)?;
        let reading = self.inner.if_available(|primary| async move { primary.queues().await });
        let Some(mut queues) = reading.await? else { return Ok(spool) };
        for queue in &mut queues {
            if let Some(beside) = spool.iter().find(|other| other.spec.name == queue.spec.name) {
                queue.add(beside);
            }
        }
        Ok(queues)
    }

    async fn types(&self) -> Result<Vec<TypeStatus>> {
        let spool = self.inner.beside_primary(self.inner.spool.types().await)?;
        let reading = self.inner.if_available(|primary| async move { primary.types().await });
        let Some(mut types) = reading.await? else { return Ok(spool) };
        for known in &mut types {
            let beside = spool.iter().find(|other| other.spec.name == known.spec.name);
            known.unfinished += beside.map_or(0, |beside| beside.unfinished);
        }
        Ok(types)
    }

    async fn cancel(&self, id: JobId, why: &str) -> Result<CancelAnswer> {
        self.inner.engine_of(id)?.cancel(id, why).await
    }

    async fn retry(&self, id: JobId) -> Result<RetryAnswer> {
        self.inner.engine_of(id)?.retry(id).await
    }

    async fn discard(&self, id: JobId) -> Result<Changed> {
        self.inner.engine_of(id)?.discard(id).await
    }

    async fn set_priority(&self, id: JobId, priority: Priority) -> Result<Changed> {
        self.inner.engine_of(id)?.set_priority(id, priority).await
    }

    async fn pause(
        &self,
        queue: &QueueName,
        reason: Option<&str>,
        lasting: Option<Duration>,
    ) -> Result<Changed> {
        let changed = self.inner.primary.engine()?.pause(queue, reason, lasting).await?;
        let done = self.inner.spool.pause(queue, reason, lasting).await.map(drop);
        self.inner.unless_passing(done)?;
        Ok(changed)
    }

    async fn resume(&self, queue: &QueueName) -> Result<Changed> {
        let changed = self.inner.primary.engine()?.resume(queue).await?;
        let done = self.inner.spool.resume(queue).await.map(drop);
        self.inner.unless_passing(done)?;
        Ok(changed)
    }

    async fn set_shut(&self, queue: &QueueName, shut: bool) -> Result<Changed> {
        let changed = self.inner.primary.engine()?.set_shut(queue, shut).await?;
        let done = self.inner.spool.set_shut(queue, shut).await.map(drop);
        self.inner.unless_passing(done)?;
        Ok(changed)
    }

    async fn purge(&self, queue: &QueueName, limit: u32) -> Result<BatchDone> {
        let primary = self.inner.primary.engine()?.purge(queue, limit).await?;
        let spool = self.inner.spool.purge(queue, limit).await?;
        Ok(BatchDone { changed: spool.changed + primary.changed, more: spool.more || primary.more })
    }

    async fn head_of(&self, job_type: &TypeName, ordering_key: &OrderingKey) -> Result<Option<JobId>> {
        self.inner.primary.engine()?.head_of(job_type, ordering_key).await
    }

    async fn open_gate(&self, gate: &Gate, limit: u32) -> Result<BatchDone> {
        let gate = gate.clone();
        self.inner.shared(|primary| async move { primary.open_gate(&gate, limit).await }).await
    }
}

/// The state that processes share is in the primary. Jobs of the spool follow the spool's own limits.
#[async_trait]
impl Policies for FallbackEngine {
    async fn breakers(&self) -> Result<BreakersRead> {
        self.inner.shared(|primary| async move { primary.breakers().await }).await
    }

    async fn save_breaker(&self, name: &BreakerName, read: u64, state: &BreakerState) -> Result<Saved> {
        let (name, state) = (name.clone(), state.clone());
        self.inner.shared(|primary| async move { primary.save_breaker(&name, read, &state).await }).await
    }

    async fn still_hold(&self, claims: &[Fence]) -> Result<Vec<bool>> {
        let still_hold =
            |engine: Arc<dyn Engine>, part: Vec<Fence>| async move { engine.still_hold(&part).await };
        self.inner.by_side(claims.to_vec(), |fence| fence.job, still_hold).await
    }

    async fn take_tokens(&self, takes: &[Take]) -> Result<Vec<Taken>> {
        let takes = takes.to_vec();
        self.inner.shared(|primary| async move { primary.take_tokens(&takes).await }).await
    }

    async fn gates(&self, after: Option<&Gate>, limit: u32) -> Result<Vec<Gate>> {
        let after = after.cloned();
        self.inner.shared(|primary| async move { primary.gates(after.as_ref(), limit).await }).await
    }

    async fn behind(&self, gate: &Gate, limit: u32) -> Result<Vec<JobId>> {
        let gate = gate.clone();
        self.inner.shared(|primary| async move { primary.behind(&gate, limit).await }).await
    }
}

/// Schedules are in the primary, and so are the jobs that they enqueue. While it is away they enqueue
/// nothing. Missed ticks are decided when it is back.
#[async_trait]
impl Schedules for FallbackEngine {
    async fn schedules(&self, which: &WhichSchedules) -> Result<SchedulesRead> {
        self.inner.primary.engine()?.schedules(which).await
    }

    async fn change_schedules(&self, changes: &[ScheduleChange]) -> Result<Vec<ScheduleChanged>> {
        self.inner.primary.engine()?.change_schedules(changes).await
    }
}

/// Completion triggers are in the primary, too. While it is away no trigger fires, and jobs in the spool
/// keep none unfinished.
#[async_trait]
impl CompletionTriggers for FallbackEngine {
    async fn triggers(&self, which: &WhichTriggers) -> Result<TriggersRead> {
        self.inner.primary.engine()?.triggers(which).await
    }

    async fn change_triggers(&self, changes: &[TriggerChange]) -> Result<Vec<TriggerChanged>> {
        self.inner.primary.engine()?.change_triggers(changes).await
    }

    async fn fire_triggers(&self, firings: &[TriggerFiring]) -> Result<Vec<TriggerFired>> {
        self.inner.primary.engine()?.fire_triggers(firings).await
    }
}

/// Samples go to the store in which the jobs ran: the worker on the spool sends them to the spool. Reads
/// come from the primary, and from the spool while the primary is away.
#[async_trait]
impl Rollups for FallbackEngine {
    async fn append_samples(&self, samples: &[Sample]) -> Result<()> {
        let samples = samples.to_vec();
        self.inner.shared(|primary| async move { primary.append_samples(&samples).await }).await
    }

    async fn rollup_input(&self, limit: u32) -> Result<RollupInput> {
        self.inner.shared(|primary| async move { primary.rollup_input(limit).await }).await
    }

    async fn rollups_of(&self, keys: &[RollupKey]) -> Result<RollupsRead> {
        let keys = keys.to_vec();
        self.inner.shared(|primary| async move { primary.rollups_of(&keys).await }).await
    }

    async fn apply_rollup(&self, change: &RollupChange) -> Result<RollupOutcome> {
        let change = change.clone();
        self.inner.shared(|primary| async move { primary.apply_rollup(&change).await }).await
    }

    async fn rollups(&self, request: &RollupsRequest) -> Result<RollupsRead> {
        let wanted = request.clone();
        let reading = self.inner.if_available(|primary| async move { primary.rollups(&wanted).await });
        match reading.await? {
            Some(read) => Ok(read),
            None => self.inner.spool.rollups(request).await,
        }
    }

    async fn forget_rollups(&self, kept: Duration, limit: u32) -> Result<BatchDone> {
        self.inner.shared(|primary| async move { primary.forget_rollups(kept, limit).await }).await
    }
}

/// Duties are done for the primary.
#[async_trait]
impl Leases for FallbackEngine {
    async fn take_leases(&self, request: &LeaseRequest) -> Result<Vec<Taking>> {
        self.inner.primary.engine()?.take_leases(request).await
    }

    async fn renew_leases(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>> {
        self.inner.primary.engine()?.renew_leases(renewals).await
    }

    async fn release_leases(&self, releases: &[LeaseRelease]) -> Result<Vec<Released>> {
        self.inner.primary.engine()?.release_leases(releases).await
    }

    async fn leases_hold(&self, leases: &[LeaseFence]) -> Result<Vec<bool>> {
        self.inner.primary.engine()?.leases_hold(leases).await
    }

    async fn leases(&self) -> Result<LeasesRead> {
        self.inner.primary.engine()?.leases().await
    }

    async fn step_down(&self, duty: &DutyName) -> Result<Changed> {
        self.inner.primary.engine()?.step_down(duty).await
    }

    async fn lock_duties(&self, request: &LockRequest) -> Result<Vec<bool>> {
        self.inner.primary.engine()?.lock_duties(request).await
    }

    async fn unlock_duties(&self, worker: WorkerId, duties: &[DutyName]) -> Result<()> {
        self.inner.primary.engine()?.unlock_duties(worker, duties).await
    }
}
