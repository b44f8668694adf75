//! What one process does to get and keep leases, without any I/O: when to ask for those that others hold, when to renew its
//! own, and until when it may believe that it holds one.
//!
//! A lease is trusted from the moment its request **left** on this process's monotonic clock, for its expiry less a margin: the
//! store counts from somewhere between then and the answer, so it never gives the lease away earlier. At that deadline the
//! duty stops, whatever is still under way. An answer that comes later does not make it go on: the lease is asked for
//! once more, and only that answer counts, if it is in time itself. A failed renewal before the deadline changes nothing, and
//! one that is not answered within a heartbeat is sent again: a connection that hangs must not cost the lease.

use std::collections::BTreeMap;
use std::time::Duration;

mod hearing;

use crate::error::EngineError;
use crate::lease::crowd::Crowds;
use crate::lease::{LeaseFence, LeaseMetadata, LeaseRelease, Term, TermId};
use crate::limits::{DUTIES_PER_CALL_MAX, DUTY_EXPIRY, DUTY_EXPIRY_MAX, DUTY_EXPIRY_MIN, DUTY_HEARTBEAT};
use crate::names::DutyName;

/// An instant of this process's monotonic clock: the time since the process began to count. It must count the time, too, in
/// which the machine slept (on Linux `CLOCK_BOOTTIME`, which `std::time::Instant` is not): the store's clock goes on meanwhile.
pub type Moment = Duration;

/// The margin is this part of the expiry: clocks of two machines do not run equally fast.
const MARGIN_PART: u32 = 10;
/// After a failure the same is tried again after this part of a heartbeat.
const AGAIN_PART: u32 = 4;

/// A lease that is about to expire is not looked at again sooner than this.
const LOOK_AGAIN_MIN: Duration = Duration::from_millis(10);
/// Where a hint does not name a lease, as from another process on an SQLite file, one is not looked at more often than this.
const ANY_HINT_PAUSE: Duration = Duration::from_millis(200);

/// How leases are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTiming {
    /// A holder renews this often.
    pub heartbeat: Duration,
    /// A lease is good for this long after a heartbeat.
    pub expiry: Duration,
}

impl Default for LeaseTiming {
    fn default() -> Self {
        Self { heartbeat: DUTY_HEARTBEAT, expiry: DUTY_EXPIRY }
    }
}

impl LeaseTiming {
    /// Refuses what cannot work: two heartbeats must fit into an expiry, so that one may fail.
    pub fn check(self) -> Result<(), EngineError> {
        let (heartbeat, expiry) = (self.heartbeat, self.expiry);
        if !(DUTY_EXPIRY_MIN..=DUTY_EXPIRY_MAX).contains(&expiry) {
            return Err(EngineError::Refused(format!(
                "expected leases to expire after {DUTY_EXPIRY_MIN:?} to {DUTY_EXPIRY_MAX:?}, got {expiry:?}"
            )));
        }
        if heartbeat.is_zero() || heartbeat.saturating_mul(2) > self.trust() {
            return Err(EngineError::Refused(format!(
                "expected heartbeats of leases so often that two fit into {:?}, got one each {heartbeat:?}; beat more often, \
                 or let leases expire later",
                self.trust()
            )));
        }
        Ok(())
    }

    /// For how long after a request left its lease is trusted. An answer that takes longer is of no use, so this is also
    /// the deadline of every call about leases.
    pub fn trust(self) -> Duration {
        self.expiry - self.expiry / MARGIN_PART
    }

    /// How long to wait before something that failed is tried again.
    fn again_after(self) -> Duration {
        self.heartbeat / AGAIN_PART
    }
}

/// One call to the store. Several may be under way, and what counts is when each of them left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeaseCall(u64);

/// What the shell around a keeper is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseEffect {
    /// Stop this duty at once: the lease is lost, or can no longer be trusted.
    Stop(LeaseFence),
    /// Do this duty from now on, under this fence.
    Start {
        /// The fence.
        lease: LeaseFence,
        /// What the last holder kept with the lease; nothing if this process goes on in the same term.
        metadata: Option<LeaseMetadata>,
    },
    /// Somebody wants the holder to give way: stop the duty, give the lease back, and say so by [`LeaseKeeper::released`]. It
    /// is not started again in this term, and not renewed for longer than an expiry.
    GiveWay(LeaseFence),
    /// Renew these; answer by [`LeaseKeeper::renewed`].
    Renew {
        /// To be named with the answer.
        call: LeaseCall,
        /// At most as many as one call may be about.
        leases: Vec<LeaseFence>,
    },
    /// Ask for these under this id; answer by [`LeaseKeeper::tried`].
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
}

/// The leases that one process holds or would like to hold.
#[derive(Debug)]
pub struct LeaseKeeper {
    timing: LeaseTiming,
    crowds: Crowds,
    duties: BTreeMap<DutyName, Stand>,
    request: Option<Request>,
    /// When renewals left that are not answered yet.
    renewals: BTreeMap<LeaseCall, Moment>,
    next_call: u64,
}

/// How one duty stands.
#[derive(Debug, Clone, Copy)]
enum Stand {
    Elsewhere(Elsewhere),
    Ours(Ours),
}

/// Somebody else's, as far as is known.
#[derive(Debug, Clone, Copy)]
struct Elsewhere {
    look_at: Moment,
    looked_at: Moment,
    /// Whoever gave way leaves it to others for a while.
    rests_until: Moment,
    /// Something happened to it while an answer was under way, which may not know of that.
    hinted: bool,
}

/// Ours in the store, as far as is known.
#[derive(Debug, Clone, Copy)]
struct Ours {
    term: Term,
    renew_at: Moment,
    /// When it was last asked for or renewed.
    sent_at: Moment,
    trusted_until: Moment,
    /// Since when it is not known whether the term still holds. Meanwhile the duty is not done.
    doubted_since: Option<Moment>,
    /// Since when its holder knows that it is to give way.
    gives_way_since: Option<Moment>,
}

impl Elsewhere {
    fn until(look_at: Moment) -> Self {
        Self { look_at, looked_at: Moment::ZERO, rests_until: Moment::ZERO, hinted: false }
    }

    fn resting(until: Moment) -> Self {
        Self { rests_until: until, ..Self::until(until) }
    }
}

impl Ours {
    fn is_trusted(&self, now: Moment) -> bool {
        self.doubted_since.is_none() && now < self.trusted_until
    }

    /// The duty stops, and the term is asked for once more.
    fn doubt(&mut self, now: Moment) {
        self.doubted_since = Some(now);
        self.renew_at = now;
    }

    /// Who was told to give way has an expiry for it. After that the lease runs out.
    fn is_kept(&self, timing: LeaseTiming, now: Moment) -> bool {
        self.gives_way_since.is_none_or(|since| now < since.saturating_add(timing.expiry))
    }
}

/// A request that is under way, or whose answer was lost.
#[derive(Debug)]
struct Request {
    id: TermId,
    duties: Vec<DutyName>,
    /// Calls that are not answered yet, and when each left.
    calls: BTreeMap<LeaseCall, Moment>,
    /// Whether terms may have come of it that nobody told of. Then it must be asked again under its id.
    is_in_doubt: bool,
    /// When it is sent again.
    again_at: Moment,
}

impl LeaseKeeper {
    /// Wants these duties from `now` on.
    pub fn new(
        duties: impl IntoIterator<Item = DutyName>,
        timing: LeaseTiming,
        crowds: Crowds,
        now: Moment,
    ) -> Self {
        let stand = |duty: &DutyName| {
            let crowd = crowds.of_duty(duty);
            let first = if crowd.stands_by() { Duration::ZERO } else { crowd.first_look_after() };
            Stand::Elsewhere(Elsewhere::until(now.saturating_add(first)))
        };
        let duties = duties.into_iter().map(|duty| (duty.clone(), stand(&duty))).collect();
        Self { timing, crowds, duties, request: None, renewals: BTreeMap::new(), next_call: 0 }
    }

    /// The term in which this process may do a duty at `now`. To be asked before each write; it is right even if nobody asked
    /// for effects since the deadline.
    pub fn term(&self, duty: &DutyName, now: Moment) -> Option<Term> {
        match self.duties.get(duty)? {
            Stand::Ours(ours) if ours.is_trusted(now) => Some(ours.term),
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
        let of_duty = |stand: &Stand| match stand {
            Stand::Elsewhere(elsewhere) if idle => elsewhere.look_at,
            Stand::Elsewhere(_) => Moment::MAX,
            Stand::Ours(ours) => {
                let deadline = if ours.doubted_since.is_none() { ours.trusted_until } else { Moment::MAX };
                deadline.min(ours.renew_at)
            }
        };
        let repeat = self.request.as_ref().map_or(Moment::MAX, |request| request.again_at);
        self.duties.values().map(of_duty).min().unwrap_or(Moment::MAX).min(repeat)
    }

    /// Stops all duties and gives all leases back: those that this process holds, and those that may have come of a request
    /// without an answer. Nothing is wanted any more.
    pub fn stop(&mut self) -> Vec<LeaseEffect> {
        let (mut stops, mut releases) = (Vec::new(), Vec::new());
        for (duty, ours) in self.ours_mut() {
            let lease = LeaseFence { duty: duty.clone(), term: ours.term };
            releases.push(LeaseRelease::from(&lease));
            stops.extend(ours.doubted_since.is_none().then_some(LeaseEffect::Stop(lease)));
        }
        if let Some(request) = self.request.take() {
            let unheard =
                request.duties.into_iter().filter(|duty| !releases.iter().any(|known| known.duty == *duty));
            let unheard = unheard.map(|duty| LeaseRelease { duty, id: request.id, metadata: None });
            releases.extend(unheard.collect::<Vec<_>>());
        }
        (self.duties, self.renewals) = (BTreeMap::new(), BTreeMap::new());
        let calls = releases.chunks(DUTIES_PER_CALL_MAX).map(|part| LeaseEffect::Release(part.to_vec()));
        stops.into_iter().chain(calls).collect()
    }

    fn stop_untrusted(&mut self, now: Moment) -> Vec<LeaseEffect> {
        let rest = self.rest_from(now);
        let mut effects = Vec::new();
        for (duty, stand) in &mut self.duties {
            let Stand::Ours(ours) = stand else { continue };
            if ours.doubted_since.is_none() && now >= ours.trusted_until {
                effects.push(LeaseEffect::Stop(LeaseFence { duty: duty.clone(), term: ours.term }));
                ours.doubt(now);
                // Who was told to give way does not begin again.
                if ours.gives_way_since.is_some() {
                    *stand = Stand::Elsewhere(rest);
                }
            }
        }
        effects
    }

    fn rest_from(&self, now: Moment) -> Elsewhere {
        Elsewhere::resting(now.saturating_add(self.timing.expiry))
    }

    /// All of them as soon as one is due: one statement renews all.
    fn renew_due(&mut self, now: Moment) -> Vec<LeaseEffect> {
        let timing = self.timing;
        let over = self.ours_mut().filter(|(_, ours)| !ours.is_kept(timing, now));
        over.for_each(|(_, ours)| ours.renew_at = Moment::MAX);
        if !self.ours_mut().any(|(_, ours)| ours.renew_at <= now) {
            return Vec::new();
        }
        let mut leases = Vec::new();
        for (duty, ours) in self.ours_mut().filter(|(_, ours)| ours.renew_at < Moment::MAX) {
            (ours.sent_at, ours.renew_at) = (now, now.saturating_add(timing.heartbeat));
            leases.push(LeaseFence { duty: duty.clone(), term: ours.term });
        }
        // An answer that takes so long does not count.
        self.renewals.retain(|_, sent_at| now < sent_at.saturating_add(timing.trust()));
        let parts = leases.chunks(DUTIES_PER_CALL_MAX).map(<[_]>::to_vec);
        parts.map(|leases| self.renew(leases, now)).collect()
    }

    fn renew(&mut self, leases: Vec<LeaseFence>, now: Moment) -> LeaseEffect {
        let call = self.new_call();
        self.renewals.insert(call, now);
        LeaseEffect::Renew { call, leases }
    }

    fn new_call(&mut self) -> LeaseCall {
        self.next_call += 1;
        LeaseCall(self.next_call)
    }

    /// The same request once more, if its answer was lost or does not come.
    fn repeat_due(&mut self, now: Moment) -> Option<LeaseEffect> {
        self.request.as_ref().filter(|request| request.again_at <= now)?;
        let (call, timing) = (self.new_call(), self.timing);
        let request = self.request.as_mut()?;
        request.calls.retain(|_, sent_at| now < sent_at.saturating_add(timing.trust()));
        request.is_in_doubt = true;
        Some(request.send(call, timing, now))
    }

    /// All of them as soon as one is due: the answer says of each when it must be looked at again.
    fn look_due(&mut self, now: Moment, fresh: TermId) -> Option<LeaseEffect> {
        if self.request.is_some() || !self.elsewhere_mut().any(|(_, stand)| stand.look_at <= now) {
            return None;
        }
        let wanted = self.elsewhere_mut().filter(|(_, stand)| stand.rests_until <= now);
        let mut wanted: Vec<_> = wanted.map(|(duty, stand)| (stand.look_at, duty.clone())).collect();
        // Those that have waited longest, if there are more than one call may be about.
        wanted.sort();
        wanted.truncate(DUTIES_PER_CALL_MAX);
        let mut duties: Vec<_> = wanted.into_iter().map(|(_, duty)| duty).collect();
        duties.sort();
        for (_, stand) in self.elsewhere_mut().filter(|(duty, _)| duties.contains(duty)) {
            (stand.hinted, stand.looked_at) = (false, now);
        }
        let (call, timing) = (self.new_call(), self.timing);
        let request =
            Request { id: fresh, duties, calls: BTreeMap::new(), is_in_doubt: false, again_at: now };
        Some(self.request.insert(request).send(call, timing, now))
    }

    fn ours_mut(&mut self) -> impl Iterator<Item = (&DutyName, &mut Ours)> {
        self.duties.iter_mut().filter_map(|(duty, stand)| match stand {
            Stand::Ours(ours) => Some((duty, ours)),
            Stand::Elsewhere(_) => None,
        })
    }

    fn elsewhere_mut(&mut self) -> impl Iterator<Item = (&DutyName, &mut Elsewhere)> {
        self.duties.iter_mut().filter_map(|(duty, stand)| match stand {
            Stand::Elsewhere(elsewhere) => Some((duty, elsewhere)),
            Stand::Ours(_) => None,
        })
    }
}

impl Request {
    fn send(&mut self, call: LeaseCall, timing: LeaseTiming, now: Moment) -> LeaseEffect {
        self.calls.insert(call, now);
        self.again_at = now.saturating_add(timing.heartbeat);
        let duties = self.duties.iter().map(|duty| (duty.clone(), timing.expiry)).collect();
        LeaseEffect::Try { call, id: self.id, duties }
    }
}

#[cfg(test)]
mod tests;
