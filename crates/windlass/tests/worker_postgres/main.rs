//! The tests of a worker once more, on PostgreSQL, and what other programs do beside it.

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
mod looks;
mod shared_duties;

/// An engine for one test, in a schema of its own.
fn fresh_engine() -> Arc<dyn Engine> {
    open(&fresh_schema())
}

/// An engine in a schema, which others may have, too.
fn open(schema: &str) -> Arc<dyn Engine> {
    let options = PostgresOptions { schema: schema.to_owned(), ..PostgresOptions::default() };
    // The caller is inside a runtime already, and this one has to be waited for.
    let opened = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(PostgresEngine::connect(&url(), options)).expect("the server is up")
    });
    Arc::new(opened.join().expect("it opens"))
}

fn url() -> String {
    windlass_servers::shared::postgres_url().expect("a PostgreSQL server")
}

fn fresh_schema() -> String {
    format!("worker_{:016x}", fastrand::u64(..))
}
