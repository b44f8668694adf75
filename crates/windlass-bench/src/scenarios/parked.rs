//! The rates of parking and of opening a gate: the first attempt parks each job but one behind a gate. When
//! all are parked, the gate is opened and they run. The one succeeds at once: a worker prefetches no jobs of
//! a type of which none has ever ended, since parked attempts say nothing about how fast its jobs run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use windlass::handler::IntoOutcome;
use windlass::types::gate::Gate;
use windlass::types::limits::OPEN_BATCH_MAX;
use windlass::types::outcome::AttemptOutcome;
use windlass::{Context, Handlers, Worker};

use crate::env::Env;
use crate::figures::{Figures, per_second};
use crate::handled::Handled;
use crate::workload::{self, Work};

const GATE: &str = "bench:gate";
/// How often the parked jobs are counted.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

pub(crate) async fn run(env: &Env<'_>) -> Result<Figures> {
    let jobs = env.options.jobs;
    workload::enqueue_bulk(&env.client().await?, jobs + 1, |_| workload::new_job()).await?;
    env.quiesce().await?;
    let handled = Handled::with_milestones(&[jobs, 2 * jobs]);
    let mut worker = parking_worker(env, &handled).await?;
    handled.wait_for(jobs).await?;
    handled.while_handling(all_are_parked(env, jobs)).await??;
    let parked = handled.elapsed();
    open_gate(env).await?;
    let opened = handled.elapsed();
    let done = handled.wait_for(2 * jobs).await?;
    handled.while_handling(worker.drain()).await?;
    env.check_succeeded(jobs + 1).await?;
    Ok(Figures::default()
        .with("jobs_per_second", per_second(jobs, done))
        .with("attempts_per_second", per_second(2 * jobs, done))
        .with("parked_per_second", per_second(jobs, parked))
        .with("opened_per_second", per_second(jobs, opened - parked)))
}

async fn parking_worker(env: &Env<'_>, handled: &Arc<Handled>) -> Result<Worker> {
    let handled = Arc::clone(handled);
    let one_has_run = Arc::new(AtomicBool::new(false));
    let handlers = Handlers::new(()).handle(move |_: Work, ctx: Context| {
        let (handled, one_has_run) = (Arc::clone(&handled), Arc::clone(&one_has_run));
        async move {
            if !one_has_run.swap(true, Ordering::Relaxed) {
                return ParkedOnce { first: false };
            }
            handled.add_one();
            ParkedOnce { first: ctx.job().counters.holds == 0 }
        }
    });
    env.worker(handlers).await
}

/// Parks the job at its first attempt and succeeds at the second.
struct ParkedOnce {
    first: bool,
}

impl IntoOutcome for ParkedOnce {
    fn into_outcome(self) -> AttemptOutcome {
        if self.first { AttemptOutcome::Held(Gate::named(GATE)) } else { AttemptOutcome::Done(None) }
    }
}

/// The store learns a little later than the handlers that a job is parked.
async fn all_are_parked(env: &Env<'_>, jobs: u64) -> Result<()> {
    loop {
        let queues = env.store.engine.queues().await?;
        if queues.iter().map(|queue| queue.counts.parked).sum::<u64>() == jobs {
            return Ok(());
        }
        // may sleep: the store sends no signal when the last job is parked, and counting costs the
        // measurement something.
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

async fn open_gate(env: &Env<'_>) -> Result<()> {
    let gate = Gate::named(GATE);
    while env.store.engine.open_gate(&gate, OPEN_BATCH_MAX).await?.more {}
    Ok(())
}
