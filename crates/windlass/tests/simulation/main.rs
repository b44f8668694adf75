//! Whole clusters on a virtual clock, each from one seed, with faults before and after the effect of a call.
//!
//! The pools, hearts, maintenance and the client's decisions are the real ones; threads, sockets and clocks
//! are simulated. `docs/simulation.md` describes what is simulated and which check catches which planted
//! bug.

mod test_rng;
mod plan;
mod handler;
mod store;
mod process;
mod producer;
mod world;
mod trouble;
mod observer;
mod checks;
mod trace;
mod history;
mod bugs;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use history::run_history;

/// The number of histories of an ordinary run.
const HISTORIES: u64 = 2_000;
const SEED: u64 = 1;
/// The number of threads. Histories are independent, so each thread takes the next one.
const THREADS: usize = 2;

fn from_env(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => {
            text.parse().unwrap_or_else(|_| panic!("expected a whole number in {name}, got {text:?}"))
        }
        Err(_) => default,
    }
}

/// The sums over all histories of a run.
#[derive(Default)]
struct Sum {
    steps: AtomicU64,
    effects: AtomicU64,
    virtual_secs: AtomicU64,
    failed: Mutex<Option<u64>>,
}

impl Sum {
    /// Runs one history and adds its result.
    fn run_history(&self, seed: u64) {
        let result = run_history(seed, false);
        self.steps.fetch_add(result.steps, Ordering::Relaxed);
        self.effects.fetch_add(result.effects, Ordering::Relaxed);
        self.virtual_secs.fetch_add(result.virtual_secs, Ordering::Relaxed);
        if !result.found.is_empty() {
            self.failed.lock().expect("no history panics while it holds the lock").get_or_insert(seed);
        }
    }
}

#[test]
fn no_history_shows_anything_wrong() {
    let histories = from_env("WINDLASS_SIM_HISTORIES", HISTORIES);
    let first = from_env("WINDLASS_SIM_SEED", SEED);
    let (next, sum) = (AtomicU64::new(0), Sum::default());
    let work = || {
        while sum.failed.lock().unwrap().is_none() {
            match next.fetch_add(1, Ordering::Relaxed) {
                at if at < histories => sum.run_history(first.wrapping_add(at)),
                _ => return,
            }
        }
    };
    std::thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(work))));
    let (steps, effects) = (sum.steps.into_inner(), sum.effects.into_inner());
    let hours = sum.virtual_secs.into_inner() / 3600;
    println!(
        "{histories} histories from seed {first}: {steps} steps, {effects} store calls, {hours} virtual hours"
    );
    if let Some(seed) = sum.failed.into_inner().unwrap() {
        fail(seed);
    }
}

/// Replays a history with its trace, and fails with it.
fn fail(seed: u64) -> ! {
    let result = run_history(seed, true);
    let found: String =
        result.found.iter().take(10).map(|v| format!("  {}: {}\n", v.check, v.text)).collect();
    panic!(
        "history {seed} failed:\n{found}\nthe last events:\n{}\nreplay it: cargo xtask simulate --histories 1 --seed {seed}",
        result.tail
    );
}

#[test]
fn the_same_seed_tells_the_same_history() {
    for seed in 1..=20 {
        let (one, other) = (run_history(seed, true), run_history(seed, true));
        assert_eq!((one.hash, one.steps), (other.hash, other.steps), "seed {seed}");
    }
}
