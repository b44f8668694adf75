//! When to claim and how much. Pure: answers and hints go in, requests come out.
//!
//! A claim is sized by the free slots, plus the jobs that the pool would finish in about 50 ms. There is
//! one claim in flight at a time, or two while a deep backlog flows. Events that arrive meanwhile are
//! remembered, so that no wake-up is lost.

use std::collections::HashMap;
use std::time::Duration;

use windlass_core::boost::BoostCredit;
use windlass_core::claim::{ClaimRequest, ClaimToken, Claimed, Fence, NextDue, Suspects};
use windlass_core::job::Job;
use windlass_core::limits::CLAIM_BATCH_MAX;
use windlass_core::names::{QueueName, TypeName};
use windlass_core::planted::{Bug, planted};
use windlass_core::worker::WorkerId;

use super::Moment;
use super::backoff::Backoff;
use super::quarantine::Quarantine;

/// The pool prefetches the jobs that it finishes in this time, so that a claim's round trip leaves no slot
/// idle.
const PREFETCH_FOR: Duration = Duration::from_millis(50);
/// The most jobs that one pool prefetches: two claims of the biggest size.
pub const PREFETCH_MAX: u32 = 2 * CLAIM_BATCH_MAX;

/// The number of claims in flight while every claim returns all the jobs it requested. The next claim is
/// sent before the last is answered, so that the store need not wait for the worker either.
const CLAIMS_AT_ONCE: usize = 2;

/// The interval between claims for a suspect that waits for its slot in this process.
const SUSPECT_AGAIN: Duration = Duration::from_millis(250);

/// The pause before due jobs that another transaction has locked are claimed again: the first pause, and
/// the longest.
const LOCKED_AGAIN: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// The queues and types that a pool serves.
#[derive(Debug, Clone)]
pub struct Scope {
    /// The queues, most urgent first.
    pub queues: Vec<QueueName>,
    /// The types that this process handles.
    pub types: Vec<TypeName>,
    /// The poll interval while no notification comes.
    pub poll_interval: Duration,
}

/// When to claim and how much.
#[derive(Debug)]
pub struct Claims {
    scope: Scope,
    worker: WorkerId,
    under_way: Vec<UnderWay>,
    /// The last claim returned all the jobs it requested, and more are due.
    flowing: bool,
    /// Jobs may be claimable: at the start, after a hint, or because the last answer said so.
    maybe_more: bool,
    suspect_due: bool,
    /// A suspect is due, but another suspect occupies the one place for suspects in this process. It is
    /// claimed again at this moment.
    held_off_until: Option<Moment>,
    /// The number of successive claims that returned no job although jobs are due.
    in_vain: u32,
    /// When a job is known to fall due, or when another claim is worth a try.
    look_at: Moment,
    /// When to poll if no due time is known and no event comes.
    poll_at: Moment,
    credit: BoostCredit,
    pace: Pace,
    backoff: Backoff,
    quarantine: Quarantine,
}

#[derive(Debug)]
struct UnderWay {
    request: ClaimRequest,
    /// The request was sent and its answer was lost; it is sent again at this moment.
    again_at: Option<Moment>,
    /// A hint came while the claim was in flight, and may announce a job that the claim did not see.
    hinted: bool,
    /// The claim was sent under an identity that is dead: jobs that it returns no longer belong to this
    /// worker.
    stale: bool,
}

impl UnderWay {
    fn new(request: ClaimRequest) -> Self {
        Self { request, again_at: None, hinted: false, stale: false }
    }

    fn is_for_a_suspect(&self) -> bool {
        matches!(self.request.suspects, Suspects::One { .. })
    }

    /// Whether the claim is in flight for ordinary jobs, with neither a lost answer nor an identity that is
    /// dead.
    fn is_ordinary(&self) -> bool {
        !self.is_for_a_suspect() && !self.stale && self.again_at.is_none()
    }
}

impl Claims {
    /// Creates claims without a job in hand; the first claim is due at once.
    pub fn new(scope: Scope, worker: WorkerId, quarantine: Quarantine) -> Self {
        Self {
            scope,
            worker,
            under_way: Vec::new(),
            flowing: false,
            maybe_more: true,
            suspect_due: false,
            held_off_until: None,
            in_vain: 0,
            look_at: Moment::ZERO,
            poll_at: Moment::ZERO,
            credit: BoostCredit::default(),
            pace: Pace::default(),
            backoff: Backoff::default(),
            quarantine,
        }
    }

    /// Notes that jobs may be claimable.
    pub fn hint(&mut self) {
        self.maybe_more = true;
        self.under_way.iter_mut().for_each(|under_way| under_way.hinted = true);
    }

    /// Notes that the store was polled, so that this pool need not poll for a while.
    pub fn polled(&mut self, now: Moment) {
        self.poll_at = now.saturating_add(self.scope.poll_interval);
    }

    /// The number of jobs to hold ready beyond the slots.
    pub fn prefetch(&self, concurrency: u32) -> u32 {
        self.pace.finished_within(PREFETCH_FOR, concurrency).min(PREFETCH_MAX)
    }

    /// The next request, if there is a reason for one. `free` slots are idle, with no job waiting for them;
    /// `room` is the most jobs that may be claimed, prefetch included.
    pub fn next(
        &mut self,
        free: u32,
        room: u32,
        now: Moment,
        token: impl FnOnce() -> ClaimToken,
    ) -> Option<ClaimRequest> {
        let repeat = self.repeat_lost(now);
        if repeat.is_some() {
            return repeat;
        }
        if !self.may_send(free, room) || now < self.backoff.until() {
            return None;
        }
        if now >= self.look_at.min(self.poll_at) {
            self.maybe_more = true;
        }
        let request = self.suspect_request(free).or_else(|| self.ordinary_request(room))?;
        let request = ClaimRequest { token: token(), ..request };
        self.under_way.push(UnderWay::new(request.clone()));
        Some(request)
    }

    /// Whether another claim may be sent beside those in flight. It may if it prefetches many jobs: small
    /// claims cost more than they return.
    fn may_send(&self, free: u32, room: u32) -> bool {
        let goes_well = self.flowing && self.under_way.iter().all(UnderWay::is_ordinary);
        let is_big = room > free && room >= self.coming() / 2;
        let may_join = goes_well && !self.suspect_due && is_big;
        self.under_way.is_empty() || (may_join && self.under_way.len() < CLAIMS_AT_ONCE)
    }

    /// The number of slots that a claim in flight will need.
    pub fn reserved(&self) -> u32 {
        u32::from(self.under_way.iter().any(UnderWay::is_for_a_suspect))
    }

    /// The most jobs that the claims in flight may return.
    pub fn coming(&self) -> u32 {
        let ordinary = self.under_way.iter().filter(|under_way| !under_way.is_for_a_suspect());
        ordinary.map(|under_way| under_way.request.limit).sum()
    }

    /// Whether a claim is in flight.
    pub fn is_under_way(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// When to act even if no event comes, with this number of idle slots and this much room. Without room
    /// there is nothing to do until a job ends, which is an event: a moment in the past would make the
    /// caller ask again and again.
    pub fn wake_at(&self, free: u32, room: u32) -> Moment {
        if self.is_under_way() {
            return self.repeat_at();
        }
        let wanted = if self.suspect_due { free > 0 } else { self.maybe_more && room > 0 };
        match wanted {
            true => self.backoff.until(),
            false if room == 0 || self.suspect_due => Moment::MAX,
            false => self.look_at.min(self.poll_at).max(self.backoff.until()),
        }
    }

    /// When a claim whose answer was lost is sent again.
    pub fn repeat_at(&self) -> Moment {
        self.under_way.iter().filter_map(|under_way| under_way.again_at).min().unwrap_or(Moment::MAX)
    }

    /// Whether the last answer said that nothing is due.
    pub fn found_nothing(&self) -> bool {
        let waits = self.maybe_more || self.suspect_due || self.held_off_until.is_some() || self.in_vain > 0;
        !self.is_under_way() && !waits
    }

    /// Takes in the answer to a claim. Returns whether its jobs belong to this worker: not if they were
    /// claimed for an identity that has died since.
    pub fn answered(&mut self, token: ClaimToken, jobs: &[Claimed], peek: NextDue, now: Moment) -> bool {
        let Some(under_way) = self.take(token) else { return false };
        self.backoff.reset();
        if under_way.stale {
            self.quarantine.claimed(None);
            self.maybe_more = true;
            return false;
        }
        if under_way.is_for_a_suspect() {
            self.quarantine.claimed(jobs.first());
        } else {
            let boosted = jobs.iter().filter(|claimed| claimed.boosted).count();
            self.credit.book(count(jobs.len()), count(boosted));
            self.flowing = peek.more_due && count(jobs.len()) == under_way.request.limit;
        }
        self.look_ahead(&under_way, jobs, peek, now);
        true
    }

    /// Decides when and for which jobs to claim next, from what an answer reports about the jobs that are
    /// still due or fall due later.
    fn look_ahead(&mut self, answered: &UnderWay, jobs: &[Claimed], peek: NextDue, now: Moment) {
        // A repeat that returns no jobs only says that its first sending took none. If jobs are due, the
        // next request follows at once.
        let found_none = jobs.is_empty() && !answered.request.repeat;
        if answered.is_for_a_suspect() {
            self.held_off_until = found_none.then(|| now.saturating_add(SUSPECT_AGAIN));
        } else {
            let is_in_vain = found_none && peek.more_due && !answered.hinted;
            self.in_vain = if is_in_vain { self.in_vain.saturating_add(1) } else { 0 };
        }
        self.held_off_until = self.held_off_until.filter(|_| peek.suspect_due);
        self.suspect_due = peek.suspect_due && self.held_off_until.is_none_or(|until| until <= now);
        self.maybe_more = (peek.more_due && self.in_vain == 0) || answered.hinted;
        // Of two answers that cross, neither hides the due jobs that the other has reported.
        self.under_way.iter_mut().for_each(|other| other.hinted |= peek.more_due);
        self.polled(now);
        let next_due = peek.next_due_in.unwrap_or(Duration::MAX);
        let next_look = now.saturating_add(next_due.min(self.locked_again()));
        self.look_at =
            self.held_off_until.filter(|until| *until > now).map_or(next_look, |until| next_look.min(until));
    }

    /// The pause before a claim of due jobs that are locked.
    fn locked_again(&self) -> Duration {
        let (first, longest) = LOCKED_AGAIN;
        match self.in_vain {
            0 => Duration::MAX,
            times => first.saturating_mul(1 << times.min(10)).min(longest),
        }
    }

    fn take(&mut self, token: ClaimToken) -> Option<UnderWay> {
        let place = self.under_way.iter().position(|under_way| under_way.request.token == token)?;
        Some(self.under_way.remove(place))
    }

    fn find(&mut self, token: ClaimToken) -> Option<&mut UnderWay> {
        self.under_way.iter_mut().find(|under_way| under_way.request.token == token)
    }

    /// Notes that a claim failed. It claimed nothing; but if it was a repeat, the request that it repeats
    /// may have claimed jobs.
    pub fn failed(&mut self, token: ClaimToken, now: Moment) {
        if self.find(token).is_some_and(|under_way| under_way.request.repeat && !under_way.stale) {
            return self.ask_again(token, now);
        }
        self.forget(token, now);
    }

    /// Notes that the store declared the worker dead: every job it held is taken back. Returns whether this
    /// is new: not if the claim was sent under an identity that was replaced already.
    pub fn refused_as_dead(&mut self, token: ClaimToken, now: Moment) -> bool {
        let is_news = self.find(token).is_some_and(|under_way| !under_way.stale);
        self.forget(token, now);
        is_news
    }

    /// Drops a claim that holds no jobs in this worker's name.
    fn forget(&mut self, token: ClaimToken, now: Moment) {
        if self.take(token).is_some_and(|under_way| under_way.is_for_a_suspect()) {
            self.quarantine.claimed(None);
        }
        self.maybe_more = true;
        self.flowing = false;
        self.backoff.failed(now);
    }

    /// Notes that a claim's answer was lost: the store may hold jobs in this worker's name. The same
    /// request is sent again. The store then returns those jobs; or, should the first request not have
    /// arrived yet, ensures that it takes none from then on.
    pub fn answer_lost(&mut self, token: ClaimToken, now: Moment) {
        let stale = self.find(token).is_some_and(|under_way| under_way.stale);
        if stale || planted(Bug::ForgetLostClaim) {
            return self.forget(token, now);
        }
        self.ask_again(token, now);
    }

    fn ask_again(&mut self, token: ClaimToken, now: Moment) {
        self.flowing = false;
        self.backoff.failed(now);
        let again_at = Some(self.backoff.until());
        if let Some(under_way) = self.find(token) {
            under_way.again_at = again_at;
        }
    }

    /// Notes that the worker started over under another identity. A claim in flight is still waited for, so
    /// that its answer is not taken for the answer to the next claim; but the jobs that it returns belong
    /// to the dead identity.
    pub fn reborn(&mut self, worker: WorkerId) {
        self.worker = worker;
        self.maybe_more = true;
        self.flowing = false;
        self.under_way.retain(|under_way| under_way.again_at.is_none());
        self.under_way.iter_mut().for_each(|under_way| under_way.stale = true);
        if !self.under_way.iter().any(UnderWay::is_for_a_suspect) {
            self.quarantine.claimed(None);
        }
    }

    /// Notes how long a handler ran that has ended.
    pub fn ran(&mut self, job: &Job, ran_for: Duration) {
        self.pace.ran(&job.job_type, ran_for);
    }

    /// Notes how long a handler has run that is still running.
    pub fn runs(&mut self, job: &Job, so_far: Duration) {
        self.pace.runs(&job.job_type, so_far);
    }

    /// Notes that this process no longer holds a job: its end is stored, or another worker owns the job. A
    /// suspect that waited for the place is claimed at once.
    pub fn let_go(&mut self, fence: Fence) {
        if self.quarantine.let_go(fence) && self.held_off_until.take().is_some() {
            self.suspect_due = true;
        }
    }

    /// A claim whose answer was lost, to be sent again.
    pub fn repeat_lost(&mut self, now: Moment) -> Option<ClaimRequest> {
        let is_time = |under_way: &&mut UnderWay| under_way.again_at.is_some_and(|again_at| again_at <= now);
        let under_way = self.under_way.iter_mut().find(is_time)?;
        under_way.again_at = None;
        under_way.request.repeat = true;
        Some(under_way.request.clone())
    }

    /// Requests one suspect. A suspect takes a free slot of its own and is never prefetched.
    fn suspect_request(&mut self, free: u32) -> Option<ClaimRequest> {
        if !self.suspect_due || free == 0 {
            return None;
        }
        self.suspect_due = false;
        let crashes_max = self.quarantine.enter();
        Some(ClaimRequest {
            suspects: Suspects::One { crashes_max },
            limit: 1,
            boosted_max: 0,
            ..self.blank()
        })
    }

    fn ordinary_request(&mut self, room: u32) -> Option<ClaimRequest> {
        // With a suspect due, no job is prefetched: the suspect waits for an idle slot, and there would
        // never be one.
        let is_wanted = self.maybe_more || self.is_under_way();
        if self.suspect_due || !is_wanted || room == 0 {
            return None;
        }
        self.maybe_more = false;
        let limit = room.min(CLAIM_BATCH_MAX);
        // Saved-up boost credit is for one of the claims in flight.
        let boosted_max = if self.is_under_way() { limit / 4 } else { self.credit.allowance(limit) };
        Some(ClaimRequest { limit, boosted_max, ..self.blank() })
    }

    fn blank(&self) -> ClaimRequest {
        ClaimRequest {
            token: ClaimToken::from_random(0),
            repeat: false,
            worker: self.worker,
            queues: self.scope.queues.clone(),
            types: self.scope.types.clone(),
            limit: 0,
            boosted_max: 0,
            suspects: Suspects::LeaveOut,
        }
    }
}

/// The moving average of how long the handlers of each type run.
#[derive(Debug, Default)]
struct Pace {
    mean: HashMap<TypeName, Duration>,
}

impl Pace {
    fn ran(&mut self, job_type: &TypeName, ran_for: Duration) {
        match self.mean.get_mut(job_type) {
            // One part in eight: a few runs suffice to follow a change, one outlier does not.
            Some(mean) => *mean = *mean - *mean / 8 + ran_for / 8,
            None => {
                self.mean.insert(job_type.clone(), ran_for);
            }
        }
    }

    fn runs(&mut self, job_type: &TypeName, so_far: Duration) {
        let mean = self.mean.entry(job_type.clone()).or_default();
        *mean = so_far.max(*mean);
    }

    /// The number of jobs of the slowest type that these slots finish in a time. It is 0 if one job takes
    /// longer: a slow job must not wait in one process while another process is idle.
    fn finished_within(&self, time: Duration, slots: u32) -> u32 {
        let Some(slowest) = self.mean.values().max() else { return 0 };
        if *slowest > time {
            return 0;
        }
        let each = u32::try_from(time.as_nanos() / slowest.as_nanos().max(1)).unwrap_or(u32::MAX);
        each.saturating_mul(slots)
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
