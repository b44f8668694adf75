//! Decides which workers are dead. A worker is dead when its lease has run out by the store's clock *and*
//! this observer has seen its heartbeat counter unchanged for long enough on its own monotonic clock,
//! over spans in which heartbeats could be stored. Nothing less is enough: a step of the store's clock
//! expires every lease at once, a frozen store stops every counter, and so does a store with a full disk,
//! which can still be read.

use std::collections::HashMap;
use std::time::Duration;

use crate::planted::{Bug, planted};
use crate::worker::{ProofOfLife, WorkerId, WorkerSighting};

/// What one observer has read of the workers' heartbeats.
#[derive(Debug)]
pub struct LeaseWatch {
    pace: WatchPace,
    others: HashMap<WorkerId, Seen>,
    /// The observer's own last stored heartbeat, as its worker and its counter.
    own: Option<(WorkerId, u64)>,
    /// The time since that heartbeat.
    span: Duration,
    /// The number of the observer's heartbeats that had failed by then.
    failed: u64,
}

/// The process that observes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Own {
    /// Its worker, which is among the workers that are read once it has registered.
    pub worker: WorkerId,
    /// The number of its heartbeats that have failed, or were not answered in time, since it started.
    pub failed: u64,
}

/// How often the observer acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchPace {
    /// The time between two heartbeats of its own.
    pub heartbeat: Duration,
    /// The time between two reads of all workers.
    pub sweep: Duration,
}

impl WatchPace {
    /// Returns the longest time between two of the observer's own heartbeats that are stored on time: one
    /// interval, and the time until the observer reads again. After a longer span, some could not be
    /// stored.
    fn span_max(self) -> Duration {
        self.heartbeat.saturating_add(self.sweep)
    }

    /// Returns for how long a worker must be seen silent, which is longer than a live worker can be. When
    /// heartbeats fail to be stored from one moment on, the last heartbeat of a worker may be an interval
    /// old, which is at most half its lease. The observer notices that moment when its own next heartbeat
    /// is overdue: a span after it has seen its last one, which it sees a sweep after it was stored.
    fn silence_min(self, lease: Duration) -> Duration {
        lease.max((lease / 2).saturating_add(self.span_max()).saturating_add(self.sweep))
    }
}

/// A worker whose heartbeat counter is unchanged.
#[derive(Debug, Clone, Copy)]
struct Seen {
    beats: u64,
    /// How long it has been silent, up to the observer's own last heartbeat: heartbeats could be stored
    /// all that time.
    silent: Duration,
    /// How long it has been silent since then. It counts only while the observer's next heartbeat is not
    /// overdue.
    pending: Duration,
}

/// A worker to be declared dead, if its counter is still unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suspicion {
    /// The worker.
    pub worker: WorkerId,
    /// Its heartbeat counter as read.
    pub beats: u64,
}

impl LeaseWatch {
    /// Creates an observer that has seen no worker yet.
    pub fn new(pace: WatchPace) -> Self {
        Self { pace, others: HashMap::new(), own: None, span: Duration::ZERO, failed: 0 }
    }

    /// Processes a read of the workers from the store, and returns the suspected ones. The observer never
    /// suspects its own worker. `elapsed` is the time since the last successful read, by this process's
    /// monotonic clock. A gap longer than a sweep counts as one sweep: while the store cannot be read, it
    /// cannot be written either.
    ///
    /// A store that can be read may refuse every write, or most of them. So the silence of others counts
    /// only over spans at whose end the observer has stored a heartbeat of its own, on time, and in which
    /// none of its heartbeats failed. An observer that stores none suspects no worker.
    pub fn observe(&mut self, own: Own, sightings: &[WorkerSighting], elapsed: Duration) -> Vec<Suspicion> {
        let counted = elapsed.min(self.pace.sweep);
        self.others.retain(|id, _| sightings.iter().any(|sighting| sighting.card.id == *id));
        let stored = self.has_stored(own.worker, sightings);
        self.span = self.span.saturating_add(counted);
        let in_time = self.span <= self.pace.span_max() && self.failed == own.failed;
        let on_time = in_time || planted(Bug::SilenceOfAFullStoreCounts);
        if stored {
            (self.span, self.failed) = (Duration::ZERO, own.failed);
        }
        let now = Look { counted, on_time, stored };
        let others = sightings.iter().filter(|sighting| sighting.card.id != own.worker);
        others.filter_map(|sighting| self.judge(sighting, now)).collect()
    }

    /// Whether the observer's own worker has stored a heartbeat since the last read. Two reads may be
    /// answered in reverse order, so a counter that went back says nothing.
    fn has_stored(&mut self, own: WorkerId, sightings: &[WorkerSighting]) -> bool {
        let Some(sighting) = sightings.iter().find(|sighting| sighting.card.id == own) else { return false };
        let is_older = |(worker, beats)| worker == own && beats >= sighting.beats;
        if self.own.is_some_and(is_older) {
            return false;
        }
        self.own = Some((own, sighting.beats));
        true
    }

    fn judge(&mut self, sighting: &WorkerSighting, now: Look) -> Option<Suspicion> {
        let fresh = Seen { beats: sighting.beats, silent: Duration::ZERO, pending: Duration::ZERO };
        let seen = self
            .others
            .entry(sighting.card.id)
            .and_modify(|seen| if seen.beats == fresh.beats { seen.go_on(now) } else { *seen = fresh })
            .or_insert(fresh);
        let is_silent = sighting.expired && seen.counts(now) >= self.pace.silence_min(sighting.card.lease);
        let is_dead = is_silent || sighting.proof == ProofOfLife::Gone;
        is_dead.then_some(Suspicion { worker: sighting.card.id, beats: sighting.beats })
    }
}

/// What a read says about the time since the previous read.
#[derive(Debug, Clone, Copy)]
struct Look {
    counted: Duration,
    /// The observer's own next heartbeat is not overdue, and has not failed.
    on_time: bool,
    /// The observer has stored a heartbeat.
    stored: bool,
}

impl Seen {
    fn go_on(&mut self, now: Look) {
        self.pending = self.pending.saturating_add(now.counted);
        if now.stored {
            self.silent = self.counts(now);
            self.pending = Duration::ZERO;
        }
    }

    fn counts(&self, now: Look) -> Duration {
        if now.on_time { self.silent.saturating_add(self.pending) } else { self.silent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;
    use crate::worker::WorkerCard;

    const LEASE: Duration = Duration::from_secs(30);
    const PACE: WatchPace = WatchPace { heartbeat: Duration::from_secs(10), sweep: Duration::from_secs(5) };
    const OWN: WorkerId = WorkerId::from_random(1);
    const NONE_FAILED: Own = Own { worker: OWN, failed: 0 };
    const OTHER: WorkerId = WorkerId::from_random(2);

    fn sighting(id: WorkerId, beats: u64, expired: bool) -> WorkerSighting {
        let card = WorkerCard {
            id,
            host: String::new(),
            pid: 1,
            version: String::new(),
            queues: vec![],
            types: vec![],
            duties: Vec::new(),
            slots: 0,
            lease: LEASE,
        };
        WorkerSighting {
            card,
            since: Timestamp::EPOCH,
            beats,
            expired,
            silent_for: Duration::ZERO,
            proof: ProofOfLife::None,
            running: 0,
            clock_ahead_micros: None,
        }
    }

    fn other(beats: u64, expired: bool) -> WorkerSighting {
        sighting(OTHER, beats, expired)
    }

    /// An observer that reads once in a sweep, and whose own heartbeats are stored on time unless a test
    /// says otherwise.
    struct Observer {
        watch: LeaseWatch,
        sweeps: u64,
        own_heartbeats: u64,
        failed: u64,
    }

    impl Observer {
        fn new() -> Self {
            Self { watch: LeaseWatch::new(PACE), sweeps: 0, own_heartbeats: 0, failed: 0 }
        }

        fn look(&mut self, other: WorkerSighting) -> bool {
            self.own_heartbeats = self.sweeps / 2;
            self.look_only(other)
        }

        /// Reads while none of the observer's own heartbeats is stored.
        fn look_only(&mut self, other: WorkerSighting) -> bool {
            self.look_after(PACE.sweep, other)
        }

        fn look_after(&mut self, elapsed: Duration, other: WorkerSighting) -> bool {
            self.sweeps += 1;
            let sightings = [sighting(OWN, self.own_heartbeats, false), other];
            let own = Own { worker: OWN, failed: self.failed };
            !self.watch.observe(own, &sightings, elapsed).is_empty()
        }
    }

    /// Returns after how many sweeps the other worker is suspected, of at most 100.
    fn sweeps_until_suspected(mut look: impl FnMut(u64) -> WorkerSighting) -> Option<u64> {
        let mut observer = Observer::new();
        (0..100).find(|sweep| observer.look(look(*sweep)))
    }

    #[test]
    fn a_silent_worker_is_suspected_after_a_lease_and_a_sweep_of_watching() {
        assert_eq!(sweeps_until_suspected(|_| other(7, true)), Some(7));
    }

    #[test]
    fn a_worker_that_beats_is_never_suspected_even_if_a_clock_step_expired_it() {
        assert_eq!(sweeps_until_suspected(|sweep| other(sweep, true)), None);
    }

    #[test]
    fn a_worker_whose_lease_holds_is_never_suspected() {
        assert_eq!(sweeps_until_suspected(|_| other(7, false)), None);
    }

    #[test]
    fn a_frozen_store_declares_no_worker_dead() {
        let mut observer = Observer::new();
        assert!(!observer.look(other(7, false)));
        let hour = Duration::from_secs(3600);
        assert!(!observer.look_after(hour, other(7, true)), "the gap counts as one sweep");
        assert!(!observer.look(other(8, false)));
    }

    #[test]
    fn a_store_that_can_be_read_but_not_written_declares_no_live_worker_dead_however_long() {
        for sweeps in [2, 3, 4, 6, 10, 100, 10_000] {
            for age in 0..=2 {
                let mut observer = Observer::new();
                (0..4).for_each(|_| assert!(!observer.look(other(6, false))));
                (0..age).for_each(|_| assert!(!observer.look(other(7, false)), "its heartbeats are on time"));
                for sweep in 0..sweeps {
                    assert!(!observer.look_only(other(7, sweep >= 3)), "sweep {sweep} of {sweeps}, {age}");
                }
                observer.own_heartbeats += 1;
                assert!(
                    !observer.look_only(other(7, true)),
                    "the first write after {sweeps} is the observer's"
                );
                assert!(!observer.look_only(other(8, false)));
            }
        }
    }

    #[test]
    fn a_worker_that_dies_while_the_store_is_full_is_suspected_a_lease_after_it_can_be_written() {
        let mut observer = Observer::new();
        (0..20).for_each(|_| assert!(!observer.look_only(other(7, true))));
        let sweeps = (0..100).find(|_| observer.look(other(7, true)));
        assert_eq!(sweeps, Some(7), "counted from the observer's first heartbeat");
    }

    #[test]
    fn a_span_in_which_a_heartbeat_of_the_observer_failed_does_not_count_though_the_next_one_was_stored() {
        let mut observer = Observer::new();
        (0..100).for_each(|sweep| {
            // Every second heartbeat of the observer fails, and is soon stored after all.
            observer.failed = sweep / 2;
            assert!(!observer.look(other(7, true)));
        });
        let sweeps = (0..100).find(|_| observer.look(other(7, true)));
        assert!(sweeps.is_some(), "without failures it is suspected after all");
    }

    #[test]
    fn two_looks_that_are_answered_in_the_other_order_prove_nothing_twice() {
        let mut watch = LeaseWatch::new(PACE);
        let own = |beats| [sighting(OWN, beats, false), other(7, true)];
        watch.observe(NONE_FAILED, &own(5), PACE.sweep);
        for _ in 0..100 {
            assert_eq!(watch.observe(NONE_FAILED, &own(4), PACE.sweep), []);
            assert_eq!(watch.observe(NONE_FAILED, &own(5), PACE.sweep), []);
        }
    }

    #[test]
    fn an_observer_that_has_no_worker_of_its_own_suspects_none() {
        let mut watch = LeaseWatch::new(PACE);
        (0..100).for_each(|_| assert_eq!(watch.observe(NONE_FAILED, &[other(7, true)], PACE.sweep), []));
    }

    #[test]
    fn an_observer_never_suspects_itself() {
        let mut watch = LeaseWatch::new(PACE);
        let own = |beats| WorkerSighting { proof: ProofOfLife::Gone, ..sighting(OWN, beats, true) };
        (0..100).for_each(|sweep| assert_eq!(watch.observe(NONE_FAILED, &[own(sweep / 20)], PACE.sweep), []));
    }

    #[test]
    fn a_worker_with_a_lease_that_is_short_beside_the_observers_heartbeats_is_watched_for_longer() {
        let card = |lease| WorkerCard { lease, ..other(7, true).card };
        let short = WorkerSighting { card: card(Duration::from_secs(10)), ..other(7, true) };
        assert_eq!(sweeps_until_suspected(|_| short.clone()), Some(5));
        let long = WorkerSighting { card: card(Duration::from_secs(60)), ..other(7, true) };
        assert_eq!(sweeps_until_suspected(|_| long.clone()), Some(12));
    }

    #[test]
    fn a_process_that_is_known_to_be_gone_is_suspected_at_once() {
        let gone = WorkerSighting { proof: ProofOfLife::Gone, ..other(7, false) };
        assert_eq!(sweeps_until_suspected(|_| gone.clone()), Some(0));
    }

    #[test]
    fn a_process_that_exists_is_still_judged_by_its_lease() {
        let stuck = WorkerSighting { proof: ProofOfLife::Exists, ..other(7, true) };
        assert_eq!(sweeps_until_suspected(|_| stuck.clone()), Some(7));
    }
}
