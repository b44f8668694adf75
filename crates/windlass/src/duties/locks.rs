//! Requests and keeps the locks of one process's duties, without any I/O. A lock belongs to a session of
//! the engine and has no fence. A process that has a lock requests it again with each heartbeat, and trusts
//! the answer from the moment the request was sent, as it does with leases: a session that does not answer
//! may be gone, and the lock with it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use windlass_core::lease::LockRequest;
use windlass_core::lease::lease_client::LeaseTiming;
use windlass_core::limits::DUTIES_PER_CALL_MAX;
use windlass_core::names::DutyName;
use windlass_core::worker::WorkerId;

use crate::worker::Moment;

/// The number of one request for locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockCall(u64);

/// An action or a finding about locks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LockEffect {
    Ask(LockCall, LockRequest),
    Gained(DutyName),
    Lost(DutyName),
    Unlock(Vec<DutyName>),
}

/// The locks that one process has or wants.
#[derive(Debug)]
pub(super) struct Locks {
    timing: LeaseTiming,
    /// The pause between two requests while no lock is held: half a heartbeat to two and a half, depending
    /// on the ring position of this process.
    pause: Duration,
    duties: BTreeMap<DutyName, LockState>,
    ask_at: Moment,
    sent: BTreeMap<LockCall, (Moment, Vec<DutyName>)>,
    last_call: u64,
}

#[derive(Debug)]
struct LockState {
    is_wanted: bool,
    rests_until: Moment,
    trusted_until: Option<Moment>,
    /// Answers to requests before this moment say nothing of the present: the lock was released then.
    given_back_at: Option<Moment>,
}

impl LockState {
    fn new() -> Self {
        Self { is_wanted: true, rests_until: Moment::ZERO, trusted_until: None, given_back_at: None }
    }

    fn is_asked_for(&self, now: Moment) -> bool {
        self.trusted_until.is_some() || (self.is_wanted && self.rests_until <= now)
    }
}

impl Locks {
    pub(super) fn new(duties: Vec<DutyName>, timing: LeaseTiming, ring_position: u16, now: Moment) -> Self {
        let spread = (timing.heartbeat * 2).mul_f64(f64::from(ring_position) / f64::from(1 << 16));
        Self {
            timing,
            pause: timing.heartbeat / 2 + spread,
            duties: duties.into_iter().map(|duty| (duty, LockState::new())).collect(),
            ask_at: now,
            sent: BTreeMap::new(),
            last_call: 0,
        }
    }

    /// Whether this process may do a duty at `now`.
    pub(super) fn has(&self, duty: &DutyName, now: Moment) -> bool {
        self.duties.get(duty).is_some_and(|state| state.trusted_until.is_some_and(|until| now < until))
    }

    pub(super) fn effects(&mut self, worker: WorkerId, now: Moment) -> Vec<LockEffect> {
        let mut effects = self.lose_untrusted(now);
        if self.duties.is_empty() || now < self.ask_at {
            return effects;
        }
        let asked = self.duties.iter().filter(|(_, state)| state.is_asked_for(now));
        let duties: Vec<_> = asked.map(|(duty, _)| duty.clone()).collect();
        let holds = self.duties.values().any(|state| state.trusted_until.is_some());
        self.ask_at = now.saturating_add(if holds { self.timing.heartbeat } else { self.pause });
        let timing = self.timing;
        self.sent.retain(|_, (at, _)| now < at.saturating_add(timing.trust()));
        effects.extend(duties.chunks(DUTIES_PER_CALL_MAX).map(|part| self.ask(worker, part.to_vec(), now)));
        effects
    }

    /// One request, about no more duties than a request may name.
    fn ask(&mut self, worker: WorkerId, duties: Vec<DutyName>, now: Moment) -> LockEffect {
        self.last_call += 1;
        let call = LockCall(self.last_call);
        self.sent.insert(call, (now, duties.clone()));
        LockEffect::Ask(call, LockRequest { worker, duties, good_for: self.timing.expiry })
    }

    pub(super) fn wake_at(&self) -> Moment {
        if self.duties.is_empty() {
            return Moment::MAX;
        }
        let deadlines = self.duties.values().filter_map(|state| state.trusted_until).min();
        self.ask_at.min(deadlines.unwrap_or(Moment::MAX))
    }

    /// Takes in the answer to a request, or its failure.
    pub(super) fn answered(
        &mut self,
        call: LockCall,
        answer: Option<Vec<bool>>,
        now: Moment,
    ) -> Vec<LockEffect> {
        let mut effects = self.lose_untrusted(now);
        let Some((sent_at, duties)) = self.sent.remove(&call) else { return effects };
        let trusted_until = sent_at.saturating_add(self.timing.trust());
        let answers = answer.filter(|answers| answers.len() == duties.len() && now < trusted_until);
        let mut unwanted = Vec::new();
        for (duty, has) in duties.into_iter().zip(answers.into_iter().flatten()) {
            let Some(state) = self.duties.get_mut(&duty) else { continue };
            if state.given_back_at.is_some_and(|at| sent_at <= at) {
                continue;
            }
            match (state.trusted_until, has) {
                (Some(_), true) => state.trusted_until = Some(trusted_until),
                (Some(_), false) => {
                    state.trusted_until = None;
                    effects.push(LockEffect::Lost(duty));
                }
                (None, true) if state.is_asked_for(now) => {
                    state.trusted_until = Some(trusted_until);
                    self.ask_at = self.ask_at.min(now.saturating_add(self.timing.heartbeat));
                    effects.push(LockEffect::Gained(duty));
                }
                (None, true) => unwanted.push(duty),
                (None, false) => {}
            }
        }
        effects.extend((!unwanted.is_empty()).then_some(LockEffect::Unlock(unwanted)));
        effects
    }

    fn lose_untrusted(&mut self, now: Moment) -> Vec<LockEffect> {
        let mut effects = Vec::new();
        for (duty, state) in &mut self.duties {
            if state.trusted_until.is_some_and(|until| until <= now) {
                state.trusted_until = None;
                effects.push(LockEffect::Lost(duty.clone()));
            }
        }
        effects
    }

    /// Sets whether this process wants to do a duty.
    pub(super) fn want(&mut self, duty: &DutyName, wanted: bool, now: Moment) {
        if let Some(state) = self.duties.get_mut(duty) {
            let is_new = wanted && !state.is_wanted;
            state.is_wanted = wanted;
            self.ask_at = if is_new { self.ask_at.min(now) } else { self.ask_at };
        }
    }

    /// Releases a lock, and leaves it to other processes for a while.
    pub(super) fn give_way(&mut self, duty: &DutyName, now: Moment) -> Vec<LockEffect> {
        let rest = now.saturating_add(self.timing.expiry);
        let Some(state) = self.duties.get_mut(duty) else { return Vec::new() };
        (state.rests_until, state.given_back_at) = (rest, Some(now));
        if state.trusted_until.take().is_none() {
            return Vec::new();
        }
        vec![LockEffect::Lost(duty.clone()), LockEffect::Unlock(vec![duty.clone()])]
    }

    /// Releases all locks, including those that may have been granted by an answer that never arrived.
    pub(super) fn stop(&mut self) -> Vec<LockEffect> {
        let held = self.duties.iter().filter(|(_, state)| state.trusted_until.is_some());
        let held: BTreeSet<_> = held.map(|(duty, _)| duty.clone()).collect();
        let sent = self.sent.values().flat_map(|(_, duties)| duties.clone());
        let all: BTreeSet<_> = held.iter().cloned().chain(sent).collect();
        self.duties.clear();
        let lost = held.into_iter().map(LockEffect::Lost);
        let unlock = (!all.is_empty()).then(|| LockEffect::Unlock(all.into_iter().collect()));
        lost.chain(unlock).collect()
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::lease::lease_client::LeaseTiming;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn totals() -> DutyName {
        DutyName::parse("totals").expect("a plain name")
    }

    fn locks() -> Locks {
        Locks::new(vec![totals()], LeaseTiming::default(), 0, Moment::ZERO)
    }

    fn ask(locks: &mut Locks, now: Moment) -> LockCall {
        match locks.effects(WorkerId::from_random(1), now).pop() {
            Some(LockEffect::Ask(call, request)) => {
                assert_eq!(request.duties, [totals()]);
                call
            }
            other => panic!("expected a request, got {other:?}"),
        }
    }

    #[test]
    fn a_lock_is_asked_for_at_once_and_kept_with_each_heartbeat() {
        let mut locks = locks();
        let call = ask(&mut locks, Moment::ZERO);
        assert_eq!(locks.answered(call, Some(vec![true]), SECOND), [LockEffect::Gained(totals())]);
        assert!(locks.has(&totals(), SECOND * 8));
        assert_eq!(locks.wake_at(), SECOND, "while no lock was held, the next request was due soon");
        let call = ask(&mut locks, SECOND * 3);
        assert_eq!(locks.answered(call, Some(vec![true]), SECOND * 3), []);
        assert_eq!(locks.wake_at(), SECOND * 5);
    }

    #[test]
    fn more_duties_than_one_question_may_be_about_are_asked_for_by_several() {
        let named = |n: usize| DutyName::parse(&format!("totals-{n:03}")).expect("a plain name");
        let count = DUTIES_PER_CALL_MAX + 1;
        let mut locks = Locks::new((0..count).map(named).collect(), LeaseTiming::default(), 0, Moment::ZERO);
        let mut gained = Vec::new();
        for effect in locks.effects(WorkerId::from_random(1), Moment::ZERO) {
            let LockEffect::Ask(call, request) = effect else { panic!("expected requests, got {effect:?}") };
            assert!(request.duties.len() <= DUTIES_PER_CALL_MAX);
            gained.extend(locks.answered(call, Some(vec![true; request.duties.len()]), SECOND));
        }
        assert_eq!(gained.len(), count);
        assert!((0..count).all(|n| locks.has(&named(n), SECOND)));
    }

    #[test]
    fn without_an_answer_it_is_lost_at_the_local_deadline_and_by_no_answer_before() {
        let mut locks = locks();
        let call = ask(&mut locks, Moment::ZERO);
        locks.answered(call, Some(vec![true]), SECOND);
        let call = ask(&mut locks, SECOND * 2);
        assert_eq!(locks.answered(call, None, SECOND * 3), []);
        assert!(locks.has(&totals(), SECOND * 8));
        assert_eq!(locks.effects(WorkerId::from_random(1), SECOND * 9)[0], LockEffect::Lost(totals()));
    }

    #[test]
    fn a_session_that_was_made_anew_has_lost_it() {
        let mut locks = locks();
        let call = ask(&mut locks, Moment::ZERO);
        locks.answered(call, Some(vec![true]), SECOND);
        let call = ask(&mut locks, SECOND * 2);
        assert_eq!(locks.answered(call, Some(vec![false]), SECOND * 2), [LockEffect::Lost(totals())]);
    }

    #[test]
    fn what_was_given_back_is_not_brought_back_by_an_answer_that_is_older() {
        let mut locks = locks();
        let call = ask(&mut locks, Moment::ZERO);
        locks.answered(call, Some(vec![true]), SECOND);
        let call = ask(&mut locks, SECOND * 2);
        let given_back = locks.give_way(&totals(), SECOND * 3);
        assert_eq!(given_back, [LockEffect::Lost(totals()), LockEffect::Unlock(vec![totals()])]);
        assert_eq!(locks.answered(call, Some(vec![true]), SECOND * 4), []);
        assert_eq!(locks.effects(WorkerId::from_random(1), SECOND * 5), [], "the lock is left to others");
    }

    #[test]
    fn a_stop_gives_back_what_is_held_and_what_may_be() {
        let mut locks = locks();
        ask(&mut locks, Moment::ZERO);
        assert_eq!(locks.stop(), [LockEffect::Unlock(vec![totals()])]);
    }
}
