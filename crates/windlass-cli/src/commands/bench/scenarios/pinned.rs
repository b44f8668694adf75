//! Somebody's transaction stays open, older than all jobs. It keeps the server from clearing away the rows of jobs that
//! have ended, and a claim that walks over them gets slower with each. The usual work first, then an idle worker.

use tokio_postgres::Client;

use super::super::drain::drain;
use super::super::env::Env;
use super::super::figures::{Figures, Measured, per_second};
use super::super::fixture::At;
use super::super::{failed, load, pickup, session};
use super::Scenario;
use crate::exit::Failure;

/// Times the usual number of jobs.
const JOBS: u64 = 3;

/// `pinned`, then `pinned-latency`.
pub(super) async fn rate_and_latency(env: &Env<'_>) -> Result<Vec<Measured>, Failure> {
    let client = env.client().await?;
    let pin = pin(env).await?;
    let jobs = env.args.jobs * JOBS;
    load::fill(&client, jobs, |_| load::draft(), env.progress).await?;
    let rate = rate(env, jobs).await?;
    let light = pickup::of_an_idle_worker(env, pickup::count(env.args)).await?.figures();
    pin.batch_execute("COMMIT").await.map_err(session::refused)?;
    Ok(vec![(Scenario::Pinned.name(), rate), (Scenario::PinnedLatency.name(), light)])
}

/// Overall, and in the first and the last quarter.
async fn rate(env: &Env<'_>, jobs: u64) -> Result<Figures, Failure> {
    let quarter = jobs / 4;
    let drained = drain(env, jobs, &[quarter, jobs - quarter]).await?;
    let (first, last) = (drained.marks[0], drained.handled - drained.marks[1]);
    let (first, last) = (per_second(quarter, first), per_second(quarter, last));
    Ok(drained
        .figures()
        .with("first_quarter_per_second", first)
        .with("last_quarter_per_second", last)
        .with_ratio("ratio_last_to_first", Some(last), Some(first)))
}

/// The transaction. It has looked at something, since only then does it keep what it may still want to see.
async fn pin(env: &Env<'_>) -> Result<Client, Failure> {
    let At::Schema(url, schema) = &env.place.at else { return Err(failed("there is no PostgreSQL here")) };
    let client = session::connect(url).await?;
    let look = format!("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM {schema}.delayed_jobs");
    client.batch_execute(&look).await.map_err(session::refused)?;
    Ok(client)
}
