//! One pool of slots for one or several queues: the heart of a worker, without any I/O.
//!
//! Events go in, effects come out; a thin shell around it talks to the store and runs handlers. The same pool
//! runs in the simulation, on a virtual clock, with a store that fails. The main path reads: a claim is
//! answered, its jobs wait in the `room` until a slot is free, run, end, and are settled in batches.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use windlass_core::claim::{ClaimAnswer, ClaimRequest, ClaimToken, Claimed, Fence};
use windlass_core::limits::SETTLE_BATCH_MAX;
use windlass_core::names::TypeName;
use windlass_core::outcome::AttemptOutcome;
use windlass_core::planted::{Bug, planted};
use windlass_core::retry::RetryPolicy;
use windlass_core::settle::{AttemptReport, Settled, Settlement, Transition, settle};
use windlass_core::worker::WorkerId;

use super::Moment;
use super::claim::{Claims, Scope};
use super::quarantine::Quarantine;
use super::settle::{BatchNumber, Settler};

/// While this many ends wait for the store, nothing new is started.
pub const UNSETTLED_MAX: usize = 3 * SETTLE_BATCH_MAX;

/// What is prefetched is to start within a tenth of this. If it has not started by then, the handlers have become slow, and
/// another worker may have an idle slot.
const GIVE_BACK_AFTER: Duration = Duration::from_millis(500);

/// What a pool is made of.
#[derive(Debug, Clone)]
pub struct PoolSettings {
    /// What it serves.
    pub scope: Scope,
    /// How many handlers run at once.
    pub concurrency: u32,
    /// The retry policy of each type.
    pub policies: HashMap<TypeName, RetryPolicy>,
}

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// Something may be claimable.
    Hint,
    /// The engine looked by itself, and nothing is due.
    Quiet,
    /// The claim with this token was answered.
    ClaimAnswered(ClaimToken, Result<ClaimAnswer, CallFailure>),
    /// A handler ended, or was kept from starting.
    Ended {
        /// Whose.
        fence: Fence,
        /// How.
        outcome: AttemptOutcome,
        /// What is to be remembered.
        report: AttemptReport,
    },
    /// A batch of settlements was answered.
    SettleAnswered(BatchNumber, Result<Vec<Settled>, CallFailure>),
    /// The local deadline of the worker's lease passed: others may take its jobs.
    LeaseRanOut,
    /// The worker started over under another identity.
    Reborn(WorkerId),
    /// From now on so many handlers may run at once.
    Scale(u32),
    /// Go on until nothing is due, then end.
    Drain,
    /// Claim nothing more; stop what runs after the grace.
    Stop {
        /// How long handlers may go on.
        grace: Duration,
    },
}

/// Why a call to the store brought no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallFailure {
    /// Nothing was written.
    NotDone,
    /// It may have been written.
    Unknown,
    /// The request itself is wrong.
    Refused,
}

/// What to do.
#[derive(Debug)]
pub enum Effect {
    /// Send a claim; answer with [`Event::ClaimAnswered`].
    Claim(ClaimRequest),
    /// Run the handler; answer with [`Event::Ended`].
    Start(Arc<Claimed>),
    /// Stop the handler at once; it answers with [`Event::Ended`].
    Abort(Fence),
    /// Send a batch; answer with [`Event::SettleAnswered`].
    Settle(BatchNumber, Vec<Settlement>),
    /// Tell that the store no longer knows this claim as ours.
    ClaimLost(Fence),
    /// Tell that the store will not take this settlement.
    GaveUp(Settlement),
    /// The store says that this worker is dead; it must start over.
    Died,
}

/// Where a pool is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Working,
    Draining,
    Stopping { abort_at: Moment, aborted: bool },
}

/// One pool of slots.
pub struct Pool {
    settings: PoolSettings,
    phase: Phase,
    claims: Claims,
    settler: Settler,
    room: VecDeque<Waiting>,
    /// When the store last kept anything from starting.
    held_up_until: Moment,
    running: HashMap<Fence, Running>,
    prefetch_max: u32,
    tokens: Box<dyn FnMut() -> ClaimToken + Send>,
    out: Vec<Effect>,
}

/// Claimed, and not started yet.
struct Waiting {
    claimed: Arc<Claimed>,
    since: Moment,
}

struct Running {
    claimed: Arc<Claimed>,
    since: Moment,
}

impl Pool {
    /// A pool that looks for work at once. `tokens` must give random ones.
    pub fn new(
        settings: PoolSettings,
        worker: WorkerId,
        quarantine: Quarantine,
        tokens: Box<dyn FnMut() -> ClaimToken + Send>,
    ) -> Self {
        let claims = Claims::new(settings.scope.clone(), worker, quarantine);
        Self {
            settings,
            phase: Phase::Working,
            claims,
            settler: Settler::default(),
            room: VecDeque::new(),
            held_up_until: Moment::ZERO,
            running: HashMap::new(),
            prefetch_max: u32::MAX,
            tokens,
            out: Vec::new(),
        }
    }

    /// The same pool, but one that claims only for slots that are idle.
    #[must_use]
    pub fn without_prefetch(mut self) -> Self {
        self.prefetch_max = 0;
        self
    }

    /// The same pool, but one that sends a second batch of ends beside another as soon as so many have gathered. So a
    /// simulation of few jobs sees what else comes with thousands a second.
    #[must_use]
    pub fn with_second_batch_from(mut self, ends: usize) -> Self {
        self.settler = Settler::with_second_from(ends);
        self
    }

    /// From now on so many handlers may run at once. What runs already goes on.
    pub fn set_concurrency(&mut self, concurrency: u32) {
        self.settings.concurrency = concurrency;
    }

    /// Takes in what happened.
    pub fn on(&mut self, event: Event, now: Moment) {
        if !self.may_start() {
            self.held_up_until = now;
        }
        match event {
            Event::Hint => self.claims.hint(),
            Event::Quiet => self.claims.polled(now),
            Event::ClaimAnswered(token, Ok(answer)) => self.claim_answered(token, answer, now),
            Event::ClaimAnswered(token, Err(CallFailure::Unknown)) => self.claims.answer_lost(token, now),
            Event::ClaimAnswered(token, Err(_)) => self.claims.failed(token, now),
            Event::Ended { fence, outcome, report } => self.ended(fence, outcome, report, now),
            Event::SettleAnswered(number, answer) => self.settle_answered(number, answer, now),
            Event::LeaseRanOut => self.give_back_room(now),
            Event::Reborn(worker) => self.reborn(worker),
            Event::Scale(concurrency) => self.set_concurrency(concurrency),
            Event::Drain => self.drain(),
            Event::Stop { grace } => self.stop(grace, now),
        }
    }

    /// What the last claim found says nothing of jobs that came in after it left: one more is sent.
    fn drain(&mut self) {
        self.phase = Phase::Draining;
        self.claims.hint();
    }

    /// What to do now, after everything that happened was taken in.
    pub fn effects(&mut self, now: Moment) -> Vec<Effect> {
        self.abort_when_grace_is_over(now);
        self.start_from_room(now);
        self.give_back_what_waits(now);
        self.claim(now);
        while let Some((number, batch)) = self.settler.next(now) {
            self.out.push(Effect::Settle(number, batch));
        }
        std::mem::take(&mut self.out)
    }

    /// When to ask for effects again even if nothing happens.
    pub fn wake_at(&self) -> Moment {
        let abort_at = match self.phase {
            Phase::Stopping { abort_at, aborted: false } => abort_at,
            _ => Moment::MAX,
        };
        abort_at.min(self.claim_at()).min(self.give_back_at()).min(self.settler.wake_at())
    }

    /// When what waits for a slot has waited for too long. While the store is slow to take ends, that is no handler's fault.
    fn give_back_at(&self) -> Moment {
        let oldest = self.room.front().filter(|_| self.may_start());
        let since = |waiting: &Waiting| waiting.since.max(self.held_up_until);
        oldest.map_or(Moment::MAX, |waiting| since(waiting).saturating_add(GIVE_BACK_AFTER))
    }

    /// When to claim if nothing happens. While settling fails nothing is claimed, and its answer is an event.
    fn claim_at(&self) -> Moment {
        match self.phase {
            _ if self.settler.is_failing() => Moment::MAX,
            Phase::Stopping { .. } => self.claims.repeat_at(),
            Phase::Working | Phase::Draining => {
                let (free, room) = self.free_and_room();
                self.claims.wake_at(free, room)
            }
        }
    }

    /// Whether everything is done after a stop or a drain.
    pub fn has_ended(&self) -> bool {
        let over = match self.phase {
            Phase::Working => false,
            Phase::Draining => self.claims.found_nothing(),
            Phase::Stopping { .. } => !self.claims.is_under_way(),
        };
        self.is_idle() && over
    }

    fn is_idle(&self) -> bool {
        self.running.is_empty() && self.room.is_empty() && self.settler.unsettled() == 0
    }

    /// How many handlers run.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Whether the handler of this claim runs.
    pub fn runs(&self, fence: Fence) -> bool {
        self.running.contains_key(&fence)
    }

    /// How many jobs are held in all: running, prefetched, unsettled.
    pub fn held(&self) -> usize {
        self.running.len() + self.room.len() + self.settler.unsettled()
    }

    fn claim_answered(&mut self, token: ClaimToken, answer: ClaimAnswer, now: Moment) {
        match answer {
            ClaimAnswer::Claimed { jobs, peek } => {
                if self.claims.answered(token, &jobs, peek, now) {
                    let waiting = |claimed| Waiting { claimed: Arc::new(claimed), since: now };
                    self.room.extend(jobs.into_iter().map(waiting));
                }
                if let Phase::Stopping { .. } = self.phase {
                    self.give_back_room(now);
                }
            }
            ClaimAnswer::WorkerDead => {
                if self.claims.refused_as_dead(token, now) {
                    self.out.push(Effect::Died);
                }
            }
        }
    }

    fn ended(&mut self, fence: Fence, outcome: AttemptOutcome, report: AttemptReport, now: Moment) {
        let Some(Running { claimed, since }) = self.running.remove(&fence) else { return };
        // What was held back did not run, and says nothing of how fast its type is.
        if !matches!(outcome, AttemptOutcome::Held(_)) {
            self.claims.ran(&claimed.job, report.ran_for);
        }
        let age = claimed.age.saturating_add(now.saturating_sub(since));
        let policy = self.policy(&claimed);
        let transition = settle(&claimed.job, outcome, policy, age);
        self.settler.push(Arc::unwrap_or_clone(claimed).settled(transition, report), now);
    }

    /// How a failure of this job is followed up: its own policy, else its type's, else that of every type. The
    /// only place that knows this.
    pub fn policy<'a>(&'a self, claimed: &'a Claimed) -> &'a RetryPolicy {
        static DEFAULT: LazyLock<RetryPolicy> = LazyLock::new(RetryPolicy::default);
        let of_type = || self.settings.policies.get(&claimed.job.job_type);
        claimed.job.retry.as_ref().or_else(of_type).unwrap_or(&DEFAULT)
    }

    fn settle_answered(
        &mut self,
        number: BatchNumber,
        answer: Result<Vec<Settled>, CallFailure>,
        now: Moment,
    ) {
        match answer {
            Ok(answers) => {
                let batch = self.settler.taken(number);
                batch.iter().for_each(|settlement| self.claims.let_go(settlement.fence));
                let lost = batch.iter().zip(answers).filter(|(_, answer)| *answer == Settled::ClaimLost);
                self.out.extend(lost.map(|(settlement, _)| Effect::ClaimLost(settlement.fence)));
            }
            Err(CallFailure::NotDone) => self.settler.failed(number, now),
            Err(CallFailure::Unknown) => {
                let forgotten = self.settler.answer_lost(number, now);
                forgotten.iter().for_each(|settlement| self.claims.let_go(settlement.fence));
            }
            Err(CallFailure::Refused) => {
                let given_up = self.settler.refused(number, now);
                given_up.iter().for_each(|settlement| self.claims.let_go(settlement.fence));
                self.out.extend(given_up.map(Effect::GaveUp));
            }
        }
        self.look_once_more_at_the_end_of_a_drain();
    }

    /// What a handler put in, or an end put back, may have come after the last claim left, and the hint of it after the end.
    fn look_once_more_at_the_end_of_a_drain(&mut self) {
        if self.phase == Phase::Draining && self.is_idle() {
            self.claims.hint();
        }
    }

    /// What is claimed and not started goes back; another worker may have an idle slot for it.
    pub fn give_back_room(&mut self, now: Moment) {
        if planted(Bug::StopDropsPrefetched) {
            self.room.clear();
        }
        for Waiting { claimed, .. } in self.room.drain(..) {
            let transition = Transition::Release { started: false };
            let settlement = Arc::unwrap_or_clone(claimed).settled(transition, AttemptReport::default());
            self.settler.push(settlement, now);
        }
    }

    /// What runs now takes long, although none of it has ended to say so: nothing is prefetched until others have.
    fn give_back_what_waits(&mut self, now: Moment) {
        if now < self.give_back_at() {
            return;
        }
        for Running { claimed, since } in self.running.values() {
            self.claims.runs(&claimed.job, now.saturating_sub(*since));
        }
        self.give_back_room(now);
    }

    /// The claims of the old identity are lost; what still runs will be told so when it settles.
    fn reborn(&mut self, worker: WorkerId) {
        self.room.drain(..).for_each(|waiting| self.claims.let_go(waiting.claimed.fence()));
        self.claims.reborn(worker);
    }

    fn stop(&mut self, grace: Duration, now: Moment) {
        let abort_at = now.saturating_add(grace);
        let sooner = match self.phase {
            Phase::Stopping { abort_at: earlier, .. } => earlier.min(abort_at),
            Phase::Working | Phase::Draining => abort_at,
        };
        self.phase = Phase::Stopping { abort_at: sooner, aborted: false };
        self.give_back_room(now);
        if planted(Bug::StopDropsUnsettled) {
            self.settler.clear();
        }
    }

    fn abort_when_grace_is_over(&mut self, now: Moment) {
        if let Phase::Stopping { abort_at, aborted: aborted @ false } = &mut self.phase
            && now >= *abort_at
        {
            *aborted = true;
            self.out.extend(self.running.keys().copied().map(Effect::Abort));
        }
    }

    fn may_start(&self) -> bool {
        !self.settler.is_failing() && self.settler.unsettled() < UNSETTLED_MAX
    }

    fn start_from_room(&mut self, now: Moment) {
        let may_start = self.may_start();
        while may_start && self.running.len() < self.settings.concurrency as usize {
            let Some(Waiting { claimed, .. }) = self.room.pop_front() else { break };
            self.running.insert(claimed.fence(), Running { claimed: Arc::clone(&claimed), since: now });
            self.out.push(Effect::Start(claimed));
        }
    }

    fn claim(&mut self, now: Moment) {
        while !self.settler.is_failing()
            && let Some(request) = self.next_claim(now)
        {
            self.out.push(Effect::Claim(request));
        }
    }

    /// A pool that stops still asks what a claim with a lost answer has brought.
    fn next_claim(&mut self, now: Moment) -> Option<ClaimRequest> {
        if matches!(self.phase, Phase::Stopping { .. }) {
            return self.claims.repeat_lost(now);
        }
        let (free, room) = self.free_and_room();
        self.claims.next(free, room, now, &mut self.tokens)
    }

    /// Idle slots, and how much may be claimed with prefetch. Under load, claims wait until half of the
    /// prefetched is used up: many small claims cost more than few big ones.
    fn free_and_room(&self) -> (u32, u32) {
        let concurrency = self.settings.concurrency;
        let busy =
            u32::try_from(self.running.len() + self.room.len()).unwrap_or(u32::MAX) + self.claims.reserved();
        let free = concurrency.saturating_sub(busy);
        let held = busy.saturating_add(self.claims.coming());
        let prefetch = self.claims.prefetch(concurrency).min(self.prefetch_max);
        let waiting = held.saturating_sub(concurrency);
        let unsettled_ok = self.settler.unsettled() < UNSETTLED_MAX;
        let idle = concurrency.saturating_sub(held);
        let room = if unsettled_ok && waiting <= prefetch / 2 { idle + prefetch - waiting } else { 0 };
        (free, room)
    }
}

#[cfg(test)]
pub(super) mod tests;
