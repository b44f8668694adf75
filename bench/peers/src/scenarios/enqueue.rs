//! Putting jobs in, one by one and in bulk.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Plan;
use crate::database::Database;
use crate::figures::Figures;
use crate::job::Job;
use crate::peer::Peer;

/// Callers at once, as in `windlass bench`.
const CALLERS: u64 = 16;
/// Single enqueues in all, at most.
const SINGLES_MAX: u64 = 10_000;
/// Single enqueues end after this time, however many there were.
const SINGLES_CAP: Duration = Duration::from_secs(10);

/// Callers who each wait for their own answer before the next.
pub(super) async fn one_by_one<P: Peer>(database: &Database, plan: Plan) -> anyhow::Result<Figures> {
    let peer = Arc::new(P::open(database, plan.settings).await?);
    let each = plan.jobs.min(SINGLES_MAX) / CALLERS;
    let started = Instant::now();
    let callers: Vec<_> =
        (0..CALLERS).map(|_| tokio::spawn(caller(Arc::clone(&peer), each, started, plan))).collect();
    let mut jobs = 0;
    for caller in callers {
        jobs += caller.await??;
    }
    Ok(Figures::Rate { jobs, took: started.elapsed(), capped: jobs < each * CALLERS })
}

async fn caller<P: Peer>(peer: Arc<P>, each: u64, started: Instant, plan: Plan) -> anyhow::Result<u64> {
    for number in 0..each {
        if started.elapsed() >= SINGLES_CAP {
            return Ok(number);
        }
        peer.enqueue(Job::sized(number, plan.payload_bytes)).await?;
    }
    Ok(each)
}

/// One caller, batch after batch.
pub(super) async fn in_bulk<P: Peer>(database: &Database, plan: Plan) -> anyhow::Result<Figures> {
    let peer = P::open(database, plan.settings).await?;
    let started = Instant::now();
    put_in(&peer, plan).await?;
    Ok(Figures::Rate { jobs: plan.jobs, took: started.elapsed(), capped: false })
}

/// Enqueues all jobs of the plan.
pub(super) async fn put_in<P: Peer>(peer: &P, plan: Plan) -> anyhow::Result<()> {
    let mut next = 0;
    while next < plan.jobs {
        let end = (next + P::BULK_BATCH).min(plan.jobs);
        peer.enqueue_many((next..end).map(|number| Job::sized(number, plan.payload_bytes)).collect()).await?;
        next = end;
    }
    Ok(())
}
