//! One pool of slots for one or several queues: the core of a worker, without any I/O.
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

/// The number of unsettled ends from which no handler is started.
pub const UNSETTLED_MAX: usize = 3 * SETTLE_BATCH_MAX;

/// How long a prefetched job may wait for a slot; it should start within a tenth of this. If it has not
/// started by then, the handlers have become slow, and another worker may have an idle slot.
const GIVE_BACK_AFTER: Duration = Duration::from_millis(500);

/// The settings of a pool.
#[derive(Debug, Clone)]
pub struct PoolSettings {
    /// The queues and types that it serves.
    pub scope: Scope,
    /// How many handlers run at once.
    pub concurrency: u32,
    /// The retry policy of each type.
    pub policies: HashMap<TypeName, RetryPolicy>,
}

/// An event that the shell reports to the pool.
#[derive(Debug)]
pub enum Event {
    /// Jobs may be claimable.
    Hint,
    /// The engine scanned by itself, and nothing is due.
    Quiet,
    /// The claim with this token was answered.
    ClaimAnswered(ClaimToken, Result<ClaimAnswer, CallFailure>),
    /// A handler ended, or was kept from starting.
    Ended {
        /// The claim.
        fence: Fence,
        /// The outcome.
        outcome: AttemptOutcome,
        /// The details to store with the attempt.
        report: AttemptReport,
    },
    /// A batch of settlements was answered.
    SettleAnswered(BatchNumber, Result<Vec<Settled>, CallFailure>),
    /// The local deadline of the worker's lease passed: other workers may take its jobs.
    LeaseRanOut,
    /// The worker started over under another identity.
    Reborn(WorkerId),
    /// The new number of handlers that may run at once.
    Scale(u32),
    /// Work until nothing is due, then end.
    Drain,
    /// Claim no more jobs; stop running handlers after the grace.
    Stop {
        /// How long handlers may go on.
        grace: Duration,
    },
}

/// The reason why a call to the store returned no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallFailure {
    /// Nothing was written.
    NotDone,
    /// It may have been written.
    Unknown,
    /// The request itself is invalid.
    Refused,
}

/// An action for the shell.
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
    /// Report that the store no longer knows this claim as this worker's.
    ClaimLost(Fence),
    /// Report that the store refuses this settlement.
    GaveUp(Settlement),
    /// The store says that this worker is dead; it must start over.
    Died,
}

/// The phase in the life of a pool.
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
    /// When unsettled ends last kept a job from starting.
    held_up_until: Moment,
    running: HashMap<Fence, Running>,
    prefetch_max: u32,
    tokens: Box<dyn FnMut() -> ClaimToken + Send>,
    out: Vec<Effect>,
}

/// A job that is claimed and not started yet.
struct Waiting {
    claimed: Arc<Claimed>,
    since: Moment,
}

struct Running {
    claimed: Arc<Claimed>,
    since: Moment,
}

impl Pool {
    /// Creates a pool that claims at once. `tokens` must return random tokens.
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

    /// The same pool, claiming only for slots that are idle.
    #[must_use]
    pub fn without_prefetch(mut self) -> Self {
        self.prefetch_max = 0;
        self
    }

    /// The same pool, sending a second batch of ends beside another as soon as this number of ends has
    /// gathered. A simulation of few jobs thereby covers what otherwise needs thousands of jobs a second.
    #[must_use]
    pub fn with_second_batch_from(mut self, ends: usize) -> Self {
        self.settler = Settler::with_second_from(ends);
        self
    }

    /// Sets the number of handlers that may run at once. Running handlers go on.
    pub fn set_concurrency(&mut self, concurrency: u32) {
        self.settings.concurrency = concurrency;
    }

    /// Takes in an event.
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

    /// Starts a drain. The last claim says nothing of jobs that were enqueued after it was sent: one more
    /// is sent.
    fn drain(&mut self) {
        self.phase = Phase::Draining;
        self.claims.hint();
    }

    /// The actions for now, after all events were taken in.
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

    /// When to call [`effects`](Self::effects) again even if no event comes.
    pub fn wake_at(&self) -> Moment {
        let abort_at = match self.phase {
            Phase::Stopping { abort_at, aborted: false } => abort_at,
            _ => Moment::MAX,
        };
        abort_at.min(self.claim_at()).min(self.give_back_at()).min(self.settler.wake_at())
    }

    /// When the oldest waiting job has waited too long for a slot. Time in which the store is slow to
    /// accept ends does not count: it is not the handlers' fault.
    fn give_back_at(&self) -> Moment {
        let oldest = self.room.front().filter(|_| self.may_start());
        let since = |waiting: &Waiting| waiting.since.max(self.held_up_until);
        oldest.map_or(Moment::MAX, |waiting| since(waiting).saturating_add(GIVE_BACK_AFTER))
    }

    /// When to claim if no event comes. While settling fails nothing is claimed, and the answer to the
    /// settlement is an event.
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

    /// Whether a stop or a drain is complete.
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

    /// The number of running handlers.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Whether the handler of this claim runs.
    pub fn runs(&self, fence: Fence) -> bool {
        self.running.contains_key(&fence)
    }

    /// The number of jobs held in all: running, prefetched, unsettled.
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
        // A job that a gate held back did not run, and says nothing of how fast its type is.
        if !matches!(outcome, AttemptOutcome::Held(_)) {
            self.claims.ran(&claimed.job, report.ran_for);
        }
        let age = claimed.age.saturating_add(now.saturating_sub(since));
        let policy = self.policy(&claimed);
        let transition = settle(&claimed.job, outcome, policy, age);
        self.settler.push(Arc::unwrap_or_clone(claimed).settled(transition, report), now);
    }

    /// The retry policy of a job: its own, else its type's, else the default of every type. This is the
    /// only place that knows the order.
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
        self.claim_once_more_at_the_end_of_a_drain();
    }

    /// Claims once more at the end of a drain. A job that a handler enqueued, or that a settlement
    /// requeued, may be newer than the last claim, and its hint may come after the handler's end.
    fn claim_once_more_at_the_end_of_a_drain(&mut self) {
        if self.phase == Phase::Draining && self.is_idle() {
            self.claims.hint();
        }
    }

    /// Releases the jobs that are claimed and not started; another worker may have an idle slot for them.
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

    /// Releases jobs that have waited for too long. The running handlers are slow, although none has ended
    /// to say so: nothing is prefetched until handlers of those types have ended.
    fn give_back_what_waits(&mut self, now: Moment) {
        if now < self.give_back_at() {
            return;
        }
        for Running { claimed, since } in self.running.values() {
            self.claims.runs(&claimed.job, now.saturating_sub(*since));
        }
        self.give_back_room(now);
    }

    /// Starts over under another identity. The claims of the old identity are lost; a handler that still
    /// runs learns of it when its job is settled.
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

    /// The next claim. A pool that stops still sends a claim with a lost answer again, to learn which jobs
    /// it took.
    fn next_claim(&mut self, now: Moment) -> Option<ClaimRequest> {
        if matches!(self.phase, Phase::Stopping { .. }) {
            return self.claims.repeat_lost(now);
        }
        let (free, room) = self.free_and_room();
        self.claims.next(free, room, now, &mut self.tokens)
    }

    /// The number of idle slots, and how many jobs may be claimed with prefetch. Under load, claims wait
    /// until half of the prefetched jobs are used up: many small claims cost more than few big ones.
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
