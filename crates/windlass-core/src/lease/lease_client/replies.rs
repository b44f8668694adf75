//! What the lease client learns: answers of the store, hints, and changes of the membership.

use std::time::Duration;

use super::state::{Elsewhere, LeaseState, Ours, Sent, pause};
use super::{
    ANY_HINT_PAUSE, BLOCKED_EXPIRIES, LeaseCall, LeaseClient, LeaseEffect, LeaseTiming, Moment,
    POLL_AGAIN_MIN,
};
use crate::error::EngineError;
use crate::lease::membership::{Member, Membership};
use crate::lease::{LeaseFence, LeaseMetadata, LeaseRelease, Renewed, Taking, Term};
use crate::names::DutyName;

impl LeaseClient {
    /// Handles the answer to a request, or its failure.
    pub fn tried(
        &mut self,
        call: LeaseCall,
        answer: Result<Vec<Taking>, EngineError>,
        now: Moment,
    ) -> Vec<LeaseEffect> {
        let Some(sent) = self.sent.remove(&call) else { return Vec::new() };
        // If the request was sent again meanwhile, the newer answer decides, except about granted terms.
        let is_newest = self.request.as_ref().is_some_and(|request| request.newest == call);
        match answer {
            Ok(answers) if answers.len() == sent.duties.len() => {
                self.apply_answers(sent, answers, is_newest, now)
            }
            // An answer of another length belongs to another request and says nothing about this one.
            Ok(_) => self.apply_failure(&sent, is_newest, true, now),
            Err(error) => self.apply_failure(&sent, is_newest, error.is_unknown(), now),
        }
    }

    fn apply_answers(
        &mut self,
        sent: Sent,
        answers: Vec<Taking>,
        is_newest: bool,
        now: Moment,
    ) -> Vec<LeaseEffect> {
        if is_newest {
            (self.request, self.requests_failed) = (None, 0);
        }
        let mut effects = Vec::new();
        for (duty, taking) in sent.duties.into_iter().zip(answers) {
            match taking {
                Taking::Taken(term, metadata) => {
                    effects.extend(self.granted(duty, term, metadata, sent.at, now));
                }
                refused if is_newest => effects.extend(self.refused(&duty, &refused, sent.at, now)),
                _ => {}
            }
        }
        effects
    }

    /// Handles a request without an answer. Terms that may have been granted are requested under the same
    /// id until the store says what became of them, or released if the request was abandoned.
    fn apply_failure(
        &mut self,
        sent: &Sent,
        is_newest: bool,
        in_doubt: bool,
        now: Moment,
    ) -> Vec<LeaseEffect> {
        if is_newest {
            self.try_later(in_doubt, now);
            return Vec::new();
        }
        if let Some(request) = self.request.as_mut().filter(|request| request.id == sent.id) {
            request.is_in_doubt |= in_doubt;
            return Vec::new();
        }
        let is_ours = |duty: &&DutyName| match self.duties.get(*duty) {
            Some(LeaseState::Ours(ours)) => ours.term.id == sent.id,
            _ => false,
        };
        let lost = sent.duties.iter().filter(|duty| in_doubt && !is_ours(duty));
        let release = |duty: &DutyName| LeaseRelease { duty: duty.clone(), id: sent.id, metadata: None };
        let releases: Vec<_> = lost.map(release).collect();
        (!releases.is_empty()).then_some(LeaseEffect::Release(releases)).into_iter().collect()
    }

    fn try_later(&mut self, in_doubt: bool, now: Moment) {
        let (timing, ring_position) = (self.timing, self.membership.ring_position());
        let Some(request) = self.request.as_mut() else { return };
        request.is_in_doubt |= in_doubt;
        request.again_at =
            now.saturating_add(timing.backoff(timing.again_after(), request.times_sent, ring_position));
        if !request.is_in_doubt || self.leaves_it_to_others(now) {
            self.give_up_request(now);
        }
    }

    /// Another process holds the lease, or no process can take it now.
    fn refused(
        &mut self,
        duty: &DutyName,
        taking: &Taking,
        sent_at: Moment,
        now: Moment,
    ) -> Option<LeaseEffect> {
        let (timing, membership) = (self.timing, &self.membership);
        let Some(LeaseState::Elsewhere(state)) = self.duties.get_mut(duty) else { return None };
        if state.is_older(sent_at) {
            return None;
        }
        let wait = match taking {
            // A term of this process began and ended without an answer.
            Taking::Taken(..) | Taking::Over => Duration::ZERO,
            Taking::Held { .. } | Taking::Busy if state.hinted => Duration::ZERO,
            Taking::Held { expires_in, .. } => pause(membership, duty, (*expires_in).max(POLL_AGAIN_MIN)),
            Taking::Busy => pause(membership, duty, timing.again_after()),
            Taking::NoRoom => pause(membership, duty, timing.expiry),
        };
        (state.look_at, state.hinted) = (now.saturating_add(wait), false);
        let is_kept_away = matches!(taking, Taking::Busy | Taking::NoRoom);
        let lasting = state.blocked_for(is_kept_away, timing, now)?;
        let duty = duty.clone();
        Some(match taking {
            Taking::NoRoom => LeaseEffect::NoRoom { duty, lasting },
            _ => LeaseEffect::Blocked { duty, lasting },
        })
    }

    /// Starts the duty under a granted term, if this process still wants it.
    fn granted(
        &mut self,
        duty: DutyName,
        term: Term,
        metadata: LeaseMetadata,
        sent_at: Moment,
        now: Moment,
    ) -> Vec<LeaseEffect> {
        let timing = self.timing;
        let lease = LeaseFence { duty, term };
        let mut effects = Vec::new();
        match self.duties.get_mut(&lease.duty) {
            // A second answer to a request that was sent twice counts as a heartbeat.
            Some(LeaseState::Ours(ours)) if ours.term == term => {
                return ours
                    .kept(timing, false, sent_at, now)
                    .map(|effect| effect(lease))
                    .into_iter()
                    .collect();
            }
            // The granted term is older than the current one.
            Some(LeaseState::Ours(ours)) if ours.term.fence >= term.fence => return Vec::new(),
            Some(LeaseState::Ours(ours)) => {
                let before = LeaseFence { duty: lease.duty.clone(), term: ours.term };
                effects.extend(ours.doubted_since.is_none().then_some(LeaseEffect::Stop(before)));
            }
            Some(LeaseState::Elsewhere(state)) if state.accepts(term, sent_at, now) => {}
            _ => return vec![LeaseEffect::Release(vec![LeaseRelease::from(&lease)])],
        }
        let mut ours = Ours::granted(term, timing, sent_at);
        if ours.is_trusted(now) {
            effects.push(LeaseEffect::Start { lease: lease.clone(), metadata: Some(metadata) });
        } else {
            ours.doubt(now);
        }
        self.duties.insert(lease.duty, LeaseState::Ours(ours));
        effects
    }

    /// Handles the answer to renewals, one entry for each named lease, or its failure.
    pub fn renewed(
        &mut self,
        call: LeaseCall,
        answer: Result<Vec<(LeaseFence, Renewed)>, EngineError>,
        now: Moment,
    ) -> Vec<LeaseEffect> {
        let Some(sent_at) = self.renewals.remove(&call) else { return Vec::new() };
        // No answer has an effect across the deadline.
        let mut effects = self.stop_untrusted(now);
        match answer {
            Ok(answers) => {
                self.renewals_unanswered = 0;
                let of_lease = |(lease, renewed)| self.answered(lease, renewed, sent_at, now);
                effects.extend(answers.into_iter().filter_map(of_lease));
            }
            Err(_) => self.renew_again(now),
        }
        effects
    }

    /// Renews soon while the lease is trusted, which is not for long, and less and less often after that.
    fn renew_again(&mut self, now: Moment) {
        let soon = self.timing.again_after();
        let later = self.timing.backoff(soon, self.renewals_unanswered, self.membership.ring_position());
        for (_, ours) in self.ours_mut() {
            let wait = if ours.doubted_since.is_some() { later } else { soon };
            ours.renew_at = ours.renew_at.min(now.saturating_add(wait));
        }
    }

    fn answered(
        &mut self,
        lease: LeaseFence,
        renewed: Renewed,
        sent_at: Moment,
        now: Moment,
    ) -> Option<LeaseEffect> {
        let (timing, membership) = (self.timing, &self.membership);
        let state = self.duties.get_mut(&lease.duty)?;
        let LeaseState::Ours(ours) = state else { return None };
        if ours.term != lease.term {
            return None;
        }
        if renewed == Renewed::Lost {
            let was_done = ours.doubted_since.is_none();
            *state = LeaseState::Elsewhere(match ours.gives_way_since {
                Some(_) => Elsewhere::after(ours.term, now, timing.expiry),
                None => Elsewhere::until(now.saturating_add(pause(membership, &lease.duty, Duration::ZERO))),
            });
            return was_done.then_some(LeaseEffect::Stop(lease));
        }
        if ours.noted.as_ref().is_some_and(|noted| noted.at <= sent_at) {
            ours.noted = None;
        }
        let give_way = renewed == Renewed::GiveWay;
        ours.kept(timing, give_way, sent_at, now).map(|effect| effect(lease))
    }

    /// Handles a hint that the lease of a duty became free, or that its holder was asked to give way.
    pub fn hinted(&mut self, duty: &DutyName, now: Moment) {
        let again_after = self.timing.again_after();
        if let Some(LeaseState::Ours(ours)) = self.duties.get_mut(duty) {
            let soon = now.max(ours.sent_at.saturating_add(again_after));
            ours.renew_at = ours.renew_at.min(soon);
        }
        self.look_soon(duty, now, Duration::ZERO);
    }

    /// Handles a hint that something changed in the store, perhaps a lease. Such hints may come all the
    /// time, and each renewal is such a change for the other processes. So none causes a renewal.
    pub fn hinted_of_anything(&mut self, now: Moment) {
        let duties: Vec<_> = self.duties.keys().cloned().collect();
        duties.iter().for_each(|duty| self.look_soon(duty, now, ANY_HINT_PAUSE));
    }

    fn look_soon(&mut self, duty: &DutyName, now: Moment, at_most_each: Duration) {
        let stands_by = self.membership.of_duty(duty).stands_by();
        let Some(LeaseState::Elsewhere(state)) = self.duties.get_mut(duty) else { return };
        if stands_by && state.may_look(now) {
            let soon = now.max(state.looked_at.saturating_add(at_most_each));
            state.look_at = state.look_at.min(soon);
            // A hint that names no lease may be about anything, and the next poll is soon.
            state.hinted |= at_most_each.is_zero();
        }
    }

    /// Handles a change of the membership: workers came or went.
    pub fn saw(&mut self, membership: Membership, now: Moment) {
        let before = std::mem::replace(&mut self.membership, membership);
        let membership = self.membership.clone();
        for (duty, state) in self.elsewhere_mut() {
            let members = membership.of_duty(duty);
            let was = before.of_duty(duty);
            match (was.stands_by(), members.stands_by()) {
                (false, true) => state.look_at = state.look_at.min(now),
                (false, false) => state.look_at = in_measure(state.look_at, was, members, now),
                (true, _) => {}
            }
        }
    }
}

/// Returns when a process that does not stand by polls next, after the length of a round has changed: at
/// the same fraction of what is left of the round. Without this, a process that started among ten others
/// would poll within ten seconds, and so would all that came after it, even when the processes are a
/// thousand.
fn in_measure(look_at: Moment, was: Member, is: Member, now: Moment) -> Moment {
    let left = look_at.saturating_sub(now).as_secs_f64() / was.round().as_secs_f64();
    now.saturating_add(is.round().mul_f64(left.clamp(0.0, 1.0)))
}

impl Elsewhere {
    /// Returns for how long the lease could not be taken though it is free, if that time has just become
    /// too long.
    fn blocked_for(&mut self, is_busy: bool, timing: LeaseTiming, now: Moment) -> Option<Duration> {
        if !is_busy {
            (self.busy_since, self.reported_busy) = (None, false);
            return None;
        }
        let lasting = now.saturating_sub(*self.busy_since.get_or_insert(now));
        if self.reported_busy || lasting < timing.expiry.saturating_mul(BLOCKED_EXPIRIES) {
            return None;
        }
        self.reported_busy = true;
        Some(lasting)
    }
}

impl Ours {
    /// Handles an answer that the term holds in the store. Whether the answer is in time depends on when
    /// the request left.
    fn kept(
        &mut self,
        timing: LeaseTiming,
        give_way: bool,
        sent_at: Moment,
        now: Moment,
    ) -> Option<fn(LeaseFence) -> LeaseEffect> {
        let trusted_until = sent_at.saturating_add(timing.trust());
        let is_fresh = self.doubted_since.is_none_or(|since| sent_at >= since);
        // The answer is too late to count. Another renewal is in flight, or is sent when it is due.
        if !is_fresh || now >= trusted_until {
            return None;
        }
        let begins = self.doubted_since.take().is_some();
        self.trusted_until = self.trusted_until.max(trusted_until);
        // A renewal that was postponed while in doubt is due together with the others again.
        let beat_at = sent_at.saturating_add(timing.heartbeat);
        self.renew_at = if begins { beat_at } else { self.renew_at.max(beat_at) };
        if give_way && self.gives_way_since.is_none() {
            self.gives_way_since = Some(now);
            return Some(LeaseEffect::GiveWay);
        }
        begins.then_some(|lease| LeaseEffect::Start { lease, metadata: None })
    }
}
