//! A store that can be read but not written, as with a full disk, for longer than any lease. When it can be
//! written again, no live worker may be declared dead, and a dead one must be.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use windlass::duties::LeaseTiming;
use windlass::types::engine::Engine;
use windlass::types::job::{JobState, StoredState};
use windlass::types::queue::QueueSpec;
use windlass::types::worker::{WorkerId, WorkerSighting};
use windlass::{JobId, WorkerOptions};

use crate::bench::{Act, Bench, PATIENCE};

const LEASE: Duration = Duration::from_millis(2000);
const POLL_EVERY: Duration = Duration::from_millis(20);

/// The options of a worker. Rescue polls often and heartbeats are rare, so that the first write after the
/// fault would mostly be a rescue.
fn options() -> WorkerOptions {
    let queue = "default".parse().expect("a valid name");
    WorkerOptions {
        queues: vec![QueueSpec { concurrency: 1, ..QueueSpec::new(queue) }],
        lease: LEASE,
        heartbeat_every: Duration::from_millis(900),
        sweep_every: Duration::from_millis(100),
        duty_leases: LeaseTiming {
            heartbeat: Duration::from_millis(100),
            expiry: Duration::from_millis(500),
        },
        ..WorkerOptions::default()
    }
}

/// Three workers, each with a job that runs until it is cancelled.
pub(crate) struct Three {
    benches: Vec<Bench>,
    jobs: Vec<JobId>,
}

impl Three {
    /// Starts the workers. `open` opens the store as another process would.
    pub(crate) async fn start<F: Future<Output = Arc<dyn Engine>>>(open: impl Fn() -> F) -> Self {
        let (mut benches, mut jobs) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let mut bench = Bench::on(open().await, options()).await;
            // The earlier workers are busy with their own jobs.
            jobs.push(bench.put(Act::WaitForCancel).await);
            bench.started().await;
            benches.push(bench);
        }
        Self { benches, jobs }
    }

    /// The store that has the jobs: the spool, if there is one.
    fn store(&self) -> Arc<dyn Engine> {
        let engine = &self.benches[0].engine;
        engine.spool().unwrap_or_else(|| Arc::clone(engine))
    }

    /// Waits until no worker could store a heartbeat for two leases.
    pub(crate) async fn fall_silent(&self) {
        let all_silent = |workers: &[WorkerSighting]| workers.iter().all(|w| w.silent_for > LEASE * 2);
        until(&self.store(), all_silent).await;
    }

    /// Checks, when the store can be written again, that every worker sends several heartbeats and still
    /// has its job.
    pub(crate) async fn live_on(mut self) {
        let before = beats(&workers(&self.store()).await);
        let all_heard = |workers: &[WorkerSighting]| {
            let now = beats(workers);
            before.keys().all(|id| now.get(id).is_none_or(|beats| *beats >= before[id] + 4))
        };
        until(&self.store(), all_heard).await;
        let after = beats(&workers(&self.store()).await);
        assert_eq!(
            before.keys().collect::<Vec<_>>(),
            after.keys().collect::<Vec<_>>(),
            "each worker has kept its identity"
        );
        for id in &self.jobs {
            let record =
                self.store().job(*id).await.expect("the store can be read").expect("the job is known");
            assert!(matches!(record.state, StoredState::Running { .. }), "{record:?}");
            assert_eq!((record.job.counters.attempts, record.job.counters.crashes), (1, 0), "job {id}");
            // A store with a short timeout may refuse a call while the workers write.
            while let Err(error) = self.store().cancel(*id, "the test is over").await {
                assert!(error.is_passing(), "{error:?}");
            }
            self.benches[0].until(*id, JobState::Cancelled).await;
        }
        for bench in &mut self.benches {
            bench.worker.stop().await;
        }
    }
}

fn beats(workers: &[WorkerSighting]) -> BTreeMap<WorkerId, u64> {
    workers.iter().map(|worker| (worker.card.id, worker.beats)).collect()
}

async fn workers(engine: &Arc<dyn Engine>) -> Vec<WorkerSighting> {
    engine.workers().await.expect("the store can be read")
}

async fn until(engine: &Arc<dyn Engine>, is_so: impl Fn(&[WorkerSighting]) -> bool) {
    let look = async {
        while !is_so(&workers(engine).await) {
            // may sleep: no notification reports a missing heartbeat, so the store is polled.
            tokio::time::sleep(POLL_EVERY).await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.expect("expected the workers to reach this state in time");
}
