//! The observer between workers and store: it records the history, and the violations that it finds along
//! the way. It sees every call take effect, also calls whose answer is lost, and does not depend on how the
//! engine stores its jobs.

mod enqueues;
mod claims;
mod settles;
mod workers;
mod acts;
mod told;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use windlass_conformance::history::{Event, History, Uid};
use windlass_core::admin::RetryAnswer;
use windlass_core::claim::{ClaimAnswer, ClaimToken, Fence};
use windlass_core::clock::Timestamp;
use windlass_core::enqueue::RequestId;
use windlass_core::job::{JobId, StoredState};
use windlass_core::worker::WorkerId;

use crate::store::{Answer, Call, Reply, Store};

/// A violation: an event that must not happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) check: &'static str,
    pub(crate) text: String,
}

/// The state of the observer: all events, and what follows from them.
#[derive(Default)]
pub(crate) struct Observer {
    pub(crate) history: History,
    pub(crate) found: Vec<Violation>,
    jobs: BTreeMap<JobId, Seen>,
    workers: BTreeMap<WorkerId, Lease>,
    requests: BTreeSet<RequestId>,
    /// Tokens of claims that were repeated.
    repeated: BTreeSet<ClaimToken>,
    /// The claim that a process means when it names a fence.
    claims: BTreeMap<(usize, Fence), u64>,
    settled: BTreeSet<u64>,
    next_claim: u64,
    clean_leavers: BTreeSet<WorkerId>,
    pub(crate) effects: u64,
}

/// A job as the observer knows it.
#[derive(Debug, Default)]
struct Seen {
    uid: String,
    holder: Option<(u64, WorkerId)>,
    ended: bool,
    crashes: u32,
    cancelled: bool,
}

/// A worker as the observer knows it.
#[derive(Debug)]
struct Lease {
    last_heartbeat: Duration,
    /// How long in total the store refused writes, up to the last heartbeat.
    unwritable: Duration,
    beats: u64,
    /// The worker was frozen, killed or is stopping: it may send no heartbeats.
    struck: bool,
    dead: bool,
    retired: bool,
}

/// Where and when a call took effect.
pub(crate) struct Moment<'a> {
    pub(crate) store: &'a Store,
    pub(crate) now: Duration,
    /// How long in total the store has refused writes.
    pub(crate) unwritable: Duration,
    /// The process that sent the call, if a process did.
    pub(crate) process: Option<usize>,
}

impl Moment<'_> {
    fn instant(&self) -> Timestamp {
        self.store.true_instant(self.now)
    }
}

impl Observer {
    /// Records that a call took effect.
    pub(crate) fn saw(&mut self, call: &Call, answer: &Answer, at: &Moment<'_>) {
        self.effects += 1;
        let Ok(reply) = answer else { return self.broke("refused", format!("{call:?} got {answer:?}")) };
        match (call, reply) {
            (Call::Register(card), _) => self.saw_registration(card.id, at),
            (Call::HeartbeatAnswer(heartbeat), Reply::HeartbeatAnswer(heartbeat_answer)) => {
                self.saw_heartbeat(heartbeat.worker, &heartbeat_answer.beat, at)
            }
            (Call::Retire(worker), _) => self.saw_retire(*worker, at),
            (Call::Claim(request), Reply::Claimed(ClaimAnswer::Claimed { jobs, .. })) => {
                self.saw_claim(request, jobs, at);
            }
            (Call::Settle(batch), Reply::Settled(answers)) => self.saw_settles(batch, answers, at),
            (Call::Rescue(_), Reply::Rescued(rescued)) => self.saw_rescue(rescued, at),
            (Call::Enqueue(request), Reply::EnqueueAnswer(answers)) => self.saw_enqueue(request, answers, at),
            (Call::Cancel(job), Reply::Cancelled(answer)) => self.saw_cancel(*job, *answer, at),
            (Call::Retry(job), Reply::Retried(RetryAnswer::Retried)) => self.saw_retry(*job, at),
            _ => {}
        }
    }

    pub(crate) fn broke(&mut self, check: &'static str, text: String) {
        self.found.push(Violation { check, text });
    }

    fn note(&mut self, at: &Moment<'_>, event: Event) {
        self.history.push(at.instant(), event);
    }

    fn uid(&self, job: JobId) -> Uid {
        Uid(self.jobs.get(&job).map_or_else(|| format!("unknown-{job}"), |seen| seen.uid.clone()))
    }
}

fn is_running_by(store: &Store, id: JobId, worker: WorkerId) -> bool {
    store
        .job(id)
        .is_some_and(|record| matches!(record.state, StoredState::Running { worker: by, .. } if by == worker))
}
