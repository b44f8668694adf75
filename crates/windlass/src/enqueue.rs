//! Enqueuing a job: the builder, and the batcher that sends calls of many callers together.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use windlass_core::clock::Timestamp;
use windlass_core::enqueue::{NewJob, Refusal, RequestId, When};
use windlass_core::error::EngineError;
use windlass_core::job::JobId;
use windlass_core::key::{KeyClaim, KeyScope, OnConflict};
use windlass_core::names::{
    CorrelationId, FairnessKey, GroupName, Key, NameError, OrderingKey, QueueName, Tag, TypeName,
};
use windlass_core::payload::{Payload, PayloadError};
use windlass_core::priority::{Priority, PriorityError};
use windlass_core::provenance::{Cause, Provenance, TraceContext};
use windlass_core::retry::RetryPolicy;

use crate::client::Client;
use crate::job_type::JobType;
use crate::limits::RateLimited;

mod batcher;

pub(crate) use batcher::Batcher;
pub use batcher::{Judged, judge, repeat_of};

/// A job that is being built. Change what you need, then await it to enqueue the job.
#[must_use = "nothing is enqueued until this is awaited"]
pub struct Enqueue {
    client: Client,
    draft: Result<NewJob, EnqueueError>,
    request: Option<RequestId>,
    way: Way,
}

/// The origin of a new job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// From the application; refused while the process drains.
    Accept,
    /// From a running handler.
    FollowUp,
}

impl Enqueue {
    pub(crate) fn new<T: JobType>(client: Client, job: T, way: Way) -> Self {
        Self { client, draft: draft(&job), request: None, way }
    }

    /// Makes the job due after this time.
    pub fn delay(self, delay: Duration) -> Self {
        self.change(|draft| draft.when = When::In(delay))
    }

    /// Makes the job due at this instant.
    pub fn at(self, instant: Timestamp) -> Self {
        self.change(|draft| draft.when = When::At(instant))
    }

    /// Sets the priority, from 0 (most urgent) to 10.
    pub fn priority(self, number: i64) -> Self {
        self.try_change(|draft, _| {
            draft.priority = Some(Priority::new(number)?);
            Ok(())
        })
    }

    /// Sets the priority that a label stands for, for example `high`. The job keeps the label.
    pub fn label(self, label: &str) -> Self {
        self.try_change(|draft, client| {
            let (label, priority) = client.labels().resolve(label)?;
            (draft.label, draft.priority) = (Some(label), Some(priority));
            Ok(())
        })
    }

    /// Sets a key: while a job with this key is live, enqueuing it again changes nothing and returns that
    /// outcome.
    pub fn key(self, key: &str) -> Self {
        self.try_change(|draft, _| {
            draft.key = Some(KeyClaim::new(Key::parse(key)?));
            Ok(())
        })
    }

    /// Sets for how long the key is held. Call it after [`key`](Self::key).
    pub fn key_scope(self, scope: KeyScope) -> Self {
        self.change_key(|key| key.scope = scope)
    }

    /// Sets the action if the key is held. Call it after [`key`](Self::key).
    pub fn on_conflict(self, on_conflict: OnConflict) -> Self {
        self.change_key(|key| key.on_conflict = on_conflict)
    }

    /// Sets an ordering key: jobs of this type with the same ordering key run one at a time, in the order
    /// of their enqueue.
    pub fn ordering_key(self, ordering_key: &str) -> Self {
        self.try_change(|draft, _| {
            draft.ordering_key = Some(OrderingKey::parse(ordering_key)?);
            Ok(())
        })
    }

    /// Sets a fairness key, which says whose work this is, such as `tenant:42`: among the due jobs of a
    /// queue and a priority, fairness keys take turns.
    pub fn fairness_key(self, fairness_key: &str) -> Self {
        self.try_change(|draft, _| {
            draft.fairness_key = Some(FairnessKey::parse(fairness_key)?);
            Ok(())
        })
    }

    /// Sets the correlation id, which names the cause of this job.
    pub fn correlation(self, id: &str) -> Self {
        self.try_change(|draft, _| {
            draft.correlation = Some(CorrelationId::parse(id)?);
            Ok(())
        })
    }

    /// Names the cause of this job, such as `user:42`. Follow-up jobs have the same cause.
    pub fn caused_by(self, cause: &str) -> Self {
        self.try_change(|draft, _| {
            draft.provenance.caused_by = Some(Cause::parse(cause)?);
            Ok(())
        })
    }

    /// Continues a trace, given as the W3C header `traceparent` has it. Follow-up jobs continue it, too.
    pub fn trace_context(self, traceparent: &str) -> Self {
        self.try_change(|draft, _| {
            draft.provenance.trace_context = Some(TraceContext::parse(traceparent)?);
            Ok(())
        })
    }

    /// Passes on where another job came from.
    pub(crate) fn provenance(self, provenance: Provenance) -> Self {
        self.change(|draft| draft.provenance = provenance)
    }

    /// Adds a tag to find the job by. May be called several times.
    pub fn tag(self, tag: &str) -> Self {
        self.try_change(|draft, _| {
            draft.tags.push(Tag::parse(tag)?);
            Ok(())
        })
    }

    /// Sets the group that the job belongs to.
    pub fn group(self, group: &str) -> Self {
        self.try_change(|draft, _| {
            draft.group = Some(GroupName::parse(group)?);
            Ok(())
        })
    }

    /// Sets the queue, which must be the type's. Only for callers that want an error if it is not.
    pub fn queue(self, queue: &str) -> Self {
        self.try_change(|draft, _| {
            draft.queue = Some(QueueName::parse(queue)?);
            Ok(())
        })
    }

    /// Cancels the job if it has not started after this time.
    pub fn expires_in(self, span: Duration) -> Self {
        self.change(|draft| draft.expires = Some(When::In(span)))
    }

    /// Cancels the job if it has not started by this instant.
    pub fn expires_at(self, instant: Timestamp) -> Self {
        self.change(|draft| draft.expires = Some(When::At(instant)))
    }

    /// Sets a retry policy for this job.
    pub fn retry(self, policy: RetryPolicy) -> Self {
        self.change(|draft| draft.retry = Some(policy))
    }

    /// Sets a time-out for this job.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.change(|draft| draft.timeout = Some(timeout))
    }

    /// Names the request by an id of the caller's: repeating it within the hour creates no second job.
    pub fn request_id(mut self, request: RequestId) -> Self {
        self.request = Some(request);
        self
    }

    /// Returns the job as it would be sent, for [`Client::enqueue_drafts`] or for a transaction of the
    /// application.
    pub fn draft(self) -> Result<NewJob, EnqueueError> {
        self.draft
    }

    fn change(self, change: impl FnOnce(&mut NewJob)) -> Self {
        self.try_change(|draft, _| {
            change(draft);
            Ok(())
        })
    }

    fn change_key(self, change: impl FnOnce(&mut KeyClaim)) -> Self {
        self.try_change(|draft, _| {
            change(draft.key.as_mut().ok_or(EnqueueError::NoKey)?);
            Ok(())
        })
    }

    /// Keeps the first error, which is returned when the builder is awaited.
    fn try_change(mut self, change: impl FnOnce(&mut NewJob, &Client) -> Result<(), EnqueueError>) -> Self {
        if let Ok(draft) = &mut self.draft
            && let Err(error) = change(draft, &self.client)
        {
            self.draft = Err(error);
        }
        self
    }

    async fn send(self) -> Result<Enqueued, EnqueueError> {
        if self.way == Way::Accept {
            self.client.check_open()?;
        }
        let draft = self.client.hooked(self.draft?);
        self.client.accept_limits().accept(&draft).await?;
        let answer = self.client.batcher().submit(draft, self.request).await?;
        Enqueued::from_answer(answer)
    }
}

impl IntoFuture for Enqueue {
    type Output = Result<Enqueued, EnqueueError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

fn draft<T: JobType>(job: &T) -> Result<NewJob, EnqueueError> {
    Ok(NewJob::new(TypeName::parse(T::NAME)?, Payload::encode(job)?))
}

/// The result of an enqueue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enqueued {
    /// The job that now stands for the enqueued one.
    pub id: JobId,
    /// The outcome.
    pub outcome: EnqueueOutcome,
}

/// The outcome of an enqueue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnqueueOutcome {
    /// Stored as a new job.
    New,
    /// Stored as a new job in the spool, because the store is unavailable. The job is run from there, or
    /// moved when the store is back; its id then leads to the moved job.
    Spooled,
    /// Its key was held; nothing changed.
    Duplicate,
    /// Its key was held by a waiting job, which got the new payload and time.
    Replaced,
    /// Its key was held by a dead job, which was started over.
    Revived,
}

/// The reason why a job was not enqueued, or why that is not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnqueueError {
    /// The payload is invalid.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// A name is invalid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The priority is invalid.
    #[error(transparent)]
    Priority(#[from] PriorityError),
    /// An option of a key was given without a key.
    #[error("expected `key` before `key_scope` or `on_conflict`")]
    NoKey,
    /// The store refused the job.
    #[error(transparent)]
    Refused(Refusal),
    /// A rate limit refused the job; the error says when to try again.
    #[error(transparent)]
    RateLimited(#[from] RateLimited),
    /// This process drains and accepts no new jobs.
    #[error("this process is draining and accepts no new jobs")]
    Draining,
    /// No job was stored.
    #[error("the job was not stored")]
    NotStored(#[source] EngineError),
    /// The store did not answer: the job may or may not be stored. [`Client::ask`] finds out, once the
    /// store answers again. There is no handle if the runtime was shut down before the job was sent.
    #[error("the store did not answer, so the job may or may not be stored")]
    Unknown(Option<Handle>),
    /// A request id was used before, for other jobs. No job was stored.
    #[error(
        "expected a new request id or a repeat of the same request, got {0}, which was used for other jobs"
    )]
    RequestUsed(RequestId),
}

/// The handle of an enqueue without an answer: the request that the job was sent in, and its position there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handle {
    /// The request.
    pub request: RequestId,
    /// The position of the job in the request.
    pub position: usize,
}
