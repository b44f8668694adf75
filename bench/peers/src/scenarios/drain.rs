//! All jobs are there before the worker starts; the last handler's end is the end.

use std::sync::Arc;
use std::time::Duration;

use super::Plan;
use super::enqueue::put_in;
use crate::database::Database;
use crate::figures::Figures;
use crate::peer::{Aim, Peer};
use crate::tally::Tally;

/// A drain is given up after this time; its rate is that of the part done.
const CAP: Duration = Duration::from_secs(60);

pub(super) async fn drain<P: Peer>(database: &Database, jobs: u64, plan: Plan) -> anyhow::Result<Figures> {
    let peer = Arc::new(P::open(database, plan.settings).await?);
    put_in(&peer, jobs, plan).await?;
    let tally = Arc::new(Tally::new(jobs, jobs));
    let prepared = peer.prepare(Arc::clone(&tally), Aim::Throughput).await?;
    tally.begin();
    let mut worker = prepared.start();
    let all = worker.until(&tally, |tally| tally.distinct() == jobs, CAP).await?;
    // Before the worker is stopped, which may run some more.
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
