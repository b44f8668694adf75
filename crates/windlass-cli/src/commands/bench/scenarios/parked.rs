//! Every job but one is parked behind a gate by its first attempt. When all are, the gate is opened, and they run. The one
//! runs through at once, as jobs of this type did before in a process that does not begin its life with a closed gate: of a
//! type of which nothing ever ran, a worker holds no jobs ready, since what is held up says nothing of how fast it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use windlass::handler::IntoOutcome;
use windlass::{Context, Handlers, Worker};
use windlass_core::gate::Gate;
use windlass_core::limits::OPEN_BATCH_MAX;
use windlass_core::outcome::AttemptOutcome;

use super::super::env::Env;
use super::super::failed;
use super::super::figures::{Figures, per_second};
use super::super::load::{self, Work};
use super::super::tally::Tally;
use crate::exit::Failure;

const GATE: &str = "bench:gate";
/// How often to look whether the last ones are parked.
const LOOK_EVERY: Duration = Duration::from_millis(5);

pub(super) async fn run(env: &Env<'_>) -> Result<Figures, Failure> {
    let jobs = env.args.jobs;
    load::fill(&env.client().await?, jobs + 1, |_| load::draft(), env.progress).await?;
    env.rest().await?;
    env.progress.part("park, open, drain", 2 * jobs);
    let tally = Tally::with_marks(&[jobs, 2 * jobs]);
    let mut worker = parking_worker(env, &tally).await?;
    tally.reach(jobs, env.progress).await?;
    tally.while_moving(all_are_parked(env, jobs), env.progress).await??;
    let parked = tally.elapsed();
    open_gate(env).await?;
    let opened = tally.elapsed();
    let done = tally.reach(2 * jobs, env.progress).await?;
    tally.while_moving(worker.drain(), env.progress).await?;
    env.check_succeeded(jobs + 1).await?;
    Ok(Figures::default()
        .with("jobs_per_second", per_second(jobs, done))
        .with("attempts_per_second", per_second(2 * jobs, done))
        .with("parked_per_second", per_second(jobs, parked))
        .with("opened_per_second", per_second(jobs, opened - parked)))
}

async fn parking_worker(env: &Env<'_>, tally: &Arc<Tally>) -> Result<Worker, Failure> {
    let tally = Arc::clone(tally);
    let one_ran = Arc::new(AtomicBool::new(false));
    let handlers = Handlers::new(()).handle(move |_: Work, ctx: Context| {
        let (tally, one_ran) = (Arc::clone(&tally), Arc::clone(&one_ran));
        async move {
            if !one_ran.swap(true, Ordering::Relaxed) {
                return ParkedOnce { first: false };
            }
            tally.one();
            ParkedOnce { first: ctx.job().counters.holds == 0 }
        }
    });
    env.worker(handlers).await
}

/// How a handler ends that is held up once.
struct ParkedOnce {
    first: bool,
}

impl IntoOutcome for ParkedOnce {
    fn into_outcome(self) -> AttemptOutcome {
        if self.first { AttemptOutcome::Held(Gate::named(GATE)) } else { AttemptOutcome::Done(None) }
    }
}

/// The handlers have said so; the store hears of it a little later.
async fn all_are_parked(env: &Env<'_>, jobs: u64) -> Result<(), Failure> {
    loop {
        let queues = env.place.engine.queues().await?;
        if queues.iter().map(|queue| queue.counts.parked).sum::<u64>() == jobs {
            return Ok(());
        }
        // may sleep: the store tells nobody when the last one is parked, and to count costs the measurement something.
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn open_gate(env: &Env<'_>) -> Result<(), Failure> {
    let gate = Gate::named(GATE);
    while env.place.engine.open_gate(&gate, OPEN_BATCH_MAX).await.map_err(failed)?.more {}
    Ok(())
}
