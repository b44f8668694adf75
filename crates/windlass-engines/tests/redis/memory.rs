//! What a job costs of the server's memory.

use windlass_core::engine::Engine;
use windlass_core::enqueue::{EnqueueRequest, NewJob, RequestId};
use windlass_core::payload::Payload;

use crate::place::{Place, ask, claim, kind, server, success};

const JOBS: usize = 50_000;
const BATCH: usize = 1_000;
const PAYLOAD_BYTES: usize = 100;
/// What the design allows.
const BYTES_A_JOB_MAX: usize = PAYLOAD_BYTES * 5 / 2 + 250;

fn used(url: &str) -> usize {
    let info: String = ask(url, &["INFO", "memory"]);
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
    line.trim().parse().unwrap()
}

#[tokio::test]
async fn a_job_takes_no_more_memory_than_it_may_while_it_waits_and_once_it_is_done() {
    let server = server(&[("appendonly", "no")]);
    let place = Place::on(server.url());
    let engine = place.ready().await;
    let payload = Payload::encode(&"x".repeat(PAYLOAD_BYTES - 2)).unwrap();
    let jobs = vec![NewJob::new(kind(), payload); BATCH];
    let before = used(&server.url());
    for _ in 0..JOBS / BATCH {
        let request = RequestId::from_random(fastrand::u128(..));
        engine.enqueue(EnqueueRequest { request, jobs: jobs.clone() }).await.unwrap();
    }
    let waiting = (used(&server.url()) - before) / JOBS;
    loop {
        let batch = claim(&engine, 1_000).await;
        if batch.is_empty() {
            break;
        }
        engine.settle(batch.into_iter().map(success).collect()).await.unwrap();
    }
    let done = (used(&server.url()) - before) / JOBS;
    println!("a job of {PAYLOAD_BYTES} bytes takes {waiting} bytes while it waits, {done} once it is done");
    assert!(
        waiting <= BYTES_A_JOB_MAX && done <= BYTES_A_JOB_MAX,
        "{waiting} and {done} of {BYTES_A_JOB_MAX}"
    );
}
