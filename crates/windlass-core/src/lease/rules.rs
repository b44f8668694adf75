//! What becomes of a lease: taken, renewed, given back. Engines whose store is a process decide by these functions; those
//! that decide in SQL or Lua are compared with them by the conformance suite.
//!
//! A term ends when it is given back, when another follows, or when its heartbeat is older than its expiry by the store's
//! clock, whichever comes first, and never begins again. If the store's clock steps back, a heartbeat lies in the future:
//! whoever looks brings it to now, so that a holder that died is missed one expiry later and not when the clock has come
//! round again. That takes nothing from a holder that lives: it trusts its lease from when its heartbeat left, which is earlier.

use std::time::Duration;

use crate::admin::Changed;
use crate::clock::Timestamp;
use crate::lease::{
    LeaseMetadata, LeaseRelease, LeaseRequest, Released, Renewal, Renewed, StoredLease, Taking, Term,
};
use crate::limits::{DUTIES_MAX, LEASE_KEPT};
use crate::names::DutyName;

impl StoredLease {
    /// In how long the heartbeat will be older than the expiry.
    pub fn expires_in(&self, now: Timestamp) -> Duration {
        self.expiry.saturating_sub(now.since(self.heartbeat))
    }

    /// Whether somebody holds it.
    pub fn is_held(&self, now: Timestamp) -> bool {
        self.holder.is_some() && self.expires_in(now) > Duration::ZERO
    }

    /// Since when its holder is at a run. A holder that died during a run is no longer at it, and neither is who holds the lease
    /// after it: what began an expiry or more before the term was begun by somebody who is gone.
    pub fn running_since(&self, now: Timestamp) -> Option<Timestamp> {
        let of_this_term = |began: &Timestamp| began.plus(self.expiry) > self.since;
        self.metadata.notes().running_since.filter(|began| self.is_held(now) && of_this_term(began))
    }

    /// For how long its holder has been at one run, if that is longer than it may be.
    pub fn stuck_for(&self, now: Timestamp) -> Option<Duration> {
        self.running_since(now).and_then(|_| self.metadata.notes().stuck_for(now))
    }

    /// Whether this very term holds.
    pub fn holds(&self, term: Term, now: Timestamp) -> bool {
        self.term == term && self.is_held(now)
    }

    /// What becomes of a request, and of the lease if that changes it.
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

    /// A repeat. The term that it began may be over by now, and must not begin again: its holder has stopped.
    fn take_again(&self, now: Timestamp) -> (Taking, Option<Self>) {
        if !self.is_held(now) {
            return (Taking::Over, None);
        }
        (self.granted(), Some(Self { heartbeat: now, ..self.clone() }))
    }

    fn granted(&self) -> Taking {
        Taking::Taken(self.term, self.metadata.clone())
    }

    /// Whether nobody would miss it: a store without room forgets it. Its fence is older than any that comes.
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

    /// What becomes of a heartbeat, and of the lease if that changes it.
    pub fn renew(before: Option<&Self>, renewal: &Renewal, now: Timestamp) -> (Renewed, Option<Self>) {
        let Some(lease) = before.filter(|lease| lease.holds(renewal.lease.term, now)) else {
            return (Renewed::Lost, None);
        };
        let metadata = renewal.metadata.as_ref().unwrap_or(&lease.metadata).clone();
        let renewed = if lease.asked_to_step_down { Renewed::GiveWay } else { Renewed::Kept };
        (renewed, Some(Self { heartbeat: now, metadata, ..lease.clone() }))
    }

    /// What becomes of a lease that is given back, and the lease if that changes it.
    pub fn release(before: Option<&Self>, release: &LeaseRelease) -> (Released, Option<Self>) {
        let Some(lease) = before.filter(|lease| lease.term.id == release.id) else {
            return (Released::Lost, None);
        };
        let metadata = release.metadata.as_ref().unwrap_or(&lease.metadata).clone();
        let free = |_| Self { holder: None, asked_to_step_down: false, metadata, ..lease.clone() };
        (Released::Done, lease.holder.map(free))
    }

    /// What becomes of a request to give way, and of the lease if that changes it.
    pub fn step_down(before: Option<&Self>, now: Timestamp) -> (Changed, Option<Self>) {
        match before {
            None => (Changed::NotFound, None),
            Some(lease) if !lease.is_held(now) || lease.asked_to_step_down => (Changed::Unchanged, None),
            Some(lease) => (Changed::Done, Some(Self { asked_to_step_down: true, ..lease.clone() })),
        }
    }
}

/// Of how many new duties leases can be made in a store that keeps so many others.
pub fn room_beside(others: usize) -> usize {
    (DUTIES_MAX as usize).saturating_sub(others)
}

/// Higher than the last one, and no lower than the time in microseconds: a store that forgot its last terms gives none of
/// their numbers again.
pub fn next_fence(last: i64, now: Timestamp) -> i64 {
    last.saturating_add(1).max(now.as_micros())
}
