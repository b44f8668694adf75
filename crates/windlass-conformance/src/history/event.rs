//! The lines of a ledger: one JSON object each.

use std::fmt;

use serde::{Deserialize, Serialize};

use windlass_core::clock::Timestamp;
use windlass_core::job::{Counters, JobId, JobState};

/// A producer's own name for a job. It is created before the enqueue and carried in the payload, so that a
/// ledger can name a job whose id no process learnt.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Uid(pub String);

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// One line of a ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The time by a clock that all writers share: the store's, or that of the one machine.
    pub at: Timestamp,
    /// The event that the line records.
    #[serde(flatten)]
    pub event: Event,
}

/// What a line records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// A producer is about to enqueue a job.
    Invoke {
        /// The producer's name of the job.
        uid: Uid,
        /// The due time, before which it must not start.
        due: Option<Timestamp>,
    },
    /// The job is stored.
    Acknowledged {
        /// The producer's name of the job.
        uid: Uid,
        /// The id under which it is stored.
        job: JobId,
    },
    /// The job is certainly not stored.
    Refused {
        /// The producer's name of the job.
        uid: Uid,
    },
    /// No answer came, or an answer that does not decide: the job may be stored.
    Unknown {
        /// The producer's name of the job.
        uid: Uid,
    },
    /// A handler begins.
    Start {
        /// The producer's name of the job.
        uid: Uid,
        /// The token of the claim.
        token: String,
        /// The process of the worker.
        worker: String,
    },
    /// A handler has ended; its worker is about to settle.
    End {
        /// The producer's name of the job.
        uid: Uid,
        /// The token of the claim.
        token: String,
        /// How the handler ended.
        outcome: Outcome,
    },
    /// The answer to the settle.
    Settled {
        /// The producer's name of the job.
        uid: Uid,
        /// The token of the claim.
        token: String,
        /// The store's answer.
        answer: SettleAnswer,
    },
    /// A cancel was acknowledged: the job was cancelled or requested to stop.
    CancelAccepted {
        /// The producer's name of the job.
        uid: Uid,
    },
    /// An operator, or its key, started a dead letter over: it may end once more.
    StartedOver {
        /// The producer's name of the job.
        uid: Uid,
    },
    /// A fault was injected into one worker, or into all of them.
    Fault {
        /// The kind of the fault.
        kind: FaultKind,
        /// The worker. `None` means every worker, as when the store itself is hit.
        target: Option<String>,
        /// The end of the fault, if it lasted.
        until: Option<Timestamp>,
    },
    /// The state that the store reports of a job, after everything was healed and drained.
    Final {
        /// The producer's name of the job.
        uid: Uid,
        /// Its id.
        job: JobId,
        /// Its state.
        job_state: JobState,
        /// Its counters.
        counters: Counters,
    },
    /// The line before was torn by the death of its writer.
    Repaired,
}

/// How a handler ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Success.
    Done,
    /// It failed, and the job is to be retried.
    Failed,
    /// It failed, and the job is dead.
    Dead,
    /// The handler snoozed the job.
    Snoozed,
    /// A stopping worker released the job.
    Released,
    /// The job was cancelled.
    Cancelled,
}

impl Outcome {
    /// Whether the job ends with this outcome.
    pub fn is_end(self) -> bool {
        matches!(self, Self::Done | Self::Dead | Self::Cancelled)
    }
}

/// The store's answer to a settle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SettleAnswer {
    /// The settlement was written.
    Applied,
    /// The claim was lost: nothing was written.
    Lost,
    /// No answer came.
    Unknown,
}

/// The kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// The process was killed without warning.
    Kill,
    /// The process, or its heartbeat, was frozen for a while.
    Freeze,
    /// A call failed before it had an effect.
    FailedCall,
    /// A call had its effect, and its answer was lost.
    LostAnswer,
    /// A clock was stepped.
    ClockStep,
    /// The store itself was unavailable or restarted.
    StoreAway,
}

impl Event {
    /// Creates the event of a handler that begins.
    pub fn start(uid: Uid, token: impl fmt::Display, worker: impl fmt::Display) -> Self {
        Self::Start { uid, token: token.to_string(), worker: worker.to_string() }
    }

    /// Creates the event of a handler that has ended.
    pub fn end(uid: Uid, token: impl fmt::Display, outcome: Outcome) -> Self {
        Self::End { uid, token: token.to_string(), outcome }
    }

    /// Creates the event of a settle that was accepted.
    pub fn applied(uid: Uid, token: impl fmt::Display) -> Self {
        Self::Settled { uid, token: token.to_string(), answer: SettleAnswer::Applied }
    }

    /// Creates the event of a settle that came too late.
    pub fn lost(uid: Uid, token: impl fmt::Display) -> Self {
        Self::Settled { uid, token: token.to_string(), answer: SettleAnswer::Lost }
    }

    /// Creates the event of a fault that hit one worker for a moment.
    pub fn fault(kind: FaultKind, worker: impl fmt::Display) -> Self {
        Self::Fault { kind, target: Some(worker.to_string()), until: None }
    }

    /// Returns the job that the event is about.
    pub fn uid(&self) -> Option<&Uid> {
        match self {
            Self::Invoke { uid, .. }
            | Self::Acknowledged { uid, .. }
            | Self::Refused { uid }
            | Self::Unknown { uid }
            | Self::Start { uid, .. }
            | Self::End { uid, .. }
            | Self::Settled { uid, .. }
            | Self::CancelAccepted { uid }
            | Self::StartedOver { uid }
            | Self::Final { uid, .. } => Some(uid),
            Self::Fault { .. } | Self::Repaired => None,
        }
    }
}
