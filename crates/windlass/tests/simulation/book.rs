//! What an observer at the store's door writes down, and what it finds wrong along the way. It sees every call
//! take effect, also those whose answer gets lost, and knows nothing of how the engine keeps its jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use windlass_conformance::history::{Event, FaultKind, History, Outcome, Uid};
use windlass_core::admin::{CancelAnswer, RetryAnswer};
use windlass_core::claim::{ClaimAnswer, ClaimRequest, ClaimToken, Claimed, Fence};
use windlass_core::clock::Timestamp;
use windlass_core::engine::Rescued;
use windlass_core::enqueue::{EnqueueRequest, Enqueued, RequestId};
use windlass_core::job::{JobId, Phase};
use windlass_core::key::KeyScope;
use windlass_core::limits::CRASHES_MAX;
use windlass_core::settle::{Settled, Settlement, Transition};
use windlass_core::worker::{Beat, WorkerId};

use crate::plan::LEASE;
use crate::store::{Answer, Call, Reply, Store};

/// Something that must not happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) check: &'static str,
    pub(crate) text: String,
}

/// All that was seen.
#[derive(Default)]
pub(crate) struct Book {
    pub(crate) history: History,
    pub(crate) found: Vec<Violation>,
    jobs: BTreeMap<JobId, Seen>,
    workers: BTreeMap<WorkerId, Lease>,
    requests: BTreeSet<RequestId>,
    /// Tokens of claims that were repeated.
    repeated: BTreeSet<ClaimToken>,
    /// Which claim a process speaks of when it names a fence.
    claims: BTreeMap<(usize, Fence), u64>,
    settled: BTreeSet<u64>,
    next_claim: u64,
    clean_leavers: BTreeSet<WorkerId>,
    pub(crate) effects: u64,
}

/// One job as it was seen.
#[derive(Debug, Default)]
struct Seen {
    uid: String,
    holder: Option<(u64, WorkerId)>,
    ended: bool,
    crashes: u32,
    cancelled: bool,
}

/// One worker as it was seen.
#[derive(Debug)]
struct Lease {
    last_beat: Duration,
    dead: bool,
    retired: bool,
}

/// Where and when a call took effect.
pub(crate) struct Moment<'a> {
    pub(crate) store: &'a Store,
    pub(crate) now: Duration,
    /// The process that sent it, if one did.
    pub(crate) process: Option<usize>,
}

impl Moment<'_> {
    fn instant(&self) -> Timestamp {
        self.store.true_instant(self.now)
    }
}

impl Book {
    /// A call took effect.
    pub(crate) fn saw(&mut self, call: &Call, answer: &Answer, at: &Moment<'_>) {
        self.effects += 1;
        let Ok(reply) = answer else { return self.broke("refused", format!("{call:?} got {answer:?}")) };
        match (call, reply) {
            (Call::Register(card), _) => {
                let lease = Lease { last_beat: at.now, dead: false, retired: false };
                self.workers.insert(card.id, lease);
            }
            (Call::Extend(heartbeat), Reply::Beat(beat)) => self.saw_beat(heartbeat.worker, beat, at),
            (Call::Retire(worker), _) => self.saw_retire(*worker, at),
            (Call::Claim(request), Reply::Claimed(ClaimAnswer::Claimed { jobs, .. })) => {
                self.saw_claim(request, jobs, at);
            }
            (Call::Settle(batch), Reply::Settled(answers)) => {
                for (settlement, answer) in batch.iter().zip(answers) {
                    self.saw_settle(settlement, *answer, at);
                }
                // After the whole batch, which may hold the end of an old claim and that of a newer one.
                batch.iter().for_each(|settlement| self.check_bystander(settlement.fence, at));
            }
            (Call::Rescue(_), Reply::Rescued(rescued)) => self.saw_rescue(rescued, at),
            (Call::Enqueue(request), Reply::Enqueued(answers)) => self.saw_enqueue(request, answers, at),
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

    fn saw_beat(&mut self, worker: WorkerId, beat: &Beat, at: &Moment<'_>) {
        let Some(lease) = self.workers.get_mut(&worker) else { return };
        if let Beat::Alive { .. } = beat {
            let gone = lease.dead || lease.retired;
            lease.last_beat = at.now;
            if gone {
                self.broke("dead revived", format!("{worker} was let out or declared dead, and lives"));
            }
        }
    }

    fn saw_retire(&mut self, worker: WorkerId, at: &Moment<'_>) {
        if let Some(lease) = self.workers.get_mut(&worker).filter(|lease| !lease.dead) {
            lease.retired = true;
        }
        let held: Vec<_> = self
            .jobs
            .iter()
            .filter(|(_, seen)| seen.holder.is_some_and(|(_, by)| by == worker))
            .map(|(id, _)| *id)
            .collect();
        let released: Vec<_> = held.into_iter().filter(|id| !is_running_by(at.store, *id, worker)).collect();
        if self.clean_leavers.contains(&worker) && !released.is_empty() {
            self.broke("left behind", format!("{worker} ended cleanly, and left jobs {released:?}"));
        }
        for id in released {
            self.let_go(id, at);
        }
    }

    fn saw_claim(&mut self, request: &ClaimRequest, jobs: &[Claimed], at: &Moment<'_>) {
        if self.workers.get(&request.worker).is_none_or(|lease| lease.dead || lease.retired) {
            let worker = request.worker;
            self.broke("dead claims", format!("{worker} is dead or gone, and its claim was answered"));
        }
        if request.repeat {
            self.repeated.insert(request.token);
        } else if self.repeated.contains(&request.token) && !jobs.is_empty() {
            self.broke("claimed late", format!("{} was repeated before, and takes jobs", request.token));
        }
        for claimed in jobs {
            self.saw_claimed(request, claimed, at);
        }
        if jobs.len() > request.limit as usize {
            self.broke("claimed too many", format!("{} of {}", jobs.len(), request.limit));
        }
    }

    fn saw_claimed(&mut self, request: &ClaimRequest, claimed: &Claimed, at: &Moment<'_>) {
        let (id, job) = (claimed.job.id, &claimed.job);
        let process = at.process.expect("only processes claim");
        let repeated =
            request.repeat.then(|| self.claims.get(&(process, claimed.fence()))).flatten().copied();
        let Some(seen) = self.jobs.get_mut(&id) else {
            return self.broke("unexpected", format!("job {id} was claimed, and nobody put it in"));
        };
        if repeated.is_some() && seen.holder.map(|(claim, _)| claim) == repeated {
            return;
        }
        if request.repeat {
            return self.broke("repeat claims", format!("job {id}, which its first sending had not taken"));
        }
        let (held, ended, cancelled) = (seen.holder, seen.ended, seen.cancelled);
        self.next_claim += 1;
        seen.holder = Some((self.next_claim, request.worker));
        self.claims.insert((process, claimed.fence()), self.next_claim);
        if let Some((_, by)) = held {
            self.broke("claimed while held", format!("job {id} is held by {by}"));
        }
        if ended || cancelled {
            self.broke("claimed after its end", format!("job {id}"));
        }
        if job.due > at.store.now() {
            self.broke(
                "started early",
                format!("job {id} is due at {}, claimed at {}", job.due, at.store.now()),
            );
        }
        // Expiry is about the first start, which this attempt is counted as already.
        let first = job.counters.attempts <= 1;
        if first && job.expires_at.is_some_and(|expires| expires <= at.store.now()) {
            self.broke("started late", format!("job {id} had expired"));
        }
        if job.counters.crashes >= CRASHES_MAX {
            self.broke("over limits", format!("job {id} is claimed after {} crashes", job.counters.crashes));
        }
    }

    fn saw_settle(&mut self, settlement: &Settlement, answer: Settled, at: &Moment<'_>) {
        let (fence, id) = (settlement.fence, settlement.fence.job);
        let process = at.process.expect("only processes settle");
        let Some(claim) = self.claims.get(&(process, fence)).copied() else {
            return self.broke("unexpected", format!("{fence:?} is settled, and was never claimed"));
        };
        let holder = self.jobs.get(&id).and_then(|seen| seen.holder).map(|(claim, _)| claim);
        match answer {
            Settled::Applied if holder == Some(claim) => {
                self.settled.insert(claim);
                let uid = self.uid(id);
                self.note(at, Event::applied(uid, fence.token));
                self.let_go(id, at);
            }
            Settled::Applied if self.settled.contains(&claim) => {}
            Settled::Applied => {
                let uid = self.uid(id);
                self.note(at, Event::applied(uid, fence.token));
                self.broke("stale accepted", format!("{fence:?} no longer holds the job"));
            }
            Settled::ClaimLost if holder == Some(claim) => {
                self.broke("holder refused", format!("{fence:?} holds the job"));
            }
            Settled::ClaimLost => {
                let uid = self.uid(id);
                self.note(at, Event::lost(uid, fence.token));
            }
        }
    }

    /// An end, also one that is only repeated, must leave alone whoever else holds the job.
    fn check_bystander(&mut self, fence: Fence, at: &Moment<'_>) {
        let holder = self.jobs.get(&fence.job).and_then(|seen| seen.holder);
        if holder.is_some_and(|(_, worker)| !is_running_by(at.store, fence.job, worker)) {
            self.broke("stale accepted", format!("{fence:?} ended a later claim"));
        }
    }

    /// The job is no longer held; what became of it must be legal.
    fn let_go(&mut self, id: JobId, at: &Moment<'_>) {
        let phase = at.store.job(id).map(|record| record.phase());
        let Some(seen) = self.jobs.get_mut(&id) else { return };
        seen.holder = None;
        let (twice, cancelled) = (seen.ended, seen.cancelled);
        seen.ended |= phase.is_none_or(Phase::has_ended);
        if twice {
            self.broke("ended twice", format!("job {id} had ended, and was let go as {phase:?}"));
        }
        if cancelled && phase != Some(Phase::Cancelled) {
            self.broke("cancel ignored", format!("job {id} was to be cancelled, and is {phase:?}"));
        }
    }

    fn saw_rescue(&mut self, rescued: &Rescued, at: &Moment<'_>) {
        self.see_the_dead(at);
        for id in rescued.returned.iter().chain(&rescued.buried) {
            let Some((_, worker)) = self.jobs.get(id).and_then(|seen| seen.holder) else {
                self.broke("rescued unheld", format!("job {id}"));
                continue;
            };
            if self.workers.get(&worker).is_none_or(|lease| !lease.dead) {
                self.broke("taken from a live worker", format!("job {id} of {worker}"));
            }
            let seen = self.jobs.get_mut(id).expect("looked up above");
            seen.crashes += 1;
            let crashes = seen.crashes;
            self.let_go(*id, at);
            if crashes > CRASHES_MAX {
                self.broke("over limits", format!("job {id} was rescued {crashes} times"));
            }
        }
    }

    /// Whoever the store no longer lists was declared dead, and must have been silent for a lease of real time.
    fn see_the_dead(&mut self, at: &Moment<'_>) {
        let listed: BTreeSet<_> = at.store.workers().into_iter().map(|sighting| sighting.card.id).collect();
        let mut hasty = Vec::new();
        for (id, lease) in &mut self.workers {
            if !lease.dead && !lease.retired && !listed.contains(id) {
                lease.dead = true;
                if at.now - lease.last_beat < LEASE {
                    hasty.push(*id);
                }
            }
        }
        for id in hasty {
            self.broke("declared dead in life", format!("{id} had shown a sign of life within its lease"));
        }
    }

    fn saw_enqueue(&mut self, request: &EnqueueRequest, answers: &[Enqueued], at: &Moment<'_>) {
        let repeat = !self.requests.insert(request.request);
        for (job, answer) in request.jobs.iter().zip(answers) {
            let uid: String = job.payload.decode().expect("payloads are names");
            match answer {
                Enqueued::New(id) => {
                    self.jobs.entry(*id).or_insert(Seen { uid, ..Seen::default() });
                }
                _ if repeat => {}
                Enqueued::Kept(id) | Enqueued::Replaced(id) => self.check_key(*id, at),
                Enqueued::Revived(id) => self.saw_retry(*id, at),
                Enqueued::Refused(_) => {}
            }
        }
    }

    /// A key that turned a newcomer away must be held by the rules of its holder.
    fn check_key(&mut self, holder: JobId, at: &Moment<'_>) {
        let Some(record) = at.store.job(holder) else {
            return self.broke("key not freed", format!("job {holder} is gone, and holds its key"));
        };
        let scope = record.job.key.as_ref().map(|claim| claim.scope);
        let by_period = scope
            .and_then(|scope| scope.held_until(record.job.enqueued_at))
            .is_some_and(|until| until > at.store.now());
        let holds = match record.phase() {
            Phase::Dead => scope == Some(KeyScope::WhileLiveOrDead) || by_period,
            phase => !phase.has_ended() || by_period,
        };
        if !holds {
            let phase = record.phase();
            self.broke("key not freed", format!("job {holder} is {phase}, and holds its key ({scope:?})"));
        }
    }

    fn saw_cancel(&mut self, id: JobId, answer: CancelAnswer, at: &Moment<'_>) {
        if matches!(answer, CancelAnswer::Cancelled | CancelAnswer::Requested) {
            let uid = self.uid(id);
            self.note(at, Event::CancelAccepted { uid });
            if let Some(seen) = self.jobs.get_mut(&id) {
                seen.cancelled = true;
                seen.ended |= answer == CancelAnswer::Cancelled;
            }
        }
    }

    /// A dead letter starts over; a waiting job is only hurried.
    fn saw_retry(&mut self, id: JobId, at: &Moment<'_>) {
        let uid = self.uid(id);
        let Some(seen) = self.jobs.get_mut(&id) else { return };
        if std::mem::take(&mut seen.ended) {
            seen.crashes = 0;
            self.note(at, Event::StartedOver { uid });
        }
    }
}

/// What processes and the world tell.
impl Book {
    pub(crate) fn started(&mut self, claimed: &Claimed, worker: WorkerId, at: &Moment<'_>) {
        let uid = self.uid(claimed.job.id);
        self.note(at, Event::start(uid, claimed.token, worker));
    }

    pub(crate) fn ended(&mut self, settlement: &Settlement, at: &Moment<'_>) {
        let outcome = match &settlement.transition {
            Transition::Succeed { .. } => Outcome::Done,
            Transition::Retry { .. } => Outcome::Failed,
            Transition::Snooze { .. } | Transition::Park { .. } => Outcome::Snoozed,
            Transition::Bury { .. } => Outcome::Dead,
            Transition::Cancel { .. } => Outcome::Cancelled,
            Transition::Release { .. } => Outcome::Released,
        };
        let uid = self.uid(settlement.fence.job);
        self.note(at, Event::end(uid, settlement.fence.token, outcome));
    }

    pub(crate) fn fault(
        &mut self,
        kind: FaultKind,
        worker: WorkerId,
        until: Option<Duration>,
        at: &Moment<'_>,
    ) {
        let until = until.map(|until| at.store.true_instant(until));
        self.note(at, Event::Fault { kind, target: Some(worker.to_string()), until });
    }

    pub(crate) fn leaves(&mut self, worker: WorkerId, clean: bool) {
        if clean {
            self.clean_leavers.insert(worker);
        }
    }

    pub(crate) fn invoked(&mut self, uid: &str, at: &Moment<'_>) {
        self.note(at, Event::Invoke { uid: Uid::from(uid), due: None });
    }

    /// What a producer learnt of one of its jobs. Where another job's key turned it away, it is not stored.
    pub(crate) fn answered(&mut self, uid: &str, answer: Option<&Enqueued>, at: &Moment<'_>) {
        let uid = Uid::from(uid);
        let event = match answer {
            Some(Enqueued::New(job)) => Event::Acknowledged { uid, job: *job },
            Some(_) => Event::Refused { uid },
            None => Event::Unknown { uid },
        };
        self.note(at, event);
    }

    pub(crate) fn not_stored(&mut self, uid: &str, at: &Moment<'_>) {
        self.note(at, Event::Refused { uid: Uid::from(uid) });
    }

    /// Adds what the store says at the end.
    pub(crate) fn dump(&mut self, at: &Moment<'_>) {
        for record in at.store.jobs() {
            let (job, phase, counters) = (record.job.id, record.phase(), record.job.counters);
            let uid = self.uid(job);
            self.note(at, Event::Final { uid, job, phase, counters });
        }
    }

    /// Jobs that were seen, for those who act on any.
    pub(crate) fn known_jobs(&self) -> Vec<JobId> {
        self.jobs.keys().copied().collect()
    }
}

fn is_running_by(store: &Store, id: JobId, worker: WorkerId) -> bool {
    use windlass_core::job::JobState;
    store
        .job(id)
        .is_some_and(|record| matches!(record.state, JobState::Running { worker: by, .. } if by == worker))
}
