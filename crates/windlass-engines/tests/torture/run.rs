//! Injects faults in turn, until the plan is done; then everything is healed and judged.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::engine::Engine;

use crate::plan::{Fault, Plan};
use crate::process::Process;
use crate::report::{Report, Tally};
use crate::store::Store;
use crate::workers::Workers;
use crate::workers::words::declaration;

/// The pace of each producer.
const PACE: Duration = Duration::from_millis(4);
/// How many jobs are enqueued between two faults.
const BETWEEN: u64 = 50;
/// The number of workers in processes of their own.
const PROCESSES: usize = 2;

/// Injects the planned faults, prints them, and asserts that nothing is wrong.
pub(crate) async fn strike_as(plan: Plan, store: impl Store + 'static) -> Report {
    println!("\nfaults in turn: {plan:?}\n");
    let report = Torture::begin(Box::new(store), plan).await.run().await;
    println!("\n{report}\n");
    assert!(report.is_clean(), "{report}");
    assert!(report.jobs() >= 100, "expected a run worth checking, got {report}");
    report
}

pub(crate) struct Torture {
    pub(crate) plan: Plan,
    pub(crate) rng: fastrand::Rng,
    pub(crate) tally: Tally,
    pub(crate) store: Box<dyn Store>,
    /// The engine for queries, without a proxy.
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) workers: Workers,
    pub(crate) processes: Vec<Process>,
    /// The number of workers, here and in other processes.
    pub(crate) worker_count: usize,
}

impl Torture {
    /// Starts all producers, workers and processes.
    async fn begin(store: Box<dyn Store>, plan: Plan) -> Self {
        let engine = store.direct().await;
        engine.declare(declaration()).await.unwrap();
        let mut workers = Workers::new(plan.lease);
        workers.has_keys = true;
        let engines = store.engines().await;
        let worker_count = engines.len() + PROCESSES;
        for engine in engines {
            // Each engine declares, as in every process: a process that has declared something does so
            // again if the store has lost it.
            engine.declare(declaration()).await.unwrap();
            workers.producer(Arc::clone(&engine), PACE);
            workers.worker(Arc::clone(&engine));
            workers.rescuer(engine);
        }
        let processes =
            (0..PROCESSES).map(|_| Process::start(store.way(), &workers.shared_ledger, plan.process_lease));
        let (processes, rng) = (processes.collect(), fastrand::Rng::with_seed(plan.seed));
        Self { plan, rng, tally: Tally::default(), store, engine, workers, processes, worker_count }
    }

    async fn run(mut self) -> Report {
        let start = Instant::now();
        self.all_work().await;
        self.workers.let_work(BETWEEN).await;
        while self.tally.turns == 0 || !self.is_enough(start.elapsed()) {
            self.tally.turns += 1;
            for fault in self.plan.turn(self.tally.turns, &mut self.rng) {
                let began = Instant::now();
                self.strike(fault).await;
                self.workers.let_work(BETWEEN).await;
                *self.tally.faults.entry(fault).or_default() += 1;
                let (turn, at, took) = (self.tally.turns, start.elapsed().as_secs(), began.elapsed());
                let enqueued = self.workers.enqueued();
                println!(
                    "{at:>5} s  turn {turn:<4} {:<14} {took:>6.1?}  {enqueued} jobs enqueued",
                    fault.name()
                );
            }
        }
        self.judge().await
    }

    fn is_enough(&self, elapsed: Duration) -> bool {
        let killed =
            !self.plan.faults.contains(&Fault::Kill) || self.tally.count(Fault::Kill) >= self.plan.kills_min;
        elapsed >= self.plan.lasts && killed
    }

    async fn judge(self) -> Report {
        self.store.proxy().cut_after_answers(usize::MAX);
        let history =
            self.workers.end(&*self.engine, || self.processes.into_iter().for_each(Process::end)).await;
        // A session may be between two statements at this moment, and is not at the next.
        let start = Instant::now();
        let mut left_open = self.store.left_open();
        while left_open > 0 && start.elapsed() < Duration::from_secs(5) {
            left_open = self.store.left_open();
        }
        Report::new(self.tally, &history, self.store.may_lose(), left_open)
    }
}

/// The faults for every store, each as a test of the module that has `strike`.
macro_rules! faults_of_every_store {
    () => {
        #[tokio::test(flavor = "multi_thread")]
        async fn nothing_is_lost_or_done_twice_while_connections_are_cut_and_answers_are_swallowed_at_random()
        {
            strike(Plan::unrest()).await;
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn a_worker_that_is_stopped_until_its_jobs_were_rescued_settles_nothing_when_it_is_woken() {
            strike(Plan::short(&[Fault::FreezeWorker])).await;
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn no_worker_is_declared_dead_because_the_store_stood_still() {
            strike(Plan::short(&[Fault::FreezeStore])).await;
        }
    };
}
pub(crate) use faults_of_every_store;
