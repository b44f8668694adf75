//! Tests the conformance suite: with a known bug planted in the engine, some behaviour must fail.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use windlass_conformance::harness::{Fixture, Harness};
use windlass_core::clock::ManualClock;
use windlass_core::planted::{Bug, plant};
use windlass_engines::memory::MemoryEngine;

use crate::planted::OF_AN_ENGINE;

/// Returns the behaviours that fail with this bug. The bug is planted in this thread, on which the
/// behaviours run.
fn found_by(bug: Option<Bug>) -> Vec<&'static str> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("it starts");
    let fails = |run: windlass_conformance::Behaviour| {
        let clock = Arc::new(ManualClock::default());
        let engine = Arc::new(MemoryEngine::with_clock(clock.clone()));
        let fixture = Fixture { engine, clock, raw: None, keep: Box::new(()) };
        let harness = runtime.block_on(Harness::start(fixture, |task| drop(tokio::spawn(task))));
        plant(bug);
        let outcome = catch_unwind(AssertUnwindSafe(|| runtime.block_on((run.run)(&harness))));
        plant(None);
        outcome.is_err()
    };
    let all = windlass_conformance::all().into_iter();
    all.filter(|behaviour| fails(*behaviour)).map(|behaviour| behaviour.name).collect()
}

#[test]
fn without_a_bug_every_behaviour_holds() {
    assert_eq!(found_by(None), [] as [&str; 0]);
}

#[test]
fn every_bug_that_an_engine_can_have_breaks_some_behaviour() {
    for bug in OF_AN_ENGINE {
        let broken = found_by(Some(bug));
        println!("{bug:?}: {} behaviours, the first is {:?}", broken.len(), broken.first());
        assert!(!broken.is_empty(), "{bug:?} was planted, and every behaviour holds");
    }
}
