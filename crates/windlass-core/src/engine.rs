//! The interface to storage. Engines store what this crate decided; they decide nothing themselves. Each
//! method is one atomic statement, script or transaction, works in batches, and uses only the types of
//! this crate.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;

use crate::admin::{
    BatchDone, CancelAnswer, Changed, ListRequest, QueueStatus, RetryAnswer, StoredAttempt, StoredJob,
    TypeStatus,
};
use crate::claim::{ClaimAnswer, ClaimRequest, Fence, NextDue};
use crate::clock::Timestamp;
use crate::duty::DutyModes;
use crate::enqueue::{EnqueueAnswer, EnqueueRequest, RequestId};
use crate::error::EngineError;
use crate::fallback::FallbackStatus;
use crate::gate::Gate;
use crate::job::{JobId, Progress};
use crate::job_type::TypeSpec;
use crate::lease::Leases;
use crate::lease::membership::MemberCount;
use crate::lease_watch::Suspicion;
use crate::names::{DutyName, OrderingKey, QueueName, TypeName};
use crate::policies::Policies;
use crate::priority::Priority;
use crate::queue::QueueSpec;
use crate::rollups::Rollups;
use crate::schedules::Schedules;
use crate::settle::{Settled, Settlement};
use crate::triggers::CompletionTriggers;
use crate::worker::{Heartbeat, HeartbeatAnswer, Liveness, WorkerCard, WorkerId, WorkerSighting};

/// The result of every call to an engine.
pub type Result<T> = std::result::Result<T, EngineError>;

/// Stores jobs and workers: the path of a job, and the registration of workers.
#[async_trait]
pub trait Engine: Admin + Policies + Leases + Schedules + CompletionTriggers + Rollups {
    /// Describes this engine and how much it can lose.
    fn info(&self) -> EngineInfo;

    /// Returns the engine in which this one keeps jobs while its store is unavailable, if there is one. A
    /// worker of this engine also claims from that engine.
    fn spool(&self) -> Option<Arc<dyn Engine>> {
        None
    }

    /// Returns the time of the store's clock.
    async fn now(&self) -> Result<Timestamp>;

    /// Returns whether the store was found emptied or older than it was; `None` if it never was, or if
    /// such a store cannot be used at all.
    async fn replaced(&self) -> Result<Option<Replaced>> {
        Ok(None)
    }

    /// Declares queues and registers types, or updates them; all or nothing. A type that would move to
    /// another queue is refused.
    async fn declare(&self, declaration: Declaration) -> Result<()>;

    /// Stores new jobs, each by itself: the refusal of one does not affect the others. Repeating a
    /// request with its id returns the same answers and makes no second job.
    async fn enqueue(&self, request: EnqueueRequest) -> Result<Vec<EnqueueAnswer>>;

    /// Returns the answers of an earlier request, if the store has applied it and still keeps its
    /// receipt. This call only reads: a request without a receipt may still be in flight.
    async fn receipt(&self, request: RequestId) -> Result<Option<Vec<EnqueueAnswer>>>;

    /// Returns the answers of an earlier request. If it has none, the same step closes the request: it
    /// leaves a receipt without answers, a tombstone that is kept as long as any receipt. A request that
    /// arrives later then stores nothing, and each of its jobs is answered with
    /// [`Refusal::RequestClosed`](crate::enqueue::Refusal::RequestClosed). An error never means that the
    /// request has no answers: where an open transaction holds the request, this call waits at most the
    /// engine's time-out for locks, and fails.
    async fn ask(&self, request: RequestId) -> Result<Option<Vec<EnqueueAnswer>>>;

    /// Claims ready jobs in the order of [`claim_order`](crate::boost::claim_order). A repeat of a
    /// request (see [`ClaimRequest::repeat`]) returns the jobs that it claimed and claims no more; the
    /// answer contains the next due time, as that of any claim. A request and its repeat exclude each
    /// other: the one that is applied second sees the result of the first, even if both arrive at the
    /// same time.
    async fn claim(&self, request: ClaimRequest) -> Result<ClaimAnswer>;

    /// Returns what falls due next in these queues for these types. Cheap; one call serves all queues of
    /// a process.
    async fn peek(&self, queues: &[QueueName], types: &[TypeName]) -> Result<Vec<(QueueName, NextDue)>>;

    /// Writes the ends of attempts, each only if its fence holds. Repeating returns the same answers.
    async fn settle(&self, batch: Vec<Settlement>) -> Result<Vec<Settled>>;

    /// Stores progress, each only if its fence holds.
    async fn report(&self, batch: Vec<(Fence, Progress)>) -> Result<Vec<Settled>>;

    /// Registers a worker. Jobs that are parked for lack of a handler that this worker has are released.
    async fn register(&self, card: WorkerCard) -> Result<()>;

    /// Extends a worker's lease and returns which of its jobs were asked to stop.
    async fn extend(&self, heartbeat: Heartbeat) -> Result<Liveness>;

    /// Extends a worker's lease as [`extend`](Self::extend) does, stores the time of the worker's own
    /// clock, for people, and counts the live workers, all in the same statement. An engine without
    /// leases returns empty counts.
    async fn heartbeat_with_members(
        &self,
        heartbeat: Heartbeat,
        _clock: Timestamp,
    ) -> Result<HeartbeatAnswer> {
        let (beat, now) = (self.extend(heartbeat).await?, self.now().await?);
        Ok(HeartbeatAnswer { beat, members: MemberCount::default(), now })
    }

    /// Returns which running jobs of a worker were asked to stop; none if the worker is unknown. It
    /// returns the same jobs as [`extend`](Self::extend), but only reads: it may be called after every
    /// hint, and causes none.
    async fn asked_to_stop(&self, worker: WorkerId) -> Result<Vec<Fence>>;

    /// Deregisters a worker that ended cleanly. Jobs that it still holds are requeued at no cost.
    async fn retire(&self, worker: WorkerId) -> Result<()>;

    /// Lists all workers that were not declared dead or deregistered.
    async fn workers(&self) -> Result<Vec<WorkerSighting>>;

    /// Declares workers dead, each only if its heartbeat counter is unchanged since it was read, and
    /// takes their jobs back.
    async fn rescue(&self, request: RescueRequest) -> Result<Rescued>;

    /// Cancels expired jobs and parks jobs whose type no live worker handles, at most `limit` of each.
    async fn sweep(&self, limit: u32) -> Result<BatchDone>;

    /// Deletes finished jobs past their retention, old receipts, old claim tombstones, keys held for a
    /// period that is over, and workers that died long ago, at most `limit` of each.
    async fn prune(&self, limit: u32) -> Result<BatchDone>;

    /// Registers `listener`. The engine calls it soon after a job may have become claimable or was asked
    /// to stop, or a lease became free, also by other processes, for as long as the caller keeps the
    /// listener. Hints may be lost, late or needless.
    fn on_hint(&self, listener: Weak<dyn HintListener>);
}

/// The queries and acts of operators. Reads are bounded; acts are atomic.
#[async_trait]
pub trait Admin: Send + Sync + 'static {
    /// Returns where new jobs go and have gone, if this engine has a fallback.
    async fn fallback(&self) -> Result<Option<FallbackStatus>> {
        Ok(None)
    }

    /// Reads one job, in whichever state it is.
    async fn job(&self, id: JobId) -> Result<Option<StoredJob>>;

    /// Lists the attempts of one job, oldest first, including the running one; the newest
    /// [`ATTEMPTS_SHOWN_MAX`](crate::limits::ATTEMPTS_SHOWN_MAX).
    async fn attempts(&self, id: JobId) -> Result<Vec<StoredAttempt>>;

    /// Lists a page of jobs, newest first.
    async fn list(&self, request: ListRequest) -> Result<Vec<StoredJob>>;

    /// Lists all queues with their counts, by priority and name. No count scans the jobs.
    async fn queues(&self) -> Result<Vec<QueueStatus>>;

    /// Lists the queues whose declarations can be read as they were declared, perhaps some seconds ago: the
    /// query that a worker repeats often.
    async fn queue_specs(&self) -> Result<Vec<QueueSpec>> {
        let queues = self.queues().await?.into_iter();
        Ok(queues.filter(|queue| queue.unreadable.is_none()).map(|queue| queue.spec).collect())
    }

    /// Lists all types, by name.
    async fn types(&self) -> Result<Vec<TypeStatus>>;

    /// Cancels a waiting job, or requests a running one to stop.
    async fn cancel(&self, id: JobId, why: &str) -> Result<CancelAnswer>;

    /// Restarts a dead letter, or makes a scheduled or parked job due at once.
    async fn retry(&self, id: JobId) -> Result<RetryAnswer>;

    /// Deletes a dead letter.
    async fn discard(&self, id: JobId) -> Result<Changed>;

    /// Sets the priority of a waiting job.
    async fn set_priority(&self, id: JobId, priority: Priority) -> Result<Changed>;

    /// Stops claims from a queue, for a time or until it is resumed.
    async fn pause(
        &self,
        queue: &QueueName,
        reason: Option<&str>,
        lasting: Option<Duration>,
    ) -> Result<Changed>;

    /// Resumes claims from a queue.
    async fn resume(&self, queue: &QueueName) -> Result<Changed>;

    /// Shuts a queue, so that it accepts no new jobs, or opens it again.
    async fn set_shut(&self, queue: &QueueName, shut: bool) -> Result<Changed>;

    /// Cancels the ready, scheduled and parked jobs of a queue, at most `limit`; never a running one.
    async fn purge(&self, queue: &QueueName, limit: u32) -> Result<BatchDone>;

    /// Returns which job of an ordering key runs or may run, while the others wait behind it; `None` if
    /// the ordering key has no unfinished job.
    async fn head_of(&self, job_type: &TypeName, ordering_key: &OrderingKey) -> Result<Option<JobId>>;

    /// Releases at most `limit` jobs from a gate, oldest first. When it is called repeatedly for many
    /// jobs, jobs that came to the front meanwhile may have to wait half a second. An operator cannot
    /// release jobs from the gate of an ordering key.
    async fn open_gate(&self, gate: &Gate, limit: u32) -> Result<BatchDone>;
}

/// The description of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineInfo {
    /// `memory`, `sqlite`, `postgres` or `redis`.
    pub name: &'static str,
    /// What an acknowledged job survives.
    pub durability: Durability,
    /// The modes in which processes can share a duty.
    pub duty_modes: DutyModes,
}

/// The fact that a store was found to be another one than processes knew: emptied, replaced by another,
/// or older than it was. Its earlier contents are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Replaced {
    /// How often that happened, as far as the processes of that time remember.
    pub times: u64,
    /// When it was last noticed.
    pub last: Timestamp,
}

/// What an acknowledged job survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// Nothing: the job is gone with the process.
    Process,
    /// The death of the process, but perhaps not a power cut.
    Crash,
    /// A power cut.
    PowerCut,
}

impl Durability {
    /// Returns a description in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Process => "lost with the process",
            Self::Crash => "survives a crash of the process",
            Self::PowerCut => "survives a power cut",
        }
    }
}

/// Queues and types to declare.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Declaration {
    /// Queues.
    pub queues: Vec<QueueSpec>,
    /// Types; their queues must be declared, here or before.
    pub types: Vec<TypeSpec>,
}

impl Declaration {
    /// Splits the declaration into one part for each queue and type, in an order in which they can be
    /// declared.
    pub fn one_by_one(self) -> Vec<Self> {
        let queues = self.queues.into_iter().map(|queue| Self { queues: vec![queue], types: Vec::new() });
        let types = self.types.into_iter().map(|kind| Self { queues: Vec::new(), types: vec![kind] });
        queues.chain(types).collect()
    }
}

/// The workers to declare dead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RescueRequest {
    /// The workers, as they were read.
    pub silent: Vec<Suspicion>,
    /// The number of crashes after which a job is dead.
    pub crashes_max: u32,
    /// The maximum number of jobs.
    pub limit: u32,
}

/// The result of a rescue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rescued {
    /// Jobs that wait again.
    pub returned: Vec<JobId>,
    /// Jobs that are dead because they crashed too often.
    pub buried: Vec<JobId>,
    /// More jobs are left: call again.
    pub more: bool,
}

/// A notification of a possible change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// A job in this queue may be claimable, now or at another time than before.
    Queue(QueueName),
    /// A running job was asked to stop.
    Cancel(Fence),
    /// The lease of this duty is free, or its holder was asked to give way.
    Lease(DutyName),
    /// Jobs that a trigger watches have ended: a process should evaluate the trigger.
    Trigger,
    /// Anything may have changed; another process wrote.
    Any,
    /// The engine has just scanned these queues by itself, and nothing is due there: a worker that polls
    /// them can skip this poll.
    Quiet(Vec<QueueName>),
}

/// A receiver of hints.
pub trait HintListener: Send + Sync {
    /// Handles a hint. Must return at once: it is called on the engine's own threads.
    fn hint(&self, hint: Hint);
}
