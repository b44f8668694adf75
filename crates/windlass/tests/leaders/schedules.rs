//! Many schedules that fall due in the same second.

use std::collections::BTreeSet;
use std::time::Duration;

use windlass::types::admin::{ListRequest, StoredJob};
use windlass::types::clock::Timestamp;
use windlass::types::limits::SCHEDULES_PER_CALL_MAX;
use windlass::types::names::{ScheduleName, TypeName};
use windlass::types::schedule::Schedule;
use windlass::types::schedules::{JobTemplate, ScheduleSpec};
use windlass::{Client, Handlers, JobType, Worker, WorkerOptions};

use super::at_length;
use super::place::{Place, open};
use super::process::{Idle, idle};
use super::workers::PATIENCE;

const SCHEDULES: usize = 1_000;
/// The limit from the tick to the last of its jobs, in the long form.
const WITHIN: Duration = Duration::from_secs(1);
/// The maximum number of steps that make all jobs. The jobs of one step have the same instant.
const STEPS_MAX: usize = 2 * SCHEDULES / SCHEDULES_PER_CALL_MAX;

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_schedules_of_one_second_are_fired_in_few_steps_on_postgres() {
    fire_all_at_once(Place::postgres()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_schedules_of_one_second_are_fired_in_few_steps_on_redis() {
    fire_all_at_once(Place::redis()).await;
}

async fn fire_all_at_once(place: Place) {
    let engine = open(&place.url()).await;
    let now = engine.now().await.expect("the server is up");
    // Usually late enough for a worker to have started and to lead. Later, the tick is still within its grace.
    let tick = Timestamp::from_micros((now.as_micros() / 1_000_000 + 5) * 1_000_000);
    let schedules = (0..SCHEDULES).map(|n| schedule(n, tick)).collect();
    let options = WorkerOptions { schedules, ..WorkerOptions::default() };
    let mut worker =
        Worker::start(engine, Handlers::new(()).handle(idle), options).await.expect("the worker starts");
    let jobs = all_jobs(worker.client()).await;
    worker.stop().await;
    assert!(jobs.iter().all(|record| record.job.enqueued_at >= tick), "expected no job before its tick");
    let last = jobs.iter().map(|record| record.job.enqueued_at.since(tick)).max().expect("there are jobs");
    let steps: BTreeSet<_> = jobs.iter().map(|record| record.job.enqueued_at).collect();
    println!(
        "{}: {SCHEDULES} schedules of one second: {} steps, and the last job came {last:?} after it",
        place.name(),
        steps.len()
    );
    assert!(steps.len() <= STEPS_MAX, "expected at most {STEPS_MAX} steps, got {}", steps.len());
    assert!(last <= WITHIN || !at_length(), "expected all within {WITHIN:?}, got {last:?}");
    let mut names: Vec<_> =
        jobs.iter().filter_map(|record| record.job.key.as_ref()).map(|key| key.key.clone()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), SCHEDULES, "expected one job of each schedule");
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
            // may sleep: no notification reports that all jobs are stored.
            tokio::time::sleep(Duration::from_millis(100)).await;
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
