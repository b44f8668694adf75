//! Decides what holds a trigger, what marks it, and how often it is evaluated.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::gate::Gate;
use crate::limits::{TRIGGER_PAUSE, TRIGGER_PAUSE_MAX, TRIGGER_TIME_SHARE, TRIGGERS_POLL_EVERY};
use crate::settle::NewState;

/// The jobs that are left of a group, except the trigger's own jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Left {
    /// A job runs.
    pub running: bool,
    /// A job waits that [could run](could_run).
    pub could_run: bool,
    /// A job has not ended, in whichever state it is.
    pub unfinished: bool,
}

/// Whether a group has finished.
pub fn has_finished(left: Left, wait_for_retries: bool) -> bool {
    match wait_for_retries {
        true => !left.unfinished,
        false => !left.running && !left.could_run,
    }
}

/// Whether a waiting job could run now: it is due, and nothing holds it back except the quarantine, or
/// its turn in an ordering key. Jobs that wait for their turn in an ordering key hold a trigger because
/// of the moment between the end of a job and the start of the job behind it.
pub fn could_run(gate: Option<&Gate>, due: Timestamp, now: Timestamp) -> bool {
    due <= now && gate.is_none_or(|gate| gate.is_suspect() || gate.is_of_ordering_key())
}

/// The state of a job, as far as triggers need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobStanding<'a> {
    /// It waits.
    Waiting {
        /// When it falls due.
        due: Timestamp,
        /// What holds it back.
        gate: Option<&'a Gate>,
    },
    /// It runs.
    Running,
    /// It has ended.
    Ended,
}

impl<'a> JobStanding<'a> {
    /// Returns the state of a job that a transition moves to this one.
    pub fn at(state: &'a NewState) -> Self {
        match state {
            NewState::Waiting { due, gate } => Self::Waiting { due: *due, gate: gate.as_ref() },
            NewState::Succeeded { .. } | NewState::Dead { .. } | NewState::Cancelled { .. } => Self::Ended,
        }
    }

    /// Whether it holds a trigger.
    pub fn holds(self, wait_for_retries: bool, now: Timestamp) -> bool {
        match self {
            Self::Waiting { due, gate } => wait_for_retries || could_run(gate, due, now),
            Self::Running => true,
            Self::Ended => false,
        }
    }
}

/// Whether a job that moves between these states leaves a mark for a trigger that watches it: it held the
/// trigger, and holds it no more. So a group in which no job ran, or could have run, has no mark and
/// never fires.
pub fn marks(from: JobStanding<'_>, to: JobStanding<'_>, wait_for_retries: bool, now: Timestamp) -> bool {
    from.holds(wait_for_retries, now) && !to.holds(wait_for_retries, now)
}

/// Returns when a trigger may be evaluated again, after an evaluation that took this long: a queue that
/// ends fifty thousand jobs a second does not cause as many evaluations. A long evaluation, over rows
/// that are long dead or of other types, takes no more than a twentieth of the time.
pub fn look_again(now: Timestamp, took: Duration) -> Timestamp {
    let pause = took.saturating_mul(TRIGGER_TIME_SHARE).clamp(TRIGGER_PAUSE, TRIGGER_PAUSE_MAX);
    now.plus(pause)
}

/// Returns how long a trigger must wait after an evaluation that failed; only a second if the obstacle is
/// temporary, as a lost connection to the store or a row that another transaction has locked: that may
/// have nothing to do with the trigger.
pub fn look_after_failure(passes: bool) -> Duration {
    if passes { TRIGGERS_POLL_EVERY } else { TRIGGER_PAUSE_MAX }
}

/// Whether a trigger may be evaluated. An instant further away than any pause comes from a clock that was
/// set back since.
pub fn may_look(look_at: Option<Timestamp>, now: Timestamp) -> bool {
    look_at.is_none_or(|look_at| look_at <= now || look_at > now.plus(TRIGGER_PAUSE_MAX))
}
