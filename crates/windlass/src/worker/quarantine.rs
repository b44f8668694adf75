//! Of the jobs whose worker has died twice, a process runs one at a time, whichever pool it is in. If it
//! kills the process a third time, it was alone, and no innocent neighbour reaches its own third crash.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use windlass_core::job::Counters;

/// Crashes from which on a job runs alone in its process.
const CRASHES_ALONE: u32 = 2;

/// The one place of a process for jobs with two crashes, shared by its pools.
#[derive(Debug, Clone, Default)]
pub struct Quarantine {
    taken: Arc<AtomicBool>,
    mine: Mine,
}

/// For what a pool has the place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Mine {
    /// It has not.
    #[default]
    No,
    /// For a claim under way, which may bring a job that needs it.
    ForClaim,
    /// For a job, until it ends.
    ForJob,
}

impl Quarantine {
    /// A pool is about to claim a suspect. Gives the number of crashes that it may have at the most.
    pub fn enter(&mut self) -> u32 {
        if self.mine == Mine::No && !self.taken.swap(true, Ordering::SeqCst) {
            self.mine = Mine::ForClaim;
        }
        if self.mine == Mine::ForClaim { u32::MAX } else { CRASHES_ALONE - 1 }
    }

    /// The claim was answered: the place is kept only for a job that needs it.
    pub fn claimed(&mut self, counters: Option<&Counters>) {
        let needed = counters.is_some_and(|counters| counters.crashes >= CRASHES_ALONE);
        match self.mine {
            Mine::ForClaim if needed => self.mine = Mine::ForJob,
            Mine::ForClaim => self.leave(),
            Mine::No | Mine::ForJob => {}
        }
    }

    /// A job ended, or left this process without having run.
    pub fn ended(&mut self, counters: &Counters) {
        if self.mine == Mine::ForJob && counters.crashes >= CRASHES_ALONE {
            self.leave();
        }
    }

    fn leave(&mut self) {
        self.mine = Mine::No;
        self.taken.store(false, Ordering::SeqCst);
    }

    /// Another pool's view of the same place.
    pub fn shared(&self) -> Self {
        Self { taken: Arc::clone(&self.taken), mine: Mine::No }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crashed(crashes: u32) -> Counters {
        Counters { crashes, ..Counters::default() }
    }

    #[test]
    fn of_jobs_with_two_crashes_one_runs_at_a_time_in_a_process() {
        let mut one = Quarantine::default();
        let mut other = one.shared();
        assert_eq!(one.enter(), u32::MAX);
        one.claimed(Some(&crashed(2)));
        assert_eq!(other.enter(), 1, "the place is taken");
        other.claimed(Some(&crashed(1)));
        one.ended(&crashed(2));
        assert_eq!(other.enter(), u32::MAX);
    }

    #[test]
    fn a_job_with_one_crash_does_not_keep_the_place() {
        let mut quarantine = Quarantine::default();
        quarantine.enter();
        quarantine.claimed(Some(&crashed(1)));
        assert_eq!(quarantine.shared().enter(), u32::MAX);
    }

    #[test]
    fn a_pool_that_asks_for_another_suspect_does_not_forget_that_it_has_the_place() {
        let mut quarantine = Quarantine::default();
        quarantine.enter();
        quarantine.claimed(Some(&crashed(2)));
        assert_eq!(quarantine.enter(), 1, "the place is taken, by this very pool");
        quarantine.claimed(Some(&crashed(1)));
        assert_eq!(quarantine.shared().enter(), 1, "it still is");
        quarantine.ended(&crashed(2));
        assert_eq!(quarantine.shared().enter(), u32::MAX);
    }
}
