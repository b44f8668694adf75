//! The rate limits of a process: tokens for jobs that are put in and for jobs that are to run.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use windlass_core::clock::{Clock, Timestamp};
use windlass_core::error::EngineError;
use windlass_core::names::LimitName;
use windlass_core::policies::{Policies, Take};
use windlass_core::rate_limit::{Pace, Taken};

use super::line::{Line, Wanted};
use super::options::{LimitScope, RateLimitSpec};
use crate::store;

/// A token that falls due within this time is waited for: parking a job costs more.
pub(super) const PATIENCE: Duration = Duration::from_millis(100);

/// Keys that one process remembers. Those of which nothing is known any more are forgotten first.
const LINES_MAX: usize = 100_000;

/// The rate limits of a process.
pub(crate) struct Tokens {
    store: Arc<dyn Policies>,
    clock: Arc<dyn Clock>,
    lines: Mutex<HashMap<(LimitName, String), Arc<Shared>>>,
}

/// A key, and who asks the store for it: one at a time, so that nobody takes more than is used.
struct Shared {
    line: Mutex<Line>,
    turn: tokio::sync::Mutex<()>,
}

impl Shared {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tokens {
    pub(super) fn new(store: Arc<dyn Policies>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock, lines: Mutex::default() }
    }

    /// Takes a token, or tells when the next falls due. One that is due soon is waited for, if the caller has patience.
    pub(super) async fn take(
        &self,
        spec: &RateLimitSpec,
        key: &str,
        patience: Duration,
    ) -> Result<(), Duration> {
        let shared = self.shared(&spec.name, key);
        match self.want(spec, &shared) {
            Wanted::Go => Ok(()),
            Wanted::Wait(after) if after > patience => Err(after),
            Wanted::Wait(_) | Wanted::AskStore => self.take_in_turn(spec, key, &shared, patience).await,
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
        let turn = tokio::time::timeout(patience.max(PATIENCE), shared.turn.lock());
        let Ok(_turn) = turn.await else { return Err(PATIENCE) };
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
        let wanted = shared.line().ask_for(pace.handful, sent_at);
        let takes = vec![Take { limit, key, pace, wanted }];
        let taken = self.ask(takes).await.inspect_err(|error| {
            tracing::debug!(%error, limit = %spec.name, "the store gives no tokens; this process keeps the limit alone");
        })?;
        let Some(taken) = taken.first() else { return Ok(Wanted::AskStore) };
        Ok(shared.line().answered(*taken, spec.limit.pace(), sent_at, self.now()))
    }

    /// After how long each of these keys has a token; nothing if it has one now.
    pub(super) async fn due_in(&self, keys: &[(&RateLimitSpec, &str)]) -> Vec<Option<Duration>> {
        let mut due = Vec::with_capacity(keys.len());
        for (spec, key) in keys {
            due.push(match spec.scope {
                LimitScope::Process => self.own_due_in(spec, key),
                LimitScope::Store => {
                    let (limit, pace) = (spec.name.clone(), spec.limit.shared_pace());
                    let look = Take { limit, key: (*key).to_owned(), pace, wanted: 0 };
                    match self.ask(vec![look]).await {
                        // Whichever comes later: there are tokens, but this process has used its share without the store.
                        Ok(taken) => {
                            let due = taken.first().and_then(|taken| taken.retry_after);
                            due.max(self.own_due_in(spec, key))
                        }
                        Err(_) => self.own_due_in(spec, key),
                    }
                }
            });
        }
        due
    }

    fn own_due_in(&self, spec: &RateLimitSpec, key: &str) -> Option<Duration> {
        let pace: Pace = spec.limit.pace();
        self.shared(&spec.name, key).line().own_due_in(pace, self.now())
    }

    async fn ask(&self, takes: Vec<Take>) -> Result<Vec<Taken>, EngineError> {
        store::call(&self.store, |store| async move { store.take_tokens(&takes).await }).await
    }

    /// Whether jobs of this key wait, so that newcomers go to the end of their line.
    pub(super) fn has_waiters(&self, limit: &LimitName, key: &str) -> bool {
        self.shared(limit, key).line().has_waiters()
    }

    pub(super) fn set_waiters(&self, limit: &LimitName, key: &str, has_waiters: bool) {
        self.shared(limit, key).line().set_waiters(has_waiters);
    }

    fn shared(&self, limit: &LimitName, key: &str) -> Arc<Shared> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() >= LINES_MAX {
            let now = self.now();
            lines.retain(|_, shared| !shared.line().is_idle(now));
        }
        let new = || {
            Arc::new(Shared { line: Mutex::new(Line::new(self.now())), turn: tokio::sync::Mutex::default() })
        };
        Arc::clone(lines.entry((limit.clone(), key.to_owned())).or_insert_with(new))
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

#[cfg(test)]
mod tests;
