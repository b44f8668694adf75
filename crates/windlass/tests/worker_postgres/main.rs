//! The tests of a worker again, on PostgreSQL, and tests of other programs on the same schema.

use std::sync::Arc;

use windlass::postgres::{PostgresEngine, PostgresOptions};
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
mod held_keys;
mod other_programs;
mod completing;
mod idle;
mod scans;
mod shared_duties;

/// Creates an engine for one test, in a separate schema.
fn fresh_engine() -> Arc<dyn Engine> {
    open(&fresh_schema())
}

/// Opens an engine in a schema, which other engines may use, too.
fn open(schema: &str) -> Arc<dyn Engine> {
    let options = PostgresOptions { schema: schema.to_owned(), ..PostgresOptions::default() };
    // The caller is inside a runtime already, and must wait for this one.
    let opened = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(PostgresEngine::connect(&url(), options)).expect("the server is up")
    });
    Arc::new(opened.join().expect("the engine opens"))
}

fn url() -> String {
    windlass_servers::shared::postgres_url().expect("a PostgreSQL server")
}

fn fresh_schema() -> String {
    format!("worker_{:016x}", fastrand::u64(..))
}
