//! `cargo xtask simulate`: whole clusters on a virtual clock, from one seed each, with faults.

use std::process::Command;

use crate::{command, features};

/// Runs the simulation with as many histories and from the seed that were asked for.
pub(crate) fn run(options: &[&str]) -> Result<(), String> {
    let Plan { histories, seed } = Plan::read(options)?;
    command::run(simulation_tests(&histories.to_string(), &seed.to_string()).args(["--", "--nocapture"]))
}

/// The simulation plants bugs, to show that its checks catch them.
pub(crate) fn simulation_tests(histories: &str, seed: &str) -> Command {
    let mut command = planted("simulation");
    command.env("WINDLASS_SIM_HISTORIES", histories).env("WINDLASS_SIM_SEED", seed);
    command
}

/// A test program with bugs that can be planted. All such programs name the same packages and features, so that one build serves
/// them all; the engines that need a server are left out, because they take longest to build and no bug is planted there.
pub(crate) fn planted(program: &str) -> Command {
    let features = ["windlass-engines", "windlass"].map(|name| format!("{name}/{}", features::PLANTED_BUGS));
    let mut command = command::cargo(&["test", "--package", "windlass-engines", "--package", "windlass"]);
    command.args(["--features", &features.join(","), "--features", "windlass/sqlite", "--test", program]);
    command
}

/// Whether the tree has a simulation.
pub(crate) fn is_there() -> bool {
    command::root().join("crates/windlass/tests/simulation").exists()
}

#[derive(Debug, PartialEq, Eq)]
struct Plan {
    histories: u64,
    seed: u64,
}

impl Plan {
    fn read(options: &[&str]) -> Result<Self, String> {
        let mut plan = Self { histories: 10_000, seed: 1 };
        let pairs = options.chunks_exact(2);
        if let [alone] = pairs.remainder() {
            return Err(format!("expected a whole number after {alone}"));
        }
        for pair in pairs {
            match pair {
                ["--histories", number] => plan.histories = whole(number)?,
                ["--seed", number] => plan.seed = whole(number)?,
                [other, ..] => return Err(format!("expected --histories N or --seed S, got {other:?}")),
                [] => {}
            }
        }
        Ok(plan)
    }
}

fn whole(text: &str) -> Result<u64, String> {
    text.replace('_', "").parse().map_err(|_| format!("expected a whole number, got {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_in_any_order_and_have_defaults() {
        assert_eq!(
            Plan::read(&["--seed", "7", "--histories", "1_000"]),
            Ok(Plan { histories: 1000, seed: 7 })
        );
        assert_eq!(Plan::read(&[]), Ok(Plan { histories: 10_000, seed: 1 }));
    }

    #[test]
    fn what_is_not_a_number_or_not_an_option_is_refused() {
        for wrong in [&["--seed"][..], &["--seed", "many"], &["--sead", "1"], &["7"]] {
            assert!(Plan::read(wrong).is_err(), "{wrong:?}");
        }
    }
}
