//! The knowledge of one process about one platform. Pure: requests, reports and readings go in, decisions
//! come out.
//!
//! A breaker that processes share is decided by a copy of the store's state, read at intervals, so that a
//! job costs no call to the store while the breaker is closed or open. The process's own breaker counts
//! along all the time: while the store is unavailable it decides alone.

use std::time::Duration;

use windlass_core::breaker::{
    Admission, BreakerEvent, BreakerOptions, BreakerState, CircuitState, Results, Verdict, ask, decide,
    rate_limit_pause,
};
use windlass_core::claim::Fence;
use windlass_core::clock::Timestamp;
use windlass_core::names::BreakerName;
use windlass_core::policies::BreakersRead;
use windlass_core::stored::Unreadable;

/// How long a copy is valid. Without a newer one, the store is unavailable.
pub(super) const COPY_GOOD_FOR: Duration = Duration::from_secs(3);

/// The knowledge about one platform.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The state from this process's own results.
    own: BreakerState,
    /// The store's state when it was last read.
    copy: Option<Copy>,
    /// Results that have not been sent to the store.
    unsent: Results,
    /// Results that are being sent to the store.
    sending: Results,
    /// Whether the store holds a state that cannot be read.
    is_unreadable: bool,
}

#[derive(Debug)]
struct Copy {
    state: BreakerState,
    /// The instant of the reading, by the store's clock and by this process's.
    read_at: (Timestamp, Timestamp),
}

/// The answer to a claim that wants to call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// The process knows the answer.
    Known(Admission),
    /// A permit may be free; only the store can grant it.
    AskStore,
}

impl Known {
    /// Decides whether this claim may call.
    pub(super) fn ask(&mut self, fence: Fence, now: Timestamp, options: &BreakerOptions) -> Asked {
        let Some(state) = self.shared(now, options) else {
            let (next, admission) = ask(&self.own, fence, now, options);
            self.own = next;
            return Asked::Known(admission);
        };
        let has_place = || state.reserved.iter().any(|(job, _)| *job == fence.job);
        let may_probe = || state.free_probes(options) > 0 || state.probes.contains(&fence) || has_place();
        match state.circuit {
            CircuitState::Closed => Asked::Known(Admission::Go),
            CircuitState::HalfOpen if may_probe() => Asked::AskStore,
            CircuitState::HalfOpen | CircuitState::Open { .. } => Asked::Known(Admission::Wait),
        }
    }

    /// Takes in the end of a call that was allowed by this process's own knowledge, or by the store without
    /// a permit. `shared` says whether the result is to be sent to the store.
    pub(super) fn ended(
        &mut self,
        fence: Fence,
        verdict: Verdict,
        shared: bool,
        now: Timestamp,
        options: &BreakerOptions,
    ) {
        let event = match self.own.probes.contains(&fence) {
            true => BreakerEvent::ProbeEnded(fence, verdict),
            false => BreakerEvent::Ended(Results::of(verdict)),
        };
        self.own = decide(&self.own, &event, now, options);
        if shared {
            self.unsent.add(verdict);
        }
    }

    /// Applies an event to this process's own breaker.
    pub(super) fn happened(&mut self, event: &BreakerEvent, now: Timestamp, options: &BreakerOptions) {
        self.own = decide(&self.own, event, now, options);
    }

    /// How long to make no calls after a rate-limit answer that was reported just now.
    pub(super) fn pause(&self, retry_after: Option<Duration>, options: &BreakerOptions) -> Duration {
        let shared = self.copy.as_ref().map_or(0, |copy| copy.state.rate_limits_in_a_row);
        let shared = [&self.sending, &self.unsent].into_iter().fold(shared, |row, results| {
            let before = if results.has_success() { 0 } else { row };
            before.saturating_add(results.rate_limits)
        });
        rate_limit_pause(options, shared.max(self.own.rate_limits_in_a_row), retry_after)
    }

    /// The state of the breaker now, as far as this process knows.
    pub(super) fn stands(&self, now: Timestamp, options: &BreakerOptions) -> BreakerState {
        self.shared(now, options).unwrap_or_else(|| self.own.at(now))
    }

    /// The store's state with the unsent results added; none if the store is unavailable or holds no state
    /// of this breaker.
    fn shared(&self, now: Timestamp, options: &BreakerOptions) -> Option<BreakerState> {
        let Copy { state, read_at: (by_store, by_us) } = self.copy.as_ref()?;
        let age = now.since(*by_us);
        let store_now = by_store.plus(age);
        let unsent = [&self.sending, &self.unsent].into_iter().filter(|results| !results.is_empty());
        let add = |state: BreakerState, results: &Results| {
            decide(&state, &BreakerEvent::Ended(*results), store_now, options)
        };
        (age <= COPY_GOOD_FOR).then(|| unsent.fold(state.at(store_now), add))
    }

    /// Whether this process has a valid copy of the store's state.
    pub(super) fn is_shared(&self, now: Timestamp) -> bool {
        self.copy.as_ref().is_some_and(|copy| now.since(copy.read_at.1) <= COPY_GOOD_FOR)
    }

    /// Takes in a state that was read from the store. A breaker that the store does not know is closed. Of
    /// two readings that cross, the later one counts.
    pub(super) fn read(&mut self, state: BreakerState, by_store: Timestamp, now: Timestamp) {
        let is_newer = |copy: &Copy| copy.read_at.0 > by_store && now.since(copy.read_at.1) <= COPY_GOOD_FOR;
        if self.copy.as_ref().is_some_and(is_newer) {
            return;
        }
        self.copy = Some(Copy { state, read_at: (by_store, now) });
        self.is_unreadable = false;
    }

    /// Notes that the store's state cannot be read. Returns whether this is news.
    pub(super) fn cannot_be_read(&mut self) -> bool {
        self.copy = None;
        !std::mem::replace(&mut self.is_unreadable, true)
    }

    /// Whether jobs may be released by this process's own knowledge. What the store holds and cannot be
    /// read may be a breaker that a person has opened.
    pub(super) fn may_release(&self) -> bool {
        !self.is_unreadable
    }

    /// Notes that the store did not answer.
    pub(super) fn is_away(&mut self) {
        self.copy = None;
    }

    /// Takes the results to send to the store; none if they would change nothing there.
    pub(super) fn take_unsent(&mut self, options: &BreakerOptions) -> Option<Results> {
        let counts = self.copy.as_ref().is_some_and(|copy| copy.state.failures_in_a_row > 0);
        let is_news = self.unsent.failures > 0 || (self.unsent.has_success() && counts);
        let is_counted = options.failure_rate.is_some() && !self.unsent.is_empty();
        let unsent = std::mem::take(&mut self.unsent);
        self.sending = if is_news || is_counted { unsent } else { Results::default() };
        (!self.sending.is_empty()).then_some(unsent)
    }

    /// Notes that the results of [`take_unsent`](Self::take_unsent) were sent, or cannot be.
    pub(super) fn was_sent(&mut self) {
        self.sending = Results::default();
    }
}

/// One breaker among all that were read; a breaker that is absent has the default state.
pub(super) fn found(read: &BreakersRead, name: &BreakerName) -> (u64, Result<BreakerState, Unreadable>) {
    let stored = read.breakers.iter().find(|stored| stored.name == *name);
    stored.map_or_else(|| (0, Ok(BreakerState::default())), |stored| (stored.version, stored.state.clone()))
}

#[cfg(test)]
mod tests;
