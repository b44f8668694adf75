//! Enqueues jobs, one by one and in bulk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::Plan;
use crate::database::Database;
use crate::figures::Figures;
use crate::job::Job;
use crate::peer::Peer;

/// The number of concurrent callers, as in `windlass-bench`.
const CALLERS: u64 = 16;
/// The number of concurrent bulk calls, as in `windlass-bench`.
const BULK_AT_ONCE: u64 = 2;
/// The maximum number of single enqueues.
const SINGLES_MAX: u64 = 10_000;
/// The time after which single enqueues end, whatever their number.
const SINGLES_CAP: Duration = Duration::from_secs(10);

/// Enqueues by concurrent callers, each waiting for its own answer before the next call.
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

/// Enqueues batch after batch, with two concurrent calls.
pub(super) async fn in_bulk<P: Peer>(database: &Database, plan: Plan) -> anyhow::Result<Figures> {
    let peer = Arc::new(P::open(database, plan.settings).await?);
    let started = Instant::now();
    enqueue_all(&peer, plan.jobs, plan).await?;
    Ok(Figures::Rate { jobs: plan.jobs, took: started.elapsed(), capped: false })
}

/// Enqueues the given number of jobs, numbered from 0.
pub(super) async fn enqueue_all<P: Peer>(peer: &Arc<P>, jobs: u64, plan: Plan) -> anyhow::Result<()> {
    let next = Arc::new(AtomicU64::new(0));
    let mut callers = JoinSet::new();
    for _ in 0..BULK_AT_ONCE {
        let (peer, next) = (Arc::clone(peer), Arc::clone(&next));
        callers.spawn(async move {
            loop {
                let first = next.fetch_add(P::BULK_BATCH, Ordering::Relaxed);
                if first >= jobs {
                    return anyhow::Ok(());
                }
                let batch = first..jobs.min(first + P::BULK_BATCH);
                peer.enqueue_many(batch.map(|number| Job::sized(number, plan.payload_bytes)).collect())
                    .await?;
            }
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended??;
    }
    Ok(())
}
