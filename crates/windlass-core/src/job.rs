//! A job, its states, and the legal transitions between them.

use std::fmt;
use std::time::Duration;

use crate::clock::Timestamp;
use crate::gate::Gate;
use crate::key::KeyClaim;
use crate::limits::OLDEST_SCANNED_MAX;
use crate::names::{
    CorrelationId, FairnessKey, GroupName, OrderingKey, PriorityLabel, QueueName, Tag, TypeName,
};
use crate::outcome::JobError;
use crate::payload::Payload;
use crate::priority::Priority;
use crate::provenance::Provenance;
use crate::retry::RetryPolicy;
use crate::worker::WorkerId;

/// The id of a job, issued by the store in the order of arrival; also its rank among jobs with the same
/// due time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct JobId(pub i64);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A stored job: everything that does not depend on its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// Its type, which selects the handler.
    pub job_type: TypeName,
    /// Its queue.
    pub queue: QueueName,
    /// Its payload.
    pub payload: Payload,
    /// Its priority.
    pub priority: Priority,
    /// The label it was given, if any; `priority` has the meaning of the label at that time.
    pub label: Option<PriorityLabel>,
    /// When it was enqueued.
    pub enqueued_at: Timestamp,
    /// When it falls due. Parking and releasing leave it alone, so that age and order survive.
    pub due: Timestamp,
    /// If it has not started by then, it is cancelled.
    pub expires_at: Option<Timestamp>,
    /// The caller's key for it.
    pub key: Option<KeyClaim>,
    /// The ordering key it belongs to, within its type: its jobs run one at a time, in the order of their
    /// ids.
    pub ordering_key: Option<OrderingKey>,
    /// Whose work it is: among the due jobs of a queue and a priority, fairness keys take turns.
    pub fairness_key: Option<FairnessKey>,
    /// The correlation id of the event that caused it.
    pub correlation: Option<CorrelationId>,
    /// Where it comes from.
    pub provenance: Provenance,
    /// Tags, by which people find the job.
    pub tags: Vec<Tag>,
    /// The group it belongs to.
    pub group: Option<GroupName>,
    /// Its own retry policy; otherwise its type's.
    pub retry: Option<RetryPolicy>,
    /// Its own time-out; otherwise its type's.
    pub timeout: Option<Duration>,
    /// What happened to it so far.
    pub counters: Counters,
    /// The last progress that its handler reported.
    pub progress: Option<Progress>,
}

/// The reason with which a job is cancelled that was not started in time.
pub const EXPIRED_REASON: &str = "expired before it started";

impl Job {
    /// Returns the seed for the jitter of this job's retries.
    pub fn seed(&self) -> u64 {
        self.id.0.unsigned_abs()
    }

    /// Returns when it expires, if it still can: expiry is about the first start, so a job that was
    /// started once goes on to its end.
    pub fn expiry(&self) -> Option<Timestamp> {
        self.expires_at.filter(|_| self.counters.attempts == 0)
    }

    /// Whether it is too late to start it. Then it is cancelled, with [`EXPIRED_REASON`].
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expiry().is_some_and(|at| at <= now)
    }

    /// Returns since when it waits to be claimed: since it is due, but not from before its enqueue. A
    /// caller may set a due time in the past.
    pub fn waits_since(&self) -> Timestamp {
        self.due.max(self.enqueued_at)
    }

    /// Returns how long it has waited at `now`.
    pub fn waited(&self, now: Timestamp) -> Duration {
        now.since(self.waits_since())
    }

    /// Returns how long ago it was enqueued.
    pub fn age(&self, now: Timestamp) -> Duration {
        now.since(self.enqueued_at)
    }
}

/// Returns since when the ready job waits that has waited longest. `ready` yields for each job when it
/// fell due and since when it waits, in the order of due times, and no more items are read than needed.
/// Nearly always the first job is the one.
pub fn waits_longest(
    ready: impl IntoIterator<Item = (Timestamp, Timestamp)>,
    so_far: Option<Timestamp>,
) -> Option<Timestamp> {
    let mut longest = so_far;
    for (due, waits_since) in ready.into_iter().take(OLDEST_SCANNED_MAX as usize) {
        // Every job that fell due later has waited less.
        if longest.is_some_and(|longest| due >= longest) {
            break;
        }
        longest = longest.into_iter().chain([waits_since]).min();
    }
    longest
}

/// The counters of a job, each counted separately: a crash must not use up an attempt, and a policy that
/// holds a job back must use up nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Counters {
    /// Starts of the handler.
    pub attempts: u32,
    /// Attempts that ended with an error, a panic or a time-out.
    pub failures: u32,
    /// Times its worker died while holding it.
    pub crashes: u32,
    /// Times a policy or the handler itself put it back to wait.
    pub holds: u32,
}

/// The progress of a job.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Progress {
    /// From 0 to 100.
    pub percent: u8,
    /// A note about it.
    pub note: Option<String>,
}

/// The state of a job, as the store keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredState {
    /// Ready or scheduled, by its due time; or parked behind a gate.
    Waiting {
        /// What holds it back.
        gate: Option<Gate>,
    },
    /// Claimed by a live worker.
    Running {
        /// The worker.
        worker: WorkerId,
        /// Since when.
        since: Timestamp,
        /// The reason, if the job was asked to stop.
        cancel_requested: Option<String>,
    },
    /// Succeeded.
    Succeeded {
        /// When.
        at: Timestamp,
        /// Its result as JSON, if results are kept.
        result: Option<String>,
    },
    /// Dead: in the dead-letter queue.
    Dead {
        /// When.
        at: Timestamp,
        /// Why.
        error: JobError,
    },
    /// Cancelled on request.
    Cancelled {
        /// When.
        at: Timestamp,
        /// Why.
        why: String,
    },
}

impl StoredState {
    /// Returns the state at `now`, as people name it.
    pub fn job_state(&self, due: Timestamp, now: Timestamp) -> JobState {
        match self {
            Self::Waiting { gate: Some(_) } => JobState::Parked,
            Self::Waiting { gate: None } if due > now => JobState::Scheduled,
            Self::Waiting { gate: None } => JobState::Ready,
            Self::Running { .. } => JobState::Running,
            Self::Succeeded { .. } => JobState::Succeeded,
            Self::Dead { .. } => JobState::Dead,
            Self::Cancelled { .. } => JobState::Cancelled,
        }
    }
}

/// The state of a job, as one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// Due, waiting for a worker.
    Ready,
    /// Not yet due.
    Scheduled,
    /// Held back by a gate.
    Parked,
    /// Claimed by a live worker.
    Running,
    /// Succeeded.
    Succeeded,
    /// Dead: in the dead-letter queue.
    Dead,
    /// Cancelled on request.
    Cancelled,
}

impl JobState {
    /// All states, in the order of a job's life.
    pub const ALL: [Self; 7] = [
        Self::Ready,
        Self::Scheduled,
        Self::Parked,
        Self::Running,
        Self::Succeeded,
        Self::Dead,
        Self::Cancelled,
    ];

    /// Returns the state as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Scheduled => "scheduled",
            Self::Parked => "parked",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether the job has ended. A dead letter has ended, though a person may restart it.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Succeeded | Self::Dead | Self::Cancelled)
    }

    /// Whether a job may go from this state to that one.
    pub fn may_become(self, next: Self) -> bool {
        use JobState::{Cancelled, Dead, Parked, Ready, Running, Scheduled, Succeeded};
        match (self, next) {
            // Time passes, a debounce moves the due time, a gate closes or opens.
            (Ready | Scheduled | Parked, Ready | Scheduled | Parked) => self != next || self == Scheduled,
            // Only a due job is claimed; a suspect is claimed from behind its gate.
            (Ready | Parked, Running) => true,
            // A run can end in every possible way.
            (Running, Ready | Scheduled | Parked | Succeeded | Dead | Cancelled) => true,
            (Ready | Scheduled | Parked, Cancelled) => true,
            // A person, or its own key, restarts a dead letter.
            (Dead, Ready | Scheduled) => true,
            _ => false,
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl std::str::FromStr for JobState {
    type Err = JobStateError;
    fn from_str(text: &str) -> Result<Self, JobStateError> {
        Self::ALL
            .into_iter()
            .find(|job_state| job_state.as_str() == text)
            .ok_or_else(|| JobStateError { got: text.chars().take(40).collect() })
    }
}

/// Why a text is not a state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected one of ready, scheduled, parked, running, succeeded, dead, cancelled, got {got:?}")]
pub struct JobStateError {
    got: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows are the current state, columns the next state, both in the order of `JobState::ALL`.
    const LEGAL: [(&str, [u8; 7]); 7] = [
        //            rdy sch prk run suc ded can
        ("ready", [0, 1, 1, 1, 0, 0, 1]),
        ("scheduled", [1, 1, 1, 0, 0, 0, 1]),
        ("parked", [1, 1, 0, 1, 0, 0, 1]),
        ("running", [1, 1, 1, 0, 1, 1, 1]),
        ("succeeded", [0, 0, 0, 0, 0, 0, 0]),
        ("dead", [1, 1, 0, 0, 0, 0, 0]),
        ("cancelled", [0, 0, 0, 0, 0, 0, 0]),
    ];

    #[test]
    fn exactly_the_moves_of_the_table_are_legal() {
        for (from, (name, row)) in JobState::ALL.into_iter().zip(LEGAL) {
            assert_eq!(from.as_str(), name);
            for (to, legal) in JobState::ALL.into_iter().zip(row) {
                assert_eq!(from.may_become(to), legal == 1, "{from} to {to}");
            }
        }
    }

    #[test]
    fn what_has_succeeded_or_was_cancelled_never_moves_again() {
        for end in [JobState::Succeeded, JobState::Cancelled] {
            assert!(JobState::ALL.into_iter().all(|next| !end.may_become(next)));
        }
    }

    #[test]
    fn every_job_state_can_be_read_back() {
        for job_state in JobState::ALL {
            assert_eq!(job_state.as_str().parse(), Ok(job_state));
        }
        assert!("done".parse::<JobState>().is_err());
    }

    #[test]
    fn the_longest_wait_counts_from_the_later_of_due_and_enqueued() {
        let at = Timestamp::from_micros;
        let longest = |ready: &[(i64, i64)]| {
            waits_longest(ready.iter().map(|(due, since)| (at(*due), at(*since))), None)
        };
        assert_eq!(longest(&[]), None);
        assert_eq!(longest(&[(5, 5), (6, 6)]), Some(at(5)));
        assert_eq!(
            longest(&[(0, 9), (1, 8), (5, 5), (6, 6)]),
            Some(at(5)),
            "the jobs due before were enqueued later"
        );
        assert_eq!(longest(&[(0, 9), (10, 10), (11, 8)]), Some(at(9)), "no more are read than needed");
        assert_eq!(waits_longest([(at(5), at(5))], Some(at(3))), Some(at(3)));
    }

    #[test]
    fn a_waiting_job_is_ready_exactly_when_due() {
        let state = StoredState::Waiting { gate: None };
        let due = Timestamp::from_micros(10);
        assert_eq!(state.job_state(due, Timestamp::from_micros(9)), JobState::Scheduled);
        assert_eq!(state.job_state(due, due), JobState::Ready);
    }
}
