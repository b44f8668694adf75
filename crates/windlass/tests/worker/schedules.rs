//! A worker stores the schedules of its options, and fires their due ticks.

use std::sync::Arc;

use tokio::sync::mpsc;
use windlass::WorkerOptions;
use windlass::alerts::Alert;
use windlass::types::names::{ScheduleName, TypeName};
use windlass::types::payload::Payload;
use windlass::types::schedule::Schedule;
use windlass::types::schedules::{JobTemplate, ScheduleAlert, ScheduleSpec};

use crate::bench::{Act, Bench, PATIENCE};

/// A schedule for every second, whose jobs succeed.
pub(crate) fn every_second(name: &str) -> ScheduleSpec {
    let schedule = Schedule::parse("every 1s").expect("the schedule is valid");
    let mut job = JobTemplate::new(TypeName::parse("act").expect("a valid name"));
    job.payload = Payload::encode(&Act::Succeed).expect("the payload is small");
    ScheduleSpec::new(ScheduleName::parse(name).expect("a valid name"), schedule, job)
}

#[tokio::test]
async fn a_worker_fires_the_schedules_of_its_options_tick_by_tick() {
    let options = WorkerOptions { schedules: vec![every_second("quick")], ..WorkerOptions::default() };
    let mut bench = Bench::with(options).await;
    let mut ticks = Vec::new();
    for _ in 0..3 {
        let (id, _) = bench.started().await;
        let record = bench.client.job(id).await.expect("the store answers").expect("the job is known");
        ticks.push(record.job.correlation.expect("the job names its tick").to_string());
    }
    assert!(ticks.iter().all(|tick| tick.starts_with("schedule/quick/")), "{ticks:?}");
    ticks.sort();
    ticks.dedup();
    assert_eq!(ticks.len(), 3, "each tick makes one job");
}

#[tokio::test]
async fn the_hook_hears_of_each_tick_whose_job_was_refused_though_it_panics() {
    let (sender, mut alerts) = mpsc::unbounded_channel();
    let hook = move |alert: &Alert| {
        let _ = sender.send(alert.clone());
        panic!("on purpose");
    };
    let mut unhandled = every_second("unhandled");
    unhandled.job.job_type = TypeName::parse("unhandled").expect("a valid name");
    let options = WorkerOptions {
        schedules: vec![unhandled],
        on_alert: Some(Arc::new(hook)),
        ..WorkerOptions::default()
    };
    let _bench = Bench::with(options).await;
    for _ in 0..2 {
        let alert = tokio::time::timeout(PATIENCE, alerts.recv())
            .await
            .expect("an alert comes")
            .expect("the worker still has its hook");
        let Alert::Schedule { schedule, what: ScheduleAlert::Refused { .. } } = alert else {
            panic!("got {alert:?}")
        };
        assert_eq!(schedule.as_str(), "unhandled");
    }
}
