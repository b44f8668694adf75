//! A history, from its seed to its result.

use crate::checks::DRAIN_WITHIN;
use crate::observer::Violation;
use crate::plan::Plan;
use crate::world::World;

/// The number of steps between two checks of the whole store during the faults.
const CHECK_EVERY: u64 = 40;
/// The maximum number of steps; a history with more does not end.
const STEPS_MAX: u64 = 2_000_000;

/// The result of a history.
pub(crate) struct HistoryResult {
    pub(crate) found: Vec<Violation>,
    pub(crate) steps: u64,
    pub(crate) effects: u64,
    pub(crate) virtual_secs: u64,
    pub(crate) hash: u64,
    pub(crate) tail: String,
}

/// Runs a history until it has come to rest or a check has failed.
pub(crate) fn run_history(seed: u64, keep_trace: bool) -> HistoryResult {
    let mut world = World::new(Plan::of(seed));
    world.trace.keep = keep_trace;
    while world.observer.found.is_empty() && world.steps < STEPS_MAX && world.step() {
        match world.healed {
            None if world.steps.is_multiple_of(CHECK_EVERY) => world.check_along_the_way(),
            None => {}
            Some(healed) => {
                let drained = world.steps.is_multiple_of(8) && world.is_drained();
                if drained || world.now > healed + DRAIN_WITHIN {
                    world.check_at_the_end(drained);
                    break;
                }
            }
        }
    }
    if world.steps >= STEPS_MAX {
        world.observer.broke("ran away", format!("{STEPS_MAX} steps in {:?}", world.now));
    }
    HistoryResult {
        steps: world.steps,
        effects: world.observer.effects,
        virtual_secs: world.now.as_secs(),
        hash: world.trace.hash(),
        tail: world.trace.tail(),
        found: world.observer.found,
    }
}
