//! What one process does to get and keep leases, without any I/O: when to ask for those that others hold, when to renew its
//! own, and until when it may believe that it holds one.
//!
//! A lease is trusted from the moment its request **left** on this process's monotonic clock, for its expiry less a margin: the
//! store counts from somewhere between then and the answer, so it never gives the lease away earlier. At that deadline the
//! duty stops, whatever is still under way. An answer that comes later does not make it go on: the lease is asked for
//! once more, and only that answer counts, if it is in time itself. A failed renewal before the deadline changes nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::EngineError;
use crate::lease::crowd::Crowd;
use crate::lease::{LeaseFence, Renewed, Taking, Term, TermId};
use crate::limits::{DUTY_EXPIRY, DUTY_EXPIRY_MAX, DUTY_EXPIRY_MIN, DUTY_HEARTBEAT};
use crate::names::DutyName;

/// An instant of this process's monotonic clock: the time since the process began to count.
pub type Moment = Duration;

/// The margin is this part of the expiry: clocks of two machines do not run equally fast.
const MARGIN_PART: u32 = 10;
/// After a failure the same is tried again after this part of a heartbeat.
const AGAIN_PART: u32 = 4;

/// A lease that is about to expire is not looked at again sooner than this.
const LOOK_AGAIN_MIN: Duration = Duration::from_millis(10);

/// How leases are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTiming {
    /// A holder renews this often.
    pub heartbeat: Duration,
    /// A lease is good for this long after a heartbeat.
    pub expiry: Duration,
}

impl Default for LeaseTiming {
    fn default() -> Self {
        Self { heartbeat: DUTY_HEARTBEAT, expiry: DUTY_EXPIRY }
    }
}

impl LeaseTiming {
    /// Refuses what cannot work: two heartbeats must fit into an expiry, so that one may fail.
    pub fn check(self) -> Result<(), EngineError> {
        let (heartbeat, expiry) = (self.heartbeat, self.expiry);
        if !(DUTY_EXPIRY_MIN..=DUTY_EXPIRY_MAX).contains(&expiry) {
            return Err(EngineError::Refused(format!(
                "expected leases to expire after {DUTY_EXPIRY_MIN:?} to {DUTY_EXPIRY_MAX:?}, got {expiry:?}"
            )));
        }
        if heartbeat.is_zero() || heartbeat * 2 > self.trust() {
            return Err(EngineError::Refused(format!(
                "expected heartbeats of leases so often that two fit into {:?}, got one each {heartbeat:?}; beat more often, \
                 or let leases expire later",
                self.trust()
            )));
        }
        Ok(())
    }

    /// For how long after a request left its lease is trusted.
    pub fn trust(self) -> Duration {
        self.expiry - self.expiry / MARGIN_PART
    }
}

/// What the shell around a keeper is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseEffect {
    /// Stop this duty at once: the lease is lost, or can no longer be trusted.
    Stop(LeaseFence),
    /// Do this duty from now on, under this fence.
    Start(LeaseFence),
    /// Somebody wants the holder to give way: stop the duty, give the lease back, and say so by [`LeaseKeeper::released`].
    GiveWay(LeaseFence),
    /// Renew these; answer by [`LeaseKeeper::renewed`].
    Renew(Vec<LeaseFence>),
    /// Ask for these under this id; answer by [`LeaseKeeper::tried`].
    Try {
        /// The duties.
        duties: Vec<DutyName>,
        /// The identity of the terms that come of it.
        id: TermId,
    },
}

/// The leases that one process holds or would like to hold.
#[derive(Debug)]
pub struct LeaseKeeper {
    timing: LeaseTiming,
    crowd: Crowd,
    duties: BTreeMap<DutyName, Stand>,
    request: Option<Request>,
    /// When renewals left that are not answered yet.
    renewing_since: Option<Moment>,
}

/// How one duty stands.
#[derive(Debug, Clone, Copy)]
enum Stand {
    Elsewhere(Elsewhere),
    Ours(Ours),
}

/// Somebody else's, as far as is known.
#[derive(Debug, Clone, Copy)]
struct Elsewhere {
    look_at: Moment,
    /// Whoever gave way leaves it to others for a while.
    rests_until: Moment,
    /// Something happened to it while an answer was under way, which may not know of that.
    hinted: bool,
}

/// Ours in the store, as far as is known.
#[derive(Debug, Clone, Copy)]
struct Ours {
    term: Term,
    renew_at: Moment,
    trusted_until: Moment,
    /// Since when it is not known whether the term still holds. Meanwhile the duty is not done.
    doubted_since: Option<Moment>,
    told_to_give_way: bool,
}

impl Elsewhere {
    fn until(look_at: Moment) -> Self {
        Self { look_at, rests_until: Moment::ZERO, hinted: false }
    }
}

impl Ours {
    fn is_trusted(&self, now: Moment) -> bool {
        self.doubted_since.is_none() && now < self.trusted_until
    }

    /// The duty stops, and the term is asked for once more.
    fn doubt(&mut self, now: Moment) {
        self.doubted_since = Some(now);
        self.renew_at = now;
    }
}

/// A request that is under way, or whose answer was lost.
#[derive(Debug)]
struct Request {
    id: TermId,
    duties: Vec<DutyName>,
    /// Nothing if it is to be repeated.
    sent_at: Option<Moment>,
    again_at: Moment,
}

impl LeaseKeeper {
    /// Wants these duties from `now` on.
    pub fn new(
        duties: impl IntoIterator<Item = DutyName>,
        timing: LeaseTiming,
        crowd: Crowd,
        now: Moment,
    ) -> Self {
        let first = if crowd.stands_by() { Duration::ZERO } else { crowd.first_look_after() };
        let stand = Stand::Elsewhere(Elsewhere::until(now.saturating_add(first)));
        let duties = duties.into_iter().map(|duty| (duty, stand)).collect();
        Self { timing, crowd, duties, request: None, renewing_since: None }
    }

    /// The term in which this process may do a duty at `now`. To be asked before each write; it is right even if nobody asked
    /// for effects since the deadline.
    pub fn term(&self, duty: &DutyName, now: Moment) -> Option<Term> {
        match self.duties.get(duty)? {
            Stand::Ours(ours) if ours.is_trusted(now) => Some(ours.term),
            _ => None,
        }
    }

    /// What is to be done at `now`. `fresh` is a random id that was never used, in case a new request is due.
    pub fn effects(&mut self, now: Moment, fresh: TermId) -> Vec<LeaseEffect> {
        let mut effects = self.stop_untrusted(now);
        effects.extend(self.renew_due(now));
        effects.extend(self.repeat_due(now));
        effects.extend(self.look_due(now, fresh));
        effects
    }

    /// When something is due even if nothing happens.
    pub fn wake_at(&self) -> Moment {
        let idle = self.request.is_none();
        let of_duty = |stand: &Stand| match stand {
            Stand::Elsewhere(elsewhere) if idle => elsewhere.look_at,
            Stand::Elsewhere(_) => Moment::MAX,
            Stand::Ours(ours) => {
                let deadline = if ours.doubted_since.is_none() { ours.trusted_until } else { Moment::MAX };
                let renewal = if self.renewing_since.is_none() { ours.renew_at } else { Moment::MAX };
                deadline.min(renewal)
            }
        };
        let repeat = self.request.as_ref().filter(|request| request.sent_at.is_none());
        let repeat = repeat.map_or(Moment::MAX, |request| request.again_at);
        self.duties.values().map(of_duty).min().unwrap_or(Moment::MAX).min(repeat)
    }

    fn stop_untrusted(&mut self, now: Moment) -> Vec<LeaseEffect> {
        let mut effects = Vec::new();
        for (duty, ours) in self.ours_mut() {
            if ours.doubted_since.is_none() && now >= ours.trusted_until {
                ours.doubt(now);
                effects.push(LeaseEffect::Stop(LeaseFence { duty: duty.clone(), term: ours.term }));
            }
        }
        effects
    }

    /// All of them as soon as one is due: one statement renews all.
    fn renew_due(&mut self, now: Moment) -> Option<LeaseEffect> {
        let is_due = self.ours_mut().any(|(_, ours)| ours.renew_at <= now);
        if !is_due || self.renewing_since.is_some() {
            return None;
        }
        self.renewing_since = Some(now);
        let fence = |(duty, ours): (&DutyName, &mut Ours)| LeaseFence { duty: duty.clone(), term: ours.term };
        Some(LeaseEffect::Renew(self.ours_mut().map(fence).collect()))
    }

    fn repeat_due(&mut self, now: Moment) -> Option<LeaseEffect> {
        let request = self.request.as_mut()?;
        if request.sent_at.is_some() || request.again_at > now {
            return None;
        }
        request.sent_at = Some(now);
        Some(LeaseEffect::Try { duties: request.duties.clone(), id: request.id })
    }

    /// All of them as soon as one is due: the answer says of each when it must be looked at again.
    fn look_due(&mut self, now: Moment, fresh: TermId) -> Option<LeaseEffect> {
        if self.request.is_some() || !self.elsewhere_mut().any(|(_, stand)| stand.look_at <= now) {
            return None;
        }
        let wanted = self.elsewhere_mut().filter(|(_, stand)| stand.rests_until <= now);
        let duties: Vec<_> = wanted.map(|(duty, stand)| (duty.clone(), stand.hinted = false).0).collect();
        let sent_at = Some(now);
        self.request = Some(Request { id: fresh, duties: duties.clone(), sent_at, again_at: Moment::MAX });
        Some(LeaseEffect::Try { duties, id: fresh })
    }

    fn ours_mut(&mut self) -> impl Iterator<Item = (&DutyName, &mut Ours)> {
        self.duties.iter_mut().filter_map(|(duty, stand)| match stand {
            Stand::Ours(ours) => Some((duty, ours)),
            Stand::Elsewhere(_) => None,
        })
    }

    fn elsewhere_mut(&mut self) -> impl Iterator<Item = (&DutyName, &mut Elsewhere)> {
        self.duties.iter_mut().filter_map(|(duty, stand)| match stand {
            Stand::Elsewhere(elsewhere) => Some((duty, elsewhere)),
            Stand::Ours(_) => None,
        })
    }
}

/// What the keeper is told.
impl LeaseKeeper {
    /// A request was answered, or not.
    pub fn tried(&mut self, answer: Result<Vec<Taking>, EngineError>, now: Moment) -> Vec<LeaseEffect> {
        let Some(request) = self.request.take() else { return Vec::new() };
        match answer {
            Ok(answers) => {
                let sent_at = request.sent_at.unwrap_or(now);
                let of_duty = |(duty, taking)| self.heard(duty, taking, sent_at, now);
                request.duties.into_iter().zip(answers).filter_map(of_duty).collect()
            }
            Err(error) if error.is_unknown() => {
                let again_at = now.saturating_add(self.timing.heartbeat / AGAIN_PART);
                self.request = Some(Request { sent_at: None, again_at, ..request });
                Vec::new()
            }
            Err(_) => {
                let look_at = now.saturating_add(self.pause(self.timing.heartbeat));
                self.elsewhere_mut().for_each(|(_, stand)| stand.look_at = stand.look_at.max(look_at));
                Vec::new()
            }
        }
    }

    fn heard(&mut self, duty: DutyName, taking: Taking, sent_at: Moment, now: Moment) -> Option<LeaseEffect> {
        let was_hinted = matches!(self.duties.get(&duty), Some(Stand::Elsewhere(stand)) if stand.hinted);
        let (stand, effect) = match taking {
            Taking::Taken(term) => self.taken(&duty, term, sent_at, now),
            // A term of ours began and ended while nobody answered.
            Taking::Over => (Stand::Elsewhere(Elsewhere::until(now)), None),
            Taking::Held { .. } if was_hinted => (Stand::Elsewhere(Elsewhere::until(now)), None),
            Taking::Held { expires_in, .. } => {
                let look_at = now.saturating_add(self.pause(expires_in.max(LOOK_AGAIN_MIN)));
                (Stand::Elsewhere(Elsewhere::until(look_at)), None)
            }
        };
        self.duties.insert(duty, stand);
        effect
    }

    fn taken(
        &self,
        duty: &DutyName,
        term: Term,
        sent_at: Moment,
        now: Moment,
    ) -> (Stand, Option<LeaseEffect>) {
        let mut ours = Ours {
            term,
            renew_at: sent_at.saturating_add(self.timing.heartbeat),
            trusted_until: sent_at.saturating_add(self.timing.trust()),
            doubted_since: None,
            told_to_give_way: false,
        };
        if !ours.is_trusted(now) {
            ours.doubt(now);
            return (Stand::Ours(ours), None);
        }
        let fence = LeaseFence { duty: duty.clone(), term };
        (Stand::Ours(ours), Some(LeaseEffect::Start(fence)))
    }

    /// Renewals were answered, each for the lease that was named, or not.
    pub fn renewed(
        &mut self,
        answer: Result<Vec<(LeaseFence, Renewed)>, EngineError>,
        now: Moment,
    ) -> Vec<LeaseEffect> {
        let Some(sent_at) = self.renewing_since.take() else { return Vec::new() };
        // Whatever the answer is, it does not reach back over the deadline.
        let mut effects = self.stop_untrusted(now);
        match answer {
            Ok(answers) => {
                let of_lease = |(lease, renewed)| self.answered(lease, renewed, sent_at, now);
                effects.extend(answers.into_iter().filter_map(of_lease));
            }
            Err(_) => {
                let again_at = now.saturating_add(self.timing.heartbeat / AGAIN_PART);
                self.ours_mut().for_each(|(_, ours)| ours.renew_at = ours.renew_at.max(again_at));
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
        let (timing, elsewhere) = (self.timing, self.elsewhere_after_loss(now));
        let stand = self.duties.get_mut(&lease.duty)?;
        let Stand::Ours(ours) = stand else { return None };
        if ours.term != lease.term {
            return None;
        }
        if renewed == Renewed::Lost {
            let was_done = ours.doubted_since.is_none();
            *stand = Stand::Elsewhere(elsewhere);
            return was_done.then_some(LeaseEffect::Stop(lease));
        }
        let give_way = renewed == Renewed::GiveWay;
        ours.kept(timing, give_way, sent_at, now).map(|effect| effect(lease))
    }

    /// A lease was given back, because its holder was asked to, or because the process stops.
    pub fn released(&mut self, duty: &DutyName, now: Moment) {
        let until = now.saturating_add(self.timing.expiry);
        let resting = Elsewhere { rests_until: until, ..Elsewhere::until(until) };
        if let Some(stand) = self.duties.get_mut(duty) {
            *stand = Stand::Elsewhere(resting);
        }
    }

    /// The lease of a duty became free, or its holder was asked to give way.
    pub fn hinted(&mut self, duty: &DutyName, now: Moment) {
        let stands_by = self.crowd.stands_by();
        match self.duties.get_mut(duty) {
            Some(Stand::Ours(ours)) => ours.renew_at = ours.renew_at.min(now),
            Some(Stand::Elsewhere(stand)) if stands_by && stand.rests_until <= now => {
                stand.look_at = stand.look_at.min(now);
                stand.hinted = true;
            }
            _ => {}
        }
    }

    /// Workers came or went.
    pub fn saw(&mut self, crowd: Crowd, now: Moment) {
        let steps_forward = crowd.stands_by() && !self.crowd.stands_by();
        self.crowd = crowd;
        if steps_forward {
            let look = |stand: &mut Elsewhere| stand.look_at = stand.look_at.min(now.max(stand.rests_until));
            self.elsewhere_mut().for_each(|(_, stand)| look(stand));
        }
    }

    /// How long to wait where one that stands by would wait for `wait`.
    fn pause(&self, wait: Duration) -> Duration {
        if self.crowd.stands_by() { wait } else { wait.max(self.crowd.round()) }
    }

    fn elsewhere_after_loss(&self, now: Moment) -> Elsewhere {
        Elsewhere::until(now.saturating_add(self.pause(Duration::ZERO)))
    }
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
        if !is_fresh || now >= trusted_until {
            self.doubt(now);
            return None;
        }
        let begins = self.doubted_since.take().is_some();
        self.trusted_until = trusted_until;
        self.renew_at = sent_at.saturating_add(timing.heartbeat);
        if give_way && !self.told_to_give_way {
            self.told_to_give_way = true;
            return Some(LeaseEffect::GiveWay);
        }
        begins.then_some(LeaseEffect::Start)
    }
}

#[cfg(test)]
mod tests;
