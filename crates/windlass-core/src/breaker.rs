//! Circuit breakers: one for each outside platform. After too many failures no process calls the platform
//! for a while; then a few probes find out whether it is available again.
//!
//! A closed breaker admits every claim, and a success resets the count of failures. An open breaker
//! admits no claim until the cool-down is over. A half-open breaker admits as many claims as there are
//! probes: a probe that succeeds closes the breaker, one that fails opens it again. The decisions are the
//! same for a breaker of one process and for one that all processes share.

use std::time::Duration;

use crate::claim::Fence;
use crate::clock::Timestamp;
use crate::job::JobId;
use crate::limits::{PROBES_MAX, REASON_BYTES_MAX, RETRY_AFTER_MAX};
use crate::names::BreakerName;
use crate::outcome::bounded;
use crate::stored::{self, Source, Unreadable};

mod options;
mod results;
mod window;

pub use options::{BreakerOptions, BreakerOptionsError, FailureRate};
pub use results::{Results, Verdict};
pub use window::Slice;

/// How long a job that was released from a gate as a probe keeps its reservation. If no worker has
/// claimed it by then (its queue may be paused), another job may probe instead.
pub const RESERVED_FOR: Duration = Duration::from_secs(10);

/// What is known of a platform, as a store keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct BreakerState {
    /// Closed, open or half-open.
    pub circuit: CircuitState,
    /// Since when; `None` if it never changed.
    pub since: Option<Timestamp>,
    /// Failures since the last success, rate-limit answers included.
    pub failures_in_a_row: u32,
    /// Rate-limit answers since the last success.
    pub rate_limits_in_a_row: u32,
    /// The recent calls, if the failure rate counts.
    pub window: Vec<Slice>,
    /// Claims that hold a permit to probe. A permit is valid for as long as its claim, and void with it.
    pub probes: Vec<Fence>,
    /// Jobs that were released from the gate to probe and have not been claimed yet, each with the end of
    /// its reservation.
    pub reserved: Vec<(JobId, Timestamp)>,
    /// The stored text that this state was derived from.
    #[serde(skip)]
    pub source: Source,
}

/// Whether a platform may be called.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CircuitState {
    /// Every claim may call it.
    #[default]
    Closed,
    /// No claim may call it.
    Open {
        /// When probes may begin; `None` if a person opened it until further notice.
        until: Option<Timestamp>,
        /// Why.
        why: String,
    },
    /// Probes may call it.
    HalfOpen,
}

impl CircuitState {
    /// Returns the state as one word.
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

/// An event that changes a breaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BreakerEvent {
    /// Calls ended that were no probes.
    Ended(Results),
    /// A probe's call ended.
    ProbeEnded(Fence, Verdict),
    /// These claims are over, or do not need their permits.
    Left(Vec<Fence>),
    /// These jobs are released from the gate to probe.
    LetThrough(Vec<JobId>),
    /// A person opens the breaker, for a time or until further notice.
    Open {
        /// For how long.
        lasting: Option<Duration>,
        /// Why.
        why: String,
    },
    /// A person closes the breaker.
    Close,
    /// A person resets the breaker: closed, and nothing counted.
    Reset,
}

/// Decides whether a claim may call the platform, and returns the new state.
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

/// Returns the state after an event.
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
        BreakerEvent::Close | BreakerEvent::Reset => next.close(now),
    }
    next
}

/// Returns how long to wait after the last of this number of consecutive rate-limit answers: the time
/// that the answer requests, up to a day, otherwise a pause that doubles with each of them, up to the
/// maximum in the options.
pub fn rate_limit_pause(options: &BreakerOptions, in_a_row: u32, retry_after: Option<Duration>) -> Duration {
    let doubled = options.rate_limit_pause.saturating_mul(1 << in_a_row.saturating_sub(1).min(30));
    // A client that comes back earlier than requested is refused again, and perhaps for longer.
    let asked_for = retry_after.map(|asked_for| asked_for.min(RETRY_AFTER_MAX));
    asked_for.unwrap_or_else(|| doubled.min(options.rate_limit_pause_max))
}

impl BreakerState {
    /// Reads the stored state of the breaker with this name.
    pub fn from_store(name: &BreakerName, text: &str) -> Result<Self, Unreadable> {
        let state = stored::read_or_default(text, format!("breaker {name}"))?;
        Ok(Self { source: Source::verbatim(text), ..state })
    }

    /// Returns the text to store, with the fields that only newer versions know.
    pub fn to_text(&self) -> String {
        self.source.rewritten(self)
    }

    /// Returns the state at an instant: a cool-down that is over makes it half-open, and reservations
    /// that no claim used lapse.
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

    /// Returns how many more jobs may be released to probe.
    pub fn free_probes(&self, options: &BreakerOptions) -> usize {
        let taken = self.probes.len() + self.reserved.len();
        match self.circuit {
            CircuitState::HalfOpen => (options.half_open_probe_count as usize).saturating_sub(taken),
            CircuitState::Closed | CircuitState::Open { .. } => 0,
        }
    }

    /// A claim keeps the permit that it holds, takes over the reservation of its job, or takes a free
    /// one.
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

    /// Counts calls while closed. A call that began before the breaker opened gives no new evidence,
    /// except when the platform requests how long to stay away.
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

    /// Only a claim that holds a permit decides; one probe is enough either way.
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

    /// Returns why it opens now, if it does.
    fn why_open(&self, failures_in_a_row: u32, options: &BreakerOptions) -> Option<String> {
        if options.failures_in_a_row.is_some_and(|most| failures_in_a_row >= most) {
            return Some(format!("{failures_in_a_row} failures in a row"));
        }
        let rate = options.failure_rate?;
        let (calls, failures) = window::total(&self.window);
        let is_too_high = u64::from(failures) * 100 >= u64::from(rate.percent) * u64::from(calls);
        (calls >= rate.calls_min.max(1) && is_too_high).then(|| format!("{failures} of {calls} calls failed"))
    }

    /// Opens it for the cool-down, or for as long as the platform requested a pause.
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
        *self = Self { since: Some(now), source: std::mem::take(&mut self.source), ..Self::default() };
    }
}

#[cfg(test)]
mod tests;
