//! Jobs in an SQLite file: durable, in one process or several on one machine.
//!
//! One thread writes ([`writer`]), so that the operations of many callers share a commit; a few read
//! ([`reader`]). Read the rest in the order of a job's life: [`enqueue`], [`claim`], [`settle`]; [`apply`]
//! writes where a job goes, [`rescue`] takes back the jobs of dead workers. Every statement is a file in
//! `sql/`.

mod declare;
mod enqueue;
mod key;
mod ordering_keys;
mod claim;
mod fairness_keys;
mod settle;
mod apply;
mod workers;
mod locks;
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
mod inside;

mod work;
mod catalogue;
mod row;
mod sql;
mod writer;
mod reader;
mod threads;
mod inbox;
mod watch;
mod store_error;
pub mod migrate;
mod open;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Connection;
use windlass_core::admin::{
    BatchDone, CancelAnswer, Changed, ListRequest, QueueStatus, RetryAnswer, StoredAttempt, StoredJob,
    TypeStatus,
};
use windlass_core::breaker::BreakerState;
use windlass_core::claim::{ClaimAnswer, ClaimRequest, Fence, NextDue};
use windlass_core::clock::Timestamp;
use windlass_core::duty::DutyModes;
use windlass_core::engine::{
    Admin, Declaration, Engine, EngineInfo, HintListener, RescueRequest, Rescued, Result,
};
use windlass_core::enqueue::{EnqueueAnswer, EnqueueRequest, RequestId, told};
use windlass_core::error::EngineError;
use windlass_core::gate::Gate;
use windlass_core::job::{Job, JobId, Progress};
use windlass_core::lease::{
    LeaseFence, LeaseRelease, LeaseRequest, Leases, LeasesRead, Released, Renewal, Renewed, Taking,
    check_fences, check_releases, check_renewals,
};
use windlass_core::names::{BreakerName, DutyName, OrderingKey, QueueName, TypeName};
use windlass_core::policies::{BreakersRead, Policies, Saved, Take};
use windlass_core::priority::Priority;
use windlass_core::rate_limit::Taken;
use windlass_core::schedules::{
    ScheduleChange, ScheduleChanged, Schedules, SchedulesRead, WhichSchedules, check_changes,
};
use windlass_core::settle::{Settled, Settlement};
use windlass_core::spool::{BatchMost, Following, LeftOut, Spool, StagedBatch};
use windlass_core::triggers::{
    CompletionTriggers, TriggerChange, TriggerChanged, TriggerFired, TriggerFiring, TriggersRead,
    WhichTriggers, check_firings,
};
use windlass_core::worker::{Heartbeat, HeartbeatAnswer, Liveness, WorkerCard, WorkerId, WorkerSighting};

use inbox::Haste;
use locks::Locks;
use reader::ReaderInbox;
use store_error::StoreResult;
use threads::{Opener, Shared, Threads};
use work::Work;
use writer::WriterInbox;

use crate::listeners::Listeners;

pub use inside::{complete_in, enqueue_in};
pub use open::{SqliteOptions, Synchronous, room_at};
/// The library whose types [`enqueue_in`] and [`complete_in`] take, so that a caller has the same version.
pub use rusqlite;

/// Jobs in an SQLite file. Dropping the engine finishes the accepted operations and closes the file.
pub struct SqliteEngine {
    path: PathBuf,
    options: SqliteOptions,
    writes: Arc<WriterInbox>,
    reads: Arc<ReaderInbox>,
    listeners: Arc<Listeners>,
    locks: Arc<Locks>,
    threads: Threads,
    opener: Option<Opener>,
}

impl SqliteEngine {
    /// Opens a file, creates it if it is missing, and brings its schema up to date.
    pub fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self> {
        let (engine, opened) = Self::try_to_open(path.as_ref(), options)?;
        opened.map(|()| engine)
    }

    /// Opens a file that keeps jobs while another store is away. If its disk is full, or another process
    /// keeps it locked, opening is retried each second. Until it is open each call fails with the reason.
    /// So a process starts although its spool has a transient error.
    pub fn open_spool(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self> {
        let options = SqliteOptions { is_spool: true, ..options };
        let (mut engine, opened) = Self::try_to_open(path.as_ref(), options)?;
        match opened {
            Err(error) if error.is_passing() => {
                engine.opener = Some(Opener::start(engine.shared(), error)?);
            }
            answered => answered?,
        }
        Ok(engine)
    }

    /// Creates an engine, and returns whether its file is open.
    fn try_to_open(path: &Path, options: SqliteOptions) -> Result<(Self, Result<()>)> {
        let path = open::check_path(path)?;
        let conn = open::open_writer(&path, &options).map_err(EngineError::from);
        // A link to the file must lead to the same lock files as the file itself.
        let path = path.canonicalize().unwrap_or(path);
        let mut engine = Self {
            writes: Arc::new(WriterInbox::new()),
            reads: Arc::new(ReaderInbox::new()),
            listeners: Arc::default(),
            locks: Arc::new(Locks::beside(&path)),
            threads: Threads::default(),
            opener: None,
            path,
            options,
        };
        let started = conn.and_then(|conn| engine.shared().start(conn));
        let opened = started.map(|threads| engine.threads = threads);
        let opened = opened.map_err(|error| engine.at_its_disk(error));
        Ok((engine, opened))
    }

    /// Returns the full path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn shared(&self) -> Shared {
        Shared {
            path: self.path.clone(),
            options: self.options.clone(),
            writes: self.writes.clone(),
            reads: self.reads.clone(),
            listeners: self.listeners.clone(),
            locks: self.locks.clone(),
        }
    }

    /// Returns why the file is not open yet.
    fn why_not_open(&self) -> Option<EngineError> {
        match self.at_its_disk(self.opener.as_ref()?.trouble()?) {
            EngineError::Unavailable { why } => {
                let path = self.path.display();
                let why = format!("{path} cannot be opened; opening is retried each second ({why})");
                Some(EngineError::Unavailable { why })
            }
            other => Some(other),
        }
    }

    fn check_open(&self) -> Result<()> {
        self.why_not_open().map_or(Ok(()), Err)
    }

    /// Adds the path to the error of a full disk: a process may have two engines, one of them beside a
    /// server.
    fn at_its_disk(&self, error: EngineError) -> EngineError {
        match error {
            EngineError::Full { why } => {
                let why = format!("expected room on the disk of {}, got none; {why}", self.path.display());
                EngineError::Full { why }
            }
            other => other,
        }
    }

    async fn write<T, F>(&self, act: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Work<'_>) -> StoreResult<T> + Send + 'static,
    {
        self.write_with(Haste::Ordinary, act).await
    }

    async fn write_with<T, F>(&self, haste: Haste, act: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Work<'_>) -> StoreResult<T> + Send + 'static,
    {
        self.check_open()?;
        writer::call(&self.writes, haste, act).await.map_err(|error| self.at_its_disk(error))
    }

    async fn read<T, F>(&self, act: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, Timestamp) -> StoreResult<T> + Send + 'static,
    {
        self.check_open()?;
        let clock = self.options.clock.clone();
        let read = reader::call(&self.reads, move |conn| act(conn, clock.now())).await;
        read.map_err(|error| self.at_its_disk(error))
    }
}

impl Drop for SqliteEngine {
    fn drop(&mut self) {
        if let Some(threads) = self.opener.take().and_then(Opener::end) {
            self.threads = threads;
        }
        self.threads.stop_watching();
        self.writes.close();
        self.reads.close();
        self.threads.join();
    }
}

impl fmt::Debug for SqliteEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteEngine").field("path", &self.path).finish_non_exhaustive()
    }
}

#[async_trait]
impl Engine for SqliteEngine {
    fn info(&self) -> EngineInfo {
        let duty_modes = DutyModes::default();
        EngineInfo { name: "sqlite", durability: self.options.synchronous.durability(), duty_modes }
    }

    async fn now(&self) -> Result<Timestamp> {
        Ok(self.options.clock.now())
    }

    async fn declare(&self, declaration: Declaration) -> Result<()> {
        self.write(move |work| work.declare(&declaration)).await
    }

    async fn enqueue(&self, request: EnqueueRequest) -> Result<Vec<EnqueueAnswer>> {
        self.write(move |work| work.enqueue(request)).await
    }

    async fn receipt(&self, request: RequestId) -> Result<Option<Vec<EnqueueAnswer>>> {
        self.read(move |conn, now| Ok(enqueue::find_receipt(conn, request, now)?.and_then(told))).await
    }

    async fn ask(&self, request: RequestId) -> Result<Option<Vec<EnqueueAnswer>>> {
        self.write(move |work| work.ask(request)).await
    }

    async fn claim(&self, request: ClaimRequest) -> Result<ClaimAnswer> {
        self.write(move |work| work.claim(&request)).await
    }

    async fn peek(&self, queues: &[QueueName], types: &[TypeName]) -> Result<Vec<(QueueName, NextDue)>> {
        let (queues, types) = (queues.to_vec(), types.to_vec());
        self.read(move |conn, now| claim::peek(conn, &queues, &types, now)).await
    }

    async fn settle(&self, batch: Vec<Settlement>) -> Result<Vec<Settled>> {
        self.write(move |work| work.settle(batch)).await
    }

    async fn report(&self, batch: Vec<(Fence, Progress)>) -> Result<Vec<Settled>> {
        self.write(move |work| work.report(batch)).await
    }

    async fn register(&self, card: WorkerCard) -> Result<()> {
        self.check_open()?;
        let worker = card.id;
        self.locks.take(worker)?;
        let registered = self.write(move |work| work.register(&card)).await;
        if registered.as_ref().is_err_and(|error| !error.is_unknown()) {
            self.locks.remove(worker);
        }
        registered
    }

    async fn extend(&self, heartbeat: Heartbeat) -> Result<Liveness> {
        self.write_with(Haste::Urgent, move |work| work.extend(heartbeat)).await
    }

    async fn heartbeat_with_members(
        &self,
        heartbeat: Heartbeat,
        clock: Timestamp,
    ) -> Result<HeartbeatAnswer> {
        self.write_with(Haste::Urgent, move |work| work.heartbeat_with_members(heartbeat, clock)).await
    }

    async fn asked_to_stop(&self, worker: WorkerId) -> Result<Vec<Fence>> {
        self.read(move |conn, _| workers::asked_to_stop(conn, worker)).await
    }

    async fn retire(&self, worker: WorkerId) -> Result<()> {
        self.write(move |work| work.retire(worker)).await
    }

    async fn workers(&self) -> Result<Vec<WorkerSighting>> {
        let locks = self.locks.clone();
        self.read(move |conn, now| {
            let mut sightings = workers::sightings(conn, now)?;
            sightings.iter_mut().for_each(|sighting| sighting.proof = locks.proof(sighting.card.id));
            Ok(sightings)
        })
        .await
    }

    async fn rescue(&self, request: RescueRequest) -> Result<Rescued> {
        let locks = self.locks.clone();
        self.write(move |work| work.rescue(&request, &locks)).await
    }

    async fn sweep(&self, limit: u32) -> Result<BatchDone> {
        self.write(move |work| work.sweep(limit)).await
    }

    async fn prune(&self, limit: u32) -> Result<BatchDone> {
        self.write(move |work| work.prune(limit)).await
    }

    fn on_hint(&self, listener: Weak<dyn HintListener>) {
        self.listeners.add(listener);
    }
}

#[async_trait]
impl Admin for SqliteEngine {
    async fn job(&self, id: JobId) -> Result<Option<StoredJob>> {
        self.read(move |conn, now| read::job(conn, id, now)).await
    }

    async fn attempts(&self, id: JobId) -> Result<Vec<StoredAttempt>> {
        self.read(move |conn, _| read::attempts(conn, id)).await
    }

    async fn list(&self, request: ListRequest) -> Result<Vec<StoredJob>> {
        self.read(move |conn, now| read::list(conn, &request, now)).await
    }

    async fn queues(&self) -> Result<Vec<QueueStatus>> {
        self.read(counts::queues).await
    }

    async fn types(&self) -> Result<Vec<TypeStatus>> {
        self.read(|conn, now| {
            let live = workers::sightings(conn, now)?;
            let handles = |worker: &WorkerSighting, name: &TypeName| worker.card.types.contains(name);
            counts::types(conn, |kind| {
                live.iter().filter(|worker| handles(worker, &kind.spec.name)).count() as u64
            })
        })
        .await
    }

    async fn cancel(&self, id: JobId, why: &str) -> Result<CancelAnswer> {
        let why = why.to_owned();
        self.write(move |work| work.cancel(id, &why)).await
    }

    async fn retry(&self, id: JobId) -> Result<RetryAnswer> {
        self.write(move |work| work.retry(id)).await
    }

    async fn discard(&self, id: JobId) -> Result<Changed> {
        self.write(move |work| work.discard(id)).await
    }

    async fn set_priority(&self, id: JobId, priority: Priority) -> Result<Changed> {
        self.write(move |work| work.set_priority(id, priority)).await
    }

    async fn pause(
        &self,
        queue: &QueueName,
        reason: Option<&str>,
        lasting: Option<Duration>,
    ) -> Result<Changed> {
        let (queue, reason) = (queue.clone(), reason.map(str::to_owned));
        self.write(move |work| work.pause(&queue, reason.as_deref(), lasting)).await
    }

    async fn resume(&self, queue: &QueueName) -> Result<Changed> {
        let queue = queue.clone();
        self.write(move |work| work.resume(&queue)).await
    }

    async fn set_shut(&self, queue: &QueueName, shut: bool) -> Result<Changed> {
        let queue = queue.clone();
        self.write(move |work| work.set_shut(&queue, shut)).await
    }

    async fn purge(&self, queue: &QueueName, limit: u32) -> Result<BatchDone> {
        let queue = queue.clone();
        self.write(move |work| work.purge(&queue, limit)).await
    }

    async fn head_of(&self, job_type: &TypeName, ordering_key: &OrderingKey) -> Result<Option<JobId>> {
        let (job_type, ordering_key) = (job_type.clone(), ordering_key.clone());
        self.read(move |conn, _| read::head_of(conn, &job_type, &ordering_key)).await
    }

    async fn open_gate(&self, gate: &Gate, limit: u32) -> Result<BatchDone> {
        let gate = gate.clone();
        self.write(move |work| work.open_gate(&gate, limit)).await
    }
}

#[async_trait]
impl Policies for SqliteEngine {
    async fn breakers(&self) -> Result<BreakersRead> {
        self.read(policies::breakers).await
    }

    async fn save_breaker(&self, name: &BreakerName, read: u64, state: &BreakerState) -> Result<Saved> {
        let (name, state) = (name.clone(), state.clone());
        self.write(move |work| work.save_breaker(&name, read, &state)).await
    }

    async fn still_hold(&self, claims: &[Fence]) -> Result<Vec<bool>> {
        let claims = claims.to_vec();
        self.read(move |conn, _| policies::still_hold(conn, &claims)).await
    }

    async fn take_tokens(&self, takes: &[Take]) -> Result<Vec<Taken>> {
        let takes = takes.to_vec();
        self.write(move |work| work.take_tokens(&takes)).await
    }

    async fn gates(&self, after: Option<&Gate>, limit: u32) -> Result<Vec<Gate>> {
        let after = after.cloned();
        self.read(move |conn, _| policies::gates(conn, after.as_ref(), limit)).await
    }

    async fn behind(&self, gate: &Gate, limit: u32) -> Result<Vec<JobId>> {
        let gate = gate.clone();
        self.read(move |conn, _| policies::behind(conn, &gate, limit)).await
    }
}

#[async_trait]
impl Leases for SqliteEngine {
    async fn take_leases(&self, request: &LeaseRequest) -> Result<Vec<Taking>> {
        request.check()?;
        let request = request.clone();
        self.write(move |work| work.take_leases(&request)).await
    }

    async fn renew_leases(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>> {
        check_renewals(renewals)?;
        let renewals = renewals.to_vec();
        self.write_with(Haste::Urgent, move |work| work.renew_leases(&renewals)).await
    }

    async fn release_leases(&self, releases: &[LeaseRelease]) -> Result<Vec<Released>> {
        check_releases(releases)?;
        let releases = releases.to_vec();
        self.write(move |work| work.release_leases(&releases)).await
    }

    async fn leases_hold(&self, leases: &[LeaseFence]) -> Result<Vec<bool>> {
        check_fences(leases)?;
        let leases = leases.to_vec();
        self.read(move |conn, now| leases::hold(conn, &leases, now)).await
    }

    async fn leases(&self) -> Result<LeasesRead> {
        self.read(leases::leases).await
    }

    async fn step_down(&self, duty: &DutyName) -> Result<Changed> {
        let duty = duty.clone();
        self.write(move |work| work.step_down(&duty)).await
    }
}

#[async_trait]
impl Schedules for SqliteEngine {
    async fn schedules(&self, which: &WhichSchedules) -> Result<SchedulesRead> {
        which.check()?;
        let which = which.clone();
        self.read(move |conn, now| schedules::read(conn, &which, now)).await
    }

    async fn change_schedules(&self, changes: &[ScheduleChange]) -> Result<Vec<ScheduleChanged>> {
        check_changes(changes)?;
        let changes = changes.to_vec();
        self.write(move |work| work.change_schedules(&changes)).await
    }
}

#[async_trait]
impl CompletionTriggers for SqliteEngine {
    async fn triggers(&self, which: &WhichTriggers) -> Result<TriggersRead> {
        which.check()?;
        let which = which.clone();
        self.read(move |conn, now| triggers::read(conn, &which, now)).await
    }

    async fn change_triggers(&self, changes: &[TriggerChange]) -> Result<Vec<TriggerChanged>> {
        windlass_core::triggers::check_changes(changes)?;
        let changes = changes.to_vec();
        self.write(move |work| work.change_triggers(&changes)).await
    }

    async fn fire_triggers(&self, firings: &[TriggerFiring]) -> Result<Vec<TriggerFired>> {
        check_firings(firings)?;
        let firings = firings.to_vec();
        self.write(move |work| work.fire_triggers(&firings)).await
    }
}

#[async_trait]
impl Spool for SqliteEngine {
    async fn enqueue_staged(
        &self,
        request: EnqueueRequest,
        sent_ago: Duration,
    ) -> Result<Vec<EnqueueAnswer>> {
        self.write(move |work| work.enqueue_staged(request, sent_ago)).await
    }

    async fn stage(
        &self,
        request: RequestId,
        most: BatchMost,
        but: &LeftOut,
        following: &Following,
    ) -> Result<Option<StagedBatch>> {
        let (but, following) = (but.clone(), following.clone());
        self.write(move |work| work.stage(request, most, &but, &following)).await
    }

    async fn staged(&self, after: Option<&StagedBatch>, limit: u32) -> Result<Vec<StagedBatch>> {
        let after = after.map(|last| (last.since, last.request));
        self.read(move |conn, _| spool::staged(conn, after, limit)).await
    }

    async fn still_staged(&self, request: RequestId) -> Result<Option<(StagedBatch, Vec<Job>)>> {
        self.read(move |conn, now| spool::still_staged(conn, request, now)).await
    }

    async fn end_batch(&self, request: RequestId, ends: Vec<(JobId, Option<String>)>) -> Result<bool> {
        self.write(move |work| work.end_batch(request, ends)).await
    }

    async fn keep_here(&self, request: RequestId, younger_than: Duration) -> Result<bool> {
        self.write(move |work| work.keep_here(request, younger_than)).await
    }

    fn trouble(&self) -> Option<String> {
        self.why_not_open().map(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests;
