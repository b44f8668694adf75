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

use super::super::failed;
use super::super::figures::{Figures, per_second};
use super::super::ground::Ground;
use super::super::load::{self, Work};
use super::super::tally::Tally;
use crate::exit::Failure;

const GATE: &str = "bench:gate";
/// How often to look whether the last ones are parked.
const LOOK_EVERY: Duration = Duration::from_millis(5);

pub(super) async fn run(ground: &Ground<'_>) -> Result<Figures, Failure> {
    let jobs = ground.args.jobs;
    load::fill(&ground.client().await?, jobs + 1, |_| load::draft(), ground.progress).await?;
    ground.rest().await?;
    ground.progress.part("park, open, drain", 2 * jobs);
    let tally = Tally::with_marks(&[jobs, 2 * jobs]);
    let mut worker = parking_worker(ground, &tally).await?;
    tally.reach(jobs, ground.progress).await?;
    tally.while_moving(all_are_parked(ground, jobs), ground.progress).await??;
    let parked = tally.elapsed();
    open_gate(ground).await?;
    let opened = tally.elapsed();
    let done = tally.reach(2 * jobs, ground.progress).await?;
    tally.while_moving(worker.drain(), ground.progress).await?;
    ground.check_succeeded(jobs + 1).await?;
    Ok(Figures::default()
        .with("jobs_per_second", per_second(jobs, done))
        .with("attempts_per_second", per_second(2 * jobs, done))
        .with("parked_per_second", per_second(jobs, parked))
        .with("opened_per_second", per_second(jobs, opened - parked)))
}

async fn parking_worker(ground: &Ground<'_>, tally: &Arc<Tally>) -> Result<Worker, Failure> {
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
    ground.worker(handlers).await
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
async fn all_are_parked(ground: &Ground<'_>, jobs: u64) -> Result<(), Failure> {
    loop {
        let queues = ground.place.engine.queues().await?;
        if queues.iter().map(|queue| queue.counts.parked).sum::<u64>() == jobs {
            return Ok(());
        }
        // may sleep: the store tells nobody when the last one is parked, and to count costs the measurement something.
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn open_gate(ground: &Ground<'_>) -> Result<(), Failure> {
    let gate = Gate::named(GATE);
    while ground.place.engine.open_gate(&gate, OPEN_BATCH_MAX).await.map_err(failed)?.more {}
    Ok(())
}
