//! Leases: which process may do which duty.

use std::time::Duration;

use windlass_core::admin::Changed;
use windlass_core::clock::Timestamp;
use windlass_core::engine::Result;
use windlass_core::lease::rules::room_beside;
use windlass_core::lease::{
    LeaseFence, LeaseRelease, LeaseRequest, LeasesRead, Released, Renewal, Renewed, StoredLease, Taking,
    check_fences, check_releases, check_renewals,
};
use windlass_core::names::DutyName;

use super::state::State;

impl State {
    pub(super) fn take_leases(&mut self, request: &LeaseRequest, now: Timestamp) -> Result<Vec<Taking>> {
        request.check()?;
        self.make_room(request, now);
        let take = |(duty, expiry): &(DutyName, Duration)| {
            let before = self.leases.get(duty);
            if before.is_none() && room_beside(self.leases.len()) == 0 {
                return Taking::NoRoom;
            }
            let (taking, after) = StoredLease::take(before, duty, *expiry, request, now);
            self.save_lease(after);
            taking
        };
        Ok(request.duties.iter().map(take).collect())
    }

    /// Deletes leases that no worker needs, if new duties have no room.
    fn make_room(&mut self, request: &LeaseRequest, now: Timestamp) {
        let is_requested = |duty: &DutyName| request.duties.iter().any(|(requested, _)| requested == duty);
        let new = request.duties.iter().filter(|(duty, _)| !self.leases.contains_key(duty)).count();
        if new > room_beside(self.leases.len()) {
            self.leases.retain(|duty, lease| is_requested(duty) || !lease.is_forgettable(now));
        }
    }

    pub(super) fn renew_leases(&mut self, renewals: &[Renewal], now: Timestamp) -> Result<Vec<Renewed>> {
        check_renewals(renewals)?;
        let renew = |renewal: &Renewal| {
            let (renewed, after) = StoredLease::renew(self.leases.get(&renewal.lease.duty), renewal, now);
            self.save_lease(after);
            renewed
        };
        Ok(renewals.iter().map(renew).collect())
    }

    pub(super) fn release_leases(&mut self, releases: &[LeaseRelease]) -> Result<Vec<Released>> {
        check_releases(releases)?;
        let release = |release: &LeaseRelease| {
            let (released, after) = StoredLease::release(self.leases.get(&release.duty), release);
            if after.is_some() {
                self.hints.lease(&release.duty);
            }
            self.save_lease(after);
            released
        };
        Ok(releases.iter().map(release).collect())
    }

    pub(super) fn leases_hold(&self, leases: &[LeaseFence], now: Timestamp) -> Result<Vec<bool>> {
        check_fences(leases)?;
        let holds = |lease: &LeaseFence| {
            self.leases.get(&lease.duty).is_some_and(|stored| stored.holds(lease.term, now))
        };
        Ok(leases.iter().map(holds).collect())
    }

    pub(super) fn all_leases(&self, now: Timestamp) -> LeasesRead {
        LeasesRead { leases: self.leases.values().cloned().collect(), locks: Vec::new(), now }
    }

    pub(super) fn step_down(&mut self, duty: &DutyName, now: Timestamp) -> Changed {
        let (changed, after) = StoredLease::step_down(self.leases.get(duty), now);
        if after.is_some() {
            self.hints.lease(duty);
        }
        self.save_lease(after);
        changed
    }

    fn save_lease(&mut self, lease: Option<StoredLease>) {
        if let Some(lease) = lease {
            self.leases.insert(lease.duty.clone(), lease);
        }
    }
}
