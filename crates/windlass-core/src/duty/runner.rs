//! When one process begins a run of a duty, when it stops one, and when it says that one is stuck; without any I/O.
//!
//! A process may run a duty while it has the right to: always, if every worker does it, and else from when it was told that
//! it leads until it is told that it no longer does. It never does two runs of a duty at once, not even if one that it asked to
//! stop does not end and the right comes back meanwhile.

use std::time::Duration;

use super::{DutyMode, DutySpec};
use crate::lease::LeaseFence;
use crate::lease::lease_client::Moment;
use crate::limits::{DUTY_AGAIN_PAUSE, DUTY_SPREAD_MAX};

/// One run of a duty in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunId(u64);

/// What the shell around a runner is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DutyEffect {
    /// Begin a run; say by [`DutyRunner::ended`] that it is over, whatever became of it.
    Begin {
        /// Which.
        run: RunId,
        /// What its writes name; nothing in modes without one.
        fence: Option<LeaseFence>,
    },
    /// Stop this run: the right to it is gone.
    Stop(RunId),
    /// No run has ended for so long though this process has had the right to: raise an alert.
    Stuck(Duration),
    /// Let another process lead: stop what runs, and give back the lease or the lock.
    GiveWay,
}

/// One duty in one process.
#[derive(Debug)]
pub struct DutyRunner {
    spec: DutySpec,
    right: Option<Right>,
    run: Option<Run>,
    next_at: Moment,
    /// Since when a run could have ended: since the last one has, or since this process has the right.
    idle_since: Moment,
    is_stuck: bool,
    gives_way: bool,
    /// Nobody else could do it.
    is_alone: bool,
    /// So many runs in a row were stopped in the middle, because the right to them was gone.
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
    /// A duty from `now` on. `ring_position` says in parts of 2^16 how long this process waits before it first runs what every worker runs, so
    /// that many that start at once do not run at once. It is never longer than a minute: a process that is started anew every few
    /// hours would never come to a duty of each day.
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

    /// This process leads from now on. `due_in` is what the notes of the last leader say of the next run, if there are any: an
    /// interval goes on when leaders change.
    pub fn gained(&mut self, fence: Option<LeaseFence>, due_in: Option<Duration>, now: Moment) {
        match due_in {
            Some(wait) => self.next_at = now.saturating_add(wait),
            None => self.next_at = self.next_at.max(now.saturating_add(self.pause_after_stops())),
        }
        self.right = Some(Right { fence, since: now });
        (self.idle_since, self.is_stuck, self.gives_way) = (now, false, false);
    }

    /// Whether nobody else could do it. Then leaders do not take turns: the duty would lie idle.
    pub fn saw(&mut self, is_alone: bool) {
        self.is_alone = is_alone;
    }

    /// Whether a run of it has not ended.
    pub fn is_running(&self) -> bool {
        self.run.is_some()
    }

    /// This process leads no longer. A run that is stopped in the middle was not done: should the right come back, it is begun again
    /// and not an interval later.
    pub fn lost(&mut self) -> Option<DutyEffect> {
        self.right = None;
        let run = self.run.as_mut().filter(|run| !run.is_stopping)?;
        (run.is_stopping, self.next_at) = (true, Moment::ZERO);
        self.stopped_in_a_row = self.stopped_in_a_row.saturating_add(1);
        Some(DutyEffect::Stop(run.id))
    }

    /// How long a run waits whose like was stopped in the middle again and again: one that takes its own right away, by what it does to
    /// the server, must not do so without a pause.
    fn pause_after_stops(&self) -> Duration {
        let again = self.stopped_in_a_row.saturating_sub(1);
        DUTY_AGAIN_PAUSE.saturating_mul(again).min(self.spec.interval)
    }

    /// A run is over.
    pub fn ended(&mut self, run: RunId, now: Moment) {
        if let Some(current) = self.run.filter(|current| current.id == run) {
            self.run = None;
            if !current.is_stopping {
                self.stopped_in_a_row = 0;
            }
            (self.idle_since, self.is_stuck) = (now, false);
        }
    }

    /// What is to be done at `now`.
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

    /// When something is due even if nothing happens.
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
        // What was left out while nobody could run is not made up for.
        self.next_at = now.saturating_add(self.spec.interval);
        DutyEffect::Begin { run: id, fence }
    }

    /// For how long no run has ended, if that has just become too long.
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

    /// Where there is no leader nobody could take over.
    fn give_way(&mut self) -> Option<DutyEffect> {
        let leads = self.spec.mode.has_one_leader() && !self.gives_way;
        self.gives_way |= leads;
        leads.then_some(DutyEffect::GiveWay)
    }

    /// How the duty is done.
    pub fn mode(&self) -> DutyMode {
        self.spec.mode
    }
}

#[cfg(test)]
mod tests;
