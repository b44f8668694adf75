//! Upkeep: taking back the jobs of dead workers, cancelling what expired, deleting what is past its
//! retention. Every process does it; nothing here is wrong if two do it at once.
//!
//! Pure: what the store answered goes in, what to ask next comes out. The shell is in `shell`.

use std::collections::VecDeque;
use std::time::Duration;

use windlass_core::admin::BatchDone;
use windlass_core::engine::{RescueRequest, Rescued};
use windlass_core::lease_watch::{LeaseWatch, Suspicion};
use windlass_core::limits::UPKEEP_BATCH_MAX;
use windlass_core::worker::WorkerSighting;

use crate::worker::Moment;

mod depth;
pub(crate) mod shell;

/// What upkeep asks the store next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Duty {
    /// Read all workers; answer with [`Upkeep::sighted`].
    Look,
    /// Take back the jobs of dead workers; answer with [`Upkeep::rescued`].
    Rescue(RescueRequest),
    /// Cancel what expired, park what nobody handles; answer with [`Upkeep::done`].
    Sweep,
    /// Delete what is past its retention; answer with [`Upkeep::done`].
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
    /// Jobs of dead workers wait for nothing else.
    rescue: Option<RescueRequest>,
    /// What else is to be done, a batch of each in turn.
    rest: VecDeque<Duty>,
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
            rescue: None,
            rest: VecDeque::new(),
        }
    }

    /// What is to be done at `now`. However much there is to sweep and to prune, workers are looked at when it is time.
    pub fn next(&mut self, now: Moment) -> Option<Duty> {
        if now >= self.prune_at {
            self.prune_at = now.saturating_add(PRUNE_EVERY);
            self.add(Duty::Prune);
        }
        if now >= self.sweep_at {
            self.sweep_at = now.saturating_add(self.sweep_every);
            self.add(Duty::Sweep);
            return Some(Duty::Look);
        }
        self.rescue.take().map(Duty::Rescue).or_else(|| self.rest.pop_front())
    }

    fn add(&mut self, duty: Duty) {
        if !self.rest.contains(&duty) {
            self.rest.push_back(duty);
        }
    }

    /// A batch was swept or pruned. If there is more, it comes after what else waits.
    pub fn done(&mut self, duty: Duty, done: BatchDone) {
        if done.more {
            self.add(duty);
        }
    }

    /// Workers were read. Those that are dead are to be rescued, and jobs that an earlier rescue left.
    pub fn sighted(&mut self, workers: &[WorkerSighting], now: Moment) {
        let elapsed = self.last_look.map_or(Duration::ZERO, |last| now.saturating_sub(last));
        self.last_look = Some(now);
        let silent = self.watch.observe(workers, elapsed, self.sweep_every);
        self.rescue = Some(self.rescue_of(silent));
    }

    /// A rescue was answered; another follows if there is more.
    pub fn rescued(&mut self, rescued: &Rescued) {
        self.rescue = rescued.more.then(|| self.rescue_of(Vec::new()));
    }

    fn rescue_of(&self, silent: Vec<Suspicion>) -> RescueRequest {
        RescueRequest { silent, crashes_max: self.crashes_max, limit: UPKEEP_BATCH_MAX }
    }

    /// When there is something to do even if nothing happens.
    pub fn wake_at(&self) -> Moment {
        if self.rescue.is_some() || !self.rest.is_empty() {
            return Moment::ZERO;
        }
        self.sweep_at.min(self.prune_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(5);
    const MORE: BatchDone = BatchDone { changed: 500, more: true };

    fn upkeep() -> Upkeep {
        Upkeep::new(EVERY, 3, Moment::ZERO)
    }

    /// What is asked at a moment; nobody answers.
    fn asked(upkeep: &mut Upkeep, now: Moment) -> Vec<Duty> {
        std::iter::from_fn(|| upkeep.next(now)).collect()
    }

    #[test]
    fn at_once_it_looks_at_workers_and_then_prunes_and_sweeps() {
        let mut upkeep = upkeep();
        assert_eq!(asked(&mut upkeep, Moment::ZERO), [Duty::Look, Duty::Prune, Duty::Sweep]);
        assert_eq!(asked(&mut upkeep, EVERY), [Duty::Look, Duty::Sweep]);
        assert_eq!(upkeep.wake_at(), EVERY * 2);
    }

    #[test]
    fn however_much_is_past_its_retention_workers_are_looked_at_when_it_is_time() {
        let mut upkeep = upkeep();
        asked(&mut upkeep, Moment::ZERO);
        upkeep.done(Duty::Prune, MORE);
        for batch in 1..50 {
            let now = Duration::from_millis(100 * batch);
            assert_eq!(upkeep.next(now), Some(Duty::Prune));
            upkeep.done(Duty::Prune, MORE);
            assert_eq!(upkeep.wake_at(), Moment::ZERO, "there is more to do");
        }
        assert_eq!(upkeep.next(EVERY), Some(Duty::Look));
        upkeep.sighted(&[], EVERY);
        assert!(matches!(upkeep.next(EVERY), Some(Duty::Rescue(_))), "before all else");
        assert_eq!([upkeep.next(EVERY), upkeep.next(EVERY)], [Some(Duty::Prune), Some(Duty::Sweep)]);
    }

    #[test]
    fn sweeping_and_pruning_take_turns() {
        let mut upkeep = upkeep();
        assert_eq!(upkeep.next(Moment::ZERO), Some(Duty::Look));
        for _ in 0..3 {
            for duty in [Duty::Prune, Duty::Sweep] {
                assert_eq!(upkeep.next(Moment::ZERO), Some(duty.clone()));
                upkeep.done(duty, MORE);
            }
        }
    }
}
