//! Accepting jobs: a caller's request, and the rule that accepts or refuses it.

use std::fmt;
use std::time::Duration;

use crate::clock::Timestamp;
use crate::job::JobId;
use crate::job_type::TypeSpec;
use crate::key::{KeyClaim, KeyVerdict};
use crate::limits::{DELAY_MAX, TAGS_MAX, TIMEOUT_MAX};
use crate::names::{
    CorrelationId, FairnessKey, GroupName, OrderingKey, PriorityLabel, QueueName, Tag, TypeName,
};
use crate::payload::Payload;
use crate::priority::Priority;
use crate::provenance::Provenance;
use crate::queue::QueueSpec;
use crate::retry::{RetryPolicy, RetryPolicyError};
use crate::stored::Unreadable;

/// A job as a caller enqueues it. Only the type and the payload are required.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    /// The type, which must be registered.
    pub job_type: TypeName,
    /// The queue, if the caller names it; must be the type's.
    pub queue: Option<QueueName>,
    /// The payload.
    pub payload: Payload,
    /// The priority; otherwise the type's, otherwise the queue's.
    pub priority: Option<Priority>,
    /// The label that `priority` came from.
    pub label: Option<PriorityLabel>,
    /// When it falls due.
    pub when: When,
    /// If it has not started by then, it is cancelled.
    pub expires: Option<When>,
    /// A key that prevents a second enqueue of the same work item.
    pub key: Option<KeyClaim>,
    /// The ordering key it belongs to, within its type: its jobs run one at a time, in the order of their
    /// enqueue.
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
    /// Its own retry policy.
    pub retry: Option<RetryPolicy>,
    /// Its own time-out.
    pub timeout: Option<Duration>,
}

impl NewJob {
    /// Creates a job with only a type and a payload.
    pub fn new(job_type: TypeName, payload: Payload) -> Self {
        Self {
            job_type,
            queue: None,
            payload,
            priority: None,
            label: None,
            when: When::Now,
            expires: None,
            key: None,
            ordering_key: None,
            fairness_key: None,
            correlation: None,
            provenance: Provenance::default(),
            tags: Vec::new(),
            group: None,
            retry: None,
            timeout: None,
        }
    }
}

/// When something falls due. Spans are counted from the store's current time, so that a caller's wrong
/// clock does no harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum When {
    /// At once.
    #[default]
    Now,
    /// After a span.
    In(Duration),
    /// At an instant.
    At(Timestamp),
}

impl When {
    /// Returns the instant, by the store's current time. Refuses an instant past [`DELAY_MAX`].
    pub fn instant(self, now: Timestamp) -> Result<Timestamp, Refusal> {
        let instant = match self {
            Self::Now => now,
            Self::In(span) if span > DELAY_MAX => return Err(Refusal::TooFar),
            Self::In(span) => now.plus(span),
            Self::At(instant) => instant,
        };
        if instant > now.plus(DELAY_MAX) || instant < Timestamp::EPOCH {
            return Err(Refusal::TooFar);
        }
        Ok(instant)
    }
}

/// The id of an enqueue request, made by the client. A repeat under the same id makes no second job.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(u128);

random_bits!(RequestId);

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestId({self})")
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A batch of new jobs under one request id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnqueueRequest {
    /// The request id. Repeating a request with its id returns the same answers for an hour.
    pub request: RequestId,
    /// The jobs; at most [`ENQUEUE_BATCH_MAX`](crate::limits::ENQUEUE_BATCH_MAX).
    pub jobs: Vec<NewJob>,
}

/// Returns the answers to a request whose receipt exists. A receipt without answers is a tombstone, left
/// by [`ask`](crate::engine::Engine::ask): the request came too late, and none of its jobs is stored.
pub fn repeated(receipt: Vec<EnqueueAnswer>, jobs: usize) -> Vec<EnqueueAnswer> {
    if receipt.is_empty() { vec![EnqueueAnswer::Refused(Refusal::RequestClosed); jobs] } else { receipt }
}

/// Returns the answers in a receipt to a query about its request; `None` if it is a tombstone.
pub fn told(receipt: Vec<EnqueueAnswer>) -> Option<Vec<EnqueueAnswer>> {
    (!receipt.is_empty()).then_some(receipt)
}

/// The outcome for one new job.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum EnqueueAnswer {
    /// Stored under this id.
    New(JobId),
    /// Stored under this id in the spool, because the store is unavailable. See
    /// [`fallback`](crate::fallback).
    Spooled(JobId),
    /// Its key is held by this job, which was left as it is.
    Duplicate(JobId),
    /// Its key is held by this job, which got the new payload and time.
    Replaced(JobId),
    /// Its key is held by this dead job, which was restarted.
    Revived(JobId),
    /// Not stored, for this reason.
    Refused(Refusal),
}

impl EnqueueAnswer {
    /// Returns the job that now represents the request.
    pub fn job(&self) -> Result<JobId, &Refusal> {
        match self {
            Self::New(id)
            | Self::Spooled(id)
            | Self::Duplicate(id)
            | Self::Replaced(id)
            | Self::Revived(id) => Ok(*id),
            Self::Refused(why) => Err(why),
        }
    }
}

/// Why a new job was refused. Nothing of it was stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, serde::Serialize, serde::Deserialize)]
pub enum Refusal {
    /// The type is not registered.
    #[error(
        "expected a registered job type, got {job_type}; workers register theirs at start, or run `windlass type register {job_type} --queue QUEUE`"
    )]
    UnknownType {
        /// The type.
        job_type: TypeName,
    },
    /// The queue is not declared.
    #[error(
        "expected a declared queue, got {queue}; declare it under [queues] or start a worker that serves it"
    )]
    UnknownQueue {
        /// The queue.
        queue: QueueName,
    },
    /// The caller named another queue than the type's.
    #[error("expected job type {job_type} in its queue {registered}, got queue {got}")]
    OtherQueue {
        /// The type.
        job_type: TypeName,
        /// Its queue.
        registered: QueueName,
        /// The queue that the caller named.
        got: QueueName,
    },
    /// The queue is full.
    #[error(
        "queue {queue} is full: it takes {capacity} unfinished jobs; try again later or raise its `capacity`"
    )]
    QueueFull {
        /// The queue.
        queue: QueueName,
        /// Its capacity.
        capacity: u64,
    },
    /// The queue is being drained.
    #[error("queue {queue} is shut: it is being drained and takes no new jobs")]
    QueueShut {
        /// The queue.
        queue: QueueName,
    },
    /// The time is too far away.
    #[error("expected a time at most ten years ahead and not before 1970")]
    TooFar,
    /// Too many tags.
    #[error("expected at most {TAGS_MAX} tags, got {got}")]
    TooManyTags {
        /// The number of given tags.
        got: usize,
    },
    /// The time-out is zero or too long.
    #[error("expected a time-out between 1 microsecond and 30 days")]
    Timeout,
    /// The retry policy is invalid.
    #[error("the retry policy of the job is wrong: {0}")]
    Retry(String),
    /// The request was queried before it arrived, and must store nothing from then on.
    #[error("this request was asked about before it arrived, so it stores nothing; use a new request id")]
    RequestClosed,
    /// The stored declaration of the type or of its queue cannot be read by this version.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// A value that is no valid name, payload, priority or key. A caller that builds a [`NewJob`] gets
    /// this error earlier; a client that uses a store from another language gets it from the store.
    #[error("{why}")]
    Malformed {
        /// The expected and the given value.
        why: String,
    },
}

impl From<RetryPolicyError> for Refusal {
    fn from(why: RetryPolicyError) -> Self {
        Self::Retry(why.to_string())
    }
}

/// What the store knows of a queue at enqueue.
#[derive(Debug, Clone, Copy)]
pub struct QueueState<'a> {
    /// The declaration.
    pub spec: &'a QueueSpec,
    /// Whether it is being drained.
    pub shut: bool,
    /// The number of its jobs that have not ended.
    pub unfinished: u64,
}

/// The decisions for an accepted job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// Its queue.
    pub queue: QueueName,
    /// Its priority.
    pub priority: Priority,
    /// When it falls due.
    pub due: Timestamp,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
}

/// Decides whether a new job is accepted. `queue` is the queue of its type. `verdict` says whether it
/// would be stored as a new job, which needs room, or is answered by the job that holds its key.
pub fn accept(
    new: &NewJob,
    spec: Option<&TypeSpec>,
    queue: Option<QueueState<'_>>,
    verdict: KeyVerdict,
    now: Timestamp,
) -> Result<Accepted, Refusal> {
    let spec = spec.ok_or_else(|| Refusal::UnknownType { job_type: new.job_type.clone() })?;
    if let Some(got) = new.queue.as_ref().filter(|got| **got != spec.queue) {
        let (job_type, registered) = (new.job_type.clone(), spec.queue.clone());
        return Err(Refusal::OtherQueue { job_type, registered, got: got.clone() });
    }
    let queue = queue.ok_or_else(|| Refusal::UnknownQueue { queue: spec.queue.clone() })?;
    if queue.shut {
        return Err(Refusal::QueueShut { queue: queue.spec.name.clone() });
    }
    if verdict == KeyVerdict::Insert {
        check_room(queue)?;
    }
    check_options(new)?;
    Ok(Accepted {
        queue: spec.queue.clone(),
        priority: new.priority.or(spec.priority).unwrap_or(queue.spec.priority),
        due: new.when.instant(now)?,
        expires_at: new.expires.map(|when| when.instant(now)).transpose()?,
    })
}

fn check_room(queue: QueueState<'_>) -> Result<(), Refusal> {
    match queue.spec.capacity {
        Some(capacity) if queue.unfinished >= capacity => {
            Err(Refusal::QueueFull { queue: queue.spec.name.clone(), capacity })
        }
        _ => Ok(()),
    }
}

fn check_options(new: &NewJob) -> Result<(), Refusal> {
    if new.tags.len() > TAGS_MAX {
        return Err(Refusal::TooManyTags { got: new.tags.len() });
    }
    if new.timeout.is_some_and(|timeout| timeout.is_zero() || timeout > TIMEOUT_MAX) {
        return Err(Refusal::Timeout);
    }
    new.retry.as_ref().map_or(Ok(()), |retry| retry.check().map_err(Refusal::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

    fn new_job() -> NewJob {
        NewJob::new(TypeName::parse("mail.send").unwrap(), Payload::default())
    }

    fn spec() -> TypeSpec {
        TypeSpec::new(TypeName::parse("mail.send").unwrap(), QueueName::parse("mail").unwrap())
    }

    fn queue() -> QueueSpec {
        let priority = Priority::new(3).unwrap();
        QueueSpec { priority, capacity: Some(2), ..QueueSpec::new(QueueName::parse("mail").unwrap()) }
    }

    fn try_accept(new: &NewJob, shut: bool, unfinished: u64) -> Result<Accepted, Refusal> {
        try_accept_with(KeyVerdict::Insert, new, shut, unfinished)
    }

    fn try_accept_with(
        verdict: KeyVerdict,
        new: &NewJob,
        shut: bool,
        unfinished: u64,
    ) -> Result<Accepted, Refusal> {
        let queue = queue();
        let queue_state = QueueState { spec: &queue, shut, unfinished };
        accept(new, Some(&spec()), Some(queue_state), verdict, NOW)
    }

    #[test]
    fn a_plain_job_takes_the_queues_priority_and_is_due_at_once() {
        let accepted = try_accept(&new_job(), false, 0).unwrap();
        assert_eq!((accepted.priority.level(), accepted.due), (3, NOW));
    }

    #[test]
    fn an_unknown_type_and_an_unknown_queue_are_refused() {
        let try_accept = |spec: Option<&TypeSpec>| accept(&new_job(), spec, None, KeyVerdict::Insert, NOW);
        assert!(matches!(try_accept(None), Err(Refusal::UnknownType { .. })));
        assert!(matches!(try_accept(Some(&spec())), Err(Refusal::UnknownQueue { .. })));
    }

    #[test]
    fn another_queue_than_the_types_is_refused_naming_both() {
        let elsewhere = NewJob { queue: Some(QueueName::parse("bulk").unwrap()), ..new_job() };
        let error = try_accept(&elsewhere, false, 0).unwrap_err().to_string();
        assert!(error.contains("mail") && error.contains("bulk"), "{error}");
    }

    #[test]
    fn a_full_and_a_shut_queue_refuse() {
        assert!(try_accept(&new_job(), false, 1).is_ok());
        assert!(matches!(try_accept(&new_job(), false, 2), Err(Refusal::QueueFull { capacity: 2, .. })));
        assert!(matches!(try_accept(&new_job(), true, 0), Err(Refusal::QueueShut { .. })));
    }

    #[test]
    fn what_the_holder_of_a_key_answers_needs_no_room_but_an_open_queue() {
        let holder = KeyVerdict::Keep(JobId(1));
        assert!(try_accept_with(holder, &new_job(), false, 2).is_ok());
        assert!(matches!(try_accept_with(holder, &new_job(), true, 0), Err(Refusal::QueueShut { .. })));
    }

    #[test]
    fn absurd_times_are_refused() {
        for when in [
            When::In(Duration::MAX),
            When::At(Timestamp::from_micros(i64::MAX)),
            When::At(Timestamp::from_micros(-1)),
        ] {
            assert_eq!(try_accept(&NewJob { when, ..new_job() }, false, 0), Err(Refusal::TooFar), "{when:?}");
            let expiring = NewJob { expires: Some(when), ..new_job() };
            assert_eq!(try_accept(&expiring, false, 0), Err(Refusal::TooFar), "{when:?}");
        }
    }

    #[test]
    fn absurd_options_are_refused() {
        let tags = vec![Tag::parse("t").unwrap(); TAGS_MAX + 1];
        assert!(matches!(
            try_accept(&NewJob { tags, ..new_job() }, false, 0),
            Err(Refusal::TooManyTags { .. })
        ));
        let timeout = Some(Duration::ZERO);
        assert_eq!(try_accept(&NewJob { timeout, ..new_job() }, false, 0), Err(Refusal::Timeout));
        let retry = Some(RetryPolicy::default().with_attempts(0));
        assert!(matches!(try_accept(&NewJob { retry, ..new_job() }, false, 0), Err(Refusal::Retry(_))));
    }
}
