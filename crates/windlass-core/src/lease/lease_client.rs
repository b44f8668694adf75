//! What one process does to get and keep leases, without any I/O: when to request leases that others
//! hold, when to renew its own, and until when it may trust that it holds a lease.
//!
//! A lease is trusted from the moment its request **left** on this process's monotonic clock, for its
//! expiry less a margin: the store counts from some moment between then and the answer, so it never gives
//! the lease away earlier. At that deadline the duty stops, whatever call is still in flight. An answer
//! that comes later does not restart the duty: the client requests the lease once more, and only that
//! answer counts, if it is in time itself. A failed renewal before the deadline changes nothing, and a
//! renewal that is not answered within a heartbeat is sent again: a connection that hangs must not cost
//! the lease.
//!
//! A request that was sent twice may be answered twice, and the answer that grants a lease may arrive
//! late. So each call is remembered until its answer can mean nothing any more, and a grant that this
//! process no longer wants by then is released.

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

/// An instant of this process's monotonic clock: the time since the process began to count. The clock
/// must also count the time in which the machine slept (on Linux `CLOCK_BOOTTIME`, which
/// `std::time::Instant` is not): the store's clock goes on meanwhile.
pub type Moment = Duration;

/// The minimum wait before the next poll of a lease that is about to expire.
const POLL_AGAIN_MIN: Duration = Duration::from_millis(10);
/// The minimum time between polls of a lease after hints that name no lease, as from another process on
/// an SQLite file.
const ANY_HINT_PAUSE: Duration = Duration::from_millis(200);
/// A process that does not stand by sends an unanswered request this often, and then leaves it to the
/// standbys.
const SENT_MAX: u32 = 4;
/// A free lease that cannot be taken for this number of expiries is reported.
const BLOCKED_EXPIRIES: u32 = 3;

/// One call to the store. Several calls may be in flight, and the time at which each of them left
/// decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeaseCall(u64);

/// What the shell around a lease client must do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseEffect {
    /// Stop this duty at once: the lease is lost, released, or can no longer be trusted.
    Stop(LeaseFence),
    /// Do this duty from now on, under this fence.
    Start {
        /// The fence.
        lease: LeaseFence,
        /// What the last holder stored with the lease; `None` if this process continues in the same term.
        metadata: Option<LeaseMetadata>,
    },
    /// The holder was asked to give way: do so with [`LeaseClient::give_way`]. The duty is not started
    /// again in this term, and the lease is not renewed for longer than an expiry.
    GiveWay(LeaseFence),
    /// Renew these leases; answer with [`LeaseClient::renewed`].
    Renew {
        /// The call to name with the answer.
        call: LeaseCall,
        /// The renewals; at most as many as one call may contain.
        renewals: Vec<Renewal>,
    },
    /// Request these leases under this id; answer with [`LeaseClient::tried`].
    Try {
        /// The call to name with the answer.
        call: LeaseCall,
        /// The identity of the terms that result.
        id: TermId,
        /// The duties with the expiry of their leases; at most as many as one call may contain.
        duties: Vec<(DutyName, Duration)>,
    },
    /// Release these leases; the client does not wait for the answer. Some may be terms that no answer
    /// reported.
    Release(Vec<LeaseRelease>),
    /// This lease is free, and yet it could not be taken for this long, because something under its last
    /// term is not finished, such as an open transaction: raise an alert.
    Blocked {
        /// The duty.
        duty: DutyName,
        /// For how long.
        lasting: Duration,
    },
    /// This lease could not be taken for this long, because the store keeps as many leases as it may:
    /// raise an alert.
    NoRoom {
        /// The duty.
        duty: DutyName,
        /// For how long.
        lasting: Duration,
    },
}

/// The leases that one process holds or wants to hold.
#[derive(Debug)]
pub struct LeaseClient {
    timing: LeaseTiming,
    membership: Membership,
    duties: BTreeMap<DutyName, LeaseState>,
    request: Option<Request>,
    /// Requests that are not answered yet, including abandoned ones.
    sent: BTreeMap<LeaseCall, Sent>,
    /// When each unanswered renewal left.
    renewals: BTreeMap<LeaseCall, Moment>,
    /// The number of renewals since the last answer or since trust ended.
    renewals_unanswered: u32,
    /// The number of consecutive requests that certainly did not reach the store.
    requests_failed: u32,
    next_call: u64,
}

impl LeaseClient {
    /// Creates a client that wants these duties from `now` on.
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

    /// Returns the term in which this process may do a duty at `now`. Call it before each write; it is
    /// right even if `effects` was not called since the deadline.
    pub fn term(&self, duty: &DutyName, now: Moment) -> Option<Term> {
        match self.duties.get(duty)? {
            LeaseState::Ours(ours) if ours.is_trusted(now) => Some(ours.term),
            _ => None,
        }
    }

    /// Returns what must be done at `now`. `fresh` is a random id that was never used, in case a new
    /// request is due.
    pub fn effects(&mut self, now: Moment, fresh: TermId) -> Vec<LeaseEffect> {
        let mut effects = self.stop_untrusted(now);
        effects.extend(self.renew_due(now));
        effects.extend(self.repeat_due(now));
        effects.extend(self.look_due(now, fresh));
        effects
    }

    /// Returns when something is due even if nothing happens.
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
                // A holder that was asked to give way does not start the duty again.
                if ours.gives_way_since.is_some() {
                    *state = LeaseState::Elsewhere(Elsewhere::after(ours.term, now, expiry));
                }
            }
        }
        effects
    }

    /// Renews all leases as soon as one renewal is due: one statement renews all.
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
        // An answer that takes this long does not count.
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

    /// Sends the same request once more, if its answer was lost or does not come.
    fn repeat_due(&mut self, now: Moment) -> Option<LeaseEffect> {
        let request = self.request.as_mut().filter(|request| request.again_at <= now)?;
        request.is_in_doubt = true;
        if self.leaves_it_to_others(now) {
            self.give_up_request(now);
            return None;
        }
        self.send_request(now)
    }

    /// Requests all wanted leases as soon as one is due: the answer says for each when to poll it again.
    fn look_due(&mut self, now: Moment, fresh: TermId) -> Option<LeaseEffect> {
        if self.request.is_some() || !self.elsewhere_mut().any(|(_, state)| state.looks_at() <= now) {
            return None;
        }
        let wanted = self.elsewhere_mut().filter(|(_, state)| state.may_look(now));
        let mut wanted: Vec<_> = wanted.map(|(duty, state)| (state.look_at, duty.clone())).collect();
        // If there are more than fit into one call, those that have waited longest come first.
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

    /// Whether the request is of no use any more: this process wants none of its leases from others, or
    /// it has sent the request often enough and the standbys poll anyway. A term that may have been
    /// granted expires by itself.
    fn leaves_it_to_others(&self, now: Moment) -> bool {
        let Some(request) = &self.request else { return false };
        let is_wanted = |duty: &DutyName| match self.duties.get(duty) {
            Some(LeaseState::Elsewhere(state)) => state.may_look(now),
            _ => false,
        };
        let stands_by = |duty: &DutyName| self.membership.of_duty(duty).stands_by();
        let is_exhausted = request.times_sent >= SENT_MAX && !request.duties.iter().any(stands_by);
        is_exhausted || !request.duties.iter().any(is_wanted)
    }

    /// Drops the request. The client sends none until the next poll is due.
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
