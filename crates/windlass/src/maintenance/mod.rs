//! Maintenance: takes back the jobs of dead workers, cancels expired jobs, deletes jobs past their
//! retention. Each is a [duty](crate::duties) that one process does for all; the result is correct if two
//! do it at once.
//!
//! Pure: the store's answers go in, the next requests come out.

use std::time::Duration;

use windlass_core::admin::BatchDone;
use windlass_core::engine::{RescueRequest, Rescued};
use windlass_core::lease_watch::{LeaseWatch, Own, Suspicion, WatchPace};
use windlass_core::limits::MAINTENANCE_BATCH_MAX;
use windlass_core::worker::{ProofOfLife, WorkerSighting};

use crate::worker::Moment;

pub(crate) mod depth;

/// The next request of a maintenance run to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// Read all workers.
    Look,
    /// Take back the jobs of dead workers.
    Rescue(RescueRequest),
    /// Cancel expired jobs, park jobs whose type no live worker handles.
    Sweep,
    /// Delete jobs past their retention.
    Prune,
}

/// The store's answer to a request.
#[derive(Debug, Clone)]
pub enum Answer<'a> {
    /// All workers, and which of them is this process's own: its heartbeats prove that the heartbeats of
    /// others could be stored.
    Workers(&'a [WorkerSighting], Own),
    /// The result of a rescue.
    Rescued(&'a Rescued),
    /// The result of a batch of a sweep or a prune.
    Done(BatchDone),
}

/// The role of a process in rescue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Declares dead workers dead.
    Leader,
    /// Watches, so that it need not begin from nothing when it takes over; and takes back the jobs of
    /// processes that are gone for certain, which is right without waiting.
    StandBy,
}

/// The observations of one process about the other workers. They go on when leaders change.
#[derive(Debug)]
pub struct Observer {
    watch: LeaseWatch,
    crashes_max: u32,
    last_look: Option<Moment>,
}

impl Observer {
    /// Creates an observer that has seen no worker yet.
    pub fn new(pace: WatchPace, crashes_max: u32) -> Self {
        Self { watch: LeaseWatch::new(pace), crashes_max, last_look: None }
    }

    /// The request that follows an answer; none if the run is over. A run begins with [`Ask::Look`],
    /// [`Ask::Sweep`] or [`Ask::Prune`].
    pub fn next(&mut self, asked: &Ask, answer: &Answer<'_>, role: Role, now: Moment) -> Option<Ask> {
        match answer {
            Answer::Workers(workers, own) => self.sighted(workers, *own, role, now).map(Ask::Rescue),
            Answer::Rescued(rescued) => rescued.more.then(|| Ask::Rescue(self.rescue_of(Vec::new()))),
            Answer::Done(done) => done.more.then(|| asked.clone()),
        }
    }

    /// Takes in the workers that were read. A leader requests a rescue even if no worker is dead: an
    /// earlier rescue may have left jobs.
    fn sighted(
        &mut self,
        workers: &[WorkerSighting],
        own: Own,
        role: Role,
        now: Moment,
    ) -> Option<RescueRequest> {
        let elapsed = self.last_look.map_or(Duration::ZERO, |last| now.saturating_sub(last));
        self.last_look = Some(now);
        let silent = self.watch.observe(own, workers, elapsed);
        if role == Role::Leader {
            return Some(self.rescue_of(silent));
        }
        let is_gone = |suspicion: &Suspicion| {
            let of = workers.iter().find(|sighting| sighting.card.id == suspicion.worker);
            of.is_some_and(|sighting| sighting.proof == ProofOfLife::Gone)
        };
        let gone: Vec<_> = silent.into_iter().filter(is_gone).collect();
        (!gone.is_empty()).then(|| self.rescue_of(gone))
    }

    fn rescue_of(&self, silent: Vec<Suspicion>) -> RescueRequest {
        RescueRequest { silent, crashes_max: self.crashes_max, limit: MAINTENANCE_BATCH_MAX }
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::clock::Timestamp;
    use windlass_core::worker::{WorkerCard, WorkerId};

    use super::*;

    mod outages;

    const EVERY: Duration = Duration::from_secs(5);
    const LEASE: Duration = Duration::from_secs(30);
    const OWN: WorkerId = WorkerId::from_random(1);
    const OTHER: WorkerId = WorkerId::from_random(7);

    fn observer() -> Observer {
        Observer::new(WatchPace { heartbeat: EVERY * 2, sweep: EVERY }, 3)
    }

    fn silent(id: WorkerId, beats: u64, proof: ProofOfLife) -> WorkerSighting {
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
            expired: true,
            silent_for: LEASE,
            proof,
            running: 1,
            clock_ahead_micros: None,
        }
    }

    fn look(observer: &mut Observer, role: Role, proof: ProofOfLife, now: Moment) -> Option<usize> {
        let own_heartbeats = now.as_secs() / EVERY.as_secs() / 2;
        let workers = [silent(OWN, own_heartbeats, ProofOfLife::None), silent(OTHER, 7, proof)];
        match observer.next(
            &Ask::Look,
            &Answer::Workers(&workers, Own { worker: OWN, failed: 0 }),
            role,
            now,
        )? {
            Ask::Rescue(request) => Some(request.silent.len()),
            other => panic!("expected a rescue, got {other:?}"),
        }
    }

    #[test]
    fn one_that_stood_by_and_watched_declares_dead_at_its_first_look_as_leader() {
        let mut observer = observer();
        for seen in 0..7 {
            assert_eq!(look(&mut observer, Role::StandBy, ProofOfLife::None, EVERY * seen), None);
        }
        assert_eq!(look(&mut observer, Role::Leader, ProofOfLife::None, EVERY * 7), Some(1));
        assert_eq!(look(&mut super::tests::observer(), Role::Leader, ProofOfLife::None, EVERY), Some(0));
    }

    #[test]
    fn one_that_stands_by_takes_back_at_once_what_a_process_held_that_is_gone_for_certain() {
        assert_eq!(look(&mut observer(), Role::StandBy, ProofOfLife::Gone, Moment::ZERO), Some(1));
    }

    #[test]
    fn a_batch_is_followed_by_another_while_there_is_more() {
        let mut observer = observer();
        for asked in [Ask::Sweep, Ask::Prune] {
            let done = |more| Answer::Done(BatchDone { changed: 500, more });
            let next = observer.next(&asked, &done(true), Role::Leader, EVERY);
            assert_eq!(next, Some(asked.clone()));
            assert_eq!(observer.next(&asked, &done(false), Role::Leader, EVERY), None);
        }
        let left = Rescued { more: true, ..Rescued::default() };
        let asked = Ask::Rescue(observer.rescue_of(Vec::new()));
        assert_eq!(observer.next(&asked, &Answer::Rescued(&left), Role::Leader, EVERY), Some(asked));
    }
}
