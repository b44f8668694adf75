//! What the keeper is asked by its own process: to want a duty or no longer, to give way, to keep a note, to stop.

use super::state::{Elsewhere, LeaseState, Noted, Ours};
use super::{LeaseClient, LeaseEffect, Moment};
use crate::lease::{LeaseFence, LeaseMetadata, LeaseRelease, TermId};
use crate::limits::DUTIES_PER_CALL_MAX;
use crate::names::DutyName;

impl LeaseClient {
    /// Whether this process would do a duty. While it would not, its lease is given back and not asked for: a process whose last
    /// run of it does not end would only keep it from others.
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

    /// Stops a duty and gives its lease back, with what is to be kept with it. Unless nobody else could do the duty, it is left to
    /// others for an expiry.
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

    /// Keeps this with a lease, if it is ours: it goes with the next renewal, again until the store has it, or with the release.
    pub fn note(&mut self, duty: &DutyName, metadata: LeaseMetadata, now: Moment) {
        if let Some(LeaseState::Ours(ours)) = self.duties.get_mut(duty) {
            ours.noted = Some(Noted { metadata, at: now });
        }
    }

    /// Whether nobody else could do a duty, as far as is known.
    pub fn is_alone(&self, duty: &DutyName) -> bool {
        self.membership.of_duty(duty).is_alone()
    }

    /// Whether this process looks as soon as the lease of a duty could have expired, as far as is known.
    pub fn stands_by(&self, duty: &DutyName) -> bool {
        self.membership.of_duty(duty).stands_by()
    }

    /// Stops all duties and gives all leases back: those that this process holds, and those that may have come of a request
    /// without an answer. Nothing is wanted any more. What is told to have been granted after this is given back then.
    pub fn stop(&mut self) -> Vec<LeaseEffect> {
        let (mut stops, mut releases) = (Vec::new(), Vec::new());
        for (duty, ours) in self.ours_mut() {
            let lease = LeaseFence { duty: duty.clone(), term: ours.term };
            releases.push(LeaseRelease { metadata: ours.note(), ..LeaseRelease::from(&lease) });
            stops.extend(ours.doubted_since.is_none().then_some(LeaseEffect::Stop(lease)));
        }
        for (id, duty) in self.unheard() {
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

    /// Whether a request is under way whose answer may tell of a term. Who stops should hear it, if it comes soon.
    pub fn is_waiting(&self) -> bool {
        !self.sent.is_empty()
    }

    /// Everything that may have been granted.
    fn unheard(&self) -> Vec<(TermId, DutyName)> {
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
