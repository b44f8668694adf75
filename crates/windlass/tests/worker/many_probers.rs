//! A hundred workers and one permit to probe.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::core::breaker::BreakerEvent;
use windlass::core::names::BreakerName;
use windlass::limits::change_breaker;
use windlass::{BreakerSpec, Handlers, JobType, LimitOptions, State, Worker, WorkerOptions};

use crate::bench::PATIENCE;

#[derive(Serialize, Deserialize)]
struct Call;

impl JobType for Call {
    const NAME: &'static str = "call";
}

/// What happened to the shop.
#[derive(Clone, Default)]
struct Shop {
    is_back: Arc<AtomicBool>,
    probes: Arc<AtomicU32>,
    calls: Arc<AtomicU32>,
}

/// The shop takes its time to come back, and counts who calls meanwhile.
async fn call(_job: Call, State(shop): State<Shop>) {
    if !shop.is_back.load(Ordering::SeqCst) {
        shop.probes.fetch_add(1, Ordering::SeqCst);
        // may sleep: this is how long others could probe, too.
        tokio::time::sleep(Duration::from_millis(700)).await;
        shop.is_back.store(true, Ordering::SeqCst);
    }
    shop.calls.fetch_add(1, Ordering::SeqCst);
}

#[tokio::test]
async fn a_hundred_workers_and_one_permit_make_one_probe() {
    let engine = crate::fresh_engine();
    let shop = Shop::default();
    let name = BreakerName::parse("shop").expect("it is a name");
    let open = BreakerEvent::Open { lasting: Some(Duration::from_secs(1)), why: "it is down".to_owned() };
    change_breaker(&engine, &name, &open).await.expect("the engine is up");
    let breakers = vec![BreakerSpec::new(name)];
    let limits = LimitOptions { breakers, ..LimitOptions::default() };
    let mut workers = Vec::new();
    for number in 0..100 {
        let handlers = Handlers::new(shop.clone()).handle(call).calls::<Call>("shop");
        let options =
            WorkerOptions { limits: limits.clone(), upkeep: number == 0, ..WorkerOptions::default() };
        workers.push(Worker::start(Arc::clone(&engine), handlers, options).await.expect("it starts"));
    }
    let client = workers[0].client().clone();
    let run = async {
        client.enqueue_many((0..200).map(|_| Call)).await.expect("they are taken");
        while shop.calls.load(Ordering::SeqCst) < 200 {
            // may sleep: it looks until it is so, and the test fails if patience runs out.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, run).await.expect("all calls are made in the end");
    assert_eq!(shop.probes.load(Ordering::SeqCst), 1);
}
