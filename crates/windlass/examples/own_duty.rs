//! A duty of an application: two workers could do it, one does, and the other takes over when the first one
//! stops.
//!
//! ```text
//! cargo run --example own_duty
//! ```

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use windlass::duties::{Duty, DutyContext};
use windlass::types::engine::Engine;
use windlass::types::lease::Leases;
use windlass::{Handlers, JobType, MemoryEngine, Worker, WorkerOptions};

#[derive(Serialize, Deserialize)]
struct Sale;

impl JobType for Sale {
    const NAME: &'static str = "sale";
}

async fn sell(_: Sale) {}

/// Adds up the sales since the last run. Its position is kept with the lease, so that the next leader
/// continues there.
async fn refresh_totals(who: &'static str, context: DutyContext, done: mpsc::Sender<&'static str>) {
    let seen = context.kept("seen").and_then(|seen| seen.as_u64()).unwrap_or(0);
    let fence = context.fence().map(|fence| fence.term.fence);
    println!("{who} adds up from sale {seen} on, under fence {fence:?}");
    context.keep("seen", (seen + 10).into());
    context.did(10);
    let _ = done.send(who).await;
}

async fn start(who: &'static str, engine: Arc<dyn Engine>, done: mpsc::Sender<&'static str>) -> Worker {
    let run = move |context| refresh_totals(who, context, done.clone());
    let duty = Duty::new("refresh_totals", Duration::from_millis(200), run).expect("a valid name");
    let options = WorkerOptions { duties: vec![duty], ..WorkerOptions::default() };
    Worker::start(engine, Handlers::new(()).handle(sell), options).await.expect("the worker starts")
}

#[tokio::main]
async fn main() {
    let engine = Arc::new(MemoryEngine::new());
    let (done, mut ran) = mpsc::channel(16);
    let mut first = start("the first worker", Arc::<MemoryEngine>::clone(&engine), done.clone()).await;
    ran.recv().await;
    let mut second = start("the second worker", Arc::<MemoryEngine>::clone(&engine), done).await;
    for _ in 0..3 {
        assert_eq!(ran.recv().await, Some("the first worker"), "one worker leads at a time");
    }
    println!("the first worker stops and releases the lease");
    first.stop().await;
    while ran.recv().await != Some("the second worker") {}
    for lease in engine.leases().await.expect("the memory engine answers").leases {
        let notes = lease.metadata.notes();
        println!("{}: {} runs, {} items", lease.duty, notes.runs, notes.items);
    }
    second.stop().await;
}
