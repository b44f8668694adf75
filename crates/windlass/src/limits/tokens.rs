//! The rate limits of a process: tokens for jobs at enqueue and for jobs that are about to run.

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

/// The longest wait for a token instead of parking the job: parking costs more.
pub(super) const MAX_INLINE_WAIT: Duration = Duration::from_millis(100);

/// The most keys that one process remembers. Keys whose state is empty are dropped first.
const KEYS_MAX: usize = 100_000;

/// The rate limits of a process.
pub(crate) struct Tokens {
    store: Arc<dyn Policies>,
    clock: Arc<dyn Clock>,
    /// The caches of limits that processes share through this store.
    caches: TokenCaches,
    /// The caches of limits that processes do not share: there is one of each in a process, whichever store
    /// a job is in.
    own_caches: Arc<TokenCaches>,
    /// Keys with jobs behind a gate of this store.
    waiters: Mutex<HashSet<(LimitName, String)>>,
}

/// The token caches of this process, by limit and key.
#[derive(Default)]
struct TokenCaches(Mutex<HashMap<(LimitName, String), Arc<Shared>>>);

impl TokenCaches {
    fn of(&self, limit: &LimitName, key: &str, now: Timestamp) -> Arc<Shared> {
        let mut caches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if caches.len() >= KEYS_MAX {
            caches.retain(|_, shared| !shared.cache().is_idle(now));
        }
        let new = || {
            Arc::new(Shared { cache: Mutex::new(TokenCache::new(now)), turn: tokio::sync::Mutex::default() })
        };
        Arc::clone(caches.entry((limit.clone(), key.to_owned())).or_insert_with(new))
    }
}

/// What a process knows of a key without a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// When the key has a token; none if it has one now.
    Due(Option<Duration>),
    /// Only the store knows.
    Nothing,
}

/// The cache of a key, and the turn to query the store for it: one caller at a time, so that no caller
/// takes more than is used.
struct Shared {
    cache: Mutex<TokenCache>,
    turn: tokio::sync::Mutex<()>,
}

impl Shared {
    fn cache(&self) -> MutexGuard<'_, TokenCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tokens {
    pub(super) fn new(store: Arc<dyn Policies>, clock: Arc<dyn Clock>) -> Self {
        let (caches, own_caches, waiters) = (TokenCaches::default(), Arc::default(), Mutex::default());
        Self { store, clock, caches, own_caches, waiters }
    }

    /// The tokens for jobs of another store.
    pub(super) fn beside(&self, store: Arc<dyn Policies>) -> Self {
        Self { own_caches: Arc::clone(&self.own_caches), ..Self::new(store, Arc::clone(&self.clock)) }
    }

    /// Takes a token, or returns when the next falls due. Waits for a token that falls due within `max_wait`.
    pub(super) async fn take(
        &self,
        spec: &RateLimitSpec,
        key: &str,
        max_wait: Duration,
    ) -> Result<(), Duration> {
        let shared = self.shared(spec, key);
        match self.want(spec, &shared) {
            Wanted::Go => Ok(()),
            Wanted::Wait(after) if after > max_wait => Err(after),
            Wanted::Wait(_) | Wanted::AskStore => self.take_in_turn(spec, key, &shared, max_wait).await,
        }
    }

    /// Takes a token of each limit, or none: otherwise a job that one limit refuses would use up the tokens
    /// of the others. So all limits are checked first. On refusal, returns which limit refuses, and for how
    /// long.
    pub(super) async fn take_each(
        &self,
        wanted: &[(&RateLimitSpec, &str)],
        max_wait: Duration,
    ) -> Result<(), (usize, Duration)> {
        if let [_, _, ..] = wanted {
            let due = self.available_in(wanted).await;
            let longest = due.into_iter().enumerate().max_by_key(|(_, due)| *due);
            if let Some((place, Some(after))) = longest.filter(|(_, due)| *due > Some(max_wait)) {
                return Err((place, after));
            }
        }
        for (place, (spec, key)) in wanted.iter().enumerate() {
            self.take(spec, key, max_wait).await.map_err(|after| (place, after))?;
        }
        Ok(())
    }

    /// After how long each of these keys has a token for this process; none if it has one now. The store is
    /// queried only for the keys of which this process knows nothing.
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
        let cache = shared.cache();
        let own = cache.own_due_in(spec.limit.pace(), now);
        match spec.scope {
            LimitScope::Process => Known::Due(own),
            LimitScope::Store if own.is_some() || cache.has_some(now) => Known::Due(own),
            LimitScope::Store => cache.closed_for(now).map_or(Known::Nothing, |left| Known::Due(Some(left))),
        }
    }

    async fn take_in_turn(
        &self,
        spec: &RateLimitSpec,
        key: &str,
        shared: &Shared,
        max_wait: Duration,
    ) -> Result<(), Duration> {
        // Even a caller with no time to wait may wait for the answer to another caller's query.
        let turn = tokio::time::timeout(max_wait.max(MAX_INLINE_WAIT), shared.turn.lock());
        let Ok(_turn) = turn.await else { return Err(MAX_INLINE_WAIT) };
        let mut waited = Duration::ZERO;
        loop {
            match self.want(spec, shared) {
                Wanted::Go => return Ok(()),
                Wanted::Wait(after) if waited + after > max_wait => return Err(after),
                Wanted::Wait(after) => {
                    waited += after.max(Duration::from_millis(1));
                    // may sleep: the token is due then, and no event announces it.
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
            LimitScope::Store => shared.cache().want_shared(spec.limit.pace(), self.now()),
            LimitScope::Process => shared.cache().want_own(spec.limit.pace(), self.now()),
        }
    }

    /// Takes a token without the store: each process then keeps the limit by itself.
    fn take_own(&self, spec: &RateLimitSpec, shared: &Shared) -> Result<(), Duration> {
        match shared.cache().want_own(spec.limit.pace(), self.now()) {
            Wanted::Wait(after) => Err(after),
            Wanted::Go | Wanted::AskStore => Ok(()),
        }
    }

    /// Asks the store for tokens, and returns what its answer means for the caller.
    async fn ask_store(
        &self,
        spec: &RateLimitSpec,
        key: &str,
        shared: &Shared,
    ) -> Result<Wanted, EngineError> {
        let pace = spec.limit.shared_pace();
        let (limit, key, sent_at) = (spec.name.clone(), key.to_owned(), self.now());
        let wanted = shared.cache().ask_for(pace.batch, sent_at);
        let takes = vec![Take { limit, key, pace, wanted }];
        let taken = self.ask(takes).await.inspect_err(|error| {
            tracing::debug!(%error, limit = %spec.name, "taking tokens from the store failed; this process keeps the limit alone");
        })?;
        let Some(taken) = taken.first() else { return Ok(Wanted::AskStore) };
        Ok(shared.cache().answered(*taken, spec.limit.pace(), sent_at, self.now()))
    }

    /// After how long each of these keys has a token; none if it has one now. The store is queried for many
    /// keys at once.
    pub(super) async fn due_in(&self, keys: &[(&RateLimitSpec, &str)]) -> Vec<Option<Duration>> {
        // The later of the two counts: the store may have tokens, but this process may have used up its own
        // share of the limit without the store.
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
        self.shared(spec, key).cache().own_due_in(pace, self.now())
    }

    async fn ask(&self, takes: Vec<Take>) -> Result<Vec<Taken>, EngineError> {
        store::call(&self.store, |store| async move { store.take_tokens(&takes).await }).await
    }

    /// Whether jobs of this key wait, so that new jobs queue behind them.
    pub(super) fn has_waiters(&self, limit: &LimitName, key: &str) -> bool {
        let waiters = self.waiters();
        !waiters.is_empty() && waiters.contains(&(limit.clone(), key.to_owned()))
    }

    pub(super) fn set_waiters(&self, limit: &LimitName, key: &str, has_waiters: bool) {
        let (mut waiters, key) = (self.waiters(), (limit.clone(), key.to_owned()));
        match has_waiters {
            // Beyond that number, new jobs may overtake the waiting ones.
            true if waiters.len() < KEYS_MAX => _ = waiters.insert(key),
            true => {}
            false => _ = waiters.remove(&key),
        }
    }

    fn waiters(&self) -> MutexGuard<'_, HashSet<(LimitName, String)>> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shared(&self, spec: &RateLimitSpec, key: &str) -> Arc<Shared> {
        match spec.scope {
            LimitScope::Store => self.caches.of(&spec.name, key, self.now()),
            LimitScope::Process => self.own_caches.of(&spec.name, key, self.now()),
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

/// A request for no token, which only returns when there is one.
fn look((spec, key): (&RateLimitSpec, &str)) -> Take {
    Take { limit: spec.name.clone(), key: key.to_owned(), pace: spec.limit.shared_pace(), wanted: 0 }
}

#[cfg(test)]
mod tests;
