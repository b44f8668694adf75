//! What an engine must provide to keep jobs for another one that is unavailable, and to return them
//! exactly once.
//!
//! Jobs that leave the spool are *staged*, a batch at a time: they wait behind a gate of their own, and
//! the batch stores the request under which it goes to the primary and the position of each job in it.
//! That outlives the process, so any process that finds the batch sends the same request again, which the
//! primary answers from its receipt; only then are the jobs ended here. An enqueue whose answer was lost
//! when the primary became unavailable is staged from the start: the primary may have the jobs already,
//! so no worker may run them here. Staged jobs cannot be claimed, cancelled, purged, changed or expire,
//! so a batch stays as it was sent.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use async_trait::async_trait;

use crate::clock::Timestamp;
use crate::engine::{Engine, Result};
use crate::enqueue::{EnqueueAnswer, EnqueueRequest, NewJob, RequestId, When};
use crate::error::EngineError;
use crate::gate::Gate;
use crate::job::{Job, JobId};
use crate::limits::RECEIPT_TTL;
use crate::names::TypeName;

/// An engine that can keep jobs for another engine.
#[async_trait]
pub trait Spool: Engine {
    /// Stores new jobs without keys as [`enqueue`](Engine::enqueue) does and stages them under the same
    /// request, which was first sent this long ago. All or none: if one job is refused, the call returns
    /// an error, and nothing is stored.
    async fn enqueue_staged(&self, request: EnqueueRequest, sent_ago: Duration)
    -> Result<Vec<EnqueueAnswer>>;

    /// Stages the oldest jobs that were never claimed, except the jobs in `but`. Jobs without a handler
    /// here are included, since another process may have one. [`Packing`] decides how many jobs go
    /// together. [`Following`] decides which jobs must wait for the batch of another process. Returns
    /// `None` if there are none.
    async fn stage(
        &self,
        request: RequestId,
        most: BatchMost,
        but: &LeftOut,
        following: &Following,
    ) -> Result<Option<StagedBatch>>;

    /// Lists the staged batches after this one, oldest first, at most `limit`.
    async fn staged(&self, after: Option<&StagedBatch>, limit: u32) -> Result<Vec<StagedBatch>>;

    /// Returns a batch and its jobs that are still here, in order, as they are at one instant. `None` if
    /// the batch is over.
    async fn still_staged(&self, request: RequestId) -> Result<Option<(StagedBatch, Vec<Job>)>>;

    /// Ends a batch, all at once: jobs with a reason are cancelled for it, the others wait as before.
    /// Returns whether the batch was still there.
    async fn end_batch(&self, request: RequestId, ends: Vec<(JobId, Option<String>)>) -> Result<bool>;

    /// Ends a batch of which the primary has nothing: its jobs wait here as before. Only if it is younger
    /// than this, for another process may have sent an older batch meanwhile. Returns whether that was
    /// so.
    async fn keep_here(&self, request: RequestId, younger_than: Duration) -> Result<bool>;

    /// Returns why the spool cannot be used yet, if it is still being opened. Until then each call fails.
    fn trouble(&self) -> Option<String> {
        None
    }
}

/// The maximum size of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchMost {
    /// The maximum number of jobs.
    pub jobs: u32,
    /// No further job is added once the payloads have this number of bytes.
    pub bytes: usize,
}

/// The jobs that are not staged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// Jobs of these types.
    pub types: BTreeSet<TypeName>,
    /// The jobs with these ids.
    pub jobs: Vec<JobId>,
}

impl LeftOut {
    /// Whether a job is not staged.
    pub fn has(&self, job: &Job) -> bool {
        self.types.contains(&job.job_type) || self.jobs.contains(&job.id)
    }
}

/// Keeps a process behind the batches that other processes of the same spool are moving: two batches in
/// flight at once can arrive in either order. A process waits only for a batch that no other process may
/// touch yet; an older batch is taken over and moved first, so a dead process stops the others for no
/// longer than that takes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Following {
    /// Batches of this process, which it moves itself before it stages more.
    pub ours: HashSet<RequestId>,
    /// Batches of other processes that are older than this are taken over.
    pub adopt_after: Duration,
}

impl Following {
    /// Returns the oldest job of a batch that another process may be moving now: no job from there on may
    /// be staged. Jobs that this process does not stage hold back no others: it has passed them already.
    pub fn oldest_ahead(&self, staged: &StagedBatch, but: &LeftOut, now: Timestamp) -> Option<JobId> {
        let is_ahead = !self.ours.contains(&staged.request) && staged.is_younger_than(self.adopt_after, now);
        staged.ids.iter().filter(|id| is_ahead && !but.jobs.contains(id)).min().copied()
    }
}

/// Fills a batch, oldest first. A job with a key goes alone: an open transaction may hold its key, and
/// must not hold up the other jobs.
#[derive(Debug)]
pub struct Packing {
    most: BatchMost,
    bytes: usize,
    ids: Vec<JobId>,
    is_closed: bool,
}

impl Packing {
    /// Creates an empty batch.
    pub fn new(most: BatchMost) -> Self {
        Self { most, bytes: 0, ids: Vec::new(), is_closed: false }
    }

    /// Whether the batch takes no further job.
    pub fn is_full(&self) -> bool {
        self.is_closed || self.ids.len() >= self.most.jobs as usize || self.bytes >= self.most.bytes
    }

    /// Adds the next oldest job, unless the batch must end before it.
    pub fn add(&mut self, job: JobId, payload_bytes: usize, has_key: bool) {
        self.is_closed |= has_key;
        if !has_key || self.ids.is_empty() {
            self.ids.push(job);
            self.bytes += payload_bytes;
        }
    }

    /// Returns the jobs that go together.
    pub fn into_ids(self) -> Vec<JobId> {
        self.ids
    }
}

/// The jobs that leave together, as they are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedBatch {
    /// The request under which the primary gets the jobs.
    pub request: RequestId,
    /// When they were staged, or, if the request was sent before, when that was; by the spool's clock.
    pub since: Timestamp,
    /// The jobs, in the order of the request.
    pub ids: Vec<JobId>,
}

/// How long before their expiry receipts are no longer relied upon: the clocks of two stores differ.
const RECEIPT_MARGIN: Duration = Duration::from_secs(600);

impl StagedBatch {
    /// Returns the gate behind which the jobs wait.
    pub fn gate(&self) -> Gate {
        gate_of(self.request)
    }

    /// Whether the primary still has the receipt of the request, if it applied the request. Without it,
    /// sending the request again could make second jobs, and a person must decide. A clock that went back
    /// says nothing.
    pub fn is_receipt_kept(&self, now: Timestamp) -> bool {
        let kept_until = self.since.plus(RECEIPT_TTL.saturating_sub(RECEIPT_MARGIN));
        self.since <= now && now < kept_until
    }

    /// Whether the primary may still have the receipt.
    pub fn is_receipt_possible(&self, now: Timestamp) -> bool {
        now < self.since.plus(RECEIPT_TTL + RECEIPT_MARGIN)
    }

    /// Whether only its maker has sent it yet, provided that other processes leave batches alone that are
    /// younger than this.
    pub fn is_younger_than(&self, age: Duration, now: Timestamp) -> bool {
        self.since <= now && now.since(self.since) < age
    }

    /// Refuses to change a job that the primary has, may have, or is about to have.
    pub fn check_may_change(&self, job: JobId, now: Timestamp) -> Result<()> {
        if !self.is_receipt_kept(now) {
            return Ok(());
        }
        let why = format!(
            "job {job} is being moved to another store, and may be there already; once that store is available, job {job} \
             shows its id there"
        );
        Err(EngineError::Busy { why })
    }
}

/// Returns the gate of a batch.
pub fn gate_of(request: RequestId) -> Gate {
    Gate::named(&format!("spool:{request}"))
}

/// Returns the request whose gate this is.
pub fn request_of(gate: &Gate) -> Option<RequestId> {
    let bits = gate.as_str().strip_prefix("spool:")?;
    u128::from_str_radix(bits, 16).ok().map(RequestId::from_random)
}

/// Returns the reason with which a job of the spool ends that went to the primary.
pub fn moved(primary: &str, there: JobId) -> String {
    format!("moved to {primary} as job {there}")
}

/// Returns the id under which a job of the spool went to the primary, by the reason for its end.
pub fn moved_as(why: &str) -> Option<JobId> {
    let (_, number) = why.strip_prefix("moved to ")?.split_once(" as job ")?;
    number.parse().ok().map(JobId)
}

/// The unit in which a difference between two clocks is corrected.
const CLOCK_STEP: Duration = Duration::from_secs(10);

/// Converts a job of the spool into a new job for the primary, with all that its caller gave it. `here`
/// is the spool's current time, and `there` the primary's, read after it.
pub fn as_new(job: Job, here: Timestamp, there: Timestamp) -> NewJob {
    let moved = |at| when_there(at, here, there);
    NewJob {
        job_type: job.job_type,
        queue: Some(job.queue),
        payload: job.payload,
        priority: Some(job.priority),
        label: job.label,
        when: moved(job.due),
        expires: job.expires_at.map(moved),
        key: job.key,
        ordering_key: job.ordering_key,
        fairness_key: job.fairness_key,
        correlation: job.correlation,
        provenance: job.provenance,
        tags: job.tags,
        group: job.group,
        retry: job.retry,
        timeout: job.timeout,
    }
}

/// Converts an instant of the spool into a due time on the primary.
///
/// A future instant goes as the time that was left at `here`, and the primary counts it from when it
/// takes the job. Any time that passes between the two makes the job later, never early. An instant
/// computed from two clocks is early by the time between the two reads if the primary's was read first,
/// and by any step that the primary's clock makes before it takes the job.
///
/// A past instant cannot be early any more, but jobs are claimed by due time, so it must keep its order
/// over many batches. A difference measured anew for each batch would be off by another latency each
/// time, so only whole steps of it count: clocks that agree leave a due time as it is. `there` is the
/// latest result, so that the instant is past on the primary, too.
fn when_there(at: Timestamp, here: Timestamp, there: Timestamp) -> When {
    if at > here {
        return When::In(at.since(here));
    }
    let step = i64::try_from(CLOCK_STEP.as_micros()).unwrap_or(i64::MAX);
    let apart = there.as_micros().saturating_sub(here.as_micros());
    let steps = apart.saturating_add(step / 2).div_euclid(step);
    let shifted = at.as_micros().saturating_add(steps.saturating_mul(step));
    When::At(Timestamp::from_micros(shifted).min(there).max(Timestamp::EPOCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn the_gate_of_a_batch_names_its_request() {
        let request = RequestId::from_random(0xabc);
        assert_eq!(request_of(&gate_of(request)), Some(request));
        for other in ["suspect", "spool:", "spool:xyz", "semaphore:7"] {
            assert_eq!(request_of(&Gate::named(other)), None, "{other}");
        }
    }

    #[test]
    fn a_receipt_is_relied_upon_for_less_time_than_it_is_kept_and_not_if_the_clock_went_back() {
        let since = Timestamp::from_micros(1_000_000);
        let staged = StagedBatch { request: RequestId::from_random(1), since, ids: vec![] };
        assert!(staged.is_receipt_kept(since) && staged.is_receipt_kept(since.plus(49 * MINUTE)));
        assert!(!staged.is_receipt_kept(since.plus(51 * MINUTE)));
        assert!(!staged.is_receipt_kept(since.minus(Duration::from_micros(1))));
    }

    #[test]
    fn a_batch_takes_jobs_until_it_is_full_and_a_job_with_a_key_alone() {
        let packed = |jobs: &[(usize, bool)]| {
            let mut packing = Packing::new(BatchMost { jobs: 3, bytes: 10 });
            for (id, (bytes, has_key)) in (1..).zip(jobs) {
                if packing.is_full() {
                    break;
                }
                packing.add(JobId(id), *bytes, *has_key);
            }
            packing.into_ids().len()
        };
        assert_eq!(packed(&[(1, false), (1, false), (1, false), (1, false)]), 3);
        assert_eq!(packed(&[(9, false), (9, false), (9, false)]), 2, "the second goes over");
        assert_eq!(packed(&[(1, false), (1, true), (1, false)]), 1, "the one before the key");
        assert_eq!(packed(&[(1, true), (1, false)]), 1, "the one with the key");
    }

    #[test]
    fn a_job_that_leaves_is_left_alone_until_only_a_person_can_decide() {
        let since = Timestamp::from_micros(0);
        let staged = StagedBatch { request: RequestId::from_random(1), since, ids: vec![JobId(7)] };
        assert!(staged.check_may_change(JobId(7), since).unwrap_err().to_string().contains("job 7"));
        assert!(staged.check_may_change(JobId(7), since.plus(RECEIPT_TTL)).is_ok());
    }

    #[test]
    fn what_lies_ahead_moves_as_the_time_that_is_left_and_what_is_past_by_whole_steps() {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        let here = at(1_000);
        for there in [at(1_000), at(1_004), at(999_999), at(3)] {
            assert_eq!(when_there(at(1_007), here, there), When::In(Duration::from_secs(7)), "{there}");
        }
        assert_eq!(
            when_there(at(900), here, at(1_004)),
            When::At(at(900)),
            "the clocks agree, within a step"
        );
        assert_eq!(when_there(at(900), here, at(1_006)), When::At(at(910)));
        assert_eq!(when_there(at(900), here, at(500)), When::At(at(400)));
        assert_eq!(when_there(at(1_000), here, at(997)), When::At(at(997)), "it is past there, too");
        assert_eq!(when_there(at(1), here, at(0)), When::At(Timestamp::EPOCH));
    }

    #[test]
    fn a_batch_of_another_process_is_waited_for_until_it_is_old_and_not_for_jobs_that_are_left_out() {
        let staged = |request, since| StagedBatch {
            request: RequestId::from_random(request),
            since: Timestamp::from_micros(since),
            ids: vec![JobId(8), JobId(7), JobId(9)],
        };
        let now = Timestamp::from_micros(60_000_000);
        let following = Following { ours: [RequestId::from_random(1)].into(), adopt_after: MINUTE };
        let left_out =
            |jobs: &[i64]| LeftOut { jobs: jobs.iter().copied().map(JobId).collect(), ..LeftOut::default() };
        let ahead = |batch: &StagedBatch, jobs: &[i64]| following.oldest_ahead(batch, &left_out(jobs), now);
        assert_eq!(ahead(&staged(2, 1), &[]), Some(JobId(7)));
        assert_eq!(ahead(&staged(1, 1), &[]), None, "it is our own");
        assert_eq!(ahead(&staged(2, 0), &[]), None, "it is taken over");
        assert_eq!(ahead(&staged(2, 60_000_001), &[]), None, "the clock went back: it is taken over");
        assert_eq!(ahead(&staged(2, 1), &[7]), Some(JobId(8)), "the first one was passed already");
        assert_eq!(ahead(&staged(2, 1), &[7, 8, 9]), None);
    }

    #[test]
    fn the_end_of_a_job_that_moved_says_where_it_is() {
        assert_eq!(moved_as(&moved("redis", JobId(17))), Some(JobId(17)));
        assert_eq!(moved_as("moved house"), None);
    }
}
