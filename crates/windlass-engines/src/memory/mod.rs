//! Jobs in memory: fast, gone with the process, and the model that the other engines are compared with.
//!
//! One lock guards one [`State`]. Each method locks it, reads the clock and does its work, so no future of
//! this engine ever waits, and every call is atomic. Hints are sent after the lock is released, so that a
//! listener may call the engine again.

mod state;

mod declare;
mod enqueue;
mod claim;
mod settle;
mod workers;
mod rescue;
mod maintenance;
mod read;
mod act;
mod counts;
mod policies;
mod leases;
mod schedules;
mod triggers;
mod rollups;
mod spool;
mod hints;

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use async_trait::async_trait;

use windlass_core::admin::{
    BatchDone, CancelAnswer, Changed, ListRequest, QueueStatus, RetryAnswer, StoredAttempt, StoredJob,
    TypeStatus,
};
use windlass_core::breaker::BreakerState;
use windlass_core::claim::{ClaimAnswer, ClaimRequest, Fence, NextDue};
use windlass_core::clock::{Clock, Timestamp};
use windlass_core::duty::DutyModes;
use windlass_core::engine::{
    Admin, Declaration, Durability, Engine, EngineInfo, HintListener, RescueRequest, Rescued, Result,
};
use windlass_core::enqueue::{EnqueueAnswer, EnqueueRequest, RequestId, told};
use windlass_core::gate::Gate;
use windlass_core::job::{Job, JobId, Progress};
use windlass_core::lease::{
    LeaseFence, LeaseRelease, LeaseRequest, Leases, LeasesRead, Released, Renewal, Renewed, Taking,
};
use windlass_core::names::{BreakerName, DutyName, OrderingKey, QueueName, TypeName};
use windlass_core::policies::{BreakersRead, Policies, Saved, Take};
use windlass_core::priority::Priority;
use windlass_core::rate_limit::Taken;
use windlass_core::schedules::{ScheduleChange, ScheduleChanged, Schedules, SchedulesRead, WhichSchedules};
use windlass_core::settle::{Settled, Settlement};
use windlass_core::spool::{BatchMost, Following, LeftOut, Spool, StagedBatch};
use windlass_core::triggers::{
    CompletionTriggers, TriggerChange, TriggerChanged, TriggerFired, TriggerFiring, TriggersRead,
    WhichTriggers,
};
use windlass_core::worker::{Heartbeat, HeartbeatAnswer, Liveness, WorkerCard, WorkerId, WorkerSighting};

use crate::clock::SystemClock;
use crate::listeners::Listeners;
use crate::spool_ids;
use state::State;

/// An engine that keeps jobs in this process's memory.
#[derive(Debug)]
pub struct MemoryEngine {
    state: Mutex<State>,
    clock: Arc<dyn Clock>,
    listeners: Listeners,
}

impl MemoryEngine {
    /// Creates an empty engine on the system's clock.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock))
    }

    /// Creates an empty engine on the given clock.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self { state: Mutex::default(), clock, listeners: Listeners::default() }
    }

    /// Creates an empty engine for jobs of another engine that is away.
    pub fn for_spool() -> Self {
        Self::for_spool_with_clock(Arc::new(SystemClock))
    }

    /// Creates an empty engine for jobs of another engine that is away, on the given clock.
    pub fn for_spool_with_clock(clock: Arc<dyn Clock>) -> Self {
        let state = State { last_id: spool_ids::first() - 1, ..State::default() };
        Self { state: Mutex::new(state), ..Self::with_clock(clock) }
    }

    /// Runs one atomic operation at one instant, then sends its hints to listeners.
    fn at_once<T>(&self, work: impl FnOnce(&mut State, Timestamp) -> T) -> T {
        let (answer, hints) = {
            let mut state = self.state.lock().expect("no method panics while it holds the state");
            let answer = work(&mut state, self.clock.now());
            (answer, state.hints.take())
        };
        hints.iter().for_each(|hint| self.listeners.tell(hint));
        answer
    }
}

impl Default for MemoryEngine {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Engine for MemoryEngine {
    fn info(&self) -> EngineInfo {
        EngineInfo { name: "memory", durability: Durability::Process, duty_modes: DutyModes::default() }
    }

    async fn now(&self) -> Result<Timestamp> {
        Ok(self.clock.now())
    }

    async fn declare(&self, declaration: Declaration) -> Result<()> {
        self.at_once(|state, _| state.declare(declaration))
    }

    async fn enqueue(&self, request: EnqueueRequest) -> Result<Vec<EnqueueAnswer>> {
        self.at_once(|state, now| state.enqueue(request, now))
    }

    async fn receipt(&self, request: RequestId) -> Result<Option<Vec<EnqueueAnswer>>> {
        Ok(self.at_once(|state, now| state.receipts.find(request, now).and_then(told)))
    }

    async fn ask(&self, request: RequestId) -> Result<Option<Vec<EnqueueAnswer>>> {
        Ok(self.at_once(|state, now| state.receipts.ask(request, now)))
    }

    async fn claim(&self, request: ClaimRequest) -> Result<ClaimAnswer> {
        self.at_once(|state, now| state.claim(&request, now))
    }

    async fn peek(&self, queues: &[QueueName], types: &[TypeName]) -> Result<Vec<(QueueName, NextDue)>> {
        self.at_once(|state, now| state.peek(queues, types, now))
    }

    async fn settle(&self, batch: Vec<Settlement>) -> Result<Vec<Settled>> {
        self.at_once(|state, now| state.settle(batch, now))
    }

    async fn report(&self, batch: Vec<(Fence, Progress)>) -> Result<Vec<Settled>> {
        self.at_once(|state, _| state.report(batch))
    }

    async fn register(&self, card: WorkerCard) -> Result<()> {
        self.at_once(|state, now| state.register(card, now))
    }

    async fn extend(&self, heartbeat: Heartbeat) -> Result<Liveness> {
        Ok(self.at_once(|state, now| state.extend(heartbeat, now)))
    }

    async fn heartbeat_with_members(
        &self,
        heartbeat: Heartbeat,
        clock: Timestamp,
    ) -> Result<HeartbeatAnswer> {
        Ok(self.at_once(|state, now| state.heartbeat_with_members(heartbeat, clock, now)))
    }

    async fn asked_to_stop(&self, worker: WorkerId) -> Result<Vec<Fence>> {
        Ok(self.at_once(|state, _| state.asked_to_stop(worker)))
    }

    async fn retire(&self, worker: WorkerId) -> Result<()> {
        self.at_once(|state, now| state.retire(worker, now));
        Ok(())
    }

    async fn workers(&self) -> Result<Vec<WorkerSighting>> {
        Ok(self.at_once(|state, now| state.sightings(now)))
    }

    async fn rescue(&self, request: RescueRequest) -> Result<Rescued> {
        Ok(self.at_once(|state, now| state.rescue(&request, now)))
    }

    async fn sweep(&self, limit: u32) -> Result<BatchDone> {
        Ok(self.at_once(|state, now| state.sweep(limit, now)))
    }

    async fn prune(&self, limit: u32) -> Result<BatchDone> {
        Ok(self.at_once(|state, now| state.prune(limit, now)))
    }

    fn on_hint(&self, listener: Weak<dyn HintListener>) {
        self.listeners.add(listener);
    }
}

#[async_trait]
impl Admin for MemoryEngine {
    async fn job(&self, id: JobId) -> Result<Option<StoredJob>> {
        Ok(self.at_once(|state, now| state.job(id, now)))
    }

    async fn attempts(&self, id: JobId) -> Result<Vec<StoredAttempt>> {
        Ok(self.at_once(|state, _| state.attempts(id)))
    }

    async fn list(&self, request: ListRequest) -> Result<Vec<StoredJob>> {
        Ok(self.at_once(|state, now| state.list(&request, now)))
    }

    async fn queues(&self) -> Result<Vec<QueueStatus>> {
        Ok(self.at_once(State::queue_statuses))
    }

    async fn types(&self) -> Result<Vec<TypeStatus>> {
        Ok(self.at_once(|state, _| state.type_statuses()))
    }

    async fn cancel(&self, id: JobId, why: &str) -> Result<CancelAnswer> {
        self.at_once(|state, now| state.check_may_change(id, now).map(|()| state.cancel(id, why, now)))
    }

    async fn retry(&self, id: JobId) -> Result<RetryAnswer> {
        self.at_once(|state, now| state.check_may_change(id, now).map(|()| state.retry(id, now)))
    }

    async fn discard(&self, id: JobId) -> Result<Changed> {
        Ok(self.at_once(|state, now| state.discard(id, now)))
    }

    async fn set_priority(&self, id: JobId, priority: Priority) -> Result<Changed> {
        self.at_once(|state, now| state.check_may_change(id, now).map(|()| state.set_priority(id, priority)))
    }

    async fn pause(
        &self,
        queue: &QueueName,
        reason: Option<&str>,
        lasting: Option<Duration>,
    ) -> Result<Changed> {
        Ok(self.at_once(|state, now| state.pause(queue, reason, lasting, now)))
    }

    async fn resume(&self, queue: &QueueName) -> Result<Changed> {
        Ok(self.at_once(|state, now| state.resume(queue, now)))
    }

    async fn set_shut(&self, queue: &QueueName, shut: bool) -> Result<Changed> {
        Ok(self.at_once(|state, _| state.set_shut(queue, shut)))
    }

    async fn purge(&self, queue: &QueueName, limit: u32) -> Result<BatchDone> {
        Ok(self.at_once(|state, now| state.purge(queue, limit, now)))
    }

    async fn head_of(&self, job_type: &TypeName, ordering_key: &OrderingKey) -> Result<Option<JobId>> {
        Ok(self.at_once(|state, _| state.head_of(job_type, ordering_key)))
    }

    async fn open_gate(&self, gate: &Gate, limit: u32) -> Result<BatchDone> {
        Ok(self.at_once(|state, _| state.open_gate(gate, limit)))
    }
}

#[async_trait]
impl Policies for MemoryEngine {
    async fn breakers(&self) -> Result<BreakersRead> {
        Ok(self.at_once(|state, now| state.breakers(now)))
    }

    async fn save_breaker(&self, name: &BreakerName, read: u64, breaker: &BreakerState) -> Result<Saved> {
        self.at_once(|state, _| state.save_breaker(name, read, breaker))
    }

    async fn still_hold(&self, claims: &[Fence]) -> Result<Vec<bool>> {
        Ok(self.at_once(|state, _| state.still_hold(claims)))
    }

    async fn take_tokens(&self, takes: &[Take]) -> Result<Vec<Taken>> {
        self.at_once(|state, now| state.take_tokens(takes, now))
    }

    async fn gates(&self, after: Option<&Gate>, limit: u32) -> Result<Vec<Gate>> {
        Ok(self.at_once(|state, _| state.gates(after, limit)))
    }

    async fn behind(&self, gate: &Gate, limit: u32) -> Result<Vec<JobId>> {
        Ok(self.at_once(|state, _| state.behind(gate, limit)))
    }
}

#[async_trait]
impl Leases for MemoryEngine {
    async fn take_leases(&self, request: &LeaseRequest) -> Result<Vec<Taking>> {
        self.at_once(|state, now| state.take_leases(request, now))
    }

    async fn renew_leases(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>> {
        self.at_once(|state, now| state.renew_leases(renewals, now))
    }

    async fn release_leases(&self, releases: &[LeaseRelease]) -> Result<Vec<Released>> {
        self.at_once(|state, _| state.release_leases(releases))
    }

    async fn leases_hold(&self, leases: &[LeaseFence]) -> Result<Vec<bool>> {
        self.at_once(|state, now| state.leases_hold(leases, now))
    }

    async fn leases(&self) -> Result<LeasesRead> {
        Ok(self.at_once(|state, now| state.all_leases(now)))
    }

    async fn step_down(&self, duty: &DutyName) -> Result<Changed> {
        Ok(self.at_once(|state, now| state.step_down(duty, now)))
    }
}

#[async_trait]
impl Schedules for MemoryEngine {
    async fn schedules(&self, which: &WhichSchedules) -> Result<SchedulesRead> {
        self.at_once(|state, now| state.read_schedules(which, now))
    }

    async fn change_schedules(&self, changes: &[ScheduleChange]) -> Result<Vec<ScheduleChanged>> {
        self.at_once(|state, now| state.change_schedules(changes, now))
    }
}

#[async_trait]
impl CompletionTriggers for MemoryEngine {
    async fn triggers(&self, which: &WhichTriggers) -> Result<TriggersRead> {
        self.at_once(|state, now| state.read_triggers(which, now))
    }

    async fn change_triggers(&self, changes: &[TriggerChange]) -> Result<Vec<TriggerChanged>> {
        self.at_once(|state, now| state.change_triggers(changes, now))
    }

    async fn fire_triggers(&self, firings: &[TriggerFiring]) -> Result<Vec<TriggerFired>> {
        self.at_once(|state, now| state.fire_triggers(firings, now))
    }
}

#[async_trait]
impl Spool for MemoryEngine {
    async fn enqueue_staged(
        &self,
        request: EnqueueRequest,
        sent_ago: Duration,
    ) -> Result<Vec<EnqueueAnswer>> {
        self.at_once(|state, now| state.enqueue_staged(request, sent_ago, now))
    }

    async fn stage(
        &self,
        request: RequestId,
        most: BatchMost,
        but: &LeftOut,
        following: &Following,
    ) -> Result<Option<StagedBatch>> {
        Ok(self.at_once(|state, now| state.stage(request, most, but, following, now)))
    }

    async fn staged(&self, after: Option<&StagedBatch>, limit: u32) -> Result<Vec<StagedBatch>> {
        Ok(self.at_once(|state, _| state.staged(after, limit)))
    }

    async fn still_staged(&self, request: RequestId) -> Result<Option<(StagedBatch, Vec<Job>)>> {
        Ok(self.at_once(|state, _| state.still_staged(request)))
    }

    async fn end_batch(&self, request: RequestId, ends: Vec<(JobId, Option<String>)>) -> Result<bool> {
        Ok(self.at_once(|state, now| state.end_batch(request, ends, now)))
    }

    async fn keep_here(&self, request: RequestId, younger_than: Duration) -> Result<bool> {
        Ok(self.at_once(|state, now| state.keep_here(request, younger_than, now)))
    }
}
