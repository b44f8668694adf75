//! Circuit breakers: one for each outside platform. After too many failures nobody calls it for a while; then a few
//! probes find out whether it is back.
//!
//! Closed, everybody may call, and a success resets the count of failures. Open, nobody may until the cool-down is
//! over. Half-open, as many claims as there are probes may call: one that succeeds closes the breaker, one that fails
//! opens it again. What is decided here is the same for a breaker of one process and for one that all share.

use std::time::Duration;

use crate::claim::Fence;
use crate::clock::Timestamp;
use crate::job::JobId;
use crate::limits::{PROBES_MAX, REASON_BYTES_MAX, RETRY_AFTER_MAX};
use crate::names::BreakerName;
use crate::outcome::bounded;
use crate::stored::{self, Unreadable};

mod options;
mod results;
mod window;

pub use options::{BreakerOptions, BreakerOptionsError, FailureRate};
pub use results::{Results, Verdict};
pub use window::Slice;

/// A job that was let through a gate as a probe keeps its place for so long. If nobody has claimed it by then (its
/// queue may be paused), another may probe in its stead.
pub const RESERVED_FOR: Duration = Duration::from_secs(10);

/// What is known of a platform. This is what a store keeps.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct BreakerState {
    /// Closed, open or half-open.
    pub circuit: CircuitState,
    /// Since when; nothing if it never changed.
    pub since: Option<Timestamp>,
    /// Failures since the last success, rate-limit answers included.
    pub failures_in_a_row: u32,
    /// Rate-limit answers since the last success.
    pub rate_limits_in_a_row: u32,
    /// The calls of the last while, if the failure rate counts.
    pub window: Vec<Slice>,
    /// Claims that hold a permit to probe. A permit is good for as long as its claim, and void with it.
    pub probes: Vec<Fence>,
    /// Jobs that were let through the gate to probe and have not been claimed yet, and until when each has its place.
    pub reserved: Vec<(JobId, Timestamp)>,
}

/// Whether a platform may be called.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CircuitState {
    /// By everybody.
    #[default]
    Closed,
    /// By nobody.
    Open {
        /// When probes may begin; nothing if a person opened it until further notice.
        until: Option<Timestamp>,
        /// Why.
        why: String,
    },
    /// By probes.
    HalfOpen,
}

impl CircuitState {
    /// The word.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open { .. } => "open",
            Self::HalfOpen => "half-open",
        }
    }
}

/// Whether a claim may call the platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Yes.
    Go,
    /// Yes, as a probe: it holds a permit from now on.
    Probe,
    /// No.
    Wait,
}

/// What happens to a breaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BreakerEvent {
    /// Calls ended that were no probes.
    Ended(Results),
    /// A probe's call ended.
    ProbeEnded(Fence, Verdict),
    /// These claims are over, or do without their permits.
    Left(Vec<Fence>),
    /// These jobs are let through the gate to probe.
    LetThrough(Vec<JobId>),
    /// A person opens it, for a time or until further notice.
    Open {
        /// For how long.
        lasting: Option<Duration>,
        /// Why.
        why: String,
    },
    /// A person closes it.
    Close,
    /// A person starts it over: closed, and nothing counted.
    Reset,
}

/// Decides whether a claim may call the platform, and what is known afterwards.
pub fn ask(
    state: &BreakerState,
    fence: Fence,
    now: Timestamp,
    options: &BreakerOptions,
) -> (BreakerState, Admission) {
    let mut next = state.at(now);
    let admission = match next.circuit {
        CircuitState::Closed => Admission::Go,
        CircuitState::Open { .. } => Admission::Wait,
        CircuitState::HalfOpen => next.ask_for_permit(fence, options),
    };
    (next, admission)
}

/// Decides what is known after something happened.
pub fn decide(
    state: &BreakerState,
    event: &BreakerEvent,
    now: Timestamp,
    options: &BreakerOptions,
) -> BreakerState {
    let mut next = state.at(now);
    match event {
        BreakerEvent::Ended(results) => next.ended(results, now, options),
        BreakerEvent::ProbeEnded(fence, verdict) => next.probe_ended(*fence, *verdict, now, options),
        BreakerEvent::Left(fences) => next.probes.retain(|probe| !fences.contains(probe)),
        BreakerEvent::LetThrough(jobs) => next.reserve(jobs, now, options),
        BreakerEvent::Open { lasting, why } => {
            next.open(lasting.map(|lasting| now.plus(lasting)), why.clone(), now);
        }
        BreakerEvent::Close => next.close(now),
        BreakerEvent::Reset => next = BreakerState { since: Some(now), ..BreakerState::default() },
    }
    next
}

/// How long to wait after the last of so many rate-limit answers in a row: what it says itself, up to a day, else a pause
/// that doubles with each of them, up to what the options say.
pub fn rate_limit_pause(options: &BreakerOptions, in_a_row: u32, retry_after: Option<Duration>) -> Duration {
    let doubled = options.rate_limit_pause.saturating_mul(1 << in_a_row.saturating_sub(1).min(30));
    // Who comes back earlier than it was told is refused again, and perhaps for longer.
    let asked_for = retry_after.map(|asked_for| asked_for.min(RETRY_AFTER_MAX));
    asked_for.unwrap_or_else(|| doubled.min(options.rate_limit_pause_max))
}

impl BreakerState {
    /// Reads what a store keeps of the breaker with this name.
    pub fn from_store(name: &BreakerName, text: &str) -> Result<Self, Unreadable> {
        stored::read_or_default(text, format!("breaker {name}"))
    }

    /// The text to store in the place of another one, with the fields that only newer versions know.
    pub fn rewritten(&self, name: &BreakerName, stored: &str) -> Result<String, Unreadable> {
        Ok(stored::rewritten(stored, &Self::from_store(name, stored)?, self))
    }

    /// How it stands at an instant: a cool-down that is over makes it half-open, and places that nobody took lapse.
    #[must_use]
    pub fn at(&self, now: Timestamp) -> Self {
        let mut next = self.clone();
        if let CircuitState::Open { until: Some(until), .. } = next.circuit
            && until <= now
        {
            next.circuit = CircuitState::HalfOpen;
            next.since = Some(now);
        }
        next.reserved.retain(|(_, until)| *until > now);
        next
    }

    /// How many more jobs may be let through to probe.
    pub fn free_probes(&self, options: &BreakerOptions) -> usize {
        let taken = self.probes.len() + self.reserved.len();
        match self.circuit {
            CircuitState::HalfOpen => (options.half_open_probe_count as usize).saturating_sub(taken),
            CircuitState::Closed | CircuitState::Open { .. } => 0,
        }
    }

    /// A claim keeps the permit that it holds, takes over the place of its job, or takes a free one.
    fn ask_for_permit(&mut self, fence: Fence, options: &BreakerOptions) -> Admission {
        if self.probes.contains(&fence) {
            return Admission::Probe;
        }
        let reserved = self.reserved.iter().position(|(job, _)| *job == fence.job);
        if reserved.is_none() && self.free_probes(options) == 0 {
            return Admission::Wait;
        }
        reserved.map(|place| self.reserved.remove(place));
        self.probes.push(fence);
        Admission::Probe
    }

    fn reserve(&mut self, jobs: &[JobId], now: Timestamp, options: &BreakerOptions) {
        let free = self.free_probes(options).min(PROBES_MAX as usize);
        let until = now.plus(RESERVED_FOR);
        self.reserved.extend(jobs.iter().take(free).map(|job| (*job, until)));
    }

    /// While closed, calls are counted. What was called before it opened tells nothing new, but for a platform that
    /// says how long to stay away.
    fn ended(&mut self, results: &Results, now: Timestamp, options: &BreakerOptions) {
        let longest = results.longest_row_after(self.failures_in_a_row);
        results.carry_on(&mut self.failures_in_a_row, &mut self.rate_limits_in_a_row);
        let pause = results
            .rate_limited
            .then(|| rate_limit_pause(options, self.rate_limits_in_a_row.max(1), results.retry_after));
        match &mut self.circuit {
            CircuitState::Closed => {
                self.window = window::counted(&self.window, results, now, options);
                if let Some(why) = self.why_open(longest, options) {
                    self.open_for(pause, why, now, options);
                }
            }
            CircuitState::Open { until: Some(until), .. } => {
                *until = (*until).max(now.plus(pause.unwrap_or_default()));
            }
            CircuitState::Open { until: None, .. } | CircuitState::HalfOpen => {}
        }
    }

    /// Only who holds a permit decides; one probe is enough either way.
    fn probe_ended(&mut self, fence: Fence, verdict: Verdict, now: Timestamp, options: &BreakerOptions) {
        let held = self.probes.contains(&fence);
        self.probes.retain(|probe| *probe != fence);
        match (&self.circuit, verdict) {
            (CircuitState::HalfOpen, _) if !held => {}
            (CircuitState::HalfOpen, Verdict::Success) => self.close(now),
            (CircuitState::HalfOpen, failure) => {
                let results = Results::of(failure);
                results.carry_on(&mut self.failures_in_a_row, &mut self.rate_limits_in_a_row);
                let pause = results
                    .rate_limited
                    .then(|| rate_limit_pause(options, self.rate_limits_in_a_row, results.retry_after));
                self.open_for(pause, "a probe failed".to_owned(), now, options);
            }
            _ => self.ended(&Results::of(verdict), now, options),
        }
    }

    /// Why it opens now, if it does.
    fn why_open(&self, failures_in_a_row: u32, options: &BreakerOptions) -> Option<String> {
        if options.failures_in_a_row.is_some_and(|most| failures_in_a_row >= most) {
            return Some(format!("{failures_in_a_row} failures in a row"));
        }
        let rate = options.failure_rate?;
        let (calls, failures) = window::total(&self.window);
        let is_too_high = u64::from(failures) * 100 >= u64::from(rate.percent) * u64::from(calls);
        (calls >= rate.calls_min.max(1) && is_too_high).then(|| format!("{failures} of {calls} calls failed"))
    }

    /// Opens it for the cool-down, or for as long as the platform wants to be left alone.
    fn open_for(&mut self, pause: Option<Duration>, why: String, now: Timestamp, options: &BreakerOptions) {
        let cooldown = options.open_cooldown.max(pause.unwrap_or_default());
        self.open(Some(now.plus(cooldown)), why, now);
    }

    fn open(&mut self, until: Option<Timestamp>, why: String, now: Timestamp) {
        self.circuit = CircuitState::Open { until, why: bounded(why, REASON_BYTES_MAX) };
        self.since = Some(now);
        self.probes.clear();
        self.reserved.clear();
        self.window.clear();
    }

    fn close(&mut self, now: Timestamp) {
        *self = Self { since: Some(now), ..Self::default() };
    }
}

#[cfg(test)]
mod tests;
