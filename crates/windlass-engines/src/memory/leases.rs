//! Leases: who may do which duty.

use windlass_core::admin::Changed;
use windlass_core::clock::Timestamp;
use windlass_core::engine::Result;
use windlass_core::lease::{
    LeaseFence, LeaseRecord, LeaseRequest, LeasesRead, Released, Renewal, Renewed, Taking, check_fences,
    check_renewals, check_room,
};
use windlass_core::names::DutyName;

use super::state::State;

impl State {
    pub(super) fn take_leases(&mut self, request: &LeaseRequest, now: Timestamp) -> Result<Vec<Taking>> {
        request.check()?;
        let new = request.duties.iter().filter(|(duty, _)| !self.leases.contains_key(duty)).count();
        if new > 0 {
            check_room(self.leases.len() + new)?;
        }
        let mut takings = Vec::with_capacity(request.duties.len());
        for (duty, expiry) in &request.duties {
            let (taking, after) = LeaseRecord::take(self.leases.get(duty), duty, *expiry, request, now);
            self.save_lease(after);
            takings.push(taking);
        }
        Ok(takings)
    }

    pub(super) fn renew_leases(&mut self, renewals: &[Renewal], now: Timestamp) -> Result<Vec<Renewed>> {
        check_renewals(renewals)?;
        let renew = |renewal: &Renewal| {
            let (renewed, after) = LeaseRecord::renew(self.leases.get(&renewal.lease.duty), renewal, now);
            self.save_lease(after);
            renewed
        };
        Ok(renewals.iter().map(renew).collect())
    }

    pub(super) fn release_leases(&mut self, leases: &[LeaseFence]) -> Result<Vec<Released>> {
        check_fences(leases)?;
        let release = |lease: &LeaseFence| {
            let (released, after) = LeaseRecord::release(self.leases.get(&lease.duty), lease.term);
            if after.is_some() {
                self.hints.lease(&lease.duty);
            }
            self.save_lease(after);
            released
        };
        Ok(leases.iter().map(release).collect())
    }

    pub(super) fn leases_hold(&self, leases: &[LeaseFence], now: Timestamp) -> Result<Vec<bool>> {
        check_fences(leases)?;
        let holds = |lease: &LeaseFence| {
            self.leases.get(&lease.duty).is_some_and(|stored| stored.holds(lease.term, now))
        };
        Ok(leases.iter().map(holds).collect())
    }

    pub(super) fn all_leases(&self, now: Timestamp) -> LeasesRead {
        LeasesRead { leases: self.leases.values().cloned().collect(), now }
    }

    pub(super) fn step_down(&mut self, duty: &DutyName, now: Timestamp) -> Changed {
        let (changed, after) = LeaseRecord::step_down(self.leases.get(duty), now);
        if after.is_some() {
            self.hints.lease(duty);
        }
        self.save_lease(after);
        changed
    }

    fn save_lease(&mut self, lease: Option<LeaseRecord>) {
        if let Some(lease) = lease {
            self.leases.insert(lease.duty.clone(), lease);
        }
    }
}
