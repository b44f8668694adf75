//! Maintenance of both stores, in a mode that the spool may not have.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::types::duty::DutyMode;
use windlass::types::engine::Engine;
use windlass::{Handlers, JobType, Worker, WorkerOptions};

use crate::primary::{Primary, memory, options};

/// A limit that no test reaches.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Serialize, Deserialize)]
struct Nothing;

impl JobType for Nothing {
    const NAME: &'static str = "nothing";
}

async fn nothing(_: Nothing) {}

fn handlers() -> Handlers<()> {
    Handlers::new(()).handle(nothing)
}

fn under_locks() -> WorkerOptions {
    WorkerOptions { maintenance_mode: DutyMode::AdvisoryLock, ..options() }
}

/// Waits until a worker does maintenance of a store under leases.
async fn until_leases(store: Arc<dyn Engine>) {
    let looking = async {
        while !store.leases().await.unwrap().leases.iter().any(|lease| lease.duty.as_str() == "rescue") {
            // may sleep: it polls until a lease is taken, and the test fails after a limit.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.expect("a worker does maintenance");
}

#[tokio::test(flavor = "multi_thread")]
async fn maintenance_of_a_spool_without_locks_is_done_under_leases() {
    let primary = Primary::postgres();
    let engine = primary.with(memory()).await;
    let mut worker = Worker::start(engine.clone(), handlers(), under_locks()).await.unwrap();
    until_leases(engine.spool().expect("the engine has a spool")).await;
    assert!(
        primary.store().await.leases().await.unwrap().leases.is_empty(),
        "on the primary, maintenance is done under locks"
    );
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_under_locks_starts_while_its_postgres_is_away() {
    let mut primary = Primary::postgres();
    primary.kill();
    let engine = primary.with(memory()).await;
    let mut worker = Worker::start(engine.clone(), handlers(), under_locks()).await.unwrap();
    until_leases(engine.spool().expect("the engine has a spool")).await;
    worker.stop().await;
}
