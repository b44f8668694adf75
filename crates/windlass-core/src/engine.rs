//! The seam to storage. Engines store what this crate decided; they decide nothing themselves. Each method
//! is one atomic statement, script or transaction, in batches, and speaks only the types of this crate.

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

/// What every call to an engine gives.
pub type Result<T> = std::result::Result<T, EngineError>;

/// Where jobs are kept: the way of a job, and the lives of workers.
#[async_trait]
pub trait Engine: Admin + Policies + Leases + Schedules + CompletionTriggers + Rollups {
    /// What this engine is and how much it can lose.
    fn info(&self) -> EngineInfo;

    /// The engine in which this one keeps jobs while its store is away, if it does. A worker of this engine works on that
    /// one, too.
    fn spool(&self) -> Option<Arc<dyn Engine>> {
        None
    }

    /// The store's clock.
    async fn now(&self) -> Result<Timestamp>;

    /// Whether the store was found emptied or older than it was; nothing if it never was, or if such a store cannot be used at all.
    async fn replaced(&self) -> Result<Option<Replaced>> {
        Ok(None)
    }

    /// Declares queues and registers types, or updates them; all or nothing. A type that would move to
    /// another queue is refused.
    async fn declare(&self, declaration: Declaration) -> Result<()>;

    /// Stores new jobs, each by itself: one that is refused does not spoil the others. Repeating a request
    /// with its id gives the same answers and makes no second job.
    async fn enqueue(&self, request: EnqueueRequest) -> Result<Vec<EnqueueAnswer>>;

    /// The answers of an earlier request, if it happened and its receipt is still kept. Only reads: a request
    /// that has no receipt may still be on its way.
    async fn receipt(&self, request: RequestId) -> Result<Option<Vec<EnqueueAnswer>>>;

    /// The answers of an earlier request. If it has none, the same step closes the request: it leaves a
    /// receipt without answers, a tombstone that is kept as long as any receipt. A request that arrives later
    /// then stores nothing, and each of its jobs is answered with
    /// [`Refusal::RequestClosed`](crate::enqueue::Refusal::RequestClosed). An error never means no: where an
    /// open transaction holds the request, this waits at most the engine's time-out for locks, and fails.
    async fn ask(&self, request: RequestId) -> Result<Option<Vec<EnqueueAnswer>>>;

    /// Claims ready jobs in the order of [`claim_order`](crate::boost::claim_order). A repeat of a request (see
    /// [`ClaimRequest::repeat`]) gives the jobs that it claimed and claims no more; the answer says what lies
    /// ahead, as that of any claim. A request and its repeat exclude each other: the one that is applied second
    /// sees what the first one did, also if both arrive at the same time.
    async fn claim(&self, request: ClaimRequest) -> Result<ClaimAnswer>;

    /// What lies ahead in these queues for these types. Cheap; one call for all queues of a process.
    async fn peek(&self, queues: &[QueueName], types: &[TypeName]) -> Result<Vec<(QueueName, NextDue)>>;

    /// Writes the ends of attempts, each only if its fence holds. Repeating gives the same answers.
    async fn settle(&self, batch: Vec<Settlement>) -> Result<Vec<Settled>>;

    /// Notes progress, each only if its fence holds.
    async fn report(&self, batch: Vec<(Fence, Progress)>) -> Result<Vec<Settled>>;

    /// Lets a worker in. Jobs parked for want of a handler it brings are let through.
    async fn register(&self, card: WorkerCard) -> Result<()>;

    /// Extends a worker's lease and tells which of its jobs were asked to stop.
    async fn extend(&self, heartbeat: Heartbeat) -> Result<Liveness>;

    /// Extends a worker's lease as [`extend`](Self::extend) does, notes what its own clock shows, for people, and counts the workers that are
    /// heard, all in the same statement. An engine that keeps no leases counts nobody.
    async fn heartbeat_with_members(
        &self,
        heartbeat: Heartbeat,
        _clock: Timestamp,
    ) -> Result<HeartbeatAnswer> {
        let (beat, now) = (self.extend(heartbeat).await?, self.now().await?);
        Ok(HeartbeatAnswer { beat, members: MemberCount::default(), now })
    }

    /// Which running jobs of a worker were asked to stop; none if it is unknown. Brings what
    /// [`extend`](Self::extend) brings, but only reads: it may be asked after every hint, and makes none.
    async fn asked_to_stop(&self, worker: WorkerId) -> Result<Vec<Fence>>;

    /// Lets a worker out that ended cleanly. Jobs it still holds are given back without cost.
    async fn retire(&self, worker: WorkerId) -> Result<()>;

    /// All workers that were not declared dead or let out.
    async fn workers(&self) -> Result<Vec<WorkerSighting>>;

    /// Declares workers dead, each only if it is still as silent as it was seen, and takes their jobs back.
    async fn rescue(&self, request: RescueRequest) -> Result<Rescued>;

    /// Cancels what has expired and parks what nobody handles, at most `limit` of each.
    async fn sweep(&self, limit: u32) -> Result<BatchDone>;

    /// Deletes finished jobs past their retention, old receipts, old spent tokens, keys held for a period that
    /// is over, and workers that died long ago, at most `limit` of each.
    async fn prune(&self, limit: u32) -> Result<BatchDone>;

    /// Calls `listener` soon after something may have become claimable or was asked to stop, or a lease became free, also
    /// by other processes, for as long as somebody keeps it. Hints may be lost, late or needless.
    fn on_hint(&self, listener: Weak<dyn HintListener>);
}

/// What people read and do. Reads are bounded; acts are atomic.
#[async_trait]
pub trait Admin: Send + Sync + 'static {
    /// Where new jobs go and have gone, if this engine can fall back.
    async fn fallback(&self) -> Result<Option<FallbackStatus>> {
        Ok(None)
    }

    /// One job, wherever it is.
    async fn job(&self, id: JobId) -> Result<Option<StoredJob>>;

    /// The attempts of one job, oldest first, the running one included; the newest
    /// [`ATTEMPTS_SHOWN_MAX`](crate::limits::ATTEMPTS_SHOWN_MAX).
    async fn attempts(&self, id: JobId) -> Result<Vec<StoredAttempt>>;

    /// A page of jobs, newest first.
    async fn list(&self, request: ListRequest) -> Result<Vec<StoredJob>>;

    /// All queues with their counts, by priority and name. No count scans the jobs.
    async fn queues(&self) -> Result<Vec<QueueStatus>>;

    /// All queues as they were declared, perhaps some seconds ago: what a worker asks again and again.
    async fn queue_specs(&self) -> Result<Vec<QueueSpec>> {
        Ok(self.queues().await?.into_iter().map(|queue| queue.spec).collect())
    }

    /// All types, by name.
    async fn types(&self) -> Result<Vec<TypeStatus>>;

    /// Cancels a waiting job, or asks a running one to stop.
    async fn cancel(&self, id: JobId, why: &str) -> Result<CancelAnswer>;

    /// Starts a dead letter over, or makes a scheduled or parked job due at once.
    async fn retry(&self, id: JobId) -> Result<RetryAnswer>;

    /// Deletes a dead letter.
    async fn discard(&self, id: JobId) -> Result<Changed>;

    /// Gives a waiting job another priority.
    async fn set_priority(&self, id: JobId, priority: Priority) -> Result<Changed>;

    /// Stops claims from a queue, for a time or until it is resumed.
    async fn pause(
        &self,
        queue: &QueueName,
        reason: Option<&str>,
        lasting: Option<Duration>,
    ) -> Result<Changed>;

    /// Lets claims from a queue go on.
    async fn resume(&self, queue: &QueueName) -> Result<Changed>;

    /// Shuts a queue, so that it takes no new jobs, or opens it again.
    async fn set_shut(&self, queue: &QueueName, shut: bool) -> Result<Changed>;

    /// Cancels the ready, scheduled and parked jobs of a queue, at most `limit`; never a running one.
    async fn purge(&self, queue: &QueueName, limit: u32) -> Result<BatchDone>;

    /// Which job of an ordering key runs or may run, while the others wait behind it; nothing if the ordering key is empty.
    async fn head_of(&self, job_type: &TypeName, ordering_key: &OrderingKey) -> Result<Option<JobId>>;

    /// Lets at most `limit` jobs through a gate, oldest first; where it is called for many again and again, those who came to the front
    /// meanwhile may have to wait half a second. The gate of an ordering key lets nobody through by hand.
    async fn open_gate(&self, gate: &Gate, limit: u32) -> Result<BatchDone>;
}

/// What an engine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineInfo {
    /// `memory`, `sqlite`, `postgres` or `redis`.
    pub name: &'static str,
    /// What an acknowledged job survives.
    pub durability: Durability,
    /// In which ways it can let processes share a duty.
    pub duty_modes: DutyModes,
}

/// That a store was found to be another one than processes knew: emptied, in place of another, or older than it was. What it held then
/// is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Replaced {
    /// How often, as far as processes remember that were there.
    pub times: u64,
    /// When that was last noticed.
    pub last: Timestamp,
}

/// What an acknowledged job survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// Nothing: it is gone with the process.
    Process,
    /// The death of the process, but perhaps not a power cut.
    Crash,
    /// A power cut.
    PowerCut,
}

impl Durability {
    /// In words.
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
    /// The same in as many parts as there are queues and types, in an order in which they can be declared.
    pub fn one_by_one(self) -> Vec<Self> {
        let queues = self.queues.into_iter().map(|queue| Self { queues: vec![queue], types: Vec::new() });
        let types = self.types.into_iter().map(|kind| Self { queues: Vec::new(), types: vec![kind] });
        queues.chain(types).collect()
    }
}

/// Whom to declare dead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RescueRequest {
    /// The workers, as they were seen.
    pub silent: Vec<Suspicion>,
    /// Crashes after which a job is given up.
    pub crashes_max: u32,
    /// At most so many jobs.
    pub limit: u32,
}

/// What a rescue did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rescued {
    /// Jobs that wait again.
    pub returned: Vec<JobId>,
    /// Jobs given up because they crashed too often.
    pub buried: Vec<JobId>,
    /// There is more to do: call again.
    pub more: bool,
}

/// What may have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// Something in this queue may be claimable, now or at another time than before.
    Queue(QueueName),
    /// A running job was asked to stop.
    Cancel(Fence),
    /// The lease of this duty is free, or its holder was asked to give way.
    Lease(DutyName),
    /// Jobs have ended that a trigger watches: somebody should look at it.
    Trigger,
    /// Anything may have changed; somebody else wrote.
    Any,
    /// The engine has just looked at these queues by itself, and nothing is due there: whoever polls need not, this time.
    Quiet(Vec<QueueName>),
}

/// Whoever wants hints.
pub trait HintListener: Send + Sync {
    /// Must return at once: it is called on the engine's own threads.
    fn hint(&self, hint: Hint);
}
