//! Requests of the process to its own lease client: to want a duty or no longer, to give way, to keep a
//! note, to stop.

use super::state::{Elsewhere, LeaseState, Noted, Ours};
use super::{LeaseClient, LeaseEffect, Moment};
use crate::lease::{LeaseFence, LeaseMetadata, LeaseRelease, TermId};
use crate::limits::DUTIES_PER_CALL_MAX;
use crate::names::DutyName;

impl LeaseClient {
    /// Sets whether this process would do a duty. While it would not, its lease is released and not
    /// requested: a process whose last run of the duty does not end would only keep it from others.
    pub fn want(&mut self, duty: &DutyName, wanted: bool, now: Moment) -> Vec<LeaseEffect> {
        let effects = if wanted { Vec::new() } else { self.give_way(duty, None, now) };
        let stands_by = self.membership.of_duty(duty).stands_by();
        if let Some(LeaseState::Elsewhere(state)) = self.duties.get_mut(duty) {
            let is_new = wanted && !state.is_wanted;
            state.is_wanted = wanted;
            if is_new && stands_by {
                state.look_at = now;
            }
        }
        effects
    }

    /// Stops a duty and releases its lease, with the metadata to store with it. The duty is left to
    /// others for an expiry, unless no other process could do it.
    pub fn give_way(
        &mut self,
        duty: &DutyName,
        metadata: Option<LeaseMetadata>,
        now: Moment,
    ) -> Vec<LeaseEffect> {
        let rest = if self.is_alone(duty) { Moment::ZERO } else { self.timing.expiry };
        let Some(state) = self.duties.get_mut(duty) else { return Vec::new() };
        let LeaseState::Ours(ours) = state else { return Vec::new() };
        let lease = LeaseFence { duty: duty.clone(), term: ours.term };
        let release =
            LeaseRelease { metadata: metadata.or_else(|| ours.note()), ..LeaseRelease::from(&lease) };
        let was_done = ours.doubted_since.is_none();
        *state = LeaseState::Elsewhere(Elsewhere::after(lease.term, now, rest));
        let stop = was_done.then_some(LeaseEffect::Stop(lease));
        stop.into_iter().chain([LeaseEffect::Release(vec![release])]).collect()
    }

    /// Stores this metadata with a lease that this process holds. It goes with the next renewal, again
    /// until the store has it, or with the release.
    pub fn note(&mut self, duty: &DutyName, metadata: LeaseMetadata, now: Moment) {
        if let Some(LeaseState::Ours(ours)) = self.duties.get_mut(duty) {
            ours.noted = Some(Noted { metadata, at: now });
        }
    }

    /// Whether no other process could do a duty, as far as is known.
    pub fn is_alone(&self, duty: &DutyName) -> bool {
        self.membership.of_duty(duty).is_alone()
    }

    /// Whether this process polls the lease of a duty as soon as it could have expired, as far as is
    /// known.
    pub fn stands_by(&self, duty: &DutyName) -> bool {
        self.membership.of_duty(duty).stands_by()
    }

    /// Stops all duties and releases all leases: those that this process holds, and those that an
    /// unanswered request may have granted. The client wants no duty any more. A lease that a later
    /// answer reports as granted is released then.
    pub fn stop(&mut self) -> Vec<LeaseEffect> {
        let (mut stops, mut releases) = (Vec::new(), Vec::new());
        for (duty, ours) in self.ours_mut() {
            let lease = LeaseFence { duty: duty.clone(), term: ours.term };
            releases.push(LeaseRelease { metadata: ours.note(), ..LeaseRelease::from(&lease) });
            stops.extend(ours.doubted_since.is_none().then_some(LeaseEffect::Stop(lease)));
        }
        for (id, duty) in self.possibly_granted() {
            if !releases.iter().any(|known| known.duty == duty) {
                releases.push(LeaseRelease { duty, id, metadata: None });
            }
        }
        self.duties.clear();
        self.renewals.clear();
        self.request = None;
        let calls = releases.chunks(DUTIES_PER_CALL_MAX).map(|part| LeaseEffect::Release(part.to_vec()));
        stops.into_iter().chain(calls).collect()
    }

    /// Whether a request is in flight whose answer may report a term. A process that stops should wait
    /// for the answer, if it comes soon.
    pub fn is_waiting(&self) -> bool {
        !self.sent.is_empty()
    }

    /// Returns every term that the store may have granted without an answer.
    fn possibly_granted(&self) -> Vec<(TermId, DutyName)> {
        let request = self.request.iter().map(|request| (request.id, &request.duties));
        let sent = self.sent.values().map(|sent| (sent.id, &sent.duties));
        let each = request.chain(sent);
        each.flat_map(|(id, duties)| duties.iter().map(move |duty| (id, duty.clone()))).collect()
    }
}

impl Ours {
    fn note(&mut self) -> Option<LeaseMetadata> {
        self.noted.take().map(|noted| noted.metadata)
    }
}
