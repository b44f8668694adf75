//! What an engine must know to keep jobs for another one that is away, and to give them back exactly once.
//!
//! A job that leaves is *set aside*: it waits behind a gate that names the request under which it goes to the primary. That
//! mark outlives the process, so whoever finds it sends the same request again, which the primary answers from its receipt;
//! only then is the job ended here. An enqueue whose answer got lost when the primary went away waits behind such a gate from
//! the start: it may be there already, so nobody may run it here.

use std::time::Duration;

use async_trait::async_trait;

use crate::clock::Timestamp;
use crate::engine::{Engine, Result};
use crate::enqueue::{EnqueueRequest, Enqueued, NewJob, RequestId, When};
use crate::gate::Gate;
use crate::job::{Job, JobId};
use crate::limits::RECEIPT_TTL;

/// An engine that can keep jobs for another.
#[async_trait]
pub trait Spill: Engine {
    /// Stores new jobs as [`enqueue`](Engine::enqueue) does, but behind a gate, and all or none: if one is refused, the
    /// answers say so and nothing is stored.
    async fn enqueue_behind(&self, request: EnqueueRequest, gate: &Gate) -> Result<Vec<Enqueued>>;

    /// Puts the oldest jobs that nobody ever claimed behind a gate, at most `limit`; those without a handler here count, since
    /// there may be one elsewhere. Tells how many.
    async fn set_aside(&self, gate: &Gate, limit: u32) -> Result<u64>;

    /// Ends jobs that wait behind a gate as cancelled, each for its own reason, all at once. Gives those that were not there
    /// any more.
    async fn end_behind(&self, gate: &Gate, reasons: Vec<(JobId, String)>) -> Result<Vec<JobId>>;
}

/// Why jobs of a spill are set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aside {
    /// They go to the primary under this request.
    Moving(RequestId),
    /// They may be in the primary already, under this request.
    Unanswered(RequestId),
}

/// How much sooner than receipts lapse they are no longer relied upon: clocks of two stores differ.
const RECEIPT_MARGIN: Duration = Duration::from_secs(600);

impl Aside {
    /// The request under which the primary is asked.
    pub fn request(self) -> RequestId {
        match self {
            Self::Moving(request) | Self::Unanswered(request) => request,
        }
    }

    /// The gate that says so, and since when.
    pub fn gate(self, now: Timestamp) -> Gate {
        let (word, request) = match self {
            Self::Moving(request) => ("move", request),
            Self::Unanswered(request) => ("unanswered", request),
        };
        Gate::named(&format!("spill:{word}:{request}:{}", now.as_micros()))
    }

    /// What a gate says, and since when, if it is one of these.
    pub fn of(gate: &Gate) -> Option<(Self, Timestamp)> {
        let mut parts = gate.as_str().strip_prefix("spill:")?.split(':');
        let (word, request, since) = (parts.next()?, parts.next()?, parts.next()?);
        let request = u128::from_str_radix(request, 16).ok().map(RequestId::from_random)?;
        let since = Timestamp::from_micros(since.parse().ok()?);
        match word {
            "move" => Some((Self::Moving(request), since)),
            "unanswered" => Some((Self::Unanswered(request), since)),
            _ => None,
        }
    }
}

/// Whether the primary still has the receipt of a request that was first sent at `since`, if it was done. Without it, to
/// send the request again could make a second job.
pub fn is_receipt_kept(since: Timestamp, now: Timestamp) -> bool {
    now < since.plus(RECEIPT_TTL.saturating_sub(RECEIPT_MARGIN))
}

/// Why a job of the spill is over that went to the primary.
pub fn moved(primary: &str, there: JobId) -> String {
    format!("moved to {primary} as job {there}")
}

/// Under which number a job of the spill went to the primary, by the reason for its end.
pub fn moved_as(why: &str) -> Option<JobId> {
    let (_, number) = why.strip_prefix("moved to ")?.split_once(" as job ")?;
    number.parse().ok().map(JobId)
}

/// A job of the spill as it is put into the primary: due when it was due, with all that its caller gave it.
pub fn as_new(job: Job) -> NewJob {
    NewJob {
        job_type: job.job_type,
        queue: Some(job.queue),
        payload: job.payload,
        priority: Some(job.priority),
        label: job.label,
        when: When::At(job.due),
        expires: job.expires_at.map(When::At),
        key: job.key,
        correlation: job.correlation,
        tags: job.tags,
        group: job.group,
        retry: job.retry,
        timeout: job.timeout,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_says_why_since_when_and_under_which_request() {
        let since = Timestamp::from_micros(1_700_000_000_000_000);
        for aside in [Aside::Moving, Aside::Unanswered].map(|why| why(RequestId::from_random(0xabc))) {
            assert_eq!(Aside::of(&aside.gate(since)), Some((aside, since)));
        }
        for other in ["suspect", "spill:", "spill:move:xyz:7", "spill:lost:7:7", "spill:move:7"] {
            assert_eq!(Aside::of(&Gate::named(other)), None, "{other}");
        }
    }

    #[test]
    fn the_end_of_a_job_that_moved_says_where_it_is() {
        assert_eq!(moved_as(&moved("redis", JobId(17))), Some(JobId(17)));
        assert_eq!(moved_as("moved house"), None);
    }

    #[test]
    fn a_receipt_is_relied_upon_for_less_time_than_it_is_kept() {
        let since = Timestamp::from_micros(0);
        assert!(is_receipt_kept(since, since.plus(Duration::from_secs(49 * 60))));
        assert!(!is_receipt_kept(since, since.plus(Duration::from_secs(51 * 60))));
    }
}
