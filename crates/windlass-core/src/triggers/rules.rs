//! What holds a trigger, what marks it, and how often it is looked at.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::gate::Gate;
use crate::limits::{TRIGGER_PAUSE, TRIGGER_PAUSE_MAX, TRIGGER_TIME_SHARE, TRIGGERS_POLL_EVERY};
use crate::settle::Place;

/// What is left of a group, the trigger's own jobs apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Left {
    /// Something runs.
    pub running: bool,
    /// Something waits that [could run](could_run).
    pub could_run: bool,
    /// Something has not ended, wherever it is.
    pub unfinished: bool,
}

/// Whether a group is drained.
pub fn is_drained(left: Left, wait_for_retries: bool) -> bool {
    match wait_for_retries {
        true => !left.unfinished,
        false => !left.running && !left.could_run,
    }
}

/// Whether a job that waits could run now: it is due, and nothing holds it back but that it is tried on its own, or that it comes next
/// or later in an ordering key. Those in line hold a trigger because of the moment between the end of a job and the start of the one behind it.
pub fn could_run(gate: Option<&Gate>, due: Timestamp, now: Timestamp) -> bool {
    due <= now && gate.is_none_or(|gate| gate.is_suspect() || gate.is_of_ordering_key())
}

/// Where a job stands, as far as triggers ask.
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
    /// Where a job stands that goes to this place.
    pub fn at(place: &'a Place) -> Self {
        match place {
            Place::Waiting { due, gate } => Self::Waiting { due: *due, gate: gate.as_ref() },
            Place::Succeeded { .. } | Place::Dead { .. } | Place::Cancelled { .. } => Self::Ended,
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

/// Whether a job that goes from here to there leaves a mark for a trigger that watches it: it held the trigger, and holds it no more. So
/// a group in which nothing ran, or could have, has no mark and never fires.
pub fn marks(from: JobStanding<'_>, to: JobStanding<'_>, wait_for_retries: bool, now: Timestamp) -> bool {
    from.holds(wait_for_retries, now) && !to.holds(wait_for_retries, now)
}

/// When a trigger may be looked at again, after a look that took so long: a queue that ends fifty thousand jobs a second is not looked
/// at as often. A long look, over rows that are long dead or of other types, takes no more than a twentieth of the time.
pub fn look_again(now: Timestamp, took: Duration) -> Timestamp {
    let pause = took.saturating_mul(TRIGGER_TIME_SHARE).clamp(TRIGGER_PAUSE, TRIGGER_PAUSE_MAX);
    now.plus(pause)
}

/// How long a trigger must wait after a look that failed; only a second if what was in the way passes, as a store that was cut off or a
/// row that somebody has locked: that may have nothing to do with it.
pub fn look_after_failure(passes: bool) -> Duration {
    if passes { TRIGGERS_POLL_EVERY } else { TRIGGER_PAUSE_MAX }
}

/// Whether a trigger may be looked at. An instant further away than any pause is one of a clock that was set back since.
pub fn may_look(look_at: Option<Timestamp>, now: Timestamp) -> bool {
    look_at.is_none_or(|look_at| look_at <= now || look_at > now.plus(TRIGGER_PAUSE_MAX))
}
