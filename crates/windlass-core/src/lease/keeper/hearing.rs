//! What the keeper is told: answers of the store, hints, and that workers came or went.

use std::time::Duration;

use super::{
    ANY_HINT_PAUSE, Elsewhere, LOOK_AGAIN_MIN, LeaseCall, LeaseEffect, LeaseKeeper, LeaseTiming, Moment,
    Ours, Stand,
};
use crate::error::EngineError;
use crate::lease::crowd::Crowds;
use crate::lease::{LeaseFence, LeaseMetadata, Renewed, Taking, Term};
use crate::names::DutyName;

impl LeaseKeeper {
    /// A request was answered, or not.
    pub fn tried(
        &mut self,
        call: LeaseCall,
        answer: Result<Vec<Taking>, EngineError>,
        now: Moment,
    ) -> Vec<LeaseEffect> {
        let Some(request) = &mut self.request else { return Vec::new() };
        let Some(sent_at) = request.calls.remove(&call) else { return Vec::new() };
        // If it was sent again meanwhile, the newer answer decides, but for what was granted.
        let is_newest = request.calls.range(call..).next().is_none();
        match answer {
            Ok(answers) => {
                let duties = request.duties.clone();
                if is_newest {
                    self.request = None;
                }
                let counts = |taking: &Taking| is_newest || matches!(taking, Taking::Taken(..));
                let heard = duties.into_iter().zip(answers).filter(|(_, taking)| counts(taking));
                heard.filter_map(|(duty, taking)| self.heard(duty, taking, sent_at, now)).collect()
            }
            Err(error) => {
                request.is_in_doubt |= error.is_unknown();
                self.try_later(is_newest, now);
                Vec::new()
            }
        }
    }

    /// What may have been granted is asked for under the same id until the store says what became of it.
    fn try_later(&mut self, is_newest: bool, now: Moment) {
        let Some(request) = self.request.as_mut().filter(|_| is_newest) else { return };
        if request.is_in_doubt {
            request.again_at = now.saturating_add(self.timing.again_after());
            return;
        }
        self.request = None;
        let (crowds, wait) = (self.crowds.clone(), self.timing.heartbeat);
        for (duty, stand) in self.elsewhere_mut() {
            stand.look_at = stand.look_at.max(now.saturating_add(pause(&crowds, duty, wait)));
        }
    }

    fn heard(&mut self, duty: DutyName, taking: Taking, sent_at: Moment, now: Moment) -> Option<LeaseEffect> {
        let was_hinted = matches!(self.duties.get(&duty), Some(Stand::Elsewhere(stand)) if stand.hinted);
        let wait = match taking {
            Taking::Taken(term, metadata) => return self.taken(duty, term, metadata, sent_at, now),
            // A term of ours began and ended while nobody answered.
            Taking::Over => Duration::ZERO,
            Taking::Held { .. } | Taking::Busy if was_hinted => Duration::ZERO,
            Taking::Held { expires_in, .. } => self.pause(&duty, expires_in.max(LOOK_AGAIN_MIN)),
            Taking::Busy => self.pause(&duty, self.timing.again_after()),
            Taking::NoRoom => self.pause(&duty, self.timing.expiry),
        };
        if let Some(Stand::Elsewhere(stand)) = self.duties.get_mut(&duty) {
            (stand.look_at, stand.hinted) = (now.saturating_add(wait), false);
        }
        None
    }

    fn taken(
        &mut self,
        duty: DutyName,
        term: Term,
        metadata: LeaseMetadata,
        sent_at: Moment,
        now: Moment,
    ) -> Option<LeaseEffect> {
        let timing = self.timing;
        let stand = self.duties.get_mut(&duty)?;
        let lease = LeaseFence { duty, term };
        if let Stand::Ours(ours) = stand
            && ours.term == term
        {
            // A second answer to a request that was sent twice is a heartbeat.
            return ours.kept(timing, false, sent_at, now).map(|effect| effect(lease));
        }
        let mut ours = Ours {
            term,
            renew_at: sent_at.saturating_add(timing.heartbeat),
            sent_at,
            trusted_until: sent_at.saturating_add(timing.trust()),
            doubted_since: None,
            gives_way_since: None,
        };
        let in_time = ours.is_trusted(now);
        if !in_time {
            ours.doubt(now);
        }
        *stand = Stand::Ours(ours);
        in_time.then_some(LeaseEffect::Start { lease, metadata: Some(metadata) })
    }

    /// Renewals were answered, each for the lease that was named, or not.
    pub fn renewed(
        &mut self,
        call: LeaseCall,
        answer: Result<Vec<(LeaseFence, Renewed)>, EngineError>,
        now: Moment,
    ) -> Vec<LeaseEffect> {
        let Some(sent_at) = self.renewals.remove(&call) else { return Vec::new() };
        // Whatever the answer is, it does not reach back over the deadline.
        let mut effects = self.stop_untrusted(now);
        match answer {
            Ok(answers) => {
                let of_lease = |(lease, renewed)| self.answered(lease, renewed, sent_at, now);
                effects.extend(answers.into_iter().filter_map(of_lease));
            }
            Err(_) => {
                let again_at = now.saturating_add(self.timing.again_after());
                self.ours_mut().for_each(|(_, ours)| ours.renew_at = ours.renew_at.min(again_at));
            }
        }
        effects
    }

    fn answered(
        &mut self,
        lease: LeaseFence,
        renewed: Renewed,
        sent_at: Moment,
        now: Moment,
    ) -> Option<LeaseEffect> {
        let (timing, rest) = (self.timing, self.rest_from(now));
        let after_loss = Elsewhere::until(now.saturating_add(self.pause(&lease.duty, Duration::ZERO)));
        let stand = self.duties.get_mut(&lease.duty)?;
        let Stand::Ours(ours) = stand else { return None };
        if ours.term != lease.term {
            return None;
        }
        if renewed == Renewed::Lost {
            let was_done = ours.doubted_since.is_none();
            *stand = Stand::Elsewhere(if ours.gives_way_since.is_some() { rest } else { after_loss });
            return was_done.then_some(LeaseEffect::Stop(lease));
        }
        let give_way = renewed == Renewed::GiveWay;
        ours.kept(timing, give_way, sent_at, now).map(|effect| effect(lease))
    }

    /// A lease was given back, because its holder was asked to, or because the process stops.
    pub fn released(&mut self, duty: &DutyName, now: Moment) {
        let rest = self.rest_from(now);
        if let Some(stand) = self.duties.get_mut(duty) {
            *stand = Stand::Elsewhere(rest);
        }
    }

    /// The lease of a duty became free, or its holder was asked to give way.
    pub fn hinted(&mut self, duty: &DutyName, now: Moment) {
        self.hint(duty, now, Duration::ZERO);
    }

    /// Something changed in the store, perhaps a lease. Such hints may come all the time.
    pub fn hinted_of_anything(&mut self, now: Moment) {
        let duties: Vec<_> = self.duties.keys().cloned().collect();
        duties.iter().for_each(|duty| self.hint(duty, now, ANY_HINT_PAUSE));
    }

    fn hint(&mut self, duty: &DutyName, now: Moment, at_most_each: Duration) {
        let stands_by = self.crowds.of_duty(duty).stands_by();
        let again_after = self.timing.again_after().max(at_most_each);
        match self.duties.get_mut(duty) {
            Some(Stand::Ours(ours)) => {
                let soon = now.max(ours.sent_at.saturating_add(again_after));
                ours.renew_at = ours.renew_at.min(soon);
            }
            Some(Stand::Elsewhere(stand)) if stands_by && stand.rests_until <= now => {
                let soon = now.max(stand.looked_at.saturating_add(at_most_each));
                stand.look_at = stand.look_at.min(soon);
                // A hint that names nothing may be about anything, and the next look is soon.
                stand.hinted |= at_most_each.is_zero();
            }
            _ => {}
        }
    }

    /// Workers came or went.
    pub fn saw(&mut self, crowds: Crowds, now: Moment) {
        let before = std::mem::replace(&mut self.crowds, crowds);
        let crowds = self.crowds.clone();
        for (duty, stand) in self.elsewhere_mut() {
            if crowds.of_duty(duty).stands_by() && !before.of_duty(duty).stands_by() {
                stand.look_at = stand.look_at.min(now.max(stand.rests_until));
            }
        }
    }

    fn pause(&self, duty: &DutyName, wait: Duration) -> Duration {
        pause(&self.crowds, duty, wait)
    }
}

/// How long to wait where one that stands by would wait for `wait`.
fn pause(crowds: &Crowds, duty: &DutyName, wait: Duration) -> Duration {
    let crowd = crowds.of_duty(duty);
    if crowd.stands_by() { wait } else { wait.max(crowd.round()) }
}

impl Ours {
    /// The term holds in the store. Whether that is known in time depends on when the question left.
    fn kept(
        &mut self,
        timing: LeaseTiming,
        give_way: bool,
        sent_at: Moment,
        now: Moment,
    ) -> Option<fn(LeaseFence) -> LeaseEffect> {
        let trusted_until = sent_at.saturating_add(timing.trust());
        let is_fresh = self.doubted_since.is_none_or(|since| sent_at >= since);
        // Too late to say anything. Another one is under way, or is sent when its time has come.
        if !is_fresh || now >= trusted_until {
            return None;
        }
        let begins = self.doubted_since.take().is_some();
        self.trusted_until = self.trusted_until.max(trusted_until);
        self.renew_at = self.renew_at.max(sent_at.saturating_add(timing.heartbeat));
        if give_way && self.gives_way_since.is_none() {
            self.gives_way_since = Some(now);
            return Some(LeaseEffect::GiveWay);
        }
        begins.then_some(|lease| LeaseEffect::Start { lease, metadata: None })
    }
}
