//! PostgreSQL keeps history in a partition for each day. Creating a partition while a job ends must not
//! block the job.

#![cfg(feature = "postgres")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::{Client, NoTls};
use windlass_conformance::harness::{Fixture, Harness};
use windlass_core::clock::ManualClock;
use windlass_core::job::JobState;
use windlass_engines::postgres::{Periods, PostgresEngine, PostgresOptions};

/// The longest wait, sufficient for a busy machine.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// A session that waits for a lock keeps waiting until the test has seen it.
const PATIENT: &str = "options=-c%20lock_timeout%3D10min%20-c%20statement_timeout%3D10min";

async fn session(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the server is up");
    tokio::spawn(connection);
    client
}

async fn harness(url: &str, schema: &str) -> Harness {
    let clock = Arc::new(ManualClock::default());
    let periods = Periods { answer_within: 2 * WAIT_MAX, ..Periods::default() };
    let options = PostgresOptions {
        schema: schema.to_owned(),
        clock: Some(clock.clone()),
        periods,
        ..PostgresOptions::default()
    };
    let separator = if url.contains('?') { '&' } else { '?' };
    let url = format!("{url}{separator}{PATIENT}");
    let engine = PostgresEngine::connect(&url, options).await.expect("a fresh schema");
    let fixture = Fixture { engine: Arc::new(engine), clock, raw: None, keep: Box::new(()) };
    Harness::start(fixture, |task| drop(tokio::spawn(task))).await
}

/// Waits until a session waits for a lock on the default partition of the history.
async fn a_session_waits(session: &Client, schema: &str) {
    let waiting = format!(
        "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = '{schema}.job_history_rest'::regclass"
    );
    let start = Instant::now();
    while session.query(&waiting, &[]).await.expect("the server is up").is_empty() {
        assert!(start.elapsed() < WAIT_MAX, "expected a session to wait for a lock");
        // may sleep: the server sends no signal when a session begins to wait.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_day_of_the_history_that_is_made_meanwhile_buries_no_job() {
    let url = windlass_servers::shared::postgres_url().expect("a PostgreSQL server");
    let schema = format!("day_{:016x}", fastrand::u64(..));
    let h = harness(&url, &schema).await;
    let claimed = h.enqueue_and_claim_one().await;
    let (maintenance, observer) = (session(&url).await, session(&url).await);
    let make = format!("BEGIN; SELECT {schema}.create_partitions('{}');", h.now());
    maintenance.batch_execute(&make).await.expect("the partitions are created");

    let days_are_there = async {
        a_session_waits(&observer, &schema).await;
        maintenance.batch_execute("COMMIT").await.expect("the partitions are created");
    };
    let (job, ()) = tokio::join!(h.succeed(&claimed), days_are_there);

    assert_eq!(h.job_state_of(job).await, JobState::Succeeded);
    observer
        .batch_execute(&format!("DROP SCHEMA {schema} CASCADE"))
        .await
        .expect("no session uses the schema");
}
