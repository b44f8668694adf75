//! The tests of a worker again, on Redis, and tests of other processes on the same namespace.

use std::sync::Arc;

use windlass::redis::{RedisEngine, RedisOptions};
use windlass::types::engine::Engine;

#[path = "../worker/rollups.rs"]
mod rollups;
#[path = "../worker/bench.rs"]
mod bench;
#[path = "../worker/cancelling.rs"]
mod cancelling;
#[path = "../worker/triggers.rs"]
mod triggers;
#[path = "../worker/duties.rs"]
mod duties;
#[path = "../worker/ending.rs"]
mod ending;
#[path = "../worker/enqueueing.rs"]
mod enqueueing;
#[path = "../worker/full_store.rs"]
mod full_store;
#[path = "../worker/handlers.rs"]
mod handlers;
#[path = "../worker/limits.rs"]
mod limits;
#[path = "../worker/many_probers.rs"]
mod many_probers;
#[path = "../worker/running.rs"]
mod running;
#[path = "../worker/schedules.rs"]
mod schedules;
mod struck;
#[path = "../worker/faults.rs"]
mod faults;
#[path = "../worker/store_away.rs"]
mod store_away;
mod idle;
mod other_processes;
mod full_disk;
mod left_behind;
mod forgetful_store;

/// Creates an engine for one test, in a separate namespace.
fn fresh_engine() -> Arc<dyn Engine> {
    open(&fresh_namespace())
}

/// Opens an engine in a namespace, which other engines may use, too.
fn open(namespace: &str) -> Arc<dyn Engine> {
    let options = RedisOptions { namespace: namespace.to_owned(), ..RedisOptions::default() };
    // The caller is inside a runtime already, and must wait for this one.
    let opened = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(RedisEngine::connect(&url(), options)).expect("the server is up")
    });
    Arc::new(opened.join().expect("the engine opens"))
}

fn url() -> String {
    windlass_servers::shared::redis_url().expect("a Redis server")
}

fn fresh_namespace() -> String {
    format!("worker-{:016x}", fastrand::u64(..))
}
