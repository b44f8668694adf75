//! A store that fails in one way, and answers only the calls of the heartbeat thread.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use windlass_core::admin::{
    BatchDone, CancelAnswer, Changed, ListRequest, QueueStatus, RetryAnswer, StoredAttempt, StoredJob,
    TypeStatus,
};
use windlass_core::claim::{ClaimAnswer, ClaimRequest, Fence, NextDue};
use windlass_core::clock::Timestamp;
use windlass_core::engine::{
    Admin, Declaration, Engine, EngineInfo, HintListener, RescueRequest, Rescued, Result,
};
use windlass_core::enqueue::{EnqueueAnswer, EnqueueRequest, RequestId};
use windlass_core::error::EngineError;
use windlass_core::gate::Gate;
use windlass_core::job::{JobId, Progress};
use windlass_core::names::{OrderingKey, QueueName, TypeName};
use windlass_core::priority::Priority;
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

pub(super) enum Stub {
    /// Heartbeats are never answered.
    Hangs,
    /// Every worker is dead, and no new one can be registered.
    SaysDead {
        /// Notified of each attempt to register.
        tried: Arc<Notify>,
    },
    /// The number of heartbeats that are answered by "dead"; after them the store works.
    SaysDeadFor(AtomicU32),
    /// The store works, and the answer to each heartbeat says that this job was asked to stop.
    TellsToStop(Fence),
    /// The store works, and a job was asked to stop, which no heartbeat reports.
    AskedToStop {
        /// The job.
        job: Fence,
        /// How often the store was queried.
        questions: Arc<AtomicU32>,
    },
}

fn unavailable() -> EngineError {
    EngineError::Unavailable { why: "on purpose".to_owned() }
}

fn beat(dead_for: &AtomicU32) -> Liveness {
    let left = dead_for.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
    if left.is_ok() { Liveness::Dead } else { Liveness::Alive { cancel: vec![] } }
}

#[async_trait]
impl Engine for Stub {
    fn info(&self) -> EngineInfo {
        unreachable!("the heartbeat thread does not call this")
    }
    async fn now(&self) -> Result<Timestamp> {
        Ok(Timestamp::EPOCH)
    }
    async fn declare(&self, _: Declaration) -> Result<()> {
        unreachable!("the heartbeat thread does not call this")
    }
    async fn enqueue(&self, _: EnqueueRequest) -> Result<Vec<EnqueueAnswer>> {
        unreachable!("the heartbeat thread does not call this")
    }
    async fn receipt(&self, _: RequestId) -> Result<Option<Vec<EnqueueAnswer>>> {
        unreachable!("the heartbeat thread does not call this")
    }
    async fn ask(&self, _: RequestId) -> Result<Option<Vec<EnqueueAnswer>>> {
        unreachable!("the heartbeat thread does not call this")
    }
    async fn claim(&self, _: ClaimRequest) -> Result<ClaimAnswer> {
        unreachable!("the heartbeat thread does not call this")
    }
    async fn peek(&self, _: &[QueueName], _: &[TypeName]) -> Result<Vec<(QueueName, NextDue)>> {
        unreachable!("the heartbeat thread does not call this")
    }
    async fn settle(&self, _: Vec<Settlement>) -> Result<Vec<Settled>> {
        Err(unavailable())
    }
    async fn report(&self, _: Vec<(Fence, Progress)>) -> Result<Vec<Settled>> {
        unreachable!("the heartbeat thread does not call this")
    }
    async fn register(&self, _: WorkerCard) -> Result<()> {
        match self {
            Self::SaysDeadFor(_) | Self::AskedToStop { .. } | Self::TellsToStop(_) | Self::Hangs => Ok(()),
            Self::SaysDead { tried } => {
                tried.notify_one();
                Err(unavailable())
            }
        }
    }
    async fn extend(&self, _: Heartbeat) -> Result<Liveness> {
        match self {
            Self::Hangs => std::future::pending().await,
            Self::SaysDead { .. } => Ok(Liveness::Dead),
            Self::SaysDeadFor(left) => Ok(beat(left)),
            Self::AskedToStop { .. } => Ok(Liveness::Alive { cancel: vec![] }),
            Self::TellsToStop(job) => Ok(Liveness::Alive { cancel: vec![*job] }),
        }
    }
    async fn asked_to_stop(&self, _: WorkerId) -> Result<Vec<Fence>> {
        match self {
            Self::AskedToStop { job, questions } => {
                questions.fetch_add(1, Ordering::SeqCst);
                Ok(vec![*job])
            }
            _ => Err(unavailable()),
        }
    }
    async fn retire(&self, _: WorkerId) -> Result<()> {
        Ok(())
    }
    async fn workers(&self) -> Result<Vec<WorkerSighting>> {
        unreachable!("the heartbeat thread does not call this")
    }
    async fn rescue(&self, _: RescueRequest) -> Result<Rescued> {
        unreachable!("the heartbeat thread does not call this")
    }
    async fn sweep(&self, _: u32) -> Result<BatchDone> {
        unreachable!("the heartbeat thread does not call this")
    }
    async fn prune(&self, _: u32) -> Result<BatchDone> {
        unreachable!("the heartbeat thread does not call this")
    }
    fn on_hint(&self, _: Weak<dyn HintListener>) {
        unreachable!("the heartbeat thread does not call this")
    }
}

impl windlass_core::policies::Policies for Stub {}

#[async_trait]
impl windlass_core::lease::Leases for Stub {}

#[async_trait]
impl Schedules for Stub {
    async fn schedules(&self, _: &WhichSchedules) -> Result<SchedulesRead> {
        unreachable!("the heartbeat thread does not call this")
    }
    async fn change_schedules(&self, _: &[ScheduleChange]) -> Result<Vec<ScheduleChanged>> {
        unreachable!("the heartbeat thread does not call this")
    }
}

#[async_trait]
impl CompletionTriggers for Stub {
    async fn triggers(&self, _: &WhichTriggers) -> Result<TriggersRead> {
        unreachable!("the heartbeat thread does not call this")
    }
    async fn change_triggers(&self, _: &[TriggerChange]) -> Result<Vec<TriggerChanged>> {
        unreachable!("the heartbeat thread does not call this")
    }
    async fn fire_triggers(&self, _: &[TriggerFiring]) -> Result<Vec<TriggerFired>> {
        unreachable!("the heartbeat thread does not call this")
    }
}

#[async_trait]
impl Rollups for Stub {
    async fn append_samples(&self, _: &[Sample]) -> Result<()> {
        unreachable!("the heartbeat thread does not call this")
    }
    async fn rollup_input(&self, _: u32) -> Result<RollupInput> {
        unreachable!("the heartbeat thread does not call this")
    }
    async fn rollups_of(&self, _: &[RollupKey]) -> Result<RollupsRead> {
        unreachable!("the heartbeat thread does not call this")
    }
    async fn apply_rollup(&self, _: &RollupChange) -> Result<RollupOutcome> {
        unreachable!("the heartbeat thread does not call this")
    }
    async fn rollups(&self, _: &RollupsRequest) -> Result<RollupsRead> {
        unreachable!("the heartbeat thread does not call this")
    }
    async fn forget_rollups(&self, _: Duration, _: u32) -> Result<BatchDone> {
        unreachable!("the heartbeat thread does not call this")
    }
}

#[async_trait]
impl Admin for Stub {
    async fn job(&self, _: JobId) -> Result<Option<StoredJob>> {
        unreachable!("the heartbeat thread does not call this")
    }
    async fn attempts(&self, _: JobId) -> Result<Vec<StoredAttempt>> {
        unreachable!("the heartbeat thread does not call this")
    }
    async fn list(&self, _: ListRequest) -> Result<Vec<StoredJob>> {
        unreachable!("the heartbeat thread does not call this")
    }
    async fn queues(&self) -> Result<Vec<QueueStatus>> {
        unreachable!("the heartbeat thread does not call this")
    }
    async fn types(&self) -> Result<Vec<TypeStatus>> {
        unreachable!("the heartbeat thread does not call this")
    }
    async fn cancel(&self, _: JobId, _: &str) -> Result<CancelAnswer> {
        unreachable!("the heartbeat thread does not call this")
    }
    async fn retry(&self, _: JobId) -> Result<RetryAnswer> {
        unreachable!("the heartbeat thread does not call this")
    }
    async fn discard(&self, _: JobId) -> Result<Changed> {
        unreachable!("the heartbeat thread does not call this")
    }
    async fn set_priority(&self, _: JobId, _: Priority) -> Result<Changed> {
        unreachable!("the heartbeat thread does not call this")
    }
    async fn pause(&self, _: &QueueName, _: Option<&str>, _: Option<Duration>) -> Result<Changed> {
        unreachable!("the heartbeat thread does not call this")
    }
    async fn resume(&self, _: &QueueName) -> Result<Changed> {
        unreachable!("the heartbeat thread does not call this")
    }
    async fn set_shut(&self, _: &QueueName, _: bool) -> Result<Changed> {
        unreachable!("the heartbeat thread does not call this")
    }
    async fn purge(&self, _: &QueueName, _: u32) -> Result<BatchDone> {
        unreachable!("the heartbeat thread does not call this")
    }
    async fn head_of(&self, _: &TypeName, _: &OrderingKey) -> Result<Option<JobId>> {
        unreachable!("the heartbeat thread does not call this")
    }

    async fn open_gate(&self, _: &Gate, _: u32) -> Result<BatchDone> {
        unreachable!("the heartbeat thread does not call this")
    }
}
