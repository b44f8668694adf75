//! A worker on an engine with a fallback, while its primary becomes unavailable and available again.
#![allow(clippy::unwrap_used, reason = "test code, including what tests share")]

#[path = "../worker/bench.rs"]
#[expect(dead_code, reason = "the tests of a worker on one store use the rest")]
mod bench;
#[path = "../worker/full_store.rs"]
mod full_store;
mod primary;
mod going_on;
mod enqueueing;
mod full_disk;
mod limits;
mod maintenance;

/// Creates an engine for one test.
fn fresh_engine() -> std::sync::Arc<dyn windlass::types::engine::Engine> {
    std::sync::Arc::new(windlass::MemoryEngine::new())
}
