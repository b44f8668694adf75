//! The engine traits for engines whose store lives on a thread of its own. Each method copies its arguments,
//! and runs the method of the same name of the store on that thread.

/// Implements one of the engine traits for an engine. The methods that differ from engine to engine stand in
/// braces.
macro_rules! on_store {
    (Engine for $engine:ident { $($more:tt)* }) => {
        const _: () = {
            use std::sync::Weak;
            use windlass_core::claim::{ClaimAnswer, ClaimRequest, Fence, NextDue};
            use windlass_core::clock::Timestamp;
            use windlass_core::engine::{Declaration, Engine, HintListener, RescueRequest, Rescued, Result};
            use windlass_core::admin::BatchDone;
            use windlass_core::enqueue::{EnqueueAnswer, RequestId};
            use windlass_core::job::Progress;
            use windlass_core::names::{QueueName, TypeName};
            use windlass_core::settle::{Settled, Settlement};
            use windlass_core::worker::{
                Heartbeat, HeartbeatAnswer, Liveness, WorkerCard, WorkerId, WorkerSighting,
            };

            #[async_trait::async_trait]
            impl Engine for $engine {
                $($more)*

                async fn now(&self) -> Result<Timestamp> {
                    self.run(|store| async move { store.read_time().await }).await
                }

                async fn declare(&self, declaration: Declaration) -> Result<()> {
                    self.run(|store| async move { store.declare(declaration).await }).await
                }

                async fn receipt(&self, request: RequestId) -> Result<Option<Vec<EnqueueAnswer>>> {
                    self.run(|store| async move { store.receipt(request).await }).await
                }

                async fn ask(&self, request: RequestId) -> Result<Option<Vec<EnqueueAnswer>>> {
                    self.run(|store| async move { store.ask(request).await }).await
                }

                async fn claim(&self, request: ClaimRequest) -> Result<ClaimAnswer> {
                    self.run(|store| async move { store.claim(request).await }).await
                }

                async fn peek(&self, queues: &[QueueName], types: &[TypeName]) -> Result<Vec<(QueueName, NextDue)>> {
                    let (queues, types) = (queues.to_vec(), types.to_vec());
                    self.run(|store| async move { store.peek(queues, types).await }).await
                }

                async fn settle(&self, batch: Vec<Settlement>) -> Result<Vec<Settled>> {
                    self.run(|store| async move { store.settle(batch).await }).await
                }

                async fn report(&self, batch: Vec<(Fence, Progress)>) -> Result<Vec<Settled>> {
                    self.run(|store| async move { store.report(batch).await }).await
                }

                async fn register(&self, card: WorkerCard) -> Result<()> {
                    self.run(|store| async move { store.register(card).await }).await
                }

                async fn extend(&self, heartbeat: Heartbeat) -> Result<Liveness> {
                    self.run(|store| async move { store.extend(heartbeat, None).await })
                        .await
                        .map(|heartbeat_answer| heartbeat_answer.beat)
                }

                async fn heartbeat_with_members(
                    &self,
                    heartbeat: Heartbeat,
                    clock: Timestamp,
                ) -> Result<HeartbeatAnswer> {
                    self.run(|store| async move { store.extend(heartbeat, Some(clock)).await }).await
                }

                async fn asked_to_stop(&self, worker: WorkerId) -> Result<Vec<Fence>> {
                    self.run(|store| async move { store.asked_to_stop(worker).await }).await
                }

                async fn retire(&self, worker: WorkerId) -> Result<()> {
                    self.run(|store| async move { store.retire(worker).await }).await
                }

                async fn workers(&self) -> Result<Vec<WorkerSighting>> {
                    self.run(|store| async move { store.workers().await }).await
                }

                async fn rescue(&self, request: RescueRequest) -> Result<Rescued> {
                    self.run(|store| async move { store.rescue(request).await }).await
                }

                async fn sweep(&self, limit: u32) -> Result<BatchDone> {
                    self.run(|store| async move { store.sweep(limit).await }).await
                }

                async fn prune(&self, limit: u32) -> Result<BatchDone> {
                    self.run(|store| async move { store.prune(limit).await }).await
                }

                fn on_hint(&self, listener: Weak<dyn HintListener>) {
                    self.store.listeners.add(listener);
                }
            }
        };
    };
    (Admin for $engine:ident { $($more:tt)* }) => {
        const _: () = {
            use std::time::Duration;
            use windlass_core::admin::{
                BatchDone, CancelAnswer, Changed, ListRequest, QueueStatus, RetryAnswer, StoredAttempt, StoredJob,
                TypeStatus,
            };
            use windlass_core::engine::{Admin, Result};
            use windlass_core::gate::Gate;
            use windlass_core::job::JobId;
            use windlass_core::names::QueueName;
            use windlass_core::priority::Priority;

            #[async_trait::async_trait]
            impl Admin for $engine {
                $($more)*

                async fn job(&self, id: JobId) -> Result<Option<StoredJob>> {
                    self.run(|store| async move { store.job(id).await }).await
                }

                async fn attempts(&self, id: JobId) -> Result<Vec<StoredAttempt>> {
                    self.run(|store| async move { store.attempts(id).await }).await
                }

                async fn list(&self, request: ListRequest) -> Result<Vec<StoredJob>> {
                    self.run(|store| async move { store.list(request).await }).await
                }

                async fn queues(&self) -> Result<Vec<QueueStatus>> {
                    self.run(|store| async move { store.queues().await }).await
                }

                async fn types(&self) -> Result<Vec<TypeStatus>> {
                    self.run(|store| async move { store.types().await }).await
                }

                async fn cancel(&self, id: JobId, why: &str) -> Result<CancelAnswer> {
                    let why = why.to_owned();
                    self.run(|store| async move { store.cancel(id, why).await }).await
                }

                async fn retry(&self, id: JobId) -> Result<RetryAnswer> {
                    self.run(|store| async move { store.retry(id).await }).await
                }

                async fn discard(&self, id: JobId) -> Result<Changed> {
                    self.run(|store| async move { store.discard(id).await }).await
                }

                async fn set_priority(&self, id: JobId, priority: Priority) -> Result<Changed> {
                    self.run(|store| async move { store.set_priority(id, priority).await }).await
                }

                async fn pause(
                    &self,
                    queue: &QueueName,
                    reason: Option<&str>,
                    lasting: Option<Duration>,
                ) -> Result<Changed> {
                    let (queue, reason) = (queue.clone(), reason.map(str::to_owned));
                    self.run(|store| async move { store.pause(queue, reason, lasting).await }).await
                }

                async fn resume(&self, queue: &QueueName) -> Result<Changed> {
                    let queue = queue.clone();
                    self.run(|store| async move { store.resume(queue).await }).await
                }

                async fn set_shut(&self, queue: &QueueName, shut: bool) -> Result<Changed> {
                    let queue = queue.clone();
                    self.run(|store| async move { store.set_shut(queue, shut).await }).await
                }

                async fn purge(&self, queue: &QueueName, limit: u32) -> Result<BatchDone> {
                    let queue = queue.clone();
                    self.run(|store| async move { store.purge(queue, limit).await }).await
                }

                async fn open_gate(&self, gate: &Gate, limit: u32) -> Result<BatchDone> {
                    let gate = gate.clone();
                    self.run(|store| async move { store.open_gate(gate, limit).await }).await
                }
            }
        };
    };
    (Policies for $engine:ident { $($more:tt)* }) => {
        const _: () = {
            use windlass_core::breaker::BreakerState;
            use windlass_core::claim::Fence;
            use windlass_core::engine::Result;
            use windlass_core::gate::Gate;
            use windlass_core::job::JobId;
            use windlass_core::names::BreakerName;
            use windlass_core::policies::{BreakersRead, Policies, Saved, Take};
            use windlass_core::rate_limit::Taken;

            #[async_trait::async_trait]
            impl Policies for $engine {
                $($more)*

                async fn breakers(&self) -> Result<BreakersRead> {
                    self.run(|store| async move { store.breakers().await }).await
                }

                async fn save_breaker(&self, name: &BreakerName, read: u64, state: &BreakerState) -> Result<Saved> {
                    let (name, state) = (name.clone(), state.clone());
                    self.run(|store| async move { store.save_breaker(name, read, state).await }).await
                }

                async fn still_hold(&self, claims: &[Fence]) -> Result<Vec<bool>> {
                    let claims = claims.to_vec();
                    self.run(|store| async move { store.still_hold(claims).await }).await
                }

                async fn take_tokens(&self, takes: &[Take]) -> Result<Vec<Taken>> {
                    let takes = takes.to_vec();
                    self.run(|store| async move { store.take_tokens(takes).await }).await
                }

                async fn gates(&self, after: Option<&Gate>, limit: u32) -> Result<Vec<Gate>> {
                    let after = after.cloned();
                    self.run(|store| async move { store.gates(after, limit).await }).await
                }

                async fn behind(&self, gate: &Gate, limit: u32) -> Result<Vec<JobId>> {
                    let gate = gate.clone();
                    self.run(|store| async move { store.behind(gate, limit).await }).await
                }
            }
        };
    };
    (Leases for $engine:ident { $($more:tt)* }) => {
        const _: () = {
            use windlass_core::admin::Changed;
            use windlass_core::engine::Result;
            use windlass_core::lease::{
                LeaseFence, LeaseRelease, LeaseRequest, Leases, LeasesRead, Released, Renewal, Renewed, Taking,
                check_fences, check_releases, check_renewals,
            };
            use windlass_core::names::DutyName;

            #[async_trait::async_trait]
            impl Leases for $engine {
                $($more)*

                async fn take_leases(&self, request: &LeaseRequest) -> Result<Vec<Taking>> {
                    request.check()?;
                    let request = request.clone();
                    self.run(|store| async move { store.take_leases(request).await }).await
                }

                async fn renew_leases(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>> {
                    check_renewals(renewals)?;
                    let renewals = renewals.to_vec();
                    self.run(|store| async move { store.renew_leases(renewals).await }).await
                }

                async fn release_leases(&self, releases: &[LeaseRelease]) -> Result<Vec<Released>> {
                    check_releases(releases)?;
                    let releases = releases.to_vec();
                    self.run(|store| async move { store.release_leases(releases).await }).await
                }

                async fn leases_hold(&self, leases: &[LeaseFence]) -> Result<Vec<bool>> {
                    check_fences(leases)?;
                    let leases = leases.to_vec();
                    self.run(|store| async move { store.leases_hold(leases).await }).await
                }

                async fn leases(&self) -> Result<LeasesRead> {
                    self.run(|store| async move { store.leases().await }).await
                }

                async fn step_down(&self, duty: &DutyName) -> Result<Changed> {
                    let duty = duty.clone();
                    self.run(|store| async move { store.step_down(duty).await }).await
                }
            }
        };
    };
    (Schedules for $engine:ident { $($more:tt)* }) => {
        const _: () = {
            use windlass_core::engine::Result;
            use windlass_core::schedules::{
                ScheduleChange, ScheduleChanged, Schedules, SchedulesRead, WhichSchedules, check_changes,
            };

            #[async_trait::async_trait]
            impl Schedules for $engine {
                $($more)*

                async fn schedules(&self, which: &WhichSchedules) -> Result<SchedulesRead> {
                    which.check()?;
                    let which = which.clone();
                    self.run(|store| async move { store.schedules(which).await }).await
                }

                async fn change_schedules(&self, changes: &[ScheduleChange]) -> Result<Vec<ScheduleChanged>> {
                    check_changes(changes)?;
                    let changes = changes.to_vec();
                    self.run(|store| async move { store.change_schedules(changes).await }).await
                }
            }
        };
    };
    (CompletionTriggers for $engine:ident { $($more:tt)* }) => {
        const _: () = {
            use windlass_core::engine::Result;
            use windlass_core::triggers::{
                CompletionTriggers, TriggerChange, TriggerChanged, TriggerFired, TriggerFiring, TriggersRead,
                WhichTriggers, check_changes, check_firings,
            };

            #[async_trait::async_trait]
            impl CompletionTriggers for $engine {
                $($more)*

                async fn triggers(&self, which: &WhichTriggers) -> Result<TriggersRead> {
                    which.check()?;
                    let which = which.clone();
                    self.run(|store| async move { store.triggers(which).await }).await
                }

                async fn change_triggers(&self, changes: &[TriggerChange]) -> Result<Vec<TriggerChanged>> {
                    check_changes(changes)?;
                    let changes = changes.to_vec();
                    self.run(|store| async move { store.change_triggers(changes).await }).await
                }

                async fn fire_triggers(&self, firings: &[TriggerFiring]) -> Result<Vec<TriggerFired>> {
                    check_firings(firings)?;
                    let firings = firings.to_vec();
                    self.run(|store| async move { store.fire_triggers(firings).await }).await
                }
            }
        };
    };
    (Rollups for $engine:ident { $($more:tt)* }) => {
        const _: () = {
            use std::time::Duration;
            use windlass_core::admin::BatchDone;
            use windlass_core::engine::Result;
            use windlass_core::rollups::{
                RollupChange, RollupInput, RollupKey, RollupOutcome, Rollups, RollupsRead, RollupsRequest, Sample,
                check_samples,
            };

            #[async_trait::async_trait]
            impl Rollups for $engine {
                $($more)*

                async fn append_samples(&self, samples: &[Sample]) -> Result<()> {
                    check_samples(samples)?;
                    let samples = samples.to_vec();
                    self.run(|store| async move { store.append_samples(&samples).await }).await
                }

                async fn rollup_input(&self, limit: u32) -> Result<RollupInput> {
                    self.run(|store| async move { store.rollup_input(limit).await }).await
                }

                async fn rollups_of(&self, keys: &[RollupKey]) -> Result<RollupsRead> {
                    let keys = keys.to_vec();
                    self.run(|store| async move { store.rollups_of(&keys).await }).await
                }

                async fn apply_rollup(&self, change: &RollupChange) -> Result<RollupOutcome> {
                    let change = change.clone();
                    self.run(|store| async move { store.apply_rollup(&change).await }).await
                }

                async fn rollups(&self, request: &RollupsRequest) -> Result<RollupsRead> {
                    let request = request.clone();
                    self.run(|store| async move { store.rollups(&request).await }).await
                }

                async fn forget_rollups(&self, kept: Duration, limit: u32) -> Result<BatchDone> {
                    self.run(|store| async move { store.forget_rollups(kept, limit).await }).await
                }
            }
        };
    };
}
pub(crate) use on_store;
