//! Who is dead? A worker whose lease has run out by the store's clock *and* whose heartbeat counter this
//! observer has seen unchanged for a whole lease on its own monotonic clock. Either alone is not enough: a
//! step of the store's clock expires every lease at once, and a frozen store stops every counter.

use std::collections::HashMap;
use std::time::Duration;

use crate::worker::{ProofOfLife, WorkerId, WorkerSighting};

/// What one observer has seen of the workers' heartbeats.
#[derive(Debug, Default)]
pub struct LeaseWatch {
    seen: HashMap<WorkerId, Seen>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    beats: u64,
    unchanged_for: Duration,
}

/// A worker to be declared dead, if its counter still stands where it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suspicion {
    /// The worker.
    pub worker: WorkerId,
    /// Its heartbeat counter as seen.
    pub beats: u64,
}

impl LeaseWatch {
    /// Takes in what was read from the store. `elapsed` is the time since the last successful read, by this
    /// process's monotonic clock; `sweep` is how often it means to read. A longer gap counts as one sweep:
    /// while nobody could read, nobody could write heartbeats either.
    pub fn observe(
        &mut self,
        sightings: &[WorkerSighting],
        elapsed: Duration,
        sweep: Duration,
    ) -> Vec<Suspicion> {
        let counted = elapsed.min(sweep);
        self.seen.retain(|id, _| sightings.iter().any(|sighting| sighting.card.id == *id));
        sightings.iter().filter_map(|sighting| self.judge(sighting, counted)).collect()
    }

    fn judge(&mut self, sighting: &WorkerSighting, counted: Duration) -> Option<Suspicion> {
        let fresh = Seen { beats: sighting.beats, unchanged_for: Duration::ZERO };
        let seen = self
            .seen
            .entry(sighting.card.id)
            .and_modify(|seen| {
                *seen = if seen.beats == sighting.beats {
                    Seen { unchanged_for: seen.unchanged_for + counted, ..*seen }
                } else {
                    fresh
                }
            })
            .or_insert(fresh);
        let silent = sighting.expired && seen.unchanged_for >= sighting.card.lease;
        let dead = silent || sighting.proof == ProofOfLife::Gone;
        dead.then_some(Suspicion { worker: sighting.card.id, beats: sighting.beats })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;
    use crate::worker::WorkerCard;

    const LEASE: Duration = Duration::from_secs(30);
    const SWEEP: Duration = Duration::from_secs(5);

    fn sighting(beats: u64, expired: bool) -> WorkerSighting {
        let card = WorkerCard {
            id: WorkerId::from_random(1),
            host: String::new(),
            pid: 1,
            version: String::new(),
            queues: vec![],
            types: vec![],
            duties: Vec::new(),
            slots: 0,
            lease: LEASE,
        };
        let proof = ProofOfLife::None;
        WorkerSighting {
            card,
            since: Timestamp::EPOCH,
            beats,
            expired,
            silent_for: Duration::ZERO,
            proof,
            running: 0,
            clock_ahead_micros: None,
        }
    }

    /// How many sweeps it takes until the worker is suspected, at most 100.
    fn sweeps_until_suspected(elapsed: Duration, mut look: impl FnMut(u64) -> WorkerSighting) -> Option<u64> {
        let mut watch = LeaseWatch::default();
        (0..100).find(|sweep| !watch.observe(&[look(*sweep)], elapsed, SWEEP).is_empty())
    }

    #[test]
    fn a_silent_worker_is_suspected_after_a_whole_lease_of_watching() {
        assert_eq!(sweeps_until_suspected(SWEEP, |_| sighting(7, true)), Some(6));
    }

    #[test]
    fn a_worker_that_beats_is_never_suspected_even_if_a_clock_step_expired_it() {
        assert_eq!(sweeps_until_suspected(SWEEP, |sweep| sighting(sweep, true)), None);
    }

    #[test]
    fn a_worker_whose_lease_holds_is_never_suspected() {
        assert_eq!(sweeps_until_suspected(SWEEP, |_| sighting(7, false)), None);
    }

    #[test]
    fn a_frozen_store_declares_nobody_dead() {
        let hour = Duration::from_secs(3600);
        let mut watch = LeaseWatch::default();
        assert!(watch.observe(&[sighting(7, false)], SWEEP, SWEEP).is_empty());
        assert!(watch.observe(&[sighting(7, true)], hour, SWEEP).is_empty(), "the gap counts as one sweep");
        assert!(watch.observe(&[sighting(8, false)], SWEEP, SWEEP).is_empty());
    }

    #[test]
    fn a_process_that_is_known_to_be_gone_is_suspected_at_once() {
        let gone = WorkerSighting { proof: ProofOfLife::Gone, ..sighting(7, false) };
        let suspicion = Suspicion { worker: gone.card.id, beats: 7 };
        assert_eq!(LeaseWatch::default().observe(&[gone], SWEEP, SWEEP), [suspicion]);
    }

    #[test]
    fn a_process_that_exists_is_still_judged_by_its_lease() {
        let stuck = WorkerSighting { proof: ProofOfLife::Exists, ..sighting(7, true) };
        assert_eq!(sweeps_until_suspected(SWEEP, |_| stuck.clone()), Some(6));
    }
}
