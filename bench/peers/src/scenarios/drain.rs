//! The drain: all jobs are stored before the worker starts, and the end of the last handler is the end.

use std::sync::Arc;
use std::time::Duration;

use super::Plan;
use super::enqueue::enqueue_all;
use crate::database::Database;
use crate::figures::Figures;
use crate::peer::{Aim, Peer};
use crate::tally::Tally;

/// The time limit of a drain. When it is reached, the rate is that of the finished jobs.
const CAP: Duration = Duration::from_secs(60);

pub(super) async fn drain<P: Peer>(database: &Database, jobs: u64, plan: Plan) -> anyhow::Result<Figures> {
    let peer = Arc::new(P::open(database, plan.settings).await?);
    enqueue_all(&peer, jobs, plan).await?;
    let tally = Arc::new(Tally::new(jobs, jobs));
    let prepared = peer.prepare(Arc::clone(&tally), Aim::Throughput).await?;
    tally.begin();
    let mut worker = prepared.start();
    let all = worker.until(&tally, |tally| tally.distinct() == jobs, CAP).await?;
    // Counted before the worker is stopped, which may run some more jobs.
    let ran = tally.distinct();
    let took = if all { tally.last_first_run() } else { tally.elapsed() };
    worker.stop().await?;
    Ok(Figures::Drain {
        jobs,
        ran,
        took,
        capped: !all,
        ran_twice: tally.ran_twice(),
        unsettled: peer.unsettled().await?,
    })
}
