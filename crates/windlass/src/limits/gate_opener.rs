//! Keeps breakers and gates up to date: reports the results of calls to the store, reads the results of
//! other processes, and releases jobs from gates that may be opened. Every process with limits does it; two
//! at once do no harm, since a released job is checked again before it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use windlass_core::breaker::{BreakerEvent, CircuitState};
use windlass_core::clock::Timestamp;
use windlass_core::error::EngineError;
use windlass_core::gate::Gate;
use windlass_core::limits::OPEN_BATCH_MAX;
use windlass_core::names::TypeName;

use super::Limits;
use super::breakers::Platform;
use super::change::read_all;
use super::options::RateLimitSpec;
use super::tokens::MAX_INLINE_WAIT;
use crate::duties::mailbox::Mailbox;
use crate::store;

/// The interval of exchanges with the store.
const ROUND_EVERY: Duration = Duration::from_millis(250);
/// The shortest time between two rounds, whatever happens.
const ROUND_GAP: Duration = Duration::from_millis(10);
/// The interval of queries for gates with jobs behind them: other processes may have left jobs there.
const GATES_EVERY: Duration = Duration::from_secs(1);
/// The most gates that one query returns, and that one round handles.
const GATES_AT_ONCE: u32 = 100;
/// The interval at which a process without limits scans for jobs that another process left behind a breaker.
const IDLE_EVERY: Duration = Duration::from_secs(10);

/// Opens the gates of breakers and rate limits for jobs that may run.
pub(crate) struct GateOpener {
    limits: Arc<Limits>,
    /// The types that this process handles.
    types: BTreeSet<TypeName>,
    /// When to query the store for gates again, and after which gate to continue.
    gates_at: Option<Timestamp>,
    gates_after: Option<Gate>,
    /// How often it scans for gates by itself: seldom, where a duty does so for all.
    looks_every: Looks,
    /// Whether the last round failed to exchange states with the store.
    is_away: bool,
}

/// Which part of the process scans for gates that other processes left.
enum Looks {
    /// The gate opener itself, all the time.
    Itself,
    /// A duty. The gate opener scans only at an interval that grows with the number of workers, so that all
    /// of them together scan about once a second. The leader may not know of a limit that this process has.
    Rarely(Mailbox),
}

impl GateOpener {
    pub(crate) fn new(limits: Arc<Limits>, types: BTreeSet<TypeName>) -> Self {
        Self { limits, types, gates_at: None, gates_after: None, looks_every: Looks::Itself, is_away: false }
    }

    /// The gate opener beside a duty that scans for gates.
    pub(crate) fn beside_duty(self, mailbox: Mailbox) -> Self {
        Self { looks_every: Looks::Rarely(mailbox), ..self }
    }

    /// Whether this process has any limit.
    pub(crate) fn has_limits(&self) -> bool {
        !self.limits.is_empty()
    }

    /// Scans once for gates that have jobs behind them, one page of them, and has them handled. Returns how
    /// many it found.
    pub(crate) async fn look_for_gates(&mut self) -> Result<u64, EngineError> {
        self.gates_at = None;
        let found = self.find_gates().await?;
        if found > 0 {
            self.limits.wake.soon();
        }
        Ok(found)
    }

    fn next_look(&self) -> Duration {
        match &self.looks_every {
            Looks::Itself => GATES_EVERY,
            Looks::Rarely(mailbox) => IDLE_EVERY.max(Duration::from_secs(u64::from(mailbox.live()))),
        }
    }

    /// Runs until it is dropped. No error of the store ends it.
    pub(crate) async fn run(mut self) {
        loop {
            let wait = self.round().await;
            let woken = tokio::time::timeout(wait, self.limits.wake.woken());
            let _ = woken.await;
            // may sleep: if it were woken again and again, it would query the store without end.
            tokio::time::sleep(ROUND_GAP).await;
        }
    }

    /// Runs one round. Returns how long there is nothing to do.
    pub(crate) async fn round(&mut self) -> Duration {
        let done = self.try_round().await;
        self.report(done);
        let now = self.now();
        let next_look = self.limits.waiting().values().map(|at| at.since(now)).min();
        let at_the_latest = if self.limits.is_empty() { IDLE_EVERY } else { ROUND_EVERY };
        next_look.unwrap_or(at_the_latest).min(at_the_latest)
    }

    /// Logs once that the store is unavailable, and once that it is back.
    fn report(&mut self, done: Result<(), EngineError>) {
        let is_away = done.is_err();
        match done {
            Err(error) if !self.is_away => {
                tracing::warn!(%error, "sharing breakers and rate limits failed; this process decides alone until the store answers");
            }
            Ok(()) if self.is_away => tracing::info!("breakers and rate limits are shared again"),
            _ => {}
        }
        self.is_away = is_away;
    }

    async fn try_round(&mut self) -> Result<(), EngineError> {
        // Even if the store fails to share, the jobs that this process itself held back still go on.
        let synced = self.limits.breakers.sync().await;
        let found = self.find_gates().await;
        let mut looked = Ok(());
        let due = most_overdue(&self.limits.waiting(), self.now());
        let tokens = self.tokens_due(&due).await;
        for gate in due {
            let again = match self.look(&gate, tokens.get(&gate).copied().flatten()).await {
                // A store that cannot list gates will not return this gate again.
                Ok(again) => again.or(found.is_err().then_some(GATES_EVERY)),
                // An error of one gate must not keep the others shut.
                Err(error) => {
                    looked = looked.and(Err(error));
                    Some(GATES_EVERY)
                }
            };
            let mut waiting = self.limits.waiting();
            match again {
                Some(after) => drop(waiting.insert(gate, self.now().plus(after))),
                None => drop(waiting.remove(&gate)),
            }
        }
        synced.and(found.map(drop)).and(looked)
    }

    /// Queries the store for gates that have jobs behind them, a page each time.
    async fn find_gates(&mut self) -> Result<u64, EngineError> {
        let now = self.now();
        if self.gates_at.is_some_and(|at| at > now) {
            return Ok(0);
        }
        self.gates_at = Some(now.plus(self.next_look()));
        let after = self.gates_after.take();
        let gates = store::call(&self.limits.engine, |engine| async move {
            engine.gates(after.as_ref(), GATES_AT_ONCE).await
        })
        .await?;
        self.gates_after = gates.last().filter(|_| gates.len() == GATES_AT_ONCE as usize).cloned();
        if gates.iter().any(|gate| gate.of_breaker().is_some() && !self.is_ours(gate)) {
            self.adopt().await?;
        }
        for gate in &gates {
            match self.is_ours(gate) {
                true => self.limits.look_at(gate, now),
                false => self.open_abandoned(gate).await?,
            }
        }
        Ok(gates.len() as u64)
    }

    /// Opens a gate whose limit is gone. A limit may be removed from the configuration while jobs wait for
    /// it. A process that handles such jobs and does not know the limit releases them: no other process
    /// would.
    async fn open_abandoned(&self, gate: &Gate) -> Result<(), EngineError> {
        if gate.of_breaker().is_none() && gate.of_rate_limit().is_none() {
            return Ok(());
        }
        let engine = &self.limits.engine;
        let asked = gate.clone();
        let oldest = store::call(engine, |engine| async move { engine.behind(&asked, 1).await }).await?;
        let Some(oldest) = oldest.first().copied() else { return Ok(()) };
        let record = store::call(engine, |engine| async move { engine.job(oldest).await }).await?;
        if record.is_some_and(|record| self.types.contains(&record.job.job_type)) {
            tracing::warn!(%gate, "jobs wait for a limit that is no longer configured; releasing them");
            self.let_through(gate, OPEN_BATCH_MAX, Duration::ZERO).await?;
        }
        Ok(())
    }

    /// Adopts the breakers that the store knows. Jobs may wait for a breaker that handlers name only when
    /// they call: then only those jobs know of it. Every process handles the breakers that the store knows.
    async fn adopt(&self) -> Result<(), EngineError> {
        let read = read_all(&self.limits.engine).await?;
        for stored in &read.breakers {
            self.limits.breakers.platform(&stored.name);
        }
        self.limits.breakers.read(&read);
        Ok(())
    }

    fn is_ours(&self, gate: &Gate) -> bool {
        let platform = gate.of_breaker().and_then(|name| self.limits.breakers.known_platform(&name));
        platform.is_some() || self.rate_limit_of(gate).is_some()
    }

    /// When each gate of a rate limit has a token. The query is one for all gates: there may be one for
    /// each tenant.
    async fn tokens_due(&self, gates: &[Gate]) -> BTreeMap<Gate, Option<Duration>> {
        let limited: Vec<_> =
            gates.iter().filter_map(|gate| Some((gate.clone(), self.rate_limit_of(gate)?))).collect();
        let keys: Vec<_> = limited.iter().map(|(_, (spec, key))| (spec.as_ref(), *key)).collect();
        let due = self.limits.tokens.due_in(&keys).await;
        limited.into_iter().map(|(gate, _)| gate).zip(due).collect()
    }

    /// Releases the jobs that may go on. Returns when to check the gate again; none if no job waits.
    /// `token_due` is when the next token falls due, if there is none now.
    async fn look(&self, gate: &Gate, token_due: Option<Duration>) -> Result<Option<Duration>, EngineError> {
        if let Some(platform) = gate.of_breaker().and_then(|name| self.limits.breakers.known_platform(&name))
        {
            return self.look_at_breaker(gate, &platform).await;
        }
        let Some((spec, key)) = self.rate_limit_of(gate) else { return Ok(None) };
        match token_due {
            Some(after) => Ok(Some(after)),
            None => self.let_through_with_tokens(gate, &spec, key).await,
        }
    }

    async fn look_at_breaker(
        &self,
        gate: &Gate,
        platform: &Platform,
    ) -> Result<Option<Duration>, EngineError> {
        let now = self.now();
        if !platform.known().may_release() {
            return Ok(Some(ROUND_EVERY));
        }
        let state = platform.known().stands(now, &platform.spec.options);
        match state.circuit {
            CircuitState::Closed => self.let_through(gate, OPEN_BATCH_MAX, Duration::ZERO).await,
            CircuitState::Open { .. } => Ok(Some(ROUND_EVERY)),
            CircuitState::HalfOpen => {
                let free = state.free_probes(&platform.spec.options);
                if free > 0 { self.let_probe(gate, platform, free).await } else { Ok(Some(ROUND_EVERY)) }
            }
        }
    }

    /// Releases the oldest jobs as probes; each keeps its position until it is claimed.
    async fn let_probe(
        &self,
        gate: &Gate,
        platform: &Platform,
        free: usize,
    ) -> Result<Option<Duration>, EngineError> {
        let free = u32::try_from(free).unwrap_or(u32::MAX);
        let is_shared = platform.known().is_shared(self.now());
        let asked = gate.clone();
        let oldest =
            store::call(&self.limits.engine, |engine| async move { engine.behind(&asked, free).await }).await;
        let oldest = match oldest {
            Ok(oldest) if oldest.is_empty() => return Ok(None),
            Ok(oldest) => oldest,
            Err(_) if !is_shared => return self.let_through(gate, free, ROUND_EVERY).await,
            Err(error) => return Err(error),
        };
        let event = BreakerEvent::LetThrough(oldest.clone());
        let breakers = &self.limits.breakers;
        let state = match is_shared {
            true => breakers.report(platform, &event).await?,
            false => {
                platform.known().happened(&event, self.now(), &platform.spec.options);
                platform.known().stands(self.now(), &platform.spec.options)
            }
        };
        // Another process may have been faster, and released other jobs.
        let ours = oldest.iter().filter(|job| state.reserved.iter().any(|(reserved, _)| reserved == *job));
        match u32::try_from(ours.count()).unwrap_or(u32::MAX) {
            0 => Ok(Some(ROUND_EVERY)),
            count => Ok(self.let_through(gate, count, ROUND_EVERY).await?.or(Some(ROUND_EVERY))),
        }
    }

    /// Releases as many jobs as tokens fall due until the next check; a job that finds no token left is
    /// parked again.
    async fn let_through_with_tokens(
        &self,
        gate: &Gate,
        spec: &RateLimitSpec,
        key: &str,
    ) -> Result<Option<Duration>, EngineError> {
        let every = Duration::from_micros(spec.limit.pace().every.unsigned_abs());
        // Somewhat more than one tick brings, since ticks come late; a job that finds no token left waits
        // again.
        let count = MAX_INLINE_WAIT.as_micros() * 3 / 2 / every.as_micros().max(1);
        let count = count.clamp(1, u128::from(OPEN_BATCH_MAX));
        let count = u32::try_from(count).unwrap_or(OPEN_BATCH_MAX);
        let again = self.let_through(gate, count, every.max(MAX_INLINE_WAIT)).await?;
        self.limits.tokens.set_waiters(&spec.name, key, again.is_some());
        Ok(again)
    }

    /// Opens a gate for some jobs. Returns `again` if more are waiting.
    async fn let_through(
        &self,
        gate: &Gate,
        count: u32,
        again: Duration,
    ) -> Result<Option<Duration>, EngineError> {
        let opened = gate.clone();
        let done =
            store::call(&self.limits.engine, |engine| async move { engine.open_gate(&opened, count).await })
                .await?;
        Ok(done.more.then_some(again))
    }

    fn rate_limit_of<'a>(&self, gate: &'a Gate) -> Option<(Arc<RateLimitSpec>, &'a str)> {
        let (name, key) = gate.of_rate_limit()?;
        Some((self.limits.rate_limits.get(&name).cloned()?, key))
    }

    fn now(&self) -> Timestamp {
        self.limits.tokens.now()
    }
}

/// The gates to handle in one round, first those that have waited longest, so that none is overtaken for
/// ever. Gates of breakers are handled before their time, too: a probe may have ended.
fn most_overdue(waiting: &BTreeMap<Gate, Timestamp>, now: Timestamp) -> Vec<Gate> {
    let is_due = |(gate, at): &(&Gate, &Timestamp)| **at <= now || gate.of_breaker().is_some();
    let mut due: Vec<_> = waiting.iter().filter(is_due).collect();
    due.sort_by_key(|(_, at)| **at);
    due.into_iter().take(GATES_AT_ONCE as usize).map(|(gate, _)| gate.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_that_waited_longest_is_looked_at_first_however_many_there_are() {
        let at = |millis| Timestamp::from_micros(millis * 1_000);
        let gate = |kind: &str, n| Gate::named(&format!("{kind}:{n}"));
        let breakers = (0..200).map(|n| (gate("breaker", n), at(1_200)));
        let rates = (0..200).map(|n| (gate("rate:each", n), at(n)));
        let waiting: BTreeMap<_, _> = breakers.chain(rates).collect();
        let first = most_overdue(&waiting, at(1_000));
        let expected: Vec<_> = (0..i64::from(GATES_AT_ONCE)).map(|n| gate("rate:each", n)).collect();
        assert_eq!(first, expected);
        assert!(most_overdue(&waiting, at(0)).contains(&gate("breaker", 0)), "before its time, too");
    }
}
