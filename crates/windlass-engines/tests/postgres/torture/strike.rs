//! The faults themselves.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use windlass_conformance::history::FaultKind;
use windlass_core::engine::Engine;
use windlass_core::job::JobId;
use windlass_core::worker::{WorkerId, WorkerSighting};

use super::Torture;
use super::plan::Fault;
use crate::Place;
use crate::lost_answers::{cut, swallow};

/// A worker that is stopped inside a transaction holds its rows until the server ends its session, half a minute later.
const RESCUED_WITHIN: Duration = Duration::from_secs(90);

impl Torture {
    pub(super) async fn strike(&mut self, fault: Fault) {
        match fault {
            Fault::Kill => self.kill(),
            Fault::Cut => self.unrest(FaultKind::FailedCall, cut).await,
            Fault::Swallow => self.unrest(FaultKind::LostAnswer, swallow).await,
            Fault::FreezeWorker => self.freeze_worker().await,
            Fault::FreezeStore => self.freeze_store().await,
        }
    }

    fn kill(&mut self) {
        tokio::task::block_in_place(|| {
            self.crew.book.fault(FaultKind::StoreAway, || {
                self.server.kill().unwrap();
                self.server.restart().unwrap();
            });
        });
    }

    /// Again and again, with something happening in between.
    async fn unrest(
        &mut self,
        kind: FaultKind,
        act: fn(&windlass_servers::proxy::Proxy, &mut fastrand::Rng),
    ) {
        let (start, from) = (Instant::now(), self.crew.book.now());
        while start.elapsed() < self.plan.unrest {
            // may sleep: between two faults something must happen.
            tokio::time::sleep(Duration::from_millis(self.dice.u64(20..120))).await;
            tokio::task::block_in_place(|| act(&self.proxy, &mut self.dice));
        }
        self.proxy.cut_after_answers(usize::MAX);
        self.crew.book.note_fault(kind, None, from);
    }

    /// Stops a process that holds jobs until they were taken back, and wakes it. What it tells of them then is in the
    /// ledger once it works under another identity.
    async fn freeze_worker(&mut self) {
        let nth = self.dice.usize(..self.crew.processes.len());
        loop {
            let pid = self.crew.processes[nth].pid();
            let worker = self.holding(pid).await;
            let from = self.crew.book.now();
            self.crew.processes[nth].freeze();
            let is_rescued = |seen: &[WorkerSighting]| {
                let is_dead = seen.iter().all(|sighting| sighting.card.id != worker);
                (is_dead && held_by(&self.place, worker) == 0).then_some(())
            };
            self.seen("a worker that stands still is rescued", is_rescued).await;
            self.crew.processes[nth].wake();
            self.seen("it comes back under another identity", |seen| of_process(seen, pid).map(drop)).await;
            // Only now it is over: a claim that was answered while it stood still begins after it was woken.
            self.crew.book.note_fault(FaultKind::Freeze, Some(worker.to_string()), from);
            let jobs = taken_back_from(&self.place, worker);
            if !jobs.is_empty() {
                self.tally.robbed.push((worker, jobs));
                return;
            }
            // It was stopped between two claims, with nothing in its hands.
        }
    }

    /// The identity of a process at a moment at which it has jobs.
    async fn holding(&self, pid: u32) -> WorkerId {
        let holding = |seen: &[WorkerSighting]| {
            of_process(seen, pid).filter(|sighting| sighting.running > 0).map(|sighting| sighting.card.id)
        };
        self.seen("a process holds jobs", holding).await
    }

    /// Nobody could show a sign of life meanwhile, and so nobody's silence counts.
    async fn freeze_store(&mut self) {
        let before = self.beating().await;
        let from = self.crew.book.now();
        self.server.freeze().unwrap();
        // may sleep: so long the store stands still.
        tokio::time::sleep(self.plan.freeze).await;
        self.server.thaw().unwrap();
        self.crew.book.note_fault(FaultKind::StoreAway, None, from);
        let dead = |seen: &[WorkerSighting]| {
            let now = |old: &WorkerSighting| seen.iter().find(|new| new.card.id == old.card.id);
            let is_settled = before.iter().all(|old| now(old).is_none_or(|new| new.beats > old.beats + 1));
            let dead = before.iter().filter(|old| now(old).is_none()).map(|old| old.card.id);
            is_settled.then(|| dead.collect::<Vec<_>>())
        };
        let dead = self.seen("everybody shows signs of life again", dead).await;
        self.tally.declared_dead.extend(dead);
    }

    /// Everybody who works, at a moment at which each has just shown two signs of life. Somebody who registered, and never
    /// heard that it had, is in the store and shows none.
    async fn beating(&self) -> Vec<WorkerSighting> {
        let (everybody, first) = (self.crew.workers(), RefCell::new(HashMap::new()));
        let beating = |seen: &[WorkerSighting]| {
            let mut first = first.borrow_mut();
            let mut has_beaten = |one: &WorkerSighting| {
                !one.expired && one.beats >= *first.entry(one.card.id).or_insert(one.beats) + 2
            };
            let beating: Vec<_> = seen.iter().filter(|one| has_beaten(one)).cloned().collect();
            (beating.len() == everybody).then_some(beating)
        };
        self.seen("everybody shows signs of life", beating).await
    }

    /// Looks at the workers until there is an answer.
    async fn seen<T>(&self, what: &str, look: impl Fn(&[WorkerSighting]) -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            let seen = self.engine.workers().await;
            if let Some(answer) = seen.as_ref().ok().and_then(|seen| look(seen)) {
                return answer;
            }
            assert!(
                start.elapsed() < RESCUED_WITHIN,
                "expected within {RESCUED_WITHIN:?}: {what}; got {seen:?}"
            );
            // may sleep: there is no signal for what other processes do.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn of_process(seen: &[WorkerSighting], pid: u32) -> Option<&WorkerSighting> {
    seen.iter().find(|sighting| sighting.card.pid == pid)
}

fn held_by(place: &Place, worker: WorkerId) -> u64 {
    place.count(&format!("windlass.delayed_jobs WHERE {}", is(worker, "locked_by")))
}

fn taken_back_from(place: &Place, worker: WorkerId) -> Vec<JobId> {
    let jobs = place.sql(&format!(
        "SELECT job FROM windlass.attempts WHERE ending = 'crashed' AND {}",
        is(worker, "worker")
    ));
    jobs.lines().map(|job| JobId(job.parse().expect("a number"))).collect()
}

/// A worker is printed as the beginning of its number.
fn is(worker: WorkerId, column: &str) -> String {
    format!("replace({column}::text, '-', '') LIKE '{worker}%'")
}
