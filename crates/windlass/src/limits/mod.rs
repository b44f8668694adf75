//! Circuit breakers and rate limits: what stands between a claim and its handler, and at enqueue.
//!
//! [`options`](LimitOptions) say what is limited. `platform` and `token_cache` decide and are pure;
//! `breakers` and `tokens` query the store where processes share; `gate_opener` releases the jobs that may
//! go on. A job whose type has no limit is not checked.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use windlass_core::breaker::Verdict;
use windlass_core::claim::Claimed;
use windlass_core::clock::{Clock, Timestamp};
use windlass_core::engine::Engine;
use windlass_core::enqueue::NewJob;
use windlass_core::gate::Gate;
use windlass_core::names::{BreakerName, GroupName, LimitName, TypeName};
use windlass_core::outcome::{AttemptOutcome, ErrorKind};
use windlass_core::payload::Payload;

mod options;
mod platform;
mod token_cache;
mod change;
mod breakers;
mod tokens;
mod gate_opener;

pub use change::{BreakerChange, change_breaker};
pub use options::{BreakerSpec, LimitAt, LimitOptions, LimitOptionsError, LimitScope, RateLimitSpec};

pub(crate) use breakers::{Allowed, Breakers, Platform};
pub(crate) use gate_opener::GateOpener;

use tokens::{MAX_INLINE_WAIT, Tokens};

/// The most gates that one process handles at a time. Further gates come up when the store is queried for
/// gates again.
const GATES_MAX: usize = 10_000;

/// The breakers and rate limits of a process.
pub(crate) struct Limits {
    pub(crate) breakers: Breakers,
    tokens: Tokens,
    engine: Arc<dyn Engine>,
    /// The limits that each type of job must pass before it runs.
    guards: HashMap<TypeName, Guards>,
    /// The limits that each type of job must pass before it is enqueued.
    queue_state: HashMap<TypeName, Vec<Arc<RateLimitSpec>>>,
    rate_limits: BTreeMap<LimitName, Arc<RateLimitSpec>>,
    /// Gates with jobs behind them, and when to check whether the jobs may go on.
    waiting: Mutex<BTreeMap<Gate, Timestamp>>,
    wake: Arc<Wake>,
}

/// The limits that jobs of one type must pass before they run.
#[derive(Default)]
pub(crate) struct Guards {
    platforms: Vec<Arc<Platform>>,
    rate_limits: Vec<Arc<RateLimitSpec>>,
}

/// The permissions of a job that was admitted.
pub(crate) struct Pass {
    platforms: Vec<(Arc<Platform>, Allowed)>,
}

/// The calls of a handler to platforms during one attempt.
#[derive(Default)]
pub(crate) struct Notes {
    /// The gate that refused a call.
    pub(crate) held: Option<Gate>,
    /// The pause that a platform requested because it was called too often.
    pub(crate) pause: Option<Duration>,
    /// Platforms whose calls were reported one by one.
    pub(crate) reported: Vec<BreakerName>,
    /// Platforms that were called and have not answered: the handler may have stopped waiting, or was
    /// stopped itself.
    pub(crate) unanswered: Vec<(Arc<Platform>, Allowed)>,
}

impl Notes {
    /// Notes that a call in flight has its answer.
    pub(crate) fn answered(&mut self, platform: &Arc<Platform>) {
        if let Some(place) = self.unanswered.iter().position(|(called, _)| Arc::ptr_eq(called, platform)) {
            self.unanswered.remove(place);
        }
    }
}

/// Wakes the gate opener before its time.
#[derive(Debug, Default)]
pub(crate) struct Wake(Notify);

impl Wake {
    pub(crate) fn soon(&self) {
        self.0.notify_one();
    }

    pub(crate) async fn woken(&self) {
        self.0.notified().await;
    }
}

/// This process's own clock, which only runs forwards.
#[derive(Debug)]
pub(crate) struct ProcessClock(Instant);

impl Default for ProcessClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for ProcessClock {
    fn now(&self) -> Timestamp {
        Timestamp::EPOCH.plus(self.0.elapsed())
    }
}

impl Limits {
    pub(crate) fn new(engine: Arc<dyn Engine>, clock: Arc<dyn Clock>, options: &LimitOptions) -> Self {
        let wake = Arc::new(Wake::default());
        let breakers =
            Breakers::new(Arc::clone(&engine), Arc::clone(&clock), Arc::clone(&wake), &options.breakers);
        let tokens = Tokens::new(Arc::<dyn Engine>::clone(&engine), clock);
        Self::assemble(engine, breakers, tokens, wake, options)
    }

    /// The limits for jobs of another store. Limits that processes do not share exist once in this process,
    /// whichever store a job is in.
    pub(crate) fn beside(&self, engine: Arc<dyn Engine>, options: &LimitOptions) -> Self {
        let wake = Arc::new(Wake::default());
        let breakers = self.breakers.beside(Arc::clone(&engine), Arc::clone(&wake), &options.breakers);
        let tokens = self.tokens.beside(Arc::<dyn Engine>::clone(&engine));
        Self::assemble(engine, breakers, tokens, wake, options)
    }

    fn assemble(
        engine: Arc<dyn Engine>,
        breakers: Breakers,
        tokens: Tokens,
        wake: Arc<Wake>,
        options: &LimitOptions,
    ) -> Self {
        let mut limits = Self {
            breakers,
            tokens,
            engine,
            guards: HashMap::new(),
            queue_state: HashMap::new(),
            rate_limits: BTreeMap::new(),
            waiting: Mutex::default(),
            wake,
        };
        for platform in limits.breakers.all() {
            for job_type in &platform.spec.types {
                limits.guards.entry(job_type.clone()).or_default().platforms.push(Arc::clone(&platform));
            }
        }
        options.rate_limits.iter().for_each(|spec| limits.add_rate_limit(Arc::new(spec.clone())));
        limits
    }

    fn add_rate_limit(&mut self, spec: Arc<RateLimitSpec>) {
        for job_type in spec.types.iter().cloned() {
            match spec.at {
                LimitAt::Enqueue => self.queue_state.entry(job_type).or_default().push(Arc::clone(&spec)),
                LimitAt::Run => {
                    self.guards.entry(job_type).or_default().rate_limits.push(Arc::clone(&spec));
                }
            }
        }
        self.rate_limits.insert(spec.name.clone(), spec);
    }

    /// The limits that a job of this type must pass before it runs.
    pub(crate) fn guards(&self, job_type: &TypeName) -> Option<&Guards> {
        if self.guards.is_empty() { None } else { self.guards.get(job_type) }
    }

    /// Takes tokens for a job that is enqueued. On refusal, returns which limit refuses it, and for how long.
    pub(crate) async fn accept(&self, job: &NewJob) -> Result<(), RateLimited> {
        if self.queue_state.is_empty() {
            return Ok(());
        }
        let Some(specs) = self.queue_state.get(&job.job_type) else { return Ok(()) };
        let keys = keys_of(specs, &job.payload, job.group.as_ref());
        let taken = self.tokens.take_each(&paired(specs, &keys), Duration::ZERO).await;
        taken.map_err(|(place, retry_after)| RateLimited {
            limit: specs[place].name.clone(),
            key: keys[place].clone(),
            retry_after,
        })
    }

    /// Admits a claimed job, or returns the gate that it waits behind. Tokens come last, because they are
    /// used up.
    pub(crate) async fn admit(&self, guards: &Guards, claimed: &Claimed) -> Result<Pass, Gate> {
        let mut pass = Pass { platforms: Vec::with_capacity(guards.platforms.len()) };
        let refused = match self.ask_platforms(guards, claimed, &mut pass).await {
            Some(gate) => Some(gate),
            None => self.take_tokens(guards, claimed).await,
        };
        let Some(gate) = refused else { return Ok(pass) };
        self.look_at(&gate, self.tokens.now());
        for (platform, allowed) in &pass.platforms {
            self.breakers.left(platform, claimed.fence(), *allowed).await;
        }
        Err(gate)
    }

    async fn ask_platforms(&self, guards: &Guards, claimed: &Claimed, pass: &mut Pass) -> Option<Gate> {
        for platform in &guards.platforms {
            match self.breakers.ask(platform, claimed.fence()).await {
                Some(allowed) => pass.platforms.push((Arc::clone(platform), allowed)),
                None => return Some(Gate::breaker(&platform.spec.name)),
            }
        }
        None
    }

    async fn take_tokens(&self, guards: &Guards, claimed: &Claimed) -> Option<Gate> {
        let (job, specs) = (&claimed.job, &guards.rate_limits);
        let keys = keys_of(specs, &job.payload, job.group.as_ref());
        let wanted = paired(specs, &keys);
        let overtakes = |(spec, key): &(&RateLimitSpec, &str)| {
            job.counters.holds == 0 && self.tokens.has_waiters(&spec.name, key)
        };
        let taken = match wanted.iter().position(overtakes) {
            Some(place) => Err((place, MAX_INLINE_WAIT)),
            None => self.tokens.take_each(&wanted, MAX_INLINE_WAIT).await,
        };
        let (place, retry_after) = taken.err()?;
        let (spec, key) = wanted[place];
        let gate = Gate::rate_limit(&spec.name, key);
        self.tokens.set_waiters(&spec.name, key, true);
        self.look_at(&gate, self.tokens.now().plus(retry_after));
        Some(gate)
    }

    /// Reports the results of a job's calls, and decides the job's outcome from them.
    pub(crate) async fn finish(
        &self,
        pass: Option<Pass>,
        claimed: &Claimed,
        notes: Notes,
        outcome: AttemptOutcome,
    ) -> AttemptOutcome {
        let verdict = notes.held.is_none().then(|| verdict_of(&outcome)).flatten();
        for (platform, allowed) in pass.into_iter().flat_map(|pass| pass.platforms) {
            match verdict {
                _ if notes.reported.contains(&platform.spec.name) => {}
                Some(verdict) => self.breakers.ended(&platform, claimed.fence(), allowed, verdict).await,
                None => self.breakers.left(&platform, claimed.fence(), allowed).await,
            }
        }
        let is_stopped = matches!(outcome, AttemptOutcome::Cancelled(_) | AttemptOutcome::Released { .. });
        for (platform, allowed) in notes.unanswered {
            match is_stopped {
                true => self.breakers.left(&platform, claimed.fence(), allowed).await,
                // The handler no longer waits for the answer: the call counts as any other failure.
                false => self.breakers.ended(&platform, claimed.fence(), allowed, Verdict::Failure).await,
            }
        }
        match (outcome, notes.held, notes.pause) {
            (AttemptOutcome::Failed(_), Some(gate), _) => AttemptOutcome::Held(gate),
            (AttemptOutcome::Failed(error), None, Some(pause)) => AttemptOutcome::RetryIn(pause, error),
            (outcome, ..) => outcome,
        }
    }

    /// Handles a gate from this instant on.
    fn look_at(&self, gate: &Gate, from: Timestamp) {
        let mut waiting = self.waiting();
        if waiting.len() < GATES_MAX {
            waiting.entry(gate.clone()).or_insert(from);
        }
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<Gate, Timestamp>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is no limit at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.guards.is_empty() && self.breakers.all().is_empty()
    }
}

/// The key of a job for each of these limits.
fn keys_of(specs: &[Arc<RateLimitSpec>], payload: &Payload, group: Option<&GroupName>) -> Vec<String> {
    specs.iter().map(|spec| spec.limit.by.key_of(payload, group)).collect()
}

fn paired<'a>(specs: &'a [Arc<RateLimitSpec>], keys: &'a [String]) -> Vec<(&'a RateLimitSpec, &'a str)> {
    specs.iter().map(AsRef::as_ref).zip(keys.iter().map(String::as_str)).collect()
}

/// The verdict of an outcome on the platforms that the job called. An outcome that the handler chose on
/// purpose gives none.
fn verdict_of(outcome: &AttemptOutcome) -> Option<Verdict> {
    match outcome {
        AttemptOutcome::Done(_) => Some(Verdict::Success),
        AttemptOutcome::Failed(error) if error.kind == ErrorKind::Undecodable => None,
        AttemptOutcome::Failed(_) | AttemptOutcome::RetryIn(..) => Some(Verdict::Failure),
        _ => None,
    }
}

/// The refusal of a job at enqueue, because its key has no token left. The job was not stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rate limit {limit} has no token left for {key:?}; try again in {retry_after:?}")]
pub struct RateLimited {
    /// The rate limit.
    pub limit: LimitName,
    /// The key whose tokens are used up; may be empty.
    pub key: String,
    /// When the next token falls due.
    pub retry_after: Duration,
}
