//! Many schedules that fall due in the same second.

use std::collections::BTreeSet;
use std::time::Duration;

use windlass::postgres::tokio_postgres::{self, NoTls};
use windlass::types::admin::{ListRequest, StoredJob};
use windlass::types::clock::Timestamp;
use windlass::types::names::{ScheduleName, TypeName};
use windlass::types::schedule::Schedule;
use windlass::types::schedules::{JobTemplate, ScheduleSpec};
use windlass::{Client, Handlers, JobType, Worker, WorkerOptions};

use super::at_length;
use super::process::{Idle, idle};
use super::test_store::{STATISTICS, TestStore, open};
use super::workers::PATIENCE;

const SCHEDULES: usize = 1_000;
/// The limit from the tick to the last of its jobs, in the long form.
const WITHIN: Duration = Duration::from_secs(1);
/// The maximum number of steps that make all jobs.
const STEPS_MAX: usize = SCHEDULES / 10;

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_schedules_of_one_second_are_fired_in_few_steps_on_postgres() {
    let statistics = STATISTICS.map(|(name, value)| (name.to_owned(), value.to_owned()));
    fire_all_at_once(TestStore::postgres_with(statistics.to_vec())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_schedules_of_one_second_are_fired_in_few_steps_on_redis() {
    fire_all_at_once(TestStore::redis()).await;
}

async fn fire_all_at_once(place: TestStore) {
    let engine = open(&place.url()).await;
    let now = engine.now().await.expect("the server is up");
    // Usually late enough for a worker to have started and to lead. If not, the tick is within its grace.
    let tick = Timestamp::from_micros((now.as_micros() / 1_000_000 + 5) * 1_000_000);
    let schedules = (0..SCHEDULES).map(|n| schedule(n, tick)).collect();
    // The worker fires schedules and runs no job, so that no statement runs once for each job.
    let options = WorkerOptions { schedules, serve: Some(Vec::new()), ..WorkerOptions::default() };
    let mut worker =
        Worker::start(engine, Handlers::new(()).handle(idle), options).await.expect("the worker starts");
    let jobs = all_jobs(worker.client()).await;
    worker.stop().await;
    assert!(jobs.iter().all(|record| record.job.enqueued_at >= tick), "expected no job before its tick");
    let last = jobs.iter().map(|record| record.job.enqueued_at.since(tick)).max().expect("there are jobs");
    let steps = steps(&place, &jobs).await;
    println!(
        "{}: {SCHEDULES} schedules of one second: {steps} steps, and the last job came {last:?} after it",
        place.name(),
    );
    assert!(steps < STEPS_MAX, "expected fewer than {STEPS_MAX} steps, got {steps}");
    assert!(last <= WITHIN || !at_length(), "expected all within {WITHIN:?}, got {last:?}");
    let mut names: Vec<_> =
        jobs.iter().filter_map(|record| record.job.key.as_ref()).map(|key| key.key.clone()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), SCHEDULES, "expected one job of each schedule");
}

/// In how many steps the jobs were made. On PostgreSQL it is the number of calls of the statement that ran
/// most often; on Redis the jobs of one script have the same instant.
async fn steps(place: &TestStore, jobs: &[StoredJob]) -> usize {
    if matches!(place, TestStore::Redis(_)) {
        return jobs.iter().map(|record| record.job.enqueued_at).collect::<BTreeSet<_>>().len();
    }
    let (server, connection) = tokio_postgres::connect(&place.url(), NoTls).await.expect("the server is up");
    tokio::spawn(connection);
    server
        .batch_execute("CREATE EXTENSION pg_stat_statements")
        .await
        .expect("the extension is installed with the server");
    let most = "SELECT max(calls) FROM pg_stat_statements WHERE query LIKE '-- %'";
    let calls: i64 = server.query_one(most, &[]).await.expect("the server is up").get(0);
    usize::try_from(calls).expect("the number of calls fits")
}

fn schedule(n: usize, tick: Timestamp) -> ScheduleSpec {
    let name = ScheduleName::parse(&format!("report_{n}")).expect("a valid name");
    let when = Schedule::parse(&format!("every 1h from {tick}")).expect("an interval from an instant");
    ScheduleSpec::new(name, when, JobTemplate::new(TypeName::parse(Idle::NAME).expect("a valid name")))
}

async fn all_jobs(client: &Client) -> Vec<StoredJob> {
    let look = async {
        loop {
            let jobs = list_all(client).await;
            if jobs.len() >= SCHEDULES {
                return jobs;
            }
            // may sleep: no notification reports that all jobs are stored. It polls rarely, since these
            // statements are counted, too.
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.expect("expected all schedules to run")
}

async fn list_all(client: &Client) -> Vec<StoredJob> {
    let mut all: Vec<StoredJob> = Vec::new();
    loop {
        let before = all.last().map(|record| record.job.id);
        let request = ListRequest { before, limit: 1_000, ..ListRequest::default() };
        let page = client.engine().list(request).await.expect("the server is up");
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}
