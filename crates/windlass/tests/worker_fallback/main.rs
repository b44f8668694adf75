//! A worker on an engine made of two, while its primary comes and goes.
#![allow(clippy::unwrap_used, reason = "all of this is a test, also what tests share")]

#[path = "../worker/bench.rs"]
#[expect(dead_code, reason = "the tests of a worker on one store use the rest")]
mod bench;
#[path = "../worker/full_store.rs"]
mod full_store;
mod place;
mod going_on;
mod enqueueing;
mod full_disk;
mod limits;
mod maintenance;

/// An engine for one test.
fn fresh_engine() -> std::sync::Arc<dyn windlass::types::engine::Engine> {
    std::sync::Arc::new(windlass::MemoryEngine::new())
}
