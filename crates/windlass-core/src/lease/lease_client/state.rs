//! How each duty stands for one process, and what it has asked for.

use std::time::Duration;

use super::{LeaseCall, LeaseTiming, Moment};
use crate::lease::membership::Membership;
use crate::lease::{LeaseMetadata, Term, TermId};
use crate::names::DutyName;

/// How one duty stands.
#[derive(Debug, Clone)]
pub(super) enum LeaseState {
    Elsewhere(Elsewhere),
    Ours(Ours),
}

/// Somebody else's, as far as is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Elsewhere {
    pub(super) is_wanted: bool,
    pub(super) look_at: Moment,
    pub(super) looked_at: Moment,
    /// Whoever gave way leaves it to others for a while.
    pub(super) rests_until: Moment,
    /// The term that this process gave back or gave up last, and when. What was asked for before says nothing of now.
    pub(super) released: Option<(TermId, Moment)>,
    /// Something happened to it while an answer was under way, which may not know of that.
    pub(super) hinted: bool,
    /// Since when nobody holds it and it cannot be taken, and whether that was told.
    pub(super) busy_since: Option<Moment>,
    pub(super) told_busy: bool,
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
            told_busy: false,
        }
    }

    /// Left to others for a while, after this term.
    pub(super) fn after(term: Term, now: Moment, rest: Duration) -> Self {
        let until = now.saturating_add(rest);
        Self { rests_until: until, released: Some((term.id, now)), ..Self::until(until) }
    }

    /// When it is looked at.
    pub(super) fn looks_at(&self) -> Moment {
        if self.is_wanted { self.look_at.max(self.rests_until) } else { Moment::MAX }
    }

    pub(super) fn may_look(&self, now: Moment) -> bool {
        self.is_wanted && self.rests_until <= now
    }

    /// Whether a term that was asked for at `sent_at` is of use.
    pub(super) fn welcomes(&self, term: Term, sent_at: Moment, now: Moment) -> bool {
        self.may_look(now) && !self.is_older(sent_at) && self.released.is_none_or(|(id, _)| id != term.id)
    }

    /// Whether what was asked for at `sent_at` was asked for before this process gave it back.
    pub(super) fn is_older(&self, sent_at: Moment) -> bool {
        self.released.is_some_and(|(_, at)| sent_at < at)
    }
}

/// Ours in the store, as far as is known.
#[derive(Debug, Clone)]
pub(super) struct Ours {
    pub(super) term: Term,
    pub(super) renew_at: Moment,
    /// When it was last asked for or renewed.
    pub(super) sent_at: Moment,
    pub(super) trusted_until: Moment,
    /// Since when it is not known whether the term still holds. Meanwhile the duty is not done.
    pub(super) doubted_since: Option<Moment>,
    /// Since when its holder knows that it is to give way.
    pub(super) gives_way_since: Option<Moment>,
    /// What the store is to keep with it and has not yet.
    pub(super) noted: Option<Noted>,
}

/// What is to be kept with a lease.
#[derive(Debug, Clone)]
pub(super) struct Noted {
    pub(super) metadata: LeaseMetadata,
    pub(super) at: Moment,
}

impl Ours {
    /// Granted to a request that left at `sent_at`.
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

    /// The duty stops, and the term is asked for once more.
    pub(super) fn doubt(&mut self, now: Moment) {
        self.doubted_since = Some(now);
        self.renew_at = now;
    }

    /// Who was told to give way has an expiry for it. After that the lease runs out.
    pub(super) fn is_kept(&self, timing: LeaseTiming, now: Moment) -> bool {
        self.gives_way_since.is_none_or(|since| now < since.saturating_add(timing.expiry))
    }
}

/// A request that is under way, or whose answer was lost.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) id: TermId,
    pub(super) duties: Vec<DutyName>,
    /// The call by which it was last sent. Its answer decides.
    pub(super) newest: LeaseCall,
    pub(super) times_sent: u32,
    /// Whether terms may have come of it that nobody told of. Then it must be asked again under its id.
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

/// How long to wait where one that stands by would wait for `wait`.
pub(super) fn pause(membership: &Membership, duty: &DutyName, wait: Duration) -> Duration {
    let members = membership.of_duty(duty);
    if members.stands_by() { wait } else { wait.max(members.round()) }
}
