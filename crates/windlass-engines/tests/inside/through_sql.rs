//! An engine whose enqueues go through the SQL function, in a transaction of another connection. Everything
//! else is the engine's own.

use std::sync::Weak;
use std::time::Duration;

use async_trait::async_trait;
use windlass_core::admin::{
    BatchDone, CancelAnswer, Changed, ListRequest, QueueStatus, RetryAnswer, StoredAttempt, StoredJob,
    TypeStatus,
};
use windlass_core::breaker::BreakerState;
use windlass_core::claim::{ClaimAnswer, ClaimRequest, Fence, NextDue};
use windlass_core::clock::Timestamp;
use windlass_core::engine::{
    Admin, Declaration, Engine, EngineInfo, HintListener, RescueRequest, Rescued, Result,
};
use windlass_core::enqueue::{EnqueueAnswer, EnqueueRequest, RequestId};
use windlass_core::gate::Gate;
use windlass_core::job::{JobId, Progress};
use windlass_core::lease::{
    LeaseFence, LeaseRelease, LeaseRequest, Leases, LeasesRead, Released, Renewal, Renewed, Taking,
};
use windlass_core::names::{BreakerName, DutyName, OrderingKey, QueueName, TypeName};
use windlass_core::policies::{BreakersRead, Policies, Saved, Take};
use windlass_core::priority::Priority;
use windlass_core::rate_limit::Taken;
use windlass_core::rollups::{
    RollupChange, RollupInput, RollupKey, RollupOutcome, Rollups, RollupsRead, RollupsRequest, Sample,
};
use windlass_core::schedules::{ScheduleChange, ScheduleChanged, Schedules, SchedulesRead, WhichSchedules};
use windlass_core::settle::{Settled, Settlement};
use windlass_core::triggers::{
    CompletionTriggers, TriggerChange, TriggerChanged, TriggerFired, TriggerFiring, TriggersRead,
    WhichTriggers,
};
use windlass_core::worker::{Heartbeat, Liveness, WorkerCard, WorkerId, WorkerSighting};
use windlass_engines::postgres::PostgresEngine;
use windlass_engines::postgres::tokio_postgres::{self, NoTls};

pub(crate) struct ThroughSql {
    pub(crate) engine: PostgresEngine,
    pub(crate) url: String,
}

#[async_trait]
impl Engine for ThroughSql {
    /// Uses a connection of its own for each call, so that concurrent calls are concurrent for the server
    /// too.
    async fn enqueue(&self, request: EnqueueRequest) -> Result<Vec<EnqueueAnswer>> {
        let (mut client, connection) =
            tokio_postgres::connect(&self.url, NoTls).await.expect("the server accepts the connection");
        tokio::spawn(connection);
        let tx = client.transaction().await.expect("a transaction begins");
        let answers = self.engine.enqueue_request_in(&tx, request).await?;
        tx.commit().await.expect("nothing prevents the commit");
        Ok(answers)
    }

    fn info(&self) -> EngineInfo {
        self.engine.info()
    }

    async fn now(&self) -> Result<Timestamp> {
        self.engine.now().await
    }

    async fn declare(&self, declaration: Declaration) -> Result<()> {
        self.engine.declare(declaration).await
    }

    async fn receipt(&self, request: RequestId) -> Result<Option<Vec<EnqueueAnswer>>> {
        self.engine.receipt(request).await
    }

    async fn ask(&self, request: RequestId) -> Result<Option<Vec<EnqueueAnswer>>> {
        self.engine.ask(request).await
    }

    async fn claim(&self, request: ClaimRequest) -> Result<ClaimAnswer> {
        self.engine.claim(request).await
    }

    async fn peek(&self, queues: &[QueueName], types: &[TypeName]) -> Result<Vec<(QueueName, NextDue)>> {
        self.engine.peek(queues, types).await
    }

    async fn settle(&self, batch: Vec<Settlement>) -> Result<Vec<Settled>> {
        self.engine.settle(batch).await
    }

    async fn report(&self, batch: Vec<(Fence, Progress)>) -> Result<Vec<Settled>> {
        self.engine.report(batch).await
    }

    async fn register(&self, card: WorkerCard) -> Result<()> {
        self.engine.register(card).await
    }

    async fn extend(&self, heartbeat: Heartbeat) -> Result<Liveness> {
        self.engine.extend(heartbeat).await
    }

    async fn asked_to_stop(&self, worker: WorkerId) -> Result<Vec<Fence>> {
        self.engine.asked_to_stop(worker).await
    }

    async fn retire(&self, worker: WorkerId) -> Result<()> {
        self.engine.retire(worker).await
    }

    async fn workers(&self) -> Result<Vec<WorkerSighting>> {
        self.engine.workers().await
    }

    async fn rescue(&self, request: RescueRequest) -> Result<Rescued> {
        self.engine.rescue(request).await
    }

    async fn sweep(&self, limit: u32) -> Result<BatchDone> {
        self.engine.sweep(limit).await
    }

    async fn prune(&self, limit: u32) -> Result<BatchDone> {
        self.engine.prune(limit).await
    }

    fn on_hint(&self, listener: Weak<dyn HintListener>) {
        self.engine.on_hint(listener);
    }
}

#[async_trait]
impl Policies for ThroughSql {
    async fn breakers(&self) -> Result<BreakersRead> {
        self.engine.breakers().await
    }

    async fn save_breaker(&self, name: &BreakerName, read: u64, state: &BreakerState) -> Result<Saved> {
        self.engine.save_breaker(name, read, state).await
    }

    async fn still_hold(&self, claims: &[Fence]) -> Result<Vec<bool>> {
        self.engine.still_hold(claims).await
    }

    async fn take_tokens(&self, takes: &[Take]) -> Result<Vec<Taken>> {
        self.engine.take_tokens(takes).await
    }

    async fn gates(&self, after: Option<&Gate>, limit: u32) -> Result<Vec<Gate>> {
        self.engine.gates(after, limit).await
    }

    async fn behind(&self, gate: &Gate, limit: u32) -> Result<Vec<JobId>> {
        self.engine.behind(gate, limit).await
    }
}

#[async_trait]
impl Leases for ThroughSql {
    async fn take_leases(&self, request: &LeaseRequest) -> Result<Vec<Taking>> {
        self.engine.take_leases(request).await
    }

    async fn renew_leases(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>> {
        self.engine.renew_leases(renewals).await
    }

    async fn release_leases(&self, releases: &[LeaseRelease]) -> Result<Vec<Released>> {
        self.engine.release_leases(releases).await
    }

    async fn leases_hold(&self, leases: &[LeaseFence]) -> Result<Vec<bool>> {
        self.engine.leases_hold(leases).await
    }

    async fn leases(&self) -> Result<LeasesRead> {
        self.engine.leases().await
    }

    async fn step_down(&self, duty: &DutyName) -> Result<Changed> {
        self.engine.step_down(duty).await
    }
}

#[async_trait]
impl Schedules for ThroughSql {
    async fn schedules(&self, which: &WhichSchedules) -> Result<SchedulesRead> {
        self.engine.schedules(which).await
    }

    async fn change_schedules(&self, changes: &[ScheduleChange]) -> Result<Vec<ScheduleChanged>> {
        self.engine.change_schedules(changes).await
    }
}

#[async_trait]
impl CompletionTriggers for ThroughSql {
    async fn triggers(&self, which: &WhichTriggers) -> Result<TriggersRead> {
        self.engine.triggers(which).await
    }

    async fn change_triggers(&self, changes: &[TriggerChange]) -> Result<Vec<TriggerChanged>> {
        self.engine.change_triggers(changes).await
    }

    async fn fire_triggers(&self, firings: &[TriggerFiring]) -> Result<Vec<TriggerFired>> {
        self.engine.fire_triggers(firings).await
    }
}

#[async_trait]
impl Rollups for ThroughSql {
    async fn append_samples(&self, samples: &[Sample]) -> Result<()> {
        self.engine.append_samples(samples).await
    }

    async fn rollup_input(&self, limit: u32) -> Result<RollupInput> {
        self.engine.rollup_input(limit).await
    }

    async fn rollups_of(&self, keys: &[RollupKey]) -> Result<RollupsRead> {
        self.engine.rollups_of(keys).await
    }

    async fn apply_rollup(&self, change: &RollupChange) -> Result<RollupOutcome> {
        self.engine.apply_rollup(change).await
    }

    async fn rollups(&self, request: &RollupsRequest) -> Result<RollupsRead> {
        self.engine.rollups(request).await
    }

    async fn forget_rollups(&self, kept: Duration, limit: u32) -> Result<BatchDone> {
        self.engine.forget_rollups(kept, limit).await
    }
}

#[async_trait]
impl Admin for ThroughSql {
    async fn job(&self, id: JobId) -> Result<Option<StoredJob>> {
        self.engine.job(id).await
    }

    async fn attempts(&self, id: JobId) -> Result<Vec<StoredAttempt>> {
        self.engine.attempts(id).await
    }

    async fn list(&self, request: ListRequest) -> Result<Vec<StoredJob>> {
        self.engine.list(request).await
    }

    async fn queues(&self) -> Result<Vec<QueueStatus>> {
        self.engine.queues().await
    }

    async fn types(&self) -> Result<Vec<TypeStatus>> {
        self.engine.types().await
    }

    async fn cancel(&self, id: JobId, why: &str) -> Result<CancelAnswer> {
        self.engine.cancel(id, why).await
    }

    async fn retry(&self, id: JobId) -> Result<RetryAnswer> {
        self.engine.retry(id).await
    }

    async fn discard(&self, id: JobId) -> Result<Changed> {
        self.engine.discard(id).await
    }

    async fn set_priority(&self, id: JobId, priority: Priority) -> Result<Changed> {
        self.engine.set_priority(id, priority).await
    }

    async fn pause(
        &self,
        queue: &QueueName,
        reason: Option<&str>,
        lasting: Option<Duration>,
    ) -> Result<Changed> {
        self.engine.pause(queue, reason, lasting).await
    }

    async fn resume(&self, queue: &QueueName) -> Result<Changed> {
        self.engine.resume(queue).await
    }

    async fn set_shut(&self, queue: &QueueName, shut: bool) -> Result<Changed> {
        self.engine.set_shut(queue, shut).await
    }

    async fn purge(&self, queue: &QueueName, limit: u32) -> Result<BatchDone> {
        self.engine.purge(queue, limit).await
    }

    async fn head_of(&self, job_type: &TypeName, ordering_key: &OrderingKey) -> Result<Option<JobId>> {
        self.engine.head_of(job_type, ordering_key).await
    }

    async fn open_gate(&self, gate: &Gate, limit: u32) -> Result<BatchDone> {
        self.engine.open_gate(gate, limit).await
    }
}
