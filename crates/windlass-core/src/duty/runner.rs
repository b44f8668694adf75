//! Decides when one process begins a run of a duty, when it stops one, and when it reports that a run is
//! stuck; without any I/O.
//!
//! A process may run a duty while it has the right to: always, if every worker does it, and otherwise
//! from the event that it leads until the event that it no longer does. It never does two runs of a duty
//! at once, not even if a run that must stop does not end and the right comes back meanwhile.

use std::time::Duration;

use super::{DutyMode, DutySpec};
use crate::lease::LeaseFence;
use crate::lease::lease_client::Moment;
use crate::limits::{DUTY_AGAIN_PAUSE, DUTY_SPREAD_MAX};

/// One run of a duty in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunId(u64);

/// What the shell around a runner must do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DutyEffect {
    /// Begin a run; report its end with [`DutyRunner::ended`], whatever its result.
    Begin {
        /// The run.
        run: RunId,
        /// The fence that its writes name; `None` in modes without a fence.
        fence: Option<LeaseFence>,
    },
    /// Stop this run: the process no longer has the right to it.
    Stop(RunId),
    /// No run has ended for this long though this process has had the right to run: raise an alert.
    Stuck(Duration),
    /// Let another process lead: stop the run, and release the lease or the lock.
    GiveWay,
}

/// One duty in one process.
#[derive(Debug)]
pub struct DutyRunner {
    spec: DutySpec,
    right: Option<Right>,
    run: Option<Run>,
    next_at: Moment,
    /// Since when a run could have ended: since the last end of a run, or since this process has the
    /// right.
    idle_since: Moment,
    is_stuck: bool,
    gives_way: bool,
    /// No other process could do the duty.
    is_alone: bool,
    /// The number of consecutive runs that were stopped before their end, because the process lost the
    /// right to them.
    stopped_in_a_row: u32,
    last_run: u64,
}

#[derive(Debug)]
struct Right {
    fence: Option<LeaseFence>,
    since: Moment,
}

#[derive(Debug, Clone, Copy)]
struct Run {
    id: RunId,
    is_stopping: bool,
}

impl DutyRunner {
    /// Creates the runner of a duty from `now` on. `ring_position` says, in parts of 2^16, how long this
    /// process waits before its first run of a duty that every worker does, so that many processes that
    /// start at once do not run at once. The wait is never longer than a minute: a process that is
    /// restarted every few hours would otherwise never reach a daily duty.
    pub fn new(spec: DutySpec, ring_position: u16, now: Moment) -> Self {
        let is_free = !spec.mode.has_one_leader();
        let wait = spec.interval.min(DUTY_SPREAD_MAX).mul_f64(f64::from(ring_position) / f64::from(1 << 16));
        Self {
            right: is_free.then_some(Right { fence: None, since: now }),
            next_at: if is_free { now.saturating_add(wait) } else { now },
            spec,
            run: None,
            idle_since: now,
            is_stuck: false,
            gives_way: false,
            is_alone: false,
            stopped_in_a_row: 0,
            last_run: 0,
        }
    }

    /// Handles the event that this process leads. `due_in` is the time until the next run by the notes of
    /// the last leader, if there are any: an interval continues when leaders change.
    pub fn gained(&mut self, fence: Option<LeaseFence>, due_in: Option<Duration>, now: Moment) {
        match due_in {
            Some(wait) => self.next_at = now.saturating_add(wait),
            None => self.next_at = self.next_at.max(now.saturating_add(self.pause_after_stops())),
        }
        self.right = Some(Right { fence, since: now });
        (self.idle_since, self.is_stuck, self.gives_way) = (now, false, false);
    }

    /// Sets whether no other process could do the duty. Then leaders do not take turns: the duty would
    /// lie idle.
    pub fn saw(&mut self, is_alone: bool) {
        self.is_alone = is_alone;
    }

    /// Whether a run of the duty has not ended.
    pub fn is_running(&self) -> bool {
        self.run.is_some()
    }

    /// Handles the event that this process no longer leads. A run that is stopped before its end was not
    /// done: if the right comes back, the run begins again at once and not an interval later.
    pub fn lost(&mut self) -> Option<DutyEffect> {
        self.right = None;
        let run = self.run.as_mut().filter(|run| !run.is_stopping)?;
        (run.is_stopping, self.next_at) = (true, Moment::ZERO);
        self.stopped_in_a_row = self.stopped_in_a_row.saturating_add(1);
        Some(DutyEffect::Stop(run.id))
    }

    /// Returns how long a run waits after several consecutive runs were stopped before their end: a run
    /// that takes its own right away, by its effect on the server, must not do so without a pause.
    fn pause_after_stops(&self) -> Duration {
        let again = self.stopped_in_a_row.saturating_sub(1);
        DUTY_AGAIN_PAUSE.saturating_mul(again).min(self.spec.interval)
    }

    /// Handles the end of a run.
    pub fn ended(&mut self, run: RunId, now: Moment) {
        if let Some(current) = self.run.filter(|current| current.id == run) {
            self.run = None;
            if !current.is_stopping {
                self.stopped_in_a_row = 0;
            }
            (self.idle_since, self.is_stuck) = (now, false);
        }
    }

    /// Returns what must be done at `now`.
    pub fn effects(&mut self, now: Moment) -> Vec<DutyEffect> {
        let Some(right) = &self.right else { return Vec::new() };
        let fence = right.fence.clone();
        if let Some(silent) = self.newly_stuck(now) {
            let gives_way = self.give_way();
            return std::iter::once(DutyEffect::Stuck(silent)).chain(gives_way).collect();
        }
        if self.run.is_some() || self.gives_way {
            return Vec::new();
        }
        if self.rotates_at().is_some_and(|at| at <= now) {
            return self.give_way().into_iter().collect();
        }
        if self.next_at > now {
            return Vec::new();
        }
        vec![self.begin(fence, now)]
    }

    /// Returns when something is due even if nothing happens.
    pub fn wake_at(&self) -> Moment {
        if self.right.is_none() {
            return Moment::MAX;
        }
        let stuck_at = if self.is_stuck { Moment::MAX } else { self.stuck_at() };
        if self.run.is_some() || self.gives_way {
            return stuck_at;
        }
        stuck_at.min(self.next_at).min(self.rotates_at().unwrap_or(Moment::MAX))
    }

    fn begin(&mut self, fence: Option<LeaseFence>, now: Moment) -> DutyEffect {
        self.last_run += 1;
        let id = RunId(self.last_run);
        self.run = Some(Run { id, is_stopping: false });
        // Runs that were missed while the process could not run are not made up for.
        self.next_at = now.saturating_add(self.spec.interval);
        DutyEffect::Begin { run: id, fence }
    }

    /// Returns for how long no run has ended, if that has just become too long.
    fn newly_stuck(&mut self, now: Moment) -> Option<Duration> {
        if self.is_stuck || now < self.stuck_at() {
            return None;
        }
        self.is_stuck = true;
        Some(now.saturating_sub(self.idle_since))
    }

    /// Waiting for the next run is not being stuck: an interval may be long.
    fn stuck_at(&self) -> Moment {
        match self.run {
            Some(_) => self.idle_since.saturating_add(self.spec.stuck_after()),
            None => Moment::MAX,
        }
    }

    fn rotates_at(&self) -> Option<Moment> {
        let right = self.right.as_ref().filter(|_| !self.is_alone)?;
        Some(right.since.saturating_add(self.spec.rotation?))
    }

    /// Gives way only in modes with a leader: otherwise no process could take over.
    fn give_way(&mut self) -> Option<DutyEffect> {
        let leads = self.spec.mode.has_one_leader() && !self.gives_way;
        self.gives_way |= leads;
        leads.then_some(DutyEffect::GiveWay)
    }

    /// Returns the mode of the duty.
    pub fn mode(&self) -> DutyMode {
        self.spec.mode
    }
}

#[cfg(test)]
mod tests;
