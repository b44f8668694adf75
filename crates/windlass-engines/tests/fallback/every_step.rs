//! A process that replays jobs may die, or lose an answer, at every step. Each acknowledged job is run once
//! all the same, in one of the two stores. Both stores are in memory, and the process between them is
//! created anew after each death.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinSet, LocalSet};
use windlass_core::claim::ClaimAnswer;
use windlass_core::clock::ManualClock;
use windlass_core::engine::Engine;
use windlass_core::enqueue::NewJob;
use windlass_core::key::KeyClaim;
use windlass_core::names::Key;
use windlass_core::settle::{AttemptReport, Settled, Transition};
use windlass_core::spool::Spool;
use windlass_core::worker::WorkerId;
use windlass_engines::fallback::{Connect, FallbackEngine, FallbackOptions, KeysWhileAway};
use windlass_engines::memory::MemoryEngine;

use crate::primary::{card, claim_request, declaration, job, quick, request, until};
use crate::shaky::{FAULTS, Fault, Life, Seen};

/// An upper limit for the steps of one life; no life in these tests has more.
const STEPS_MAX: usize = 40;
const HISTORIES: u64 = 150;
const WORKER: WorkerId = WorkerId::from_random(7);

/// Two stores, and how often each job was run.
struct World {
    clock: Arc<ManualClock>,
    primary: Arc<dyn Engine>,
    spool: Arc<dyn Spool>,
    runs: BTreeMap<usize, u32>,
    acknowledged: usize,
}

impl World {
    /// Creates plain jobs, a job with a key, a batch that the primary has without having answered, and a
    /// batch that it does not have.
    async fn new() -> Self {
        let clock = Arc::new(ManualClock::default());
        let primary: Arc<dyn Engine> = Arc::new(MemoryEngine::with_clock(clock.clone()));
        let spool: Arc<dyn Spool> = Arc::new(MemoryEngine::for_spool_with_clock(clock.clone()));
        for store in [Arc::clone(&primary), Arc::<dyn Spool>::clone(&spool) as Arc<dyn Engine>] {
            store.declare(declaration()).await.unwrap();
            store.register(card(WORKER)).await.unwrap();
        }
        let (known, unknown) = (request(vec![job(0), job(1)]), request(vec![job(2), job(3)]));
        primary.enqueue(known.clone()).await.unwrap();
        for batch in [known, unknown] {
            spool.enqueue_staged(batch, Duration::ZERO).await.unwrap();
        }
        let keyed = NewJob { key: Some(KeyClaim::new(Key::parse("mine").unwrap())), ..job(5) };
        spool.enqueue(request(vec![job(4), keyed, job(6), job(7)])).await.unwrap();
        clock.advance(Duration::from_secs(1));
        Self { clock, primary, spool, runs: BTreeMap::new(), acknowledged: 8 }
    }

    /// Replays jobs until the process dies or all are replayed. Returns the number of steps.
    async fn live(&self, life: &Arc<Life>) -> usize {
        let primary = Arc::new(Seen { store: Arc::clone(&self.primary), life: Arc::clone(life) });
        let spool = Arc::new(Seen { store: Arc::clone(&self.spool), life: Arc::clone(life) });
        let connect: Connect = Arc::new(move || {
            let primary = Arc::clone(&primary);
            Box::pin(async move { Ok(primary as Arc<dyn Engine>) })
        });
        let options = FallbackOptions { keys: KeysWhileAway::Accept, ..quick() };
        let engine = FallbackEngine::open("primary", connect, spool, options).await.unwrap();
        // Each poll lets some time pass, so that a live process finds the jobs that a dead one left behind.
        let is_replayed = async || {
            self.clock.advance(Duration::from_millis(20));
            self.in_spool().await == 0
        };
        tokio::select! {
            () = life.died() => {}
            () = until(&engine, "all jobs are replayed", is_replayed) => {}
        }
        life.steps()
    }

    async fn in_spool(&self) -> u64 {
        self.spool.queues().await.unwrap().iter().map(|queue| queue.counts.unfinished()).sum()
    }

    /// Workers of both stores run every job that they claim.
    async fn work(&mut self) {
        for store in [Arc::clone(&self.primary), Arc::<dyn Spool>::clone(&self.spool) as Arc<dyn Engine>] {
            let asked = claim_request(WORKER, 100);
            let ClaimAnswer::Claimed { jobs, .. } = store.claim(asked).await.unwrap() else {
                panic!("the worker is live")
            };
            for claimed in jobs {
                *self.runs.entry(claimed.job.payload.decode().unwrap()).or_default() += 1;
                let end = claimed.settled(Transition::Succeed { result: None }, AttemptReport::default());
                assert_eq!(store.settle(vec![end]).await.unwrap(), [Settled::Applied]);
            }
        }
    }

    /// Lets enough time pass that no process waits for a dead one any more.
    fn time_passes(&self) {
        self.clock.advance(Duration::from_secs(20));
    }
}

/// One fault of one process. It also says whether workers run jobs, and whether pending calls are done,
/// before the next fault.
#[derive(Debug, Clone, Copy)]
struct PlannedFault {
    at: usize,
    fault: Fault,
    works_after: bool,
    done_before_next: bool,
}

/// Lets processes die one after the other; the last one does not, and every job was run once. Returns the
/// steps of the first.
async fn history(plan: Vec<PlannedFault>) -> usize {
    let mut world = World::new().await;
    let (mut lives, mut steps) = (Vec::new(), Vec::new());
    for planned in &plan {
        let life = Life::new(Some((planned.at, planned.fault)));
        steps.push(world.live(&life).await);
        if planned.works_after {
            world.work().await;
        }
        world.time_passes();
        if planned.done_before_next {
            life.let_be_done().await;
        }
        lives.push(life);
    }
    world.live(&Life::new(None)).await;
    for life in lives {
        life.let_be_done().await;
    }
    world.time_passes();
    world.live(&Life::new(None)).await;
    world.work().await;
    let once: BTreeMap<_, _> = (0..world.acknowledged).map(|number| (number, 1)).collect();
    assert_eq!(world.runs, once, "{plan:?}");
    assert_eq!(world.in_spool().await, 0, "{plan:?}");
    steps.first().copied().unwrap_or_default()
}

#[tokio::test]
async fn a_process_that_dies_or_loses_an_answer_at_any_step_of_the_replay_leaves_each_job_in_one_place() {
    let (here, mut histories) = (LocalSet::new(), JoinSet::new());
    for at in 0..STEPS_MAX {
        for fault in FAULTS {
            for works_after in [true, false] {
                let planned = PlannedFault { at, fault, works_after, done_before_next: !works_after };
                histories.spawn_local_on(async move { (at, history(vec![planned]).await) }, &here);
            }
        }
    }
    let (mut struck, mut whole) = (0, 0);
    for (at, steps) in here.run_until(histories.join_all()).await {
        if at < steps { struck += 1 } else { whole = whole.max(steps) }
    }
    assert!(struck >= 100, "most faults occur: {struck} did");
    assert!((10..STEPS_MAX).contains(&whole), "a complete replay has {whole} steps; raise STEPS_MAX");
}

#[tokio::test]
async fn however_many_processes_die_one_after_the_other_during_the_replay_each_job_is_run_once() {
    let (here, mut histories) = (LocalSet::new(), JoinSet::new());
    for seed in 0..HISTORIES {
        let mut rng = fastrand::Rng::with_seed(seed);
        let plan = (0..rng.usize(2..5)).map(|_| PlannedFault {
            at: rng.usize(0..20),
            fault: FAULTS[rng.usize(0..FAULTS.len())],
            works_after: rng.bool(),
            done_before_next: rng.bool(),
        });
        histories.spawn_local_on(history(plan.collect()), &here);
    }
    here.run_until(histories.join_all()).await;
}
