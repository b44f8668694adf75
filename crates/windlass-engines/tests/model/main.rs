//! Random sequences of operations on an engine and on the memory engine, which is the model: both must give
//! the same answers and hold the same jobs afterwards. A failing sequence is shrunk and printed.

use proptest::test_runner::Config;
use proptest_state_machine::prop_state_machine;

mod steps;
mod pair;
mod play;
mod agenda;
mod compare;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "planted-bugs")]
mod planted;
#[cfg(feature = "planted-bugs")]
mod planted_suite;

/// Enough sequences to meet rare interleavings, few enough to finish within half a minute. For a long
/// search set `PROPTEST_CASES`.
fn config(cases: u32) -> Config {
    let asked = Config::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { asked.cases } else { cases };
    // Each round of shrinking on a server takes half a second: a failure must not use up the time of all
    // other tests.
    Config { cases, max_shrink_iters: 2_000, max_shrink_time: 90_000, failure_persistence: None, ..asked }
}

/// Comparing the model with itself shows only that the test itself is sound: that no result depends on
/// chance.
type MemoryTwice = pair::Test<pair::Memory>;

prop_state_machine! {
    #![proptest_config(config(24))]

    #[test]
    fn two_memory_engines_agree_with_each_other(sequential 1..60 => MemoryTwice);
}
