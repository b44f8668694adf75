//! What one process does to get and keep leases, without any I/O: when to ask for those that others hold, when to renew its
//! own, and until when it may believe that it holds one.
//!
//! A lease is trusted from the moment its request **left** on this process's monotonic clock, for its expiry less a margin: the
//! store counts from somewhere between then and the answer, so it never gives the lease away earlier. At that deadline the
//! duty stops, whatever is still under way. An answer that comes later does not make it go on: the lease is asked for
//! once more, and only that answer counts, if it is in time itself. A failed renewal before the deadline changes nothing, and
//! one that is not answered within a heartbeat is sent again: a connection that hangs must not cost the lease.
//!
//! What was sent twice may be answered twice, and what was granted may be told late. So each call is remembered until its answer can
//! mean nothing any more, and a grant that nobody wants by then is given back.

use std::collections::BTreeMap;
use std::time::Duration;

mod state;
mod requests;
mod replies;

use state::{Elsewhere, LeaseState, Ours, Request, Sent};

use crate::lease::membership::Membership;
use crate::lease::{LeaseFence, LeaseMetadata, LeaseRelease, Renewal, Term, TermId};
use crate::limits::DUTIES_PER_CALL_MAX;
use crate::names::DutyName;

pub use crate::lease::timing::LeaseTiming;

/// An instant of this process's monotonic clock: the time since the process began to count. It must count the time, too, in
/// which the machine slept (on Linux `CLOCK_BOOTTIME`, which `std::time::Instant` is not): the store's clock goes on meanwhile.
pub type Moment = Duration;

/// A lease that is about to expire is not looked at again sooner than this.
const LOOK_AGAIN_MIN: Duration = Duration::from_millis(10);
/// Where a hint does not name a lease, as from another process on an SQLite file, one is not looked at more often than this.
const ANY_HINT_PAUSE: Duration = Duration::from_millis(200);
/// One that does not stand by sends a request without an answer so often, and then leaves it to those who do.
const SENT_MAX: u32 = 4;
/// A lease that nobody holds and that cannot be had for so many expiries is told of.
const BLOCKED_EXPIRIES: u32 = 3;

/// One call to the store. Several may be under way, and what counts is when each of them left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeaseCall(u64);

/// What the shell around a keeper is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseEffect {
    /// Stop this duty at once: the lease is lost, given back, or can no longer be trusted.
    Stop(LeaseFence),
    /// Do this duty from now on, under this fence.
    Start {
        /// The fence.
        lease: LeaseFence,
        /// What the last holder kept with the lease; nothing if this process goes on in the same term.
        metadata: Option<LeaseMetadata>,
    },
    /// Somebody wants the holder to give way: do so by [`LeaseClient::give_way`]. The duty is not started again in this term, and
    /// the lease is not renewed for longer than an expiry.
    GiveWay(LeaseFence),
    /// Renew these; answer by [`LeaseClient::renewed`].
    Renew {
        /// To be named with the answer.
        call: LeaseCall,
        /// At most as many as one call may be about.
        renewals: Vec<Renewal>,
    },
    /// Ask for these under this id; answer by [`LeaseClient::tried`].
    Try {
        /// To be named with the answer.
        call: LeaseCall,
        /// The identity of the terms that come of it.
        id: TermId,
        /// The duties with the expiry of their leases; at most as many as one call may be about.
        duties: Vec<(DutyName, Duration)>,
    },
    /// Give these back; nobody waits for the answer. They may be terms of which no answer told.
    Release(Vec<LeaseRelease>),
    /// Nobody holds this lease, and yet it could not be taken for so long, because something under its last term is not finished,
    /// such as an open transaction: raise an alert.
    Blocked {
        /// Of which duty.
        duty: DutyName,
        /// For how long.
        lasting: Duration,
    },
    /// This lease could not be taken for so long, because the store keeps as many as it may: raise an alert.
    NoRoom {
        /// Of which duty.
        duty: DutyName,
        /// For how long.
        lasting: Duration,
    },
}

/// The leases that one process holds or would like to hold.
#[derive(Debug)]
pub struct LeaseClient {
    timing: LeaseTiming,
    membership: Membership,
    duties: BTreeMap<DutyName, LeaseState>,
    request: Option<Request>,
    /// Requests that are not answered yet, also such that nobody waits for any more.
    sent: BTreeMap<LeaseCall, Sent>,
    /// When renewals left that are not answered yet.
    renewals: BTreeMap<LeaseCall, Moment>,
    /// Renewals since the last answer or since trust ended.
    renewals_unanswered: u32,
    /// Requests in a row that the store surely did not hear.
    requests_failed: u32,
    next_call: u64,
}

impl LeaseClient {
    /// Wants these duties from `now` on.
    pub fn new(
        duties: impl IntoIterator<Item = DutyName>,
        timing: LeaseTiming,
        membership: Membership,
        now: Moment,
    ) -> Self {
        let state = |duty: &DutyName| {
            let members = membership.of_duty(duty);
            let first = if members.stands_by() { Duration::ZERO } else { members.first_look_after() };
            LeaseState::Elsewhere(Elsewhere::until(now.saturating_add(first)))
        };
        let duties = duties.into_iter().map(|duty| (duty.clone(), state(&duty))).collect();
        Self {
            timing,
            membership,
            duties,
            request: None,
            sent: BTreeMap::new(),
            renewals: BTreeMap::new(),
            renewals_unanswered: 0,
            requests_failed: 0,
            next_call: 0,
        }
    }

    /// The term in which this process may do a duty at `now`. To be asked before each write; it is right even if nobody asked
    /// for effects since the deadline.
    pub fn term(&self, duty: &DutyName, now: Moment) -> Option<Term> {
        match self.duties.get(duty)? {
            LeaseState::Ours(ours) if ours.is_trusted(now) => Some(ours.term),
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
        let of_duty = |state: &LeaseState| match state {
            LeaseState::Elsewhere(elsewhere) if idle => elsewhere.looks_at(),
            LeaseState::Elsewhere(_) => Moment::MAX,
            LeaseState::Ours(ours) => {
                let deadline = if ours.doubted_since.is_none() { ours.trusted_until } else { Moment::MAX };
                deadline.min(ours.renew_at)
            }
        };
        let repeat = self.request.as_ref().map_or(Moment::MAX, |request| request.again_at);
        self.duties.values().map(of_duty).min().unwrap_or(Moment::MAX).min(repeat)
    }

    fn stop_untrusted(&mut self, now: Moment) -> Vec<LeaseEffect> {
        let expiry = self.timing.expiry;
        let mut effects = Vec::new();
        for (duty, state) in &mut self.duties {
            let LeaseState::Ours(ours) = state else { continue };
            if ours.doubted_since.is_none() && now >= ours.trusted_until {
                effects.push(LeaseEffect::Stop(LeaseFence { duty: duty.clone(), term: ours.term }));
                ours.doubt(now);
                self.renewals_unanswered = 0;
                // Who was told to give way does not begin again.
                if ours.gives_way_since.is_some() {
                    *state = LeaseState::Elsewhere(Elsewhere::after(ours.term, now, expiry));
                }
            }
        }
        effects
    }

    /// All of them as soon as one is due: one statement renews all.
    fn renew_due(&mut self, now: Moment) -> Vec<LeaseEffect> {
        let timing = self.timing;
        let over = self.ours_mut().filter(|(_, ours)| !ours.is_kept(timing, now));
        over.for_each(|(_, ours)| ours.renew_at = Moment::MAX);
        if !self.ours_mut().any(|(_, ours)| ours.renew_at <= now) {
            return Vec::new();
        }
        self.renewals_unanswered = self.renewals_unanswered.saturating_add(1);
        let later =
            timing.backoff(timing.heartbeat, self.renewals_unanswered, self.membership.ring_position());
        let mut renewals = Vec::new();
        for (duty, ours) in self.ours_mut().filter(|(_, ours)| ours.renew_at < Moment::MAX) {
            let wait = if ours.doubted_since.is_some() { later } else { timing.heartbeat };
            (ours.sent_at, ours.renew_at) = (now, now.saturating_add(wait));
            let lease = LeaseFence { duty: duty.clone(), term: ours.term };
            renewals
                .push(Renewal { lease, metadata: ours.noted.as_ref().map(|noted| noted.metadata.clone()) });
        }
        // An answer that takes so long does not count.
        self.renewals.retain(|_, sent_at| now < sent_at.saturating_add(timing.trust()));
        let parts: Vec<_> = renewals.chunks(DUTIES_PER_CALL_MAX).map(<[_]>::to_vec).collect();
        parts.into_iter().map(|renewals| self.renew(renewals, now)).collect()
    }

    fn renew(&mut self, renewals: Vec<Renewal>, now: Moment) -> LeaseEffect {
        let call = self.new_call();
        self.renewals.insert(call, now);
        LeaseEffect::Renew { call, renewals }
    }

    fn new_call(&mut self) -> LeaseCall {
        self.next_call += 1;
        LeaseCall(self.next_call)
    }

    /// The same request once more, if its answer was lost or does not come.
    fn repeat_due(&mut self, now: Moment) -> Option<LeaseEffect> {
        let request = self.request.as_mut().filter(|request| request.again_at <= now)?;
        request.is_in_doubt = true;
        if self.leaves_it_to_others(now) {
            self.give_up_request(now);
            return None;
        }
        self.send_request(now)
    }

    /// All of them as soon as one is due: the answer says of each when it must be looked at again.
    fn look_due(&mut self, now: Moment, fresh: TermId) -> Option<LeaseEffect> {
        if self.request.is_some() || !self.elsewhere_mut().any(|(_, state)| state.looks_at() <= now) {
            return None;
        }
        let wanted = self.elsewhere_mut().filter(|(_, state)| state.may_look(now));
        let mut wanted: Vec<_> = wanted.map(|(duty, state)| (state.look_at, duty.clone())).collect();
        // Those that have waited longest, if there are more than one call may be about.
        wanted.sort();
        wanted.truncate(DUTIES_PER_CALL_MAX);
        let mut duties: Vec<_> = wanted.into_iter().map(|(_, duty)| duty).collect();
        duties.sort();
        for (_, state) in self.elsewhere_mut().filter(|(duty, _)| duties.contains(duty)) {
            (state.hinted, state.looked_at) = (false, now);
        }
        self.request = Some(Request::new(fresh, duties, now));
        self.send_request(now)
    }

    fn send_request(&mut self, now: Moment) -> Option<LeaseEffect> {
        let (call, timing) = (self.new_call(), self.timing);
        self.sent.retain(|_, sent| now < sent.at.saturating_add(timing.trust()));
        let request = self.request.as_mut()?;
        (request.newest, request.times_sent) = (call, request.times_sent.saturating_add(1));
        let again = timing.backoff(timing.heartbeat, request.times_sent, self.membership.ring_position());
        request.again_at = now.saturating_add(again);
        self.sent.insert(call, Sent { id: request.id, duties: request.duties.clone(), at: now });
        let duties = request.duties.iter().map(|duty| (duty.clone(), timing.expiry)).collect();
        Some(LeaseEffect::Try { call, id: request.id, duties })
    }

    /// Whether the request is of no use any more: nothing of it is wanted from others, or this process has asked often enough and
    /// others look anyway. What may have been granted runs out by itself.
    fn leaves_it_to_others(&self, now: Moment) -> bool {
        let Some(request) = &self.request else { return false };
        let is_wanted = |duty: &DutyName| match self.duties.get(duty) {
            Some(LeaseState::Elsewhere(state)) => state.may_look(now),
            _ => false,
        };
        let stands_by = |duty: &DutyName| self.membership.of_duty(duty).stands_by();
        let is_tired = request.times_sent >= SENT_MAX && !request.duties.iter().any(stands_by);
        is_tired || !request.duties.iter().any(is_wanted)
    }

    /// Nothing is asked for until it is time to look again.
    fn give_up_request(&mut self, now: Moment) {
        self.request = None;
        self.requests_failed = self.requests_failed.saturating_add(1);
        let (membership, timing) = (self.membership.clone(), self.timing);
        let wait = timing.backoff(timing.heartbeat, self.requests_failed, membership.ring_position());
        for (duty, state) in self.elsewhere_mut() {
            let later = now.saturating_add(state::pause(&membership, duty, wait));
            state.look_at = state.look_at.max(later);
        }
    }

    fn ours_mut(&mut self) -> impl Iterator<Item = (&DutyName, &mut Ours)> {
        self.duties.iter_mut().filter_map(|(duty, state)| match state {
            LeaseState::Ours(ours) => Some((duty, ours)),
            LeaseState::Elsewhere(_) => None,
        })
    }

    fn elsewhere_mut(&mut self) -> impl Iterator<Item = (&DutyName, &mut Elsewhere)> {
        self.duties.iter_mut().filter_map(|(duty, state)| match state {
            LeaseState::Elsewhere(elsewhere) => Some((duty, elsewhere)),
            LeaseState::Ours(_) => None,
        })
    }
}

#[cfg(test)]
mod tests;
