//! The lines of a ledger: one JSON object each.

use std::fmt;

use serde::{Deserialize, Serialize};

use windlass_core::clock::Timestamp;
use windlass_core::job::{Counters, JobId, Phase};

/// A producer's own name for a job, made before it is put in and carried in its payload, so that a ledger can
/// speak of a job whose number nobody learnt.
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

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When, by a clock that all writers share: the store's, or that of the one machine.
    pub at: Timestamp,
    /// What.
    #[serde(flatten)]
    pub event: Event,
}

/// What a line tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// A producer is about to put a job in.
    Invoke {
        /// Which.
        uid: Uid,
        /// It must not start before this instant.
        due: Option<Timestamp>,
    },
    /// The job is stored.
    Acknowledged {
        /// Which.
        uid: Uid,
        /// Under which number.
        job: JobId,
    },
    /// The job is certainly not stored.
    Refused {
        /// Which.
        uid: Uid,
    },
    /// No answer came, or one that says nothing: the job may be stored.
    Unknown {
        /// Which.
        uid: Uid,
    },
    /// A handler begins.
    Start {
        /// With which job.
        uid: Uid,
        /// The proof of its claim.
        token: String,
        /// In which process.
        worker: String,
    },
    /// A handler has ended; its worker is about to settle.
    End {
        /// Which job.
        uid: Uid,
        /// The proof of its claim.
        token: String,
        /// How.
        outcome: Outcome,
    },
    /// The answer to the settle.
    Settled {
        /// Which job.
        uid: Uid,
        /// The proof of its claim.
        token: String,
        /// What the store said.
        answer: SettleAnswer,
    },
    /// A cancel was acknowledged: the job was cancelled or asked to stop.
    CancelAccepted {
        /// Which.
        uid: Uid,
    },
    /// A person, or its key, started a dead letter over: it may end once more.
    StartedOver {
        /// Which.
        uid: Uid,
    },
    /// Something bad was done to a worker, or to all of them.
    Fault {
        /// What.
        kind: FaultKind,
        /// Which worker; nothing means everybody, as when the store itself is struck.
        target: Option<String>,
        /// Until when, if it lasted.
        until: Option<Timestamp>,
    },
    /// Where the store says a job is, after everything was healed and drained.
    Final {
        /// Which.
        uid: Uid,
        /// Its number.
        job: JobId,
        /// Where it is.
        phase: Phase,
        /// What happened to it.
        counters: Counters,
    },
    /// The line before was torn by the death of its writer.
    Repaired,
}

/// How a handler ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Done.
    Done,
    /// It failed, and the job is to be tried again.
    Failed,
    /// It failed, and the job is given up.
    Dead,
    /// Put off by the handler.
    Snoozed,
    /// Given back by a worker that ends.
    Released,
    /// Stopped.
    Cancelled,
}

impl Outcome {
    /// Whether the job is to end with it.
    pub fn is_end(self) -> bool {
        matches!(self, Self::Done | Self::Dead | Self::Cancelled)
    }
}

/// What the store said to a settle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SettleAnswer {
    /// It was written.
    Applied,
    /// The claim was lost: nothing was written.
    Lost,
    /// No answer came.
    Unknown,
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// The process was killed without warning.
    Kill,
    /// The process, or its heartbeat, stood still for a while.
    Freeze,
    /// A call failed before it had an effect.
    FailedCall,
    /// A call had its effect, and its answer was lost.
    LostAnswer,
    /// A clock was moved.
    ClockStep,
    /// The store itself was away or restarted.
    StoreAway,
}

impl Event {
    /// A handler begins.
    pub fn start(uid: Uid, token: impl fmt::Display, worker: impl fmt::Display) -> Self {
        Self::Start { uid, token: token.to_string(), worker: worker.to_string() }
    }

    /// A handler has ended.
    pub fn end(uid: Uid, token: impl fmt::Display, outcome: Outcome) -> Self {
        Self::End { uid, token: token.to_string(), outcome }
    }

    /// A settle was accepted.
    pub fn applied(uid: Uid, token: impl fmt::Display) -> Self {
        Self::Settled { uid, token: token.to_string(), answer: SettleAnswer::Applied }
    }

    /// A settle came too late.
    pub fn lost(uid: Uid, token: impl fmt::Display) -> Self {
        Self::Settled { uid, token: token.to_string(), answer: SettleAnswer::Lost }
    }

    /// A fault that struck one worker for a moment.
    pub fn fault(kind: FaultKind, worker: impl fmt::Display) -> Self {
        Self::Fault { kind, target: Some(worker.to_string()), until: None }
    }

    /// The job that it is about.
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
