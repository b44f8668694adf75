//! Tests the test: with a known bug planted in the subject, the comparison must fail.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest};

use windlass_core::clock::ManualClock;
use windlass_core::engine::Engine;
use windlass_core::planted::{Bug, plant};

use crate::pair::{Memory, Subject, Test};
use crate::steps::Rows;

/// The bugs that an engine can have; the others concern the runtime.
pub(crate) const OF_AN_ENGINE: [Bug; 14] = [
    Bug::SettleWithoutToken,
    Bug::DeadWorkerRevives,
    Bug::DeadWorkerClaims,
    Bug::RescueByAge,
    Bug::LateRequestIsStored,
    Bug::SpentTokenClaims,
    Bug::CounterAsToken,
    Bug::CrashNotCounted,
    Bug::KeyNotFreedByDeath,
    Bug::ClaimBeforeDue,
    Bug::CancelIgnored,
    Bug::StaleTickFires,
    Bug::TriggerKeepsItsMark,
    Bug::SecondMarkTakesTheFirst,
];

thread_local! {
    static BUG: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// The memory engine with a bug.
struct Buggy;

impl Subject for Buggy {
    fn open(clock: Arc<ManualClock>) -> (Arc<dyn Engine>, Box<dyn Any>) {
        Memory::open(clock)
    }

    fn enter() {
        plant(BUG.get());
    }

    fn leave() {
        plant(None);
    }
}

/// The largest number of sequences before a bug counts as not found.
const ROWS_MAX: u32 = 400;

/// Whether a sequence is found on which the model and a subject with this bug differ.
fn is_found(bug: Option<Bug>) -> bool {
    BUG.set(bug);
    let mut runner = TestRunner::deterministic();
    let rows = Rows::sequential_strategy(20..100);
    (0..ROWS_MAX).any(|_| {
        let (state, steps, _) = rows.new_tree(&mut runner).expect("sequences can be generated").current();
        let config = crate::config(1);
        let play = || Test::<Buggy>::test_sequential(config, state, steps, None);
        let differ = catch_unwind(AssertUnwindSafe(play)).is_err();
        plant(None);
        differ
    })
}

#[test]
fn without_a_bug_nothing_is_found() {
    assert!(!is_found(None));
}

#[test]
fn bugs_of_an_engine_are_found() {
    for bug in OF_AN_ENGINE {
        assert!(is_found(Some(bug)), "{bug:?} was planted and not found");
    }
}
