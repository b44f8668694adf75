//! Whole clusters on a virtual clock, each from one seed, with faults that strike before an effect and after it.
//!
//! The pools, hearts, upkeep and the client's judgement are the real ones; threads, sockets and clocks are
//! simulated. `docs/simulation.md` says what is simulated and which check catches which planted bug.

mod dice;
mod plan;
mod handler;
mod store;
mod process;
mod producer;
mod world;
mod trouble;
mod book;
mod checks;
mod trace;
mod history;
mod bugs;

use std::sync::atomic::{AtomicU64, Ordering};

use history::tell;

/// Histories of an ordinary run.
const HISTORIES: u64 = 2_000;
const SEED: u64 = 1;
/// Histories are independent, so each of the two threads takes the next one.
const THREADS: usize = 2;

fn from_env(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => {
            text.parse().unwrap_or_else(|_| panic!("expected a whole number in {name}, got {text:?}"))
        }
        Err(_) => default,
    }
}

#[test]
fn no_history_shows_anything_wrong() {
    let histories = from_env("WINDLASS_SIM_HISTORIES", HISTORIES);
    let first = from_env("WINDLASS_SIM_SEED", SEED);
    let next = AtomicU64::new(0);
    let steps = AtomicU64::new(0);
    let secs = AtomicU64::new(0);
    let failed = std::sync::Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::SeqCst);
                    if at >= histories || failed.lock().unwrap().is_some() {
                        return;
                    }
                    let told = tell(first + at, false);
                    steps.fetch_add(told.steps, Ordering::SeqCst);
                    secs.fetch_add(told.virtual_secs, Ordering::SeqCst);
                    if !told.found.is_empty() {
                        failed.lock().unwrap().get_or_insert(first + at);
                    }
                }
            });
        }
    });
    let (steps, hours) = (steps.into_inner(), secs.into_inner() / 3600);
    println!("{histories} histories from seed {first}: {steps} steps, {hours} virtual hours");
    if let Some(seed) = failed.into_inner().unwrap() {
        fail(seed);
    }
}

/// Replays a history with its trace, and fails with it.
fn fail(seed: u64) -> ! {
    let told = tell(seed, true);
    let found: String = told.found.iter().take(10).map(|v| format!("  {}: {}\n", v.check, v.text)).collect();
    panic!(
        "history {seed} went wrong:\n{found}\nthe last happenings:\n{}\nreplay it: cargo xtask simulate --histories 1 --seed {seed}",
        told.tail
    );
}

#[test]
fn the_same_seed_tells_the_same_history() {
    for seed in 1..=20 {
        let (one, other) = (tell(seed, true), tell(seed, true));
        assert_eq!((one.hash, one.steps), (other.hash, other.steps), "seed {seed}");
    }
}
