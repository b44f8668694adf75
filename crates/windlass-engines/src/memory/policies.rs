//! The state of policies that processes share: breakers, tokens of rate limits, and the jobs behind a gate.

use std::collections::BTreeMap;

use windlass_core::breaker::BreakerState;
use windlass_core::claim::Fence;
use windlass_core::clock::Timestamp;
use windlass_core::engine::Result;
use windlass_core::gate::Gate;
use windlass_core::job::JobId;
use windlass_core::limits::{BREAKERS_MAX, MAINTENANCE_BATCH_MAX, TAKES_MAX};
use windlass_core::names::{BreakerName, LimitName};
use windlass_core::policies::{BreakersRead, Saved, StoredBreaker, Take};
use windlass_core::rate_limit::{Taken, take};

use super::state::State;
use crate::kit::check_batch_size;

/// The shared breakers and tokens.
#[derive(Debug, Default)]
pub(super) struct Shared {
    breakers: BTreeMap<BreakerName, (u64, BreakerState)>,
    /// When the next token of a key would be due if none were saved.
    tokens: BTreeMap<(LimitName, String), Timestamp>,
}

impl State {
    pub(super) fn breakers(&self, now: Timestamp) -> BreakersRead {
        let stored = |(name, (version, state)): (&BreakerName, &(u64, BreakerState))| StoredBreaker {
            name: name.clone(),
            version: *version,
            state: Ok(state.clone()),
        };
        BreakersRead { breakers: self.shared.breakers.iter().map(stored).collect(), now }
    }

    pub(super) fn save_breaker(
        &mut self,
        name: &BreakerName,
        read: u64,
        state: &BreakerState,
    ) -> Result<Saved> {
        let breakers = &mut self.shared.breakers;
        let version = breakers.get(name).map_or(0, |(version, _)| *version);
        if version != read {
            return Ok(Saved::Changed);
        }
        check_batch_size(BREAKERS_MAX as usize, "breakers", breakers.len() + usize::from(version == 0))?;
        breakers.insert(name.clone(), (read + 1, state.clone()));
        Ok(Saved::Done)
    }

    pub(super) fn still_hold(&self, claims: &[Fence]) -> Vec<bool> {
        let runs = |fence: &Fence| {
            let claim = self.live.get(&fence.job).and_then(|row| row.claim());
            claim.is_some_and(|claim| claim.token == fence.token)
        };
        claims.iter().map(runs).collect()
    }

    pub(super) fn take_tokens(&mut self, takes: &[Take], now: Timestamp) -> Result<Vec<Taken>> {
        check_batch_size(TAKES_MAX, "requests for tokens", takes.len())?;
        Ok(takes.iter().map(|request| self.shared.take(request, now)).collect())
    }

    pub(super) fn gates(&self, after: Option<&Gate>, limit: u32) -> Vec<Gate> {
        self.index.gates(after, limit.min(MAINTENANCE_BATCH_MAX) as usize)
    }

    pub(super) fn behind(&self, gate: &Gate, limit: u32) -> Vec<JobId> {
        self.index.behind(gate, limit.min(MAINTENANCE_BATCH_MAX) as usize)
    }
}

impl Shared {
    fn take(&mut self, request: &Take, now: Timestamp) -> Taken {
        let at = (request.limit.clone(), request.key.clone());
        let remembered = self.tokens.get(&at).copied();
        let taken = take(request.pace, remembered, request.wanted, now);
        if taken.is_news(remembered) {
            self.tokens.insert(at, taken.due);
        }
        taken
    }

    /// Forgets keys that have saved their full burst, at most `limit`, and returns how many.
    pub(super) fn prune(&mut self, limit: usize, now: Timestamp) -> usize {
        let full = self.tokens.iter().filter(|(_, due)| **due <= now);
        let full: Vec<_> = full.map(|(at, _)| at.clone()).take(limit).collect();
        for at in &full {
            self.tokens.remove(at);
        }
        full.len()
    }
}
