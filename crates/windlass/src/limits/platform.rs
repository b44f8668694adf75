//! What one process knows of one platform. Pure: what was asked, told and read goes in, decisions come out.
//!
//! A breaker that processes share is decided by a copy of what the store knows, read every now and then, so that a job
//! costs no call to the store while the breaker is closed or open. The process's own breaker counts along all the time:
//! while the store is away it decides alone.

use std::time::Duration;

use windlass_core::breaker::{
    Admission, BreakerEvent, BreakerOptions, BreakerState, CircuitState, Results, Verdict, ask, decide,
    rate_limit_pause,
};
use windlass_core::claim::Fence;
use windlass_core::clock::Timestamp;
use windlass_core::policies::BreakersRead;

/// A copy older than this says nothing any more: the store is away.
pub(super) const COPY_GOOD_FOR: Duration = Duration::from_secs(3);

/// What is known of a platform.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// What this process has seen itself.
    own: BreakerState,
    /// What the store knew lately.
    copy: Option<Copy>,
    /// What the store has not been told yet.
    unsent: Results,
    /// What the store is being told.
    sending: Results,
}

#[derive(Debug)]
struct Copy {
    state: BreakerState,
    /// By the store's clock and by this process's.
    read_at: (Timestamp, Timestamp),
}

/// The answer to a claim that asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// The process knows it.
    Known(Admission),
    /// A permit may be free; only the store can give it.
    AskStore,
}

impl Known {
    /// May this claim call?
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

    /// A call ended that was allowed by this process's own knowledge, or by the store without a permit. `shared` says
    /// whether the store is to be told.
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

    /// Something happened to this process's own breaker.
    pub(super) fn happened(&mut self, event: &BreakerEvent, now: Timestamp, options: &BreakerOptions) {
        self.own = decide(&self.own, event, now, options);
    }

    /// How long to stay away after a rate-limit answer that was told just now.
    pub(super) fn pause(&self, retry_after: Option<Duration>, options: &BreakerOptions) -> Duration {
        let shared = self.copy.as_ref().map_or(0, |copy| copy.state.rate_limits_in_a_row);
        let shared = [&self.sending, &self.unsent].into_iter().fold(shared, |row, results| {
            let before = if results.has_success() { 0 } else { row };
            before.saturating_add(results.rate_limits)
        });
        rate_limit_pause(options, shared.max(self.own.rate_limits_in_a_row), retry_after)
    }

    /// How it stands now, as far as this process knows.
    pub(super) fn stands(&self, now: Timestamp, options: &BreakerOptions) -> BreakerState {
        self.shared(now, options).unwrap_or_else(|| self.own.at(now))
    }

    /// What the store knows and will know once it is told, unless it is away or keeps nothing of this breaker.
    fn shared(&self, now: Timestamp, options: &BreakerOptions) -> Option<BreakerState> {
        let Copy { state, read_at: (by_store, by_us) } = self.copy.as_ref()?;
        let age = now.since(*by_us);
        let store_now = by_store.plus(age);
        let untold = [&self.sending, &self.unsent].into_iter().filter(|results| !results.is_empty());
        let told = |state: BreakerState, results: &Results| {
            decide(&state, &BreakerEvent::Ended(*results), store_now, options)
        };
        (age <= COPY_GOOD_FOR).then(|| untold.fold(state.at(store_now), told))
    }

    /// Whether what the store knows is known here.
    pub(super) fn is_shared(&self, now: Timestamp) -> bool {
        self.copy.as_ref().is_some_and(|copy| now.since(copy.read_at.1) <= COPY_GOOD_FOR)
    }

    /// The store was read. What it does not know of is closed. Of two readings that cross, the later one counts.
    pub(super) fn read(&mut self, state: BreakerState, by_store: Timestamp, now: Timestamp) {
        let is_newer = |copy: &Copy| copy.read_at.0 > by_store && now.since(copy.read_at.1) <= COPY_GOOD_FOR;
        if self.copy.as_ref().is_some_and(is_newer) {
            return;
        }
        self.copy = Some(Copy { state, read_at: (by_store, now) });
    }

    /// The store did not answer.
    pub(super) fn is_away(&mut self) {
        self.copy = None;
    }

    /// What the store is to be told: nothing that changes nothing there.
    pub(super) fn take_unsent(&mut self, options: &BreakerOptions) -> Option<Results> {
        let counts = self.copy.as_ref().is_some_and(|copy| copy.state.failures_in_a_row > 0);
        let is_news = self.unsent.failures > 0 || (self.unsent.has_success() && counts);
        let is_counted = options.failure_rate.is_some() && !self.unsent.is_empty();
        let unsent = std::mem::take(&mut self.unsent);
        self.sending = if is_news || is_counted { unsent } else { Results::default() };
        (!self.sending.is_empty()).then_some(unsent)
    }

    /// The store was told what [`take_unsent`](Self::take_unsent) gave, or cannot be.
    pub(super) fn was_told(&mut self) {
        self.sending = Results::default();
    }
}

/// One breaker out of all that were read; one that is not there is as good as new.
pub(super) fn found(read: &BreakersRead, name: &windlass_core::names::BreakerName) -> (u64, BreakerState) {
    let stored = read.breakers.iter().find(|stored| stored.name == *name);
    stored.map(|stored| (stored.version, stored.state.clone())).unwrap_or_default()
}

#[cfg(test)]
mod tests;
