//! The rate limits of a process: tokens for jobs that are put in and for jobs that are to run.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use windlass_core::clock::{Clock, Timestamp};
use windlass_core::error::EngineError;
use windlass_core::limits::TAKES_MAX;
use windlass_core::names::LimitName;
use windlass_core::policies::{Policies, Take};
use windlass_core::rate_limit::{Pace, Taken};

use super::options::{LimitScope, RateLimitSpec};
use super::token_cache::{TokenCache, Wanted};
use crate::store;

/// A token that falls due within this time is waited for: parking a job costs more.
pub(super) const MAX_INLINE_WAIT: Duration = Duration::from_millis(100);

/// Keys that one process remembers. Those of which nothing is known any more are forgotten first.
const LINES_MAX: usize = 100_000;

/// The rate limits of a process.
pub(crate) struct Tokens {
    store: Arc<dyn Policies>,
    clock: Arc<dyn Clock>,
    /// Of limits that processes share through this store.
    lines: Lines,
    /// Of limits that nobody shares: there is one of each in a process, whichever store a job is in.
    own_lines: Arc<Lines>,
    /// Keys with jobs behind a gate of this store.
    waiters: Mutex<HashSet<(LimitName, String)>>,
}

/// What a process knows of keys, by limit.
#[derive(Default)]
struct Lines(Mutex<HashMap<(LimitName, String), Arc<Shared>>>);

impl Lines {
    fn of(&self, limit: &LimitName, key: &str, now: Timestamp) -> Arc<Shared> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() >= LINES_MAX {
            lines.retain(|_, shared| !shared.line().is_idle(now));
        }
        let new = || {
            Arc::new(Shared { line: Mutex::new(TokenCache::new(now)), turn: tokio::sync::Mutex::default() })
        };
        Arc::clone(lines.entry((limit.clone(), key.to_owned())).or_insert_with(new))
    }
}

/// What a process knows of a key without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// When it has a token; nothing if it has one now.
    Due(Option<Duration>),
    /// Only the store knows.
    Nothing,
}

/// A key, and who asks the store for it: one at a time, so that nobody takes more than is used.
struct Shared {
    line: Mutex<TokenCache>,
    turn: tokio::sync::Mutex<()>,
}

impl Shared {
    fn line(&self) -> MutexGuard<'_, TokenCache> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tokens {
    pub(super) fn new(store: Arc<dyn Policies>, clock: Arc<dyn Clock>) -> Self {
        let (lines, own_lines, waiters) = (Lines::default(), Arc::default(), Mutex::default());
        Self { store, clock, lines, own_lines, waiters }
    }

    /// The same for jobs of another store.
    pub(super) fn beside(&self, store: Arc<dyn Policies>) -> Self {
        Self { own_lines: Arc::clone(&self.own_lines), ..Self::new(store, Arc::clone(&self.clock)) }
    }

    /// Takes a token, or tells when the next falls due. One that is due soon is waited for, if the caller has patience.
    pub(super) async fn take(
        &self,
        spec: &RateLimitSpec,
        key: &str,
        patience: Duration,
    ) -> Result<(), Duration> {
        let shared = self.shared(spec, key);
        match self.want(spec, &shared) {
            Wanted::Go => Ok(()),
            Wanted::Wait(after) if after > patience => Err(after),
            Wanted::Wait(_) | Wanted::AskStore => self.take_in_turn(spec, key, &shared, patience).await,
        }
    }

    /// Takes a token of each, or none: else whoever is refused by one would use up the tokens of the others. So all are looked
    /// at first. Tells which one refuses, and for how long.
    pub(super) async fn take_each(
        &self,
        wanted: &[(&RateLimitSpec, &str)],
        patience: Duration,
    ) -> Result<(), (usize, Duration)> {
        if let [_, _, ..] = wanted {
            let due = self.available_in(wanted).await;
            let longest = due.into_iter().enumerate().max_by_key(|(_, due)| *due);
            if let Some((place, Some(after))) = longest.filter(|(_, due)| *due > Some(patience)) {
                return Err((place, after));
            }
        }
        for (place, (spec, key)) in wanted.iter().enumerate() {
            self.take(spec, key, patience).await.map_err(|after| (place, after))?;
        }
        Ok(())
    }

    /// After how long each of these keys has a token for this process; nothing if it has one now. The store is asked only for those
    /// of which nothing is known here.
    async fn available_in(&self, keys: &[(&RateLimitSpec, &str)]) -> Vec<Option<Duration>> {
        let mut due: Vec<_> = keys.iter().map(|(spec, key)| self.known_in(spec, key)).collect();
        let unknown: Vec<_> = (0..keys.len()).filter(|place| due[*place] == Known::Nothing).collect();
        let asked: Vec<_> = unknown.iter().map(|place| keys[*place]).collect();
        for (place, answer) in unknown.into_iter().zip(self.due_in(&asked).await) {
            due[place] = Known::Due(answer);
        }
        let known = |due| if let Known::Due(due) = due { due } else { None };
        due.into_iter().map(known).collect()
    }

    fn known_in(&self, spec: &RateLimitSpec, key: &str) -> Known {
        let (shared, now) = (self.shared(spec, key), self.now());
        let line = shared.line();
        let own = line.own_due_in(spec.limit.pace(), now);
        match spec.scope {
            LimitScope::Process => Known::Due(own),
            LimitScope::Store if own.is_some() || line.has_some(now) => Known::Due(own),
            LimitScope::Store => line.closed_for(now).map_or(Known::Nothing, |left| Known::Due(Some(left))),
        }
    }

    async fn take_in_turn(
        &self,
        spec: &RateLimitSpec,
        key: &str,
        shared: &Shared,
        patience: Duration,
    ) -> Result<(), Duration> {
        // Even who has no patience may wait for the answer to somebody else's question.
        let turn = tokio::time::timeout(patience.max(MAX_INLINE_WAIT), shared.turn.lock());
        let Ok(_turn) = turn.await else { return Err(MAX_INLINE_WAIT) };
        let mut waited = Duration::ZERO;
        loop {
            match self.want(spec, shared) {
                Wanted::Go => return Ok(()),
                Wanted::Wait(after) if waited + after > patience => return Err(after),
                Wanted::Wait(after) => {
                    waited += after.max(Duration::from_millis(1));
                    // may sleep: the token is due then, and nobody tells.
                    tokio::time::sleep(after).await;
                }
                Wanted::AskStore => match self.ask_store(spec, key, shared).await {
                    Ok(Wanted::Go) => return Ok(()),
                    Ok(Wanted::Wait(_) | Wanted::AskStore) => {}
                    Err(_) => return self.take_own(spec, shared),
                },
            }
        }
    }

    fn want(&self, spec: &RateLimitSpec, shared: &Shared) -> Wanted {
        match spec.scope {
            LimitScope::Store => shared.line().want_shared(spec.limit.pace(), self.now()),
            LimitScope::Process => shared.line().want_own(spec.limit.pace(), self.now()),
        }
    }

    /// Without the store each process keeps the limit by itself.
    fn take_own(&self, spec: &RateLimitSpec, shared: &Shared) -> Result<(), Duration> {
        match shared.line().want_own(spec.limit.pace(), self.now()) {
            Wanted::Wait(after) => Err(after),
            Wanted::Go | Wanted::AskStore => Ok(()),
        }
    }

    /// What the store's answer means for whoever asks.
    async fn ask_store(
        &self,
        spec: &RateLimitSpec,
        key: &str,
        shared: &Shared,
    ) -> Result<Wanted, EngineError> {
        let pace = spec.limit.shared_pace();
        let (limit, key, sent_at) = (spec.name.clone(), key.to_owned(), self.now());
        let wanted = shared.line().ask_for(pace.batch, sent_at);
        let takes = vec![Take { limit, key, pace, wanted }];
        let taken = self.ask(takes).await.inspect_err(|error| {
            tracing::debug!(%error, limit = %spec.name, "the store gives no tokens; this process keeps the limit alone");
        })?;
        let Some(taken) = taken.first() else { return Ok(Wanted::AskStore) };
        Ok(shared.line().answered(*taken, spec.limit.pace(), sent_at, self.now()))
    }

    /// After how long each of these keys has a token; nothing if it has one now. The store is asked for many at once.
    pub(super) async fn due_in(&self, keys: &[(&RateLimitSpec, &str)]) -> Vec<Option<Duration>> {
        // Whichever comes later: there may be tokens, but this process has used its fairness key without the store.
        let mut due: Vec<_> = keys.iter().map(|(spec, key)| self.own_due_in(spec, key)).collect();
        let is_shared = |place: &usize| keys[*place].0.scope == LimitScope::Store;
        let shared: Vec<_> = (0..keys.len()).filter(is_shared).collect();
        for places in shared.chunks(TAKES_MAX) {
            let looks = places.iter().map(|place| look(keys[*place])).collect();
            // Without the store each process keeps the limit by itself.
            for (place, taken) in places.iter().zip(self.ask(looks).await.unwrap_or_default()) {
                due[*place] = due[*place].max(taken.retry_after);
            }
        }
        due
    }

    fn own_due_in(&self, spec: &RateLimitSpec, key: &str) -> Option<Duration> {
        let pace: Pace = spec.limit.pace();
        self.shared(spec, key).line().own_due_in(pace, self.now())
    }

    async fn ask(&self, takes: Vec<Take>) -> Result<Vec<Taken>, EngineError> {
        store::call(&self.store, |store| async move { store.take_tokens(&takes).await }).await
    }

    /// Whether jobs of this key wait, so that newcomers go to the end of their line.
    pub(super) fn has_waiters(&self, limit: &LimitName, key: &str) -> bool {
        let waiters = self.waiters();
        !waiters.is_empty() && waiters.contains(&(limit.clone(), key.to_owned()))
    }

    pub(super) fn set_waiters(&self, limit: &LimitName, key: &str, has_waiters: bool) {
        let (mut waiters, key) = (self.waiters(), (limit.clone(), key.to_owned()));
        match has_waiters {
            // Beyond that, newcomers may overtake those who wait.
            true if waiters.len() < LINES_MAX => _ = waiters.insert(key),
            true => {}
            false => _ = waiters.remove(&key),
        }
    }

    fn waiters(&self) -> MutexGuard<'_, HashSet<(LimitName, String)>> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shared(&self, spec: &RateLimitSpec, key: &str) -> Arc<Shared> {
        match spec.scope {
            LimitScope::Store => self.lines.of(&spec.name, key, self.now()),
            LimitScope::Process => self.own_lines.of(&spec.name, key, self.now()),
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

/// Asks for no token, only when there is one.
fn look((spec, key): (&RateLimitSpec, &str)) -> Take {
    Take { limit: spec.name.clone(), key: key.to_owned(), pace: spec.limit.shared_pace(), wanted: 0 }
}

#[cfg(test)]
mod tests;
