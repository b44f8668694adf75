//! A process dies while jobs wait behind its gates: another process opens them.

use std::time::Duration;

use windlass::limits::{LimitAt, LimitScope, change_breaker};
use windlass::types::breaker::{BreakerEvent, BreakerOptions};
use windlass::types::job::JobState;
use windlass::types::names::{BreakerName, LimitName, TypeName};
use windlass::types::rate_limit::RateLimit;
use windlass::{BreakerSpec, JobId, LimitOptions, RateLimitSpec, WorkerOptions};

use crate::bench::{Act, Bench};

const HOUR: Duration = Duration::from_secs(3600);

fn act_type() -> Vec<TypeName> {
    vec![TypeName::parse("act").expect("the name is valid")]
}

fn shop() -> BreakerName {
    BreakerName::parse("shop").expect("the name is valid")
}

/// A breaker that opens for an hour after one failure.
fn with_breaker() -> LimitOptions {
    let options =
        BreakerOptions { failures_in_a_row: Some(1), open_cooldown: HOUR, ..BreakerOptions::default() };
    let breakers = vec![BreakerSpec { options, types: act_type(), ..BreakerSpec::new(shop()) }];
    LimitOptions { breakers, ..LimitOptions::default() }
}

fn with_rate(limit: RateLimit) -> LimitOptions {
    let name = LimitName::parse("acts").expect("the name is valid");
    let spec = RateLimitSpec { name, limit, scope: LimitScope::Store, at: LimitAt::Run, types: act_type() };
    LimitOptions { rate_limits: vec![spec], ..LimitOptions::default() }
}

/// A process that enqueues these jobs and dies suddenly while they wait: its calls under way are dropped.
/// Before that, the first job has ended or waits, and the others wait.
fn dies_while_jobs_wait(namespace: &str, limits: LimitOptions, first: Act) -> Vec<JobId> {
    let namespace = namespace.to_owned();
    let process = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let (bench, jobs) = runtime.block_on(async {
            let options = WorkerOptions { limits, ..WorkerOptions::default() };
            let mut bench = Bench::on(crate::open(&namespace), options).await;
            let first = bench.put(first).await;
            bench.started().await;
            let mut jobs = Vec::new();
            for _ in 0..3 {
                jobs.push(bench.put(Act::Succeed).await);
            }
            for job in &jobs {
                bench.until(*job, JobState::Parked).await;
            }
            jobs.push(first);
            (bench, jobs)
        });
        runtime.shutdown_background();
        std::mem::forget(bench);
        jobs
    });
    process.join().expect("the process reached its end")
}

#[tokio::test]
async fn jobs_that_a_process_left_behind_a_breaker_go_on_in_another() {
    let namespace = crate::fresh_namespace();
    let jobs = dies_while_jobs_wait(&namespace, with_breaker(), Act::FailTimes(1));
    let options = WorkerOptions { limits: with_breaker(), ..WorkerOptions::default() };
    let other = Bench::on(crate::open(&namespace), options).await;
    // This way of closing a breaker opens no gate: the duty that polls for jobs behind gates has to open
    // it.
    change_breaker(&other.engine, &shop(), &BreakerEvent::Close).await.expect("the server is up");
    for job in jobs {
        other.until(job, JobState::Succeeded).await;
    }
}

#[tokio::test]
async fn jobs_that_a_process_left_behind_a_rate_limit_go_on_in_another() {
    let namespace = crate::fresh_namespace();
    // The process dies while jobs wait, however busy the machine is, and the other process waits for
    // nothing.
    let limit = |per| RateLimit { burst: 1, ..RateLimit::new(1, per) };
    let slow = limit(Duration::from_secs(3_600));
    let jobs = dies_while_jobs_wait(&namespace, with_rate(slow), Act::Succeed);
    let limits = with_rate(limit(Duration::from_millis(10)));
    let options = WorkerOptions { limits, ..WorkerOptions::default() };
    let other = Bench::on(crate::open(&namespace), options).await;
    for job in jobs {
        other.until(job, JobState::Succeeded).await;
    }
}
