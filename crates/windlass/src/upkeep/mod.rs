//! Upkeep: taking back the jobs of dead workers, cancelling what expired, deleting what is past its
//! retention. Every process does it; nothing here is wrong if two do it at once.
//!
//! Pure: what the store answered goes in, what to ask next comes out. The shell is in `shell`.

use std::time::Duration;

use windlass_core::engine::{RescueRequest, Rescued};
use windlass_core::lease_watch::LeaseWatch;
use windlass_core::limits::UPKEEP_BATCH_MAX;
use windlass_core::worker::WorkerSighting;

use crate::worker::Moment;

mod depth;
pub(crate) mod shell;

/// What one round of upkeep asks the store.
#[derive(Debug, PartialEq, Eq)]
pub enum Duty {
    /// Read all workers; answer with [`Upkeep::sighted`].
    Look,
    /// Take back the jobs of dead workers; answer with [`Upkeep::rescued`].
    Rescue(RescueRequest),
    /// Cancel what expired, park what nobody handles.
    Sweep,
    /// Delete what is past its retention.
    Prune,
}

/// The state of upkeep in one process.
#[derive(Debug)]
pub struct Upkeep {
    watch: LeaseWatch,
    sweep_every: Duration,
    crashes_max: u32,
    last_look: Option<Moment>,
    sweep_at: Moment,
    prune_at: Moment,
}

/// Retention is counted in days: once a minute is often enough.
const PRUNE_EVERY: Duration = Duration::from_secs(60);

impl Upkeep {
    /// Due at once, so that a restarted process takes back its own jobs first.
    pub fn new(sweep_every: Duration, crashes_max: u32, now: Moment) -> Self {
        Self {
            watch: LeaseWatch::default(),
            sweep_every,
            crashes_max,
            last_look: None,
            sweep_at: now,
            prune_at: now,
        }
    }

    /// What is due at `now`.
    pub fn due(&mut self, now: Moment) -> Vec<Duty> {
        let mut duties = Vec::new();
        if now >= self.sweep_at {
            self.sweep_at = now.saturating_add(self.sweep_every);
            duties.extend([Duty::Look, Duty::Sweep]);
        }
        if now >= self.prune_at {
            self.prune_at = now.saturating_add(PRUNE_EVERY);
            duties.push(Duty::Prune);
        }
        duties
    }

    /// Workers were read. Asks for a rescue of those that are dead, and of jobs that an earlier rescue left.
    pub fn sighted(&mut self, workers: &[WorkerSighting], now: Moment) -> Duty {
        let elapsed = self.last_look.map_or(Duration::ZERO, |last| now.saturating_sub(last));
        self.last_look = Some(now);
        let silent = self.watch.observe(workers, elapsed, self.sweep_every);
        Duty::Rescue(RescueRequest { silent, crashes_max: self.crashes_max, limit: UPKEEP_BATCH_MAX })
    }

    /// A rescue was answered; asks for another if there is more.
    pub fn rescued(&self, rescued: &Rescued) -> Option<Duty> {
        let again = RescueRequest { silent: vec![], crashes_max: self.crashes_max, limit: UPKEEP_BATCH_MAX };
        rescued.more.then_some(Duty::Rescue(again))
    }

    /// When something is due even if nothing happens.
    pub fn wake_at(&self) -> Moment {
        self.sweep_at.min(self.prune_at)
    }
}
