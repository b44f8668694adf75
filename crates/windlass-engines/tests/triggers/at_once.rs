//! Two processes end the last two jobs at the same moment: one of them must see that both have ended, and
//! only one may.

use std::sync::Arc;

use tempfile::TempDir;
use windlass_core::clock::ManualClock;
use windlass_core::engine::Engine;
use windlass_core::names::GroupName;
use windlass_core::triggers::Watched;
use windlass_core::worker::WorkerId;

use crate::test_store::{
    Store, claim_one, clock, evaluate, evaluate_all, hook_jobs, put, register, set_up, succeed,
};
use crate::words::{kind, queue};

const ROUNDS: u64 = 60;

/// Ends one of two jobs, and evaluates at once.
async fn end_and_evaluate(engine: Arc<dyn Engine>, worker: WorkerId) -> usize {
    let claimed = claim_one(&engine, worker).await;
    succeed(&engine, claimed).await;
    evaluate(&engine).await
}

async fn round(engines: &[(Arc<dyn Engine>, WorkerId); 2], clock: &ManualClock) -> usize {
    put(&engines[0].0, 2).await;
    let [first, second] = engines.clone();
    let first = tokio::spawn(end_and_evaluate(first.0, first.1));
    let second = tokio::spawn(end_and_evaluate(second.0, second.1));
    let at_once = first.await.unwrap() + second.await.unwrap();
    at_once + evaluate_all(&engines[0].0, clock).await
}

async fn check(store: Store, watch: Watched) {
    let clock = clock();
    let engines = [store.open(&clock).await, store.open(&clock).await];
    set_up(&engines[0], watch).await;
    let [first, second] = engines;
    let workers = [register(&first).await, register(&second).await];
    let engines = [(first, workers[0]), (second, workers[1])];
    let (mut once, mut fired) = (0, 0);
    for _ in 0..ROUNDS {
        let made = round(&engines, &clock).await as u64;
        once += u64::from(made == 1);
        fired += made;
    }
    assert_eq!((once, fired), (ROUNDS, ROUNDS), "one hook for each round");
    assert_eq!(hook_jobs(&engines[0].0).await, ROUNDS);
}

fn group() -> Watched {
    Watched::Group(GroupName::parse("import 7").unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_who_end_the_last_two_jobs_at_once_one_makes_the_hook_on_postgres() {
    check(Store::postgres(), group()).await;
    check(Store::postgres(), Watched::Queue(queue())).await;
    check(Store::postgres(), Watched::Type(kind())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_who_end_the_last_two_jobs_at_once_one_makes_the_hook_on_sqlite() {
    let folder = TempDir::new().unwrap();
    check(Store::sqlite(&folder), group()).await;
    let folder = TempDir::new().unwrap();
    check(Store::sqlite(&folder), Watched::Queue(queue())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_who_end_the_last_two_jobs_at_once_one_makes_the_hook_on_redis() {
    check(Store::redis(), group()).await;
    check(Store::redis(), Watched::Queue(queue())).await;
    check(Store::redis(), Watched::Type(kind())).await;
}
