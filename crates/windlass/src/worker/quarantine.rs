//! The quarantine of suspects. A process holds one job at a time whose worker has died twice, whichever
//! pool the job is in. If such a job kills the process a third time, it was alone, and no innocent
//! neighbour reaches its own third crash. The place is held until the store has the job's end: a job that
//! has run and is not settled yet would be charged with the death too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use windlass_core::claim::{Claimed, Fence};

/// The number of crashes from which on a job runs alone in its process.
const CRASHES_ALONE: u32 = 2;

/// The one place of a process for jobs with two crashes, shared by its pools.
#[derive(Debug, Clone, Default)]
pub struct Quarantine {
    taken: Arc<AtomicBool>,
    mine: Mine,
}

/// What a pool holds the place for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Mine {
    /// The pool does not hold it.
    #[default]
    No,
    /// For a claim in flight, which may return a job that needs the place.
    ForClaim,
    /// For a job, until its end is stored.
    ForJob(Fence),
}

impl Quarantine {
    /// Prepares the claim of a suspect. Returns the highest number of crashes that the suspect may have.
    pub fn enter(&mut self) -> u32 {
        if self.mine == Mine::No && !self.taken.swap(true, Ordering::SeqCst) {
            self.mine = Mine::ForClaim;
        }
        if self.mine == Mine::ForClaim { u32::MAX } else { CRASHES_ALONE - 1 }
    }

    /// Takes in the answer to the claim: the place is kept only for a job that needs it.
    pub fn claimed(&mut self, job: Option<&Claimed>) {
        let needed = job.filter(|claimed| claimed.job.counters.crashes >= CRASHES_ALONE);
        match (self.mine, needed) {
            (Mine::ForClaim, Some(claimed)) => self.mine = Mine::ForJob(claimed.fence()),
            (Mine::ForClaim, None) => self.leave(),
            (Mine::No | Mine::ForJob(_), _) => {}
        }
    }

    /// Notes that this process no longer holds a job. Returns whether this frees the place.
    pub fn let_go(&mut self, fence: Fence) -> bool {
        let free = self.mine == Mine::ForJob(fence);
        if free {
            self.leave();
        }
        free
    }

    fn leave(&mut self) {
        self.mine = Mine::No;
        self.taken.store(false, Ordering::SeqCst);
    }

    /// The same place, as another pool sees it.
    pub fn shared(&self) -> Self {
        Self { taken: Arc::clone(&self.taken), mine: Mine::No }
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::claim::ClaimToken;

    use super::super::pool::tests::claimed;
    use super::*;

    fn crashed(crashes: u32) -> Claimed {
        claimed(i64::from(crashes), ClaimToken::from_random(1), crashes)
    }

    #[test]
    fn of_jobs_with_two_crashes_one_is_held_at_a_time_in_a_process() {
        let mut one = Quarantine::default();
        let mut other = one.shared();
        assert_eq!(one.enter(), u32::MAX);
        one.claimed(Some(&crashed(2)));
        assert_eq!(other.enter(), 1, "the place is taken");
        other.claimed(Some(&crashed(1)));
        assert!(!one.let_go(crashed(1).fence()), "another job says nothing about this one");
        assert!(one.let_go(crashed(2).fence()));
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
        assert_eq!(quarantine.enter(), 1, "the place is taken, by this same pool");
        quarantine.claimed(Some(&crashed(1)));
        assert_eq!(quarantine.shared().enter(), 1, "the place is still taken");
        quarantine.let_go(crashed(2).fence());
        assert_eq!(quarantine.shared().enter(), u32::MAX);
    }
}
