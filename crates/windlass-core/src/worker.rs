//! Workers: processes that claim jobs and send heartbeats.

use std::fmt;
use std::time::Duration;

use crate::clock::Timestamp;
use crate::lease::membership::MemberCount;
use crate::names::{DutyName, QueueName, TypeName};

/// The identity of one start of one process: 128 random bits, never configured, never used again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(u128);

random_bits!(WorkerId);

impl fmt::Display for WorkerId {
    /// Writes the first 48 bits in hex, which are enough for people to tell workers apart.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:032x}", self.0)[..12])
    }
}

impl fmt::Debug for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkerId({self})")
    }
}

/// The description that a worker registers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerCard {
    /// Its identity.
    pub id: WorkerId,
    /// The machine, for people.
    pub host: String,
    /// The process, for people.
    pub pid: u32,
    /// The version of the program, for people.
    pub version: String,
    /// The queues it serves.
    pub queues: Vec<QueueName>,
    /// The types it handles.
    pub types: Vec<TypeName>,
    /// The duties that it could do for all: the standbys of a duty are chosen among the workers that name
    /// it.
    pub duties: Vec<DutyName>,
    /// How many jobs it can run at once, in all its pools.
    pub slots: u32,
    /// Its heartbeat is good for this long.
    pub lease: Duration,
}

/// A heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat {
    /// The worker.
    pub worker: WorkerId,
    /// For how long it is good, from the store's current time.
    pub lease: Duration,
    /// Whether the worker runs nothing, so that the store need not return which jobs were asked to stop.
    pub idle: bool,
}

/// The answer to a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Liveness {
    /// The lease is extended.
    Alive {
        /// The jobs of this worker that were asked to stop.
        cancel: Vec<crate::claim::Fence>,
    },
    /// The worker was declared dead. Its jobs are no longer its own, and it must start over with a new
    /// identity.
    Dead,
}

/// The answer to the heartbeat of a process that could do duties.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeartbeatAnswer {
    /// The answer to the heartbeat itself.
    pub beat: Liveness,
    /// The number of other live workers that could do the same duties.
    pub members: MemberCount,
    /// The current time by the store's clock.
    pub now: Timestamp,
}

/// A worker as an observer sees it in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerSighting {
    /// The description that it registered.
    pub card: WorkerCard,
    /// When it registered.
    pub since: Timestamp,
    /// The heartbeat counter, which rises with each heartbeat.
    pub beats: u64,
    /// Whether its lease has run out by the store's clock.
    pub expired: bool,
    /// How long ago its last heartbeat was, by the store's clock.
    pub silent_for: Duration,
    /// What the engine itself knows of the process, beyond leases.
    pub proof: ProofOfLife,
    /// How many jobs it holds.
    pub running: u64,
    /// By how many microseconds its clock was ahead of the store's at its last heartbeat; negative if it
    /// was behind. For people only: no rule reads it.
    pub clock_ahead_micros: Option<i64>,
}

/// What an engine knows of a process beyond its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProofOfLife {
    /// Nothing: the lease decides.
    None,
    /// The process holds its lock, so it exists, though it may be stuck: the lease decides.
    Exists,
    /// The process is gone for certain.
    Gone,
}
