//! The state of each duty in one process, and the requests that it has sent.

use std::time::Duration;

use super::{LeaseCall, LeaseTiming, Moment};
use crate::lease::membership::Membership;
use crate::lease::{LeaseMetadata, Term, TermId};
use crate::names::DutyName;

/// The state of one duty.
#[derive(Debug, Clone)]
pub(super) enum LeaseState {
    Elsewhere(Elsewhere),
    Ours(Ours),
}

/// Another process holds the lease, as far as is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Elsewhere {
    pub(super) is_wanted: bool,
    pub(super) look_at: Moment,
    pub(super) looked_at: Moment,
    /// A process that gave way leaves the lease to others until then.
    pub(super) rests_until: Moment,
    /// The term that this process last released or abandoned, and when. An answer to an earlier request
    /// says nothing about the present.
    pub(super) released: Option<(TermId, Moment)>,
    /// A hint about the lease came while a request was in flight; its answer may not reflect that change.
    pub(super) hinted: bool,
    /// Since when the lease is free and yet cannot be taken. The next field says whether that was
    /// reported.
    pub(super) busy_since: Option<Moment>,
    pub(super) reported_busy: bool,
}

impl Elsewhere {
    pub(super) fn until(look_at: Moment) -> Self {
        Self {
            is_wanted: true,
            look_at,
            looked_at: Moment::ZERO,
            rests_until: Moment::ZERO,
            released: None,
            hinted: false,
            busy_since: None,
            reported_busy: false,
        }
    }

    /// Leaves the lease to others for a while, after this term.
    pub(super) fn after(term: Term, now: Moment, rest: Duration) -> Self {
        let until = now.saturating_add(rest);
        Self { rests_until: until, released: Some((term.id, now)), ..Self::until(until) }
    }

    /// When the lease is polled next.
    pub(super) fn looks_at(&self) -> Moment {
        if self.is_wanted { self.look_at.max(self.rests_until) } else { Moment::MAX }
    }

    pub(super) fn may_look(&self, now: Moment) -> bool {
        self.is_wanted && self.rests_until <= now
    }

    /// Whether a term that was requested at `sent_at` is of use.
    pub(super) fn accepts(&self, term: Term, sent_at: Moment, now: Moment) -> bool {
        self.may_look(now) && !self.is_older(sent_at) && self.released.is_none_or(|(id, _)| id != term.id)
    }

    /// Whether the request at `sent_at` was sent before this process released the lease.
    pub(super) fn is_older(&self, sent_at: Moment) -> bool {
        self.released.is_some_and(|(_, at)| sent_at < at)
    }
}

/// This process holds the lease in the store, as far as is known.
#[derive(Debug, Clone)]
pub(super) struct Ours {
    pub(super) term: Term,
    pub(super) renew_at: Moment,
    /// When the lease was last requested or renewed.
    pub(super) sent_at: Moment,
    pub(super) trusted_until: Moment,
    /// Since when it is unknown whether the term still holds. Meanwhile the duty is not done.
    pub(super) doubted_since: Option<Moment>,
    /// Since when the holder knows that it must give way.
    pub(super) gives_way_since: Option<Moment>,
    /// The metadata that the store must keep with the lease and does not have yet.
    pub(super) noted: Option<Noted>,
}

/// Metadata to store with a lease.
#[derive(Debug, Clone)]
pub(super) struct Noted {
    pub(super) metadata: LeaseMetadata,
    pub(super) at: Moment,
}

impl Ours {
    /// Creates the state for a grant to a request that left at `sent_at`.
    pub(super) fn granted(term: Term, timing: LeaseTiming, sent_at: Moment) -> Self {
        Self {
            term,
            renew_at: sent_at.saturating_add(timing.heartbeat),
            sent_at,
            trusted_until: sent_at.saturating_add(timing.trust()),
            doubted_since: None,
            gives_way_since: None,
            noted: None,
        }
    }

    pub(super) fn is_trusted(&self, now: Moment) -> bool {
        self.doubted_since.is_none() && now < self.trusted_until
    }

    /// Stops the duty, and renews the term once more at once.
    pub(super) fn doubt(&mut self, now: Moment) {
        self.doubted_since = Some(now);
        self.renew_at = now;
    }

    /// Whether the lease is still renewed. A holder that was asked to give way has an expiry to do so.
    /// After that the lease runs out.
    pub(super) fn is_kept(&self, timing: LeaseTiming, now: Moment) -> bool {
        self.gives_way_since.is_none_or(|since| now < since.saturating_add(timing.expiry))
    }
}

/// A request that is in flight, or whose answer was lost.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) id: TermId,
    pub(super) duties: Vec<DutyName>,
    /// The call by which it was last sent. The answer to that call decides.
    pub(super) newest: LeaseCall,
    pub(super) times_sent: u32,
    /// Whether the request may have created terms that no answer reported. Then it must be repeated under
    /// its id.
    pub(super) is_in_doubt: bool,
    /// When it is sent again.
    pub(super) again_at: Moment,
}

impl Request {
    pub(super) fn new(id: TermId, duties: Vec<DutyName>, now: Moment) -> Self {
        Self { id, duties, newest: LeaseCall(0), times_sent: 0, is_in_doubt: false, again_at: now }
    }
}

/// One call for leases that is not answered yet.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) id: TermId,
    pub(super) duties: Vec<DutyName>,
    pub(super) at: Moment,
}

/// Returns how long this process waits where a standby would wait for `wait`.
pub(super) fn pause(membership: &Membership, duty: &DutyName, wait: Duration) -> Duration {
    let members = membership.of_duty(duty);
    if members.stands_by() { wait } else { wait.max(members.round()) }
}
