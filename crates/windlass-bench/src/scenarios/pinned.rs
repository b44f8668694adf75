//! The rate of a drain, and then the pickup times of an idle worker, while a transaction is open that is
//! older than all jobs. It keeps vacuum from removing the rows of jobs that have ended. A claim that reads
//! these rows is slower each time.

use anyhow::{Result, bail};
use tokio_postgres::Client;

use super::Scenario;
use crate::drain::drain;
use crate::env::Env;
use crate::figures::{Figures, Measured, per_second};
use crate::store::Location;
use crate::{pickup, session, workload};

/// Times the usual number of jobs.
const JOBS: u64 = 3;

/// Measures `pinned`, then `pinned-latency`.
pub(crate) async fn run(env: &Env<'_>) -> Result<Vec<Measured>> {
    let client = env.client().await?;
    let transaction = old_transaction(env).await?;
    let jobs = env.options.jobs * JOBS;
    workload::enqueue_bulk(&client, jobs, |_| workload::new_job()).await?;
    let rate = rate(env, jobs).await?;
    let pickups = pickup::of_an_idle_worker(env, pickup::count(env.options)).await?.figures();
    transaction.batch_execute("COMMIT").await?;
    Ok(vec![(Scenario::Pinned.name(), rate), (Scenario::PinnedLatency.name(), pickups)])
}

/// Of all jobs, and of the first and the last quarter.
async fn rate(env: &Env<'_>, jobs: u64) -> Result<Figures> {
    let quarter = jobs / 4;
    let drained = drain(env, jobs, &[quarter, jobs - quarter]).await?;
    let (first, last) = (drained.milestones[0], drained.handled - drained.milestones[1]);
    let (first, last) = (per_second(quarter, first), per_second(quarter, last));
    Ok(drained
        .figures()
        .with("first_quarter_per_second", first)
        .with("last_quarter_per_second", last)
        .with_ratio("ratio_last_to_first", Some(last), Some(first)))
}

/// A session with an open transaction. The query takes the snapshot, which is what holds vacuum back.
async fn old_transaction(env: &Env<'_>) -> Result<Client> {
    let Location::Schema { url, schema } = &env.store.location else { bail!("expected PostgreSQL") };
    let client = session::connect(url).await?;
    let sql = format!("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM {schema}.delayed_jobs");
    client.batch_execute(&sql).await?;
    Ok(client)
}
