//! Every behaviour of the conformance suite, on every engine.

use std::sync::Arc;

use windlass_conformance::harness::Fixture;
use windlass_core::clock::ManualClock;
use windlass_engines::memory::MemoryEngine;

async fn in_memory() -> Fixture {
    let clock = Arc::new(ManualClock::default());
    let engine = Arc::new(MemoryEngine::with_clock(clock.clone()));
    Fixture { engine, clock, keep: Box::new(()) }
}

windlass_conformance::suite!(memory, in_memory);

#[test]
fn the_same_behaviours_run_on_every_engine() {
    assert!(windlass_conformance::BEHAVIOURS.len() > 120);
    assert_eq!(memory::BEHAVIOURS, windlass_conformance::BEHAVIOURS);
    assert_eq!(memory::SKIPS, [], "memory is the model: it has no gaps");
}
