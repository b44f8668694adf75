//! The faults themselves.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use windlass_conformance::history::FaultKind;
use windlass_core::admin::AttemptEnding;
use windlass_core::enqueue::NewJob;
use windlass_core::error::EngineError;
use windlass_core::job::JobId;
use windlass_core::payload::Payload;
use windlass_core::worker::{WorkerId, WorkerSighting};
use windlass_servers::Error;
use windlass_servers::proxy::Proxy;

use crate::plan::Fault;
use crate::run::Torture;
use crate::store::Store;
use crate::workers::surely::{after, at_last};
use crate::workers::words::{kind, request};

/// A worker that is stopped inside a transaction holds its rows until the server ends its session, half a
/// minute later.
const RESCUED_WITHIN: Duration = Duration::from_secs(90);

/// How many jobs are enqueued before a power cut: the number that two producers enqueue within a second or
/// two.
const LOST_MIN: u64 = 400;
/// The time after a restart that still counts as the fault. A worker that could send no heartbeat meanwhile
/// may be declared dead now, and jobs that were claimed before a process noticed the store's loss are
/// released.
const AFTERMATH: Duration = Duration::from_secs(1);
/// How long a store without memory stays without.
const FULL_FOR: Duration = Duration::from_secs(1);

impl Torture {
    pub(crate) async fn strike(&mut self, fault: Fault) {
        match fault {
            Fault::Kill => self.end_server(|store| store.kill()),
            Fault::PowerCut => self.cut_power().await,
            // Starting it again stops it cleanly first.
            Fault::Restart => self.end_server(|_| Ok(())),
            Fault::Cut => self.unrest(FaultKind::FailedCall, cut).await,
            Fault::Swallow => self.unrest(FaultKind::LostAnswer, swallow).await,
            Fault::FreezeWorker => self.freeze_worker().await,
            Fault::FreezeStore => self.freeze_store().await,
            Fault::ScriptFlush => self.flush_scripts().await,
            Fault::Full => self.fill().await,
        }
    }

    fn end_server(&mut self, end: fn(&mut dyn Store) -> Result<(), Error>) {
        let from = self.workers.shared_ledger.now();
        tokio::task::block_in_place(|| {
            end(&mut *self.store).unwrap();
            self.store.restart().unwrap();
        });
        let back = self.workers.shared_ledger.now();
        self.workers.shared_ledger.note_fault_until(FaultKind::StoreAway, None, from, back.plus(AFTERMATH));
        self.tally.ends.push((from, back));
    }

    /// Lets enough jobs come in before the power cut that something is lost.
    async fn cut_power(&mut self) {
        self.workers.let_work(LOST_MIN).await;
        self.end_server(|store| store.cut_power());
    }

    /// Injects the fault again and again; producers and workers make progress in between.
    async fn unrest(&mut self, kind: FaultKind, act: fn(&Proxy, &mut fastrand::Rng)) {
        let (start, from) = (Instant::now(), self.workers.shared_ledger.now());
        while start.elapsed() < self.plan.unrest {
            // may sleep: producers and workers must make progress between two faults.
            tokio::time::sleep(Duration::from_millis(self.rng.u64(20..120))).await;
            tokio::task::block_in_place(|| act(self.store.proxy(), &mut self.rng));
        }
        self.store.proxy().cut_after_answers(usize::MAX);
        self.workers.shared_ledger.note_fault(kind, None, from);
    }

    /// Flushes scripts again and again. This excuses no failure: a process that gets "unknown script" sends
    /// the script again.
    async fn flush_scripts(&mut self) {
        let start = Instant::now();
        while start.elapsed() < self.plan.unrest {
            tokio::task::block_in_place(|| self.store.forget_scripts());
            // may sleep: producers and workers must make progress between two faults.
            tokio::time::sleep(Duration::from_millis(self.rng.u64(5..50))).await;
        }
    }

    /// Fills the store. New jobs are refused meanwhile with a typed error; so are all other calls on
    /// servers whose scripts cannot continue.
    async fn fill(&mut self) {
        let from = self.workers.shared_ledger.now();
        tokio::task::block_in_place(|| self.store.set_full(true));
        self.is_told_that_it_is_full().await;
        // may sleep: this is how long the store is full.
        tokio::time::sleep(FULL_FOR).await;
        tokio::task::block_in_place(|| self.store.set_full(false));
        let back = self.workers.shared_ledger.now();
        self.workers.shared_ledger.note_fault_until(FaultKind::FailedCall, None, from, back.plus(AFTERMATH));
    }

    /// Waits for the error that the store is full. The first call may be the one that finds a connection
    /// broken by an earlier fault.
    async fn is_told_that_it_is_full(&self) {
        let request = request(vec![NewJob::new(kind(), Payload::default())]);
        loop {
            match self.engine.enqueue(request.clone()).await {
                Err(EngineError::Full { .. }) => return,
                Err(error) => after(&error).await,
                Ok(answers) => panic!("expected a full store, got {answers:?}"),
            }
        }
    }

    /// Freezes a process that holds jobs until they were taken back, and resumes it. The ends that it
    /// reports for them then are in the ledger once it works under another identity.
    async fn freeze_worker(&mut self) {
        let nth = self.rng.usize(..self.processes.len());
        loop {
            let pid = self.processes[nth].pid();
            let worker = self.holding(pid).await;
            let from = self.workers.shared_ledger.now();
            self.processes[nth].freeze();
            let held = RefCell::new(BTreeSet::new());
            let is_rescued = |seen: &[WorkerSighting]| {
                let now = tokio::task::block_in_place(|| self.store.held_by(worker));
                held.borrow_mut().extend(now.iter().copied());
                let is_dead = seen.iter().all(|sighting| sighting.card.id != worker);
                (is_dead && now.is_empty()).then_some(())
            };
            self.seen("a frozen worker is rescued", is_rescued).await;
            self.processes[nth].wake();
            self.seen("the worker comes back under another identity", |seen| of_process(seen, pid).map(drop))
                .await;
            // The fault is over only now: a claim that was answered while the process was frozen begins
            // after it was resumed.
            self.workers.shared_ledger.note_fault(FaultKind::Freeze, Some(worker.to_string()), from);
            let jobs = self.taken_back_from(worker, held.into_inner()).await;
            if !jobs.is_empty() {
                self.tally.rescued.push((worker, jobs));
                return;
            }
            // The process was stopped between two claims, without a job.
        }
    }

    /// Returns the jobs that were taken back from a worker. It had ended the others just before it was
    /// stopped.
    async fn taken_back_from(&self, worker: WorkerId, held: BTreeSet<JobId>) -> Vec<JobId> {
        let mut taken = Vec::new();
        for job in held {
            let attempts = at_last(|| self.engine.attempts(job)).await;
            if attempts.iter().any(|one| one.worker == worker && one.ending == AttemptEnding::Crashed) {
                taken.push(job);
            }
        }
        taken
    }

    /// Waits for all workers, also for the processes, which take a moment to start and would not find a
    /// server that is unavailable.
    pub(crate) async fn all_work(&self) {
        let are_here = |seen: &[WorkerSighting]| {
            self.processes.iter().all(|process| of_process(seen, process.pid()).is_some()).then_some(())
        };
        self.seen("every process works", are_here).await;
    }

    /// Returns the identity of a process at a moment at which it has jobs.
    async fn holding(&self, pid: u32) -> WorkerId {
        let holding = |seen: &[WorkerSighting]| {
            of_process(seen, pid).filter(|sighting| sighting.running > 0).map(|sighting| sighting.card.id)
        };
        self.seen("a process holds jobs", holding).await
    }

    /// Freezes the store. No worker could send a heartbeat meanwhile, and so no worker's silence counts.
    async fn freeze_store(&mut self) {
        let before = self.beating().await;
        let from = self.workers.shared_ledger.now();
        self.store.freeze().unwrap();
        // may sleep: this is how long the store is frozen.
        tokio::time::sleep(self.plan.freeze).await;
        self.store.thaw().unwrap();
        self.workers.shared_ledger.note_fault(FaultKind::StoreAway, None, from);
        let dead = |seen: &[WorkerSighting]| {
            let now = |old: &WorkerSighting| seen.iter().find(|new| new.card.id == old.card.id);
            let is_settled = before.iter().all(|old| now(old).is_none_or(|new| new.beats > old.beats + 1));
            let dead = before.iter().filter(|old| now(old).is_none()).map(|old| old.card.id);
            is_settled.then(|| dead.collect::<Vec<_>>())
        };
        let dead = self.seen("every worker sends heartbeats again", dead).await;
        self.tally.declared_dead.extend(dead);
    }

    /// Returns the live workers, at a moment at which each has just sent two heartbeats. A worker that
    /// registered, and never received the answer, is in the store and sends none.
    async fn beating(&self) -> Vec<WorkerSighting> {
        let (all, first) = (self.worker_count, RefCell::new(HashMap::new()));
        let beating = |seen: &[WorkerSighting]| {
            let mut first = first.borrow_mut();
            let mut has_beaten = |one: &WorkerSighting| {
                !one.expired && one.beats >= *first.entry(one.card.id).or_insert(one.beats) + 2
            };
            let beating: Vec<_> = seen.iter().filter(|one| has_beaten(one)).cloned().collect();
            (beating.len() == all).then_some(beating)
        };
        self.seen("every worker sends heartbeats", beating).await
    }

    /// Polls the workers until there is an answer.
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
            // may sleep: there is no signal for the acts of other processes.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn of_process(seen: &[WorkerSighting], pid: u32) -> Option<&WorkerSighting> {
    seen.iter().find(|sighting| sighting.card.pid == pid)
}

/// Cuts all connections, at once or in the middle of an answer.
fn cut(proxy: &Proxy, rng: &mut fastrand::Rng) {
    match rng.bool() {
        true => proxy.cut_all(),
        false => proxy.cut_after_answers(rng.usize(0..20_000)),
    }
}

/// Drops all answers of the server for a moment.
fn swallow(proxy: &Proxy, rng: &mut fastrand::Rng) {
    proxy.swallow_answers(true);
    // may sleep: this is how long answers are lost.
    std::thread::sleep(Duration::from_millis(rng.u64(1..150)));
    proxy.cut_all();
    proxy.swallow_answers(false);
    // A call that was made meanwhile has lost its answer too, and would wait for it.
    proxy.cut_all();
}
