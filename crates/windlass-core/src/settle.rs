//! Decides the transition of a job after an attempt: the outcome and the retry policy give a transition,
//! which an engine stores if the claim still holds.

use std::time::Duration;

use crate::admin::AttemptEnding;
use crate::claim::Fence;
use crate::clock::Timestamp;
use crate::gate::{Gate, gate_by_history};
use crate::job::{Counters, Job, JobId};
use crate::limits::{DELAY_MAX, ERROR_BYTES_MAX, OUTPUT_BYTES_MAX, REASON_BYTES_MAX, RESULT_BYTES_MAX};
use crate::outcome::{AttemptOutcome, ErrorKind, JobError, bounded};
use crate::retry::RetryPolicy;

/// Decides the transition of a job. `age` is the time since its enqueue.
pub fn settle(job: &Job, outcome: AttemptOutcome, policy: &RetryPolicy, age: Duration) -> Transition {
    match outcome {
        AttemptOutcome::Done(result) => Transition::Succeed { result },
        AttemptOutcome::Failed(error) if error.kind == ErrorKind::Undecodable => Transition::Bury { error },
        AttemptOutcome::Failed(error) => match policy.delay_after(job.counters.failures + 1, age, job.seed())
        {
            Some(after) => Transition::Retry { after, error },
            None => Transition::Bury { error },
        },
        AttemptOutcome::RetryIn(after, error) => {
            match policy.delay_after(job.counters.failures + 1, age, job.seed()) {
                Some(_) => Transition::Retry { after: after.min(DELAY_MAX), error },
                None => Transition::Bury { error },
            }
        }
        AttemptOutcome::Snooze(after) => Transition::Snooze { after: after.min(DELAY_MAX) },
        AttemptOutcome::Discard(why) | AttemptOutcome::Cancelled(why) => Transition::Cancel { why },
        AttemptOutcome::Dead(error) => Transition::Bury { error },
        AttemptOutcome::Held(gate) => Transition::Park { gate },
        AttemptOutcome::Released { started } => Transition::Release { started },
    }
}

/// The transition that an engine must store for a job that ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transition {
    /// The job succeeded.
    Succeed {
        /// The result as JSON.
        result: Option<String>,
    },
    /// The job failed; due again after a delay.
    Retry {
        /// The delay, counted from the store's current time.
        after: Duration,
        /// Why.
        error: JobError,
    },
    /// The handler snoozed the job until later, at no cost.
    Snooze {
        /// The delay, counted from the store's current time.
        after: Duration,
    },
    /// A policy parked the job until a gate opens, at no cost; the due time stays.
    Park {
        /// The gate.
        gate: Gate,
    },
    /// The job is dead.
    Bury {
        /// Why.
        error: JobError,
    },
    /// The job is cancelled.
    Cancel {
        /// Why.
        why: String,
    },
    /// The worker that stops releases the job, at no cost; the due time stays.
    Release {
        /// Whether the handler had been called.
        started: bool,
    },
}

/// The state and counters of a job after a transition: what is written, on every engine alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedTransition {
    /// The new counters.
    pub counters: Counters,
    /// The new state.
    pub state: NewState,
}

/// The state of a job after a transition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewState {
    /// It waits again.
    Waiting {
        /// When it falls due.
        due: Timestamp,
        /// What holds it back.
        gate: Option<Gate>,
    },
    /// It succeeded.
    Succeeded {
        /// The result as JSON.
        result: Option<String>,
    },
    /// It is dead.
    Dead {
        /// Why.
        error: JobError,
    },
    /// It is cancelled.
    Cancelled {
        /// Why.
        why: String,
    },
}

impl AppliedTransition {
    /// Turns the result into a cancellation if the job was asked to stop while it ran. For transitions
    /// without its worker's report, such as [`after_crash`]; [`Transition::apply`] checks this itself.
    #[must_use]
    pub fn or_cancelled(mut self, cancel_requested: Option<&str>) -> Self {
        if let Some(why) = cancel_requested {
            self.state = NewState::Cancelled { why: why.to_owned() };
        }
        self
    }
}

impl Transition {
    /// Returns where this transition takes a running job. `due` and `counters` are those of the stored
    /// row; `cancel_requested` is the reason if the job was asked to stop while it ran.
    pub fn apply(
        self,
        now: Timestamp,
        due: Timestamp,
        counters: Counters,
        cancel_requested: Option<&str>,
    ) -> AppliedTransition {
        let counters = self.counted(counters);
        if let Some(why) = cancel_requested {
            // The promise of a cancel: whatever the handler returned, the job ends as cancelled.
            return AppliedTransition { counters, state: NewState::Cancelled { why: why.to_owned() } };
        }
        let by_history = gate_by_history(&counters);
        let state = match self {
            Self::Succeed { result } => NewState::Succeeded { result },
            Self::Retry { after, .. } | Self::Snooze { after } => {
                NewState::Waiting { due: now.plus(after), gate: by_history }
            }
            Self::Park { gate } => NewState::Waiting { due, gate: Some(gate) },
            Self::Release { .. } => NewState::Waiting { due, gate: by_history },
            Self::Bury { error } => NewState::Dead { error },
            Self::Cancel { why } => NewState::Cancelled { why },
        };
        AppliedTransition { counters, state }
    }

    /// Returns the transition with every text truncated to its limit.
    #[must_use]
    pub fn bounded(self) -> Self {
        let cut = |error: JobError| JobError { text: bounded(error.text, ERROR_BYTES_MAX), ..error };
        match self {
            Self::Retry { after, error } => Self::Retry { after, error: cut(error) },
            Self::Bury { error } => Self::Bury { error: cut(error) },
            Self::Cancel { why } => Self::Cancel { why: bounded(why, REASON_BYTES_MAX) },
            other => other,
        }
    }

    /// Returns the error that this transition carries.
    pub fn error(&self) -> Option<&JobError> {
        match self {
            Self::Retry { error, .. } | Self::Bury { error } => Some(error),
            _ => None,
        }
    }

    /// Returns how the attempt is recorded; `None` if the handler never started. A requested cancel wins.
    pub fn ending(&self, cancel_requested: bool) -> Option<AttemptEnding> {
        match self {
            Self::Park { .. } | Self::Release { started: false } => None,
            _ if cancel_requested => Some(AttemptEnding::Cancelled),
            Self::Succeed { .. } => Some(AttemptEnding::Succeeded),
            Self::Retry { .. } => Some(AttemptEnding::Failed),
            Self::Bury { .. } => Some(AttemptEnding::Dead),
            Self::Snooze { .. } => Some(AttemptEnding::Snoozed),
            Self::Cancel { .. } => Some(AttemptEnding::Cancelled),
            Self::Release { started: true } => Some(AttemptEnding::Released),
        }
    }

    /// Returns how long ago the job ended, if this transition ends it: with its attempt, of which the
    /// report may come late. A job whose handler never started has no such end, so a job that was asked
    /// to stop ends now.
    pub fn ended_ago(&self, report: &AttemptReport) -> Duration {
        if self.is_unstarted() { Duration::ZERO } else { report.ended_ago }
    }

    /// Whether the handler was never called.
    fn is_unstarted(&self) -> bool {
        matches!(self, Self::Park { .. } | Self::Release { started: false })
    }

    /// Updates the counters. A claim counts an attempt; here it is subtracted again if the handler never
    /// started.
    fn counted(&self, counters: Counters) -> Counters {
        Counters {
            attempts: counters.attempts.saturating_sub(u32::from(self.is_unstarted())),
            failures: counters.failures + u32::from(self.error().is_some()),
            holds: counters.holds + u32::from(matches!(self, Self::Park { .. } | Self::Snooze { .. })),
            crashes: counters.crashes,
        }
    }
}

/// A transition for one claimed job, with the report of the attempt. Made by [`Claimed::settled`], which
/// consumes the claim, so that there is no second end.
///
/// [`Claimed::settled`]: crate::claim::Claimed::settled
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// The claim that ends.
    pub fence: Fence,
    /// The transition of the job.
    pub transition: Transition,
    /// The record of the attempt.
    pub report: AttemptReport,
}

impl Settlement {
    /// Returns the settlement as it is stored: every text within its limit, and a result only if the
    /// job's type keeps it. A result that is too long costs the job nothing; the output says that it was
    /// dropped.
    #[must_use]
    pub fn bounded(self, keep_result: bool) -> Self {
        let Self { fence, transition, mut report } = self;
        report.output = report.output.map(|output| bounded(output, OUTPUT_BYTES_MAX));
        let transition = match transition.bounded() {
            Transition::Succeed { result } => {
                Transition::Succeed { result: report.fitting(result.filter(|_| keep_result)) }
            }
            other => other,
        };
        Self { fence, transition, report }
    }
}

/// A worker's report of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AttemptReport {
    /// How long the handler ran.
    pub ran_for: Duration,
    /// How long ago it ended, measured when the report is sent; measured again when it is sent again. A
    /// duration, so that no worker's clock is used.
    pub ended_ago: Duration,
    /// The output of the handler, bounded.
    pub output: Option<String>,
}

impl AttemptReport {
    /// Returns when the attempt started and ended, by the store's current time: a report may come long
    /// after the end that it describes.
    pub fn span(&self, now: Timestamp) -> (Timestamp, Timestamp) {
        let ended_at = now.minus(self.ended_ago);
        (ended_at.minus(self.ran_for), ended_at)
    }

    /// Returns a result that is short enough to be stored; otherwise adds a note about it to the output.
    fn fitting(&mut self, result: Option<String>) -> Option<String> {
        let bytes = result.as_ref().map_or(0, String::len);
        if bytes <= RESULT_BYTES_MAX {
            return result;
        }
        let line = format!(
            "the result of {bytes} bytes was over the limit of {RESULT_BYTES_MAX} and was not kept\n"
        );
        let mut output = bounded(self.output.take().unwrap_or_default(), OUTPUT_BYTES_MAX - line.len() - 1);
        if !output.is_empty() && !output.ends_with('\n') {
            output.push('\n');
        }
        self.output = Some(output + &line);
        None
    }
}

/// The outcome of a settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// It was written, now or by an earlier request: the settling token stays readable.
    Applied,
    /// The caller no longer holds the claim. Nothing was written.
    ClaimLost,
}

/// Decides the transition of a job whose worker died. `beside` are the other jobs that the worker held:
/// one of them may be the cause, so a dead letter names them.
pub fn after_crash(
    counters: Counters,
    due: Timestamp,
    crashes_max: u32,
    beside: &[JobId],
) -> AppliedTransition {
    let counters = Counters { crashes: counters.crashes + 1, ..counters };
    let state = if counters.crashes >= crashes_max {
        let times = counters.crashes;
        let neighbours = name_some(beside);
        let text = format!(
            "its worker died {times} times while holding it (this time it held {neighbours}); a job that kills its process is moved to the dead-letter queue"
        );
        NewState::Dead { error: JobError::new(ErrorKind::Crashed, text) }
    } else {
        NewState::Waiting { due, gate: gate_by_history(&counters) }
    };
    AppliedTransition { counters, state }
}

/// Returns the error that is recorded for an attempt that ended with its worker.
pub fn crash_error() -> JobError {
    JobError::new(ErrorKind::Crashed, "the worker died while it held this job")
}

fn name_some(jobs: &[JobId]) -> String {
    const NAMED: usize = 10;
    let named: Vec<_> = jobs.iter().take(NAMED).map(JobId::to_string).collect();
    match (named.len(), jobs.len() - named.len()) {
        (0, _) => "no other job".to_owned(),
        (_, 0) => format!("jobs {} too", named.join(", ")),
        (_, more) => format!("jobs {} and {more} more too", named.join(", ")),
    }
}

#[cfg(test)]
mod tests;
