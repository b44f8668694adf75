//! The transitions of a lease: taken, renewed, released. Engines whose store is a process decide by these
//! functions; the conformance suite compares engines that decide in SQL or Lua with them.
//!
//! A term ends when it is released, when another term follows, or when its heartbeat is older than its
//! expiry by the store's clock, whichever comes first, and never begins again. If the store's clock steps
//! back, a heartbeat lies in the future: the next process that checks the lease sets the heartbeat to
//! now. So a holder that died is noticed one expiry later, and not only when the clock has caught up.
//! That takes nothing from a live holder: it trusts its lease from when its heartbeat left, which is
//! earlier.

use std::time::Duration;

use crate::admin::Changed;
use crate::clock::Timestamp;
use crate::lease::{
    LeaseMetadata, LeaseRelease, LeaseRequest, Released, Renewal, Renewed, StoredLease, Taking, Term,
};
use crate::limits::{DUTIES_MAX, LEASE_KEPT};
use crate::names::DutyName;

impl StoredLease {
    /// Returns the time until the heartbeat is older than the expiry.
    pub fn expires_in(&self, now: Timestamp) -> Duration {
        self.expiry.saturating_sub(now.since(self.heartbeat))
    }

    /// Whether a worker holds the lease.
    pub fn is_held(&self, now: Timestamp) -> bool {
        self.holder.is_some() && self.expires_in(now) > Duration::ZERO
    }

    /// Returns since when the holder has been in a run. A holder that died during a run is no longer in
    /// it, and neither is the next holder of the lease: a run that began an expiry or more before the
    /// term was begun by a process that is gone.
    pub fn running_since(&self, now: Timestamp) -> Option<Timestamp> {
        let of_this_term = |began: &Timestamp| began.plus(self.expiry) > self.since;
        self.metadata.notes().running_since.filter(|began| self.is_held(now) && of_this_term(began))
    }

    /// Returns for how long the holder has been in one run, if that is longer than a run may take.
    pub fn stuck_for(&self, now: Timestamp) -> Option<Duration> {
        self.running_since(now).and_then(|_| self.metadata.notes().stuck_for(now))
    }

    /// Whether exactly this term holds.
    pub fn holds(&self, term: Term, now: Timestamp) -> bool {
        self.term == term && self.is_held(now)
    }

    /// Decides a request, and returns the changed lease if the request changes it.
    pub fn take(
        before: Option<&Self>,
        duty: &DutyName,
        expiry: Duration,
        request: &LeaseRequest,
        now: Timestamp,
    ) -> (Taking, Option<Self>) {
        match before {
            Some(lease) if lease.term.id == request.id => lease.take_again(now),
            Some(lease) if lease.is_held(now) => lease.look(now),
            _ => {
                let lease = Self::begun(before, duty, expiry, request, now);
                (lease.granted(), Some(lease))
            }
        }
    }

    /// Decides a repeated request. The term that the first request began may be over by now, and must not
    /// begin again: its holder has stopped.
    fn take_again(&self, now: Timestamp) -> (Taking, Option<Self>) {
        if !self.is_held(now) {
            return (Taking::Over, None);
        }
        (self.granted(), Some(Self { heartbeat: now, ..self.clone() }))
    }

    fn granted(&self) -> Taking {
        Taking::Taken(self.term, self.metadata.clone())
    }

    /// Whether a store without room may delete the lease. Its fence is older than any future fence.
    pub fn is_forgettable(&self, now: Timestamp) -> bool {
        !self.is_held(now) && now.since(self.heartbeat) >= LEASE_KEPT
    }

    fn look(&self, now: Timestamp) -> (Taking, Option<Self>) {
        let Some(by) = self.holder else { return (Taking::Over, None) };
        let seen = Taking::Held { by, expires_in: self.expires_in(now) };
        (seen, (self.heartbeat > now).then(|| Self { heartbeat: now, ..self.clone() }))
    }

    fn begun(
        before: Option<&Self>,
        duty: &DutyName,
        expiry: Duration,
        request: &LeaseRequest,
        now: Timestamp,
    ) -> Self {
        let fell_silent = before.is_some_and(|lease| lease.holder.is_some());
        Self {
            duty: duty.clone(),
            holder: Some(request.worker),
            term: Term { fence: next_fence(before.map_or(0, |lease| lease.term.fence), now), id: request.id },
            since: now,
            heartbeat: now,
            expiry,
            takeovers: before.map_or(0, |lease| lease.takeovers) + u64::from(fell_silent),
            asked_to_step_down: false,
            metadata: before.map_or_else(LeaseMetadata::default, |lease| lease.metadata.clone()),
        }
    }

    /// Decides a renewal, and returns the changed lease if the renewal changes it.
    pub fn renew(before: Option<&Self>, renewal: &Renewal, now: Timestamp) -> (Renewed, Option<Self>) {
        let Some(lease) = before.filter(|lease| lease.holds(renewal.lease.term, now)) else {
            return (Renewed::Lost, None);
        };
        let metadata = renewal.metadata.as_ref().unwrap_or(&lease.metadata).clone();
        let renewed = if lease.asked_to_step_down { Renewed::GiveWay } else { Renewed::Kept };
        (renewed, Some(Self { heartbeat: now, metadata, ..lease.clone() }))
    }

    /// Decides a release, and returns the changed lease if the release changes it.
    pub fn release(before: Option<&Self>, release: &LeaseRelease) -> (Released, Option<Self>) {
        let Some(lease) = before.filter(|lease| lease.term.id == release.id) else {
            return (Released::Lost, None);
        };
        let metadata = release.metadata.as_ref().unwrap_or(&lease.metadata).clone();
        let free = |_| Self { holder: None, asked_to_step_down: false, metadata, ..lease.clone() };
        (Released::Done, lease.holder.map(free))
    }

    /// Decides a request to give way, and returns the changed lease if the request changes it.
    pub fn step_down(before: Option<&Self>, now: Timestamp) -> (Changed, Option<Self>) {
        match before {
            None => (Changed::NotFound, None),
            Some(lease) if !lease.is_held(now) || lease.asked_to_step_down => (Changed::Unchanged, None),
            Some(lease) => (Changed::Done, Some(Self { asked_to_step_down: true, ..lease.clone() })),
        }
    }
}

/// The number of new duties for which a store that already keeps leases of `others` duties has room.
pub fn room_beside(others: usize) -> usize {
    (DUTIES_MAX as usize).saturating_sub(others)
}

/// The fence of the next term: higher than the last one, and no lower than the time in microseconds. So a
/// store that forgot its last terms issues none of their numbers again.
pub fn next_fence(last: i64, now: Timestamp) -> i64 {
    last.saturating_add(1).max(now.as_micros())
}
