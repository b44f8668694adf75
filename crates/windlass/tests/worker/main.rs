//! A worker in a real runtime, as its users see it. Here it runs on the memory engine; `worker_sqlite`,
//! `worker_postgres` and `worker_redis` run the same tests on the other engines.

use std::sync::Arc;

use windlass::MemoryEngine;
use windlass::types::engine::Engine;

mod rollups;
mod bench;
mod cancelling;
mod triggers;
mod duties;
mod ending;
mod enqueueing;
mod handlers;
mod limits;
mod many_probers;
mod running;
mod schedules;
mod virtual_time;

/// Creates an engine for one test.
fn fresh_engine() -> Arc<dyn Engine> {
    Arc::new(MemoryEngine::new())
}
