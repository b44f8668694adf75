//! A process is killed between the end of the last job and the evaluation: its mark stays, and another
//! process evaluates it.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;

use tempfile::TempDir;
use windlass_core::clock::{Clock, ManualClock, Timestamp};
use windlass_core::triggers::Watched;

use crate::test_store::{Store, claim_one, clock, evaluate_all, hook_jobs, put, register, set_up, succeed};
use crate::words::queue;

/// The environment variable by which the process knows its store.
const VARIABLE: &str = "WINDLASS_DRAINS_STORE";
/// The test with which this program is started again.
const TEST_NAME: &str = "killed::who_is_killed_between_the_end_and_the_look_leaves_a_mark_for_another";
const ENDED: &str = "the last job has ended";

/// Whether this is the process that is killed; if so, this never returns.
async fn end_a_job_if_asked() -> bool {
    let Ok(line) = std::env::var(VARIABLE) else { return false };
    let (now, line) = line.split_once(' ').expect("a time and a store");
    let now = Timestamp::from_micros(now.parse().unwrap());
    let engine = Store::from_line(line).open(&Arc::new(ManualClock::starting_at(now))).await;
    let worker = register(&engine).await;
    let claimed = claim_one(&engine, worker).await;
    succeed(&engine, claimed).await;
    println!("{ENDED}");
    std::future::pending::<()>().await;
    true
}

async fn check(store: Store) {
    let clock = clock();
    let engine = store.open(&clock).await;
    set_up(&engine, Watched::Queue(queue())).await;
    for round in 1..=3 {
        put(&engine, 1).await;
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", TEST_NAME, "--nocapture"])
            .env(VARIABLE, format!("{} {}", clock.now().as_micros(), store.line()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains(ENDED)), "the process ends its job");
        // This sends SIGKILL.
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(hook_jobs(&engine).await, round - 1, "no process has evaluated");
        assert_eq!(evaluate_all(&engine, &clock).await, 1);
        assert_eq!(hook_jobs(&engine).await, round);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_killed_between_the_end_and_the_look_leaves_a_mark_for_another() {
    if end_a_job_if_asked().await {
        return;
    }
    let folder = TempDir::new().unwrap();
    check(Store::sqlite(&folder)).await;
    check(Store::postgres()).await;
    check(Store::redis()).await;
}
