//! A hundred workers and one permit to probe.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};
use windlass::limits::change_breaker;
use windlass::types::breaker::BreakerEvent;
use windlass::types::engine::{Hint, HintListener};
use windlass::types::names::BreakerName;
use windlass::{BreakerSpec, Client, Handlers, JobType, LimitOptions, State, Worker, WorkerOptions};

use crate::bench::PATIENCE;

const JOBS: usize = 200;
/// The interval of polling, since not every engine sends a notification when a job was parked.
const POLL_EVERY: Duration = Duration::from_millis(50);

#[derive(Serialize, Deserialize)]
struct Call;

impl JobType for Call {
    const NAME: &'static str = "call";
}

/// The state of the shop, and the calls to it.
#[derive(Clone)]
struct Shop {
    is_back: Arc<watch::Sender<bool>>,
    probes: Arc<watch::Sender<usize>>,
    calls: Arc<watch::Sender<usize>>,
}

/// Calls the shop. It comes back when the test says so; until then calls wait, and are counted.
async fn call(_job: Call, State(shop): State<Shop>) {
    if !*shop.is_back.borrow() {
        shop.probes.send_modify(|probes| *probes += 1);
        shop.is_back.subscribe().wait_for(|is_back| *is_back).await.expect("the test is running");
    }
    shop.calls.send_modify(|calls| *calls += 1);
}

/// A listener that wakes the test whenever a queue has changed.
#[derive(Default)]
struct Changes(Notify);

impl HintListener for Changes {
    fn hint(&self, _: Hint) {
        self.0.notify_one();
    }
}

/// Waits until one job calls and all others are parked, each after a claim by some worker.
async fn until_all_others_wait(shop: &Shop, client: &Client, changes: &Changes) {
    shop.probes.subscribe().wait_for(|probes| *probes > 0).await.expect("the test has the shop");
    loop {
        let queues = client.queues().await.expect("the engine is up");
        if queues.iter().any(|queue| queue.counts.parked == JOBS as u64 - 1) {
            return;
        }
        let _ = tokio::time::timeout(POLL_EVERY, changes.0.notified()).await;
    }
}

#[tokio::test]
async fn a_hundred_workers_and_one_permit_make_one_probe() {
    let engine = crate::fresh_engine();
    let shop = Shop {
        is_back: Arc::new(watch::channel(false).0),
        probes: Arc::new(watch::channel(0).0),
        calls: Arc::new(watch::channel(0).0),
    };
    let name = BreakerName::parse("shop").expect("the name is valid");
    let open = BreakerEvent::Open { lasting: Some(Duration::from_secs(1)), why: "it is down".to_owned() };
    change_breaker(&engine, &name, &open).await.expect("the engine is up");
    let breakers = vec![BreakerSpec::new(name)];
    let limits = LimitOptions { breakers, ..LimitOptions::default() };
    let mut workers = Vec::new();
    for number in 0..100 {
        let handlers = Handlers::new(shop.clone()).handle(call).calls::<Call>("shop");
        let options =
            WorkerOptions { limits: limits.clone(), maintenance: number == 0, ..WorkerOptions::default() };
        workers.push(Worker::start(Arc::clone(&engine), handlers, options).await.expect("the worker starts"));
    }
    let client = workers[0].client().clone();
    let changes = Arc::new(Changes::default());
    engine.on_hint(Arc::<Changes>::downgrade(&changes));
    let run = async {
        client.enqueue_many((0..JOBS).map(|_| Call)).await.expect("the jobs are accepted");
        until_all_others_wait(&shop, &client, &changes).await;
        shop.is_back.send_replace(true);
        shop.calls.subscribe().wait_for(|calls| *calls == JOBS).await.expect("the test has the shop");
    };
    tokio::time::timeout(PATIENCE, run).await.expect("all jobs call the shop in the end");
    assert_eq!(*shop.probes.borrow(), 1);
}
